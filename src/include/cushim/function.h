/*
 * Functions: kernels of a module, and ways to launch them.
 *
 * A launch is queued on its stream and returns.  With a driver of 12.4 or later the number and
 * sizes of a kernel's parameters are checked; an older driver does not tell their layout.
 */
#ifndef CUSHIM_FUNCTION_H
#define CUSHIM_FUNCTION_H

#include "cushim/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The shape of a launch. */
struct cushim_launch {
    size_t struct_size;
    unsigned grid[3];             /* blocks; 0: 1 */
    unsigned block[3];            /* threads per block; 0: INVALID */
    unsigned shared_bytes;        /* dynamic */
    int cooperative;              /* 1: all blocks run at once */
    struct cushim_stream *stream; /* may be NULL or CUSHIM_STREAM_PER_THREAD */
};

/**
 * Fill a launch: one block of one thread on the legacy stream.
 * @param launch  struct_size too
 * Threads  any; needs no driver
 */
CUSHIM_API void cushim_launch_default(struct cushim_launch *launch);

/**
 * Get an attribute of a function.
 * @param attr   CUfunction_attribute: 0 threads a block at most, 1 static shared bytes, 4
 *               registers, 8 the limit of dynamic shared bytes
 * @param value  out
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_function_attribute(struct cushim_function *f, int attr,
                                                        int *value);

/**
 * Set an attribute of a function.
 * @param attr  8, and others that CUDA lets be set
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT | the driver's
 * Threads  any; for later launches
 */
CUSHIM_API enum cushim_status cushim_function_attribute_set(struct cushim_function *f, int attr,
                                                            int value);

/**
 * Say how on-chip memory is to be split between L1 and shared memory.
 * @param cache  CUfunc_cache
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT | the driver's
 * Threads  any; for later launches
 */
CUSHIM_API enum cushim_status cushim_function_cache(struct cushim_function *f, int cache);

/**
 * Launch a kernel.
 * @param args  [n], each the address of an argument, which is copied
 * @param n     the kernel's number of parameters
 * @return CUSHIM_OK | INVALID | BADHANDLE | BADDEVICE (the stream is of another context) |
 *         DEADCONTEXT | CAPTURE (legacy stream, while a capture is known) | ABI | the driver's
 * Errors   a fault of the kernel shows at the next wait
 * Threads  any; takes no lock
 * Stream   queued on launch->stream; in a capture it becomes a node, and the graph keeps the module
 */
CUSHIM_API enum cushim_status cushim_function_launch(struct cushim_function *f,
                                                     const struct cushim_launch *launch,
                                                     const void *const *args, size_t n);

/**
 * Launch a kernel with all arguments in one buffer.
 * @param buf    [bytes], each argument at the offset that the kernel has for it; copied
 * @param bytes  to the end of the last argument
 * @return as cushim_function_launch; INVALID also if the size is not the kernel's
 * Threads  any; takes no lock
 */
CUSHIM_API enum cushim_status cushim_function_launch_packed(struct cushim_function *f,
                                                            const struct cushim_launch *launch,
                                                            const void *buf, size_t bytes);

/**
 * Launch a kernel, wait for it, and measure it on the device.
 * @param ms  out
 * @return as cushim_function_launch | CAPTURE (the stream takes part in a capture; nothing was
 *         launched)
 * Units    milliseconds
 * Threads  any; blocks the calling one
 */
CUSHIM_API enum cushim_status cushim_function_launch_timed(struct cushim_function *f,
                                                           const struct cushim_launch *launch,
                                                           const void *const *args, size_t n,
                                                           float *ms);

/**
 * Prepare launches whose arguments have these types.
 * @param format  a letter for each argument, as in Python's struct: P pointer, b B 8 bits, h H e
 *                16, i I f 32, q Q d 64; {bytes,align} for a struct
 * @param q       out
 * @return CUSHIM_OK | INVALID (a letter, or not the kernel's layout: index= the argument) | NOMEM |
 *         BADHANDLE | DEADCONTEXT
 * Threads  any
 * Owner    caller: cushim_prepared_destroy
 */
CUSHIM_API enum cushim_status cushim_function_prepare(struct cushim_function *f, const char *format,
                                                      struct cushim_prepared **q);

/**
 * Launch a prepared function.
 * @param args  as many as the format has, each the address of an argument, which is copied
 * @return as cushim_function_launch; BADHANDLE also when the module is gone
 * Threads  any; takes no lock, allocates nothing
 */
CUSHIM_API enum cushim_status cushim_prepared_launch(struct cushim_prepared *q,
                                                     const struct cushim_launch *launch,
                                                     const void *const *args);

/**
 * Destroy a prepared launch.
 * @param q  NULL is fine; running kernels go on
 * @return CUSHIM_OK, also if module or context are gone | BADHANDLE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_prepared_destroy(struct cushim_prepared *q);

/**
 * Get how many blocks of a function a multiprocessor holds at once.
 * @param threads       per block
 * @param shared_bytes  dynamic, per block
 * @param blocks        out; 0: none fits
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_function_occupancy(struct cushim_function *f, int threads,
                                                        size_t shared_bytes, int *blocks);

/**
 * Suggest a shape that fills the device.
 * @param shared_bytes  dynamic, per block
 * @param limit         most threads per block; 0: no limit
 * @param grid          out; blocks that run at once
 * @param block         out; threads per block
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_function_suggest(struct cushim_function *f,
                                                      size_t shared_bytes, int limit, int *grid,
                                                      int *block);

#ifdef __cplusplus
}
#endif

#endif
