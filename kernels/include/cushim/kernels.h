/*
 * The kernels of libcushim-kernels: fp32 and quantised tensor operations, launched through the
 * driver on a stream of the caller's.
 *
 * Every function
 * - queues its work on `stream` and returns; the buffers live until that work ends;
 * - allocates nothing, waits for nothing and reads no device memory on the host.  It copies host
 *   arrays before it returns, so a capture of it can be replayed;
 * - takes its scratch from the caller; <name>_scratch returns how many bytes help.  NULL and 0 are
 *   legal unless the function says that it needs some;
 * - accepts any size from 0 up unless it says otherwise, and any address that is a multiple of its
 *   element; multiples of 16 bytes are faster;
 * - gives the same bits for the same inputs on the same device, run after run;
 * - checks its arguments before it queues anything.  If one is wrong it returns CUSHIM_INVALID, and
 *   cushim_last_error() names the function, the parameter and the rule.
 *
 * Sizes and strides are in elements, axes in memory order.  If there is no output element, nothing
 * is launched and pointers may be NULL.  NaN in gives NaN out unless a function says otherwise.
 * Buffers must not overlap, unless a function says that an output may be exactly an input.
 *
 * A thread without a current context may pass a stream: the work goes to that stream's device.  If
 * there are several devices, a capturing stream needs a current context of its device, because the
 * driver does not name the device of a capturing stream.  The references of cushim/kernels_ref.h
 * say in plain C what each kernel computes; on the software device, and with
 * CUSHIM_KERNEL_ARCH=cpu, they do the work.
 */
#ifndef CUSHIM_KERNELS_H
#define CUSHIM_KERNELS_H

#include "cushim/kernels/activation.h"
#include "cushim/kernels/elementwise.h"
#include "cushim/kernels/gather.h"
#include "cushim/kernels/layout.h"
#include "cushim/kernels/reduce.h"
#include "cushim/kernels/position.h"
#include "cushim/kernels/broadcast.h"
#include "cushim/kernels/convert.h"
#include "cushim/kernels/softmax.h"
#include "cushim/kernels/norm.h"
#include "cushim/kernels/rope.h"
#include "cushim/kernels/product.h"
#include "cushim/kernels/encoder.h"
#include "cushim/kernels/quant.h"
#include "cushim/kernels/gemv.h"
#include "cushim/kernels/attention.h"
#include "cushim/kernels/bf16.h"
#include "cushim/kernels/decoder.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Load every family's kernels for the device of the current context, or for device 0 if there is
 * none.  The first use of a family loads them too; call this before a capture, or if the first call
 * must not be slow.
 * @return CUSHIM_OK | NOCUDA, NODEVICE | NOTSUPPORTED (no code for the device) | another driver
 *         status
 * Threads  any
 * Stream   none
 */
CUSHIM_API enum cushim_status cushim_kernels_load(void);

#ifdef __cplusplus
}
#endif

#endif
