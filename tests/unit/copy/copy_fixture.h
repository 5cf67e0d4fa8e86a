/*
 * A driver whose streams do nothing until a thread waits for them: a transfer moves its bytes at
 * the wait that covers it.  Code that touches a buffer too early reads or sends the wrong bytes.
 *
 * Lock: one mutex inside; every function may be called from any thread.
 */
#pragma once

#include <stdbool.h>

#include "copy/box.h"
#include "cuda/table.h"

/* Fill the table; no resource is allocated, and no failure is due. */
void copy_fixture_reset(struct cushim_cuda *cuda);

CUcontext copy_fixture_context(void);

/* n_bytes without a gap, in either direction. */
struct cushim_copy_box copy_fixture_line(void *host, void *device, size_t n_bytes,
                                         bool is_to_device);

/* The n-th call from now returns an error and does nothing; 0: none does. */
void copy_fixture_fail_at(unsigned n);
bool copy_fixture_has_failed(void);

/* Streams, events and pinned allocations that were created and not released. */
unsigned copy_fixture_n_out(void);

/* Transfers on destroyed streams or of freed memory, and waits for destroyed events. */
unsigned copy_fixture_n_faults(void);
