/*
 * The kernels of libcushim-kernels: fp32 and quantised tensor operations, launched through the
 * driver on a stream of the caller's.
 *
 * Every function
 * - queues its work on `stream` and returns; the buffers live until that work ends;
 * - allocates nothing, waits for nothing and reads no device memory on the host; host arrays are
 *   copied before it returns, so a capture of it can be replayed;
 * - takes its scratch from the caller, where scratch is useful at all: NULL and 0 bytes are always
 *   legal, and <name>_scratch says how much helps;
 * - accepts any size from 0 up, and any address that is a multiple of its element; multiples of 16
 *   bytes are faster;
 * - gives the same bits for the same inputs on the same device, run after run;
 * - checks its arguments before anything is queued, and then answers CUSHIM_INVALID with a text
 *   (cushim_last_error) that names the function, the parameter and the rule.
 *
 * Sizes and strides are in elements, axes in memory order.  Without an output element nothing is
 * launched, and pointers may be NULL.  NaN in gives NaN out unless a function says otherwise.
 * Buffers overlap nowhere but where a function says that an output may be exactly an input.
 *
 * A thread without a current context may call with a stream of one: the work goes to that stream's
 * device.  Where there are several devices a stream that captures needs a context of its device
 * current, since the driver does not name its device then.  The references of cushim/kernels_ref.h
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
#include "cushim/kernels/quant.h"
#include "cushim/kernels/gemv.h"
#include "cushim/kernels/attention.h"
#include "cushim/kernels/decoder.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Load every family's kernels for the device of the current context, as their first use would: call
 * it before a capture, or where the first call must not be slow.  Device 0 where there is none.
 * @return CUSHIM_OK | NOCUDA, NODEVICE | NOTSUPPORTED (no code for the device) | another
 *         status of the driver
 * Threads  any
 * Stream   none
 */
CUSHIM_API enum cushim_status cushim_kernels_load(void);

#ifdef __cplusplus
}
#endif

#endif
