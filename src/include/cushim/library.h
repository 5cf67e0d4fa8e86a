/*
 * The library itself: whether there is CUDA, what failed last, and other libraries by path.
 *
 * The first use loads the driver: $CUSHIM_LIBCUDA if it is set (an absolute path; neither the file
 * nor its folder writable by everybody), otherwise libcuda.so.1.  Without CUDA every function that
 * needs it gives CUSHIM_NOCUDA.  In a child forked after the first use every function gives
 * CUSHIM_NOCUDA.
 */
#ifndef CUSHIM_LIBRARY_H
#define CUSHIM_LIBRARY_H

#include "cushim/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum cushim_feature {
    CUSHIM_FEATURE_GRAPH = 1,         /* captures and graphs */
    CUSHIM_FEATURE_ASYNC_ALLOC = 2,   /* stream-ordered allocation by the driver */
    CUSHIM_FEATURE_CONTEXT_FENCE = 3, /* an event over a whole context (driver 12.5) */
    CUSHIM_FEATURE_PARAM_INFO = 4,    /* the layout of a kernel's parameters (driver 12.4) */
    CUSHIM_FEATURE_VULKAN = 5         /* a Vulkan loader is there */
};

/**
 * Check whether CUDA can be used: libcuda loads, cuInit succeeds and there is a device.
 * @return 1 | 0, which is never an error and prints nothing; kept until cushim_load or
 *         cushim_unload
 * Threads  any
 * Stream   none; makes no context
 */
CUSHIM_API int cushim_available(void);

/**
 * Load the driver now.
 * @param path  absolute; NULL: the default search
 * @return CUSHIM_OK (loaded, now or before; a device may still be missing) | NOCUDA
 *         (cushim_load_error says why; a second call tries again) | STATE (another path is loaded)
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_load(const char *path);

/**
 * Forget the driver: the next use loads it again.
 * @return CUSHIM_OK | STATE: objects or allocations are alive
 * Threads  none may be inside another call
 */
CUSHIM_API enum cushim_status cushim_unload(void);

/**
 * Get the reason why the driver could not be loaded: each name tried, with the loader's words.
 * @return "" if nothing failed; never NULL; valid for good
 * Threads  any
 */
CUSHIM_API const char *cushim_load_error(void);

/**
 * Check whether the loaded driver has a feature.
 * @param feature  of enum cushim_feature
 * @return 1 | 0, also for an unknown number and without CUDA
 * Threads  any
 */
CUSHIM_API int cushim_has(enum cushim_feature feature);

/**
 * Get the driver's version of CUDA.
 * @param version  out: 1000 * major + 10 * minor
 * @return CUSHIM_OK | INVALID | NOCUDA
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_driver_version(int *version);

/**
 * Find an entry point of the driver.
 * @param name  as exported, with its suffix: "cuMemAlloc_v2"
 * @param fn    out: its address
 * @return CUSHIM_OK | INVALID | NOCUDA | NOSYM
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_symbol(const char *name, void **fn);

/**
 * Open a library.
 * @param path  absolute
 * @param h     out
 * @return CUSHIM_OK | INVALID (not absolute) | NOFILE (the text has path and reason) | NOMEM
 * Threads  any; needs no CUDA
 * Owner    caller: cushim_dl_close
 */
CUSHIM_API enum cushim_status cushim_dl_open(const char *path, struct cushim_library **h);

/**
 * Find a name in a library.
 * @param fn  out: its address, valid until the library is closed
 * @return CUSHIM_OK | INVALID | BADHANDLE | NOTFOUND (the text has name and reason)
 * Threads  any; needs no CUDA
 */
CUSHIM_API enum cushim_status cushim_dl_symbol(struct cushim_library *h, const char *name,
                                               void **fn);

/**
 * Close a library.
 * @param h  NULL is fine
 * @return CUSHIM_OK | BADHANDLE
 * Threads  any; no thread may be inside the library
 */
CUSHIM_API enum cushim_status cushim_dl_close(struct cushim_library *h);

/**
 * Open our library of kernels. It is looked for at $CUSHIM_KERNELS (absolute), then beside this
 * library, then where it was installed; never in the working folder or on a search path.
 * @param dropin  1: libkernels.so, with the names of zerfoo; 0: libcushim-kernels.so.0
 * @param h       out
 * @return CUSHIM_OK | INVALID | NOTFOUND (the text has each place looked at) | NOFILE (the file
 *         cannot be loaded) | NOMEM
 * Threads  any; needs no CUDA
 * Owner    caller: cushim_dl_close
 */
CUSHIM_API enum cushim_status cushim_kernels_open(int dropin, struct cushim_library **h);

/* Receives one line of the log, with its newline; level 1 error, 2 warn, 3 info, 4 debug. */
typedef void cushim_log_fn(void *cookie, int level, const char *line);

/**
 * Receive the log.
 * @param fn      called from any thread, also before this returns; NULL: standard error again
 * @param cookie  passed to fn
 * @return CUSHIM_OK | NOMEM. The level is that of $CUSHIM_LOG, by default off; if it is not set, a
 *         receiver makes it info
 * Threads  any; the previous receiver may still get a line under way
 */
CUSHIM_API enum cushim_status cushim_log_set(cushim_log_fn *fn, void *cookie);

/**
 * Get what failed last in this thread: `<what> failed: <NAME>: <text> (<details>)`.
 * @return never NULL, "" before a failure; valid until the thread's next failure, or its end
 * Threads  each its own; a success does not change it
 */
CUSHIM_API const char *cushim_last_error(void);

/**
 * Get the CUresult of this thread's last failure.
 * @return 0 if this library refused, not the driver
 * Threads  each its own
 */
CUSHIM_API int cushim_last_cuda_code(void);

/**
 * Copy the text of cushim_last_error.
 * @param buf         [cap_bytes]; cut at its end, always with a final 0; NULL with cap_bytes 0
 * @param need_bytes  out, may be NULL: what the whole text needs, its final 0 counted
 * @return CUSHIM_OK | INVALID (it was cut, or buf is NULL with cap_bytes above 0); the last error
 *         stays as it was
 * Threads  each its own
 */
CUSHIM_API enum cushim_status cushim_error_copy(char *buf, size_t cap_bytes, size_t *need_bytes);

#ifdef __cplusplus
}
#endif

#endif
