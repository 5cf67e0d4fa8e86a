/*
 * Copies: checked, then put into a stream.
 *
 * An end in memory that the device knows is checked; other memory is pageable.  A pageable source
 * is copied at the call; a copy to a pageable target returns when it is done.
 */
#pragma once

#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/stream/work.h"

#include <stdbool.h>

struct sim_block;
struct sim_device;

/* The kind of an end, as the caller names it; anything but UNIFIED is checked. */
enum sim_end_kind { SIM_END_UNIFIED, SIM_END_DEVICE, SIM_END_HOST };

/*
 * A box with both ends' kinds; `copy` has no staged bytes and touches nothing yet.  The devices are
 * those that access an end; NULL: the stream's.
 */
struct sim_copy {
    struct sim_copy_work box;
    enum sim_end_kind dst_kind, src_kind;
    const struct sim_device *dst_device, *src_device;
};

/* The line of n_bytes from src to dst. */
struct sim_copy sim_copy_line(CUdeviceptr dst, enum sim_end_kind dst_kind, CUdeviceptr src,
                              enum sim_end_kind src_kind, size_t n_bytes);

/*
 * Check a copy and put it into a stream.  With is_sync return when the host may rely on it, as the
 * synchronous functions do; from device to device they do not wait.
 */
CUresult sim_copy_do(const struct sim_copy *copy, CUstream stream, CUstream default_stream,
                     bool is_sync);

/* Each end is accessed by the device of its context; NULL: by that of the current one. */
CUresult sim_copy_between(struct sim_copy *copy, CUcontext dst, CUcontext src);

/*
 * Check a copy as if a device did it now, and note in it the contexts it touches.  For graph nodes.
 */
CUresult sim_copy_judge(struct sim_copy *copy, const struct sim_device *device);
