/*
 * What a program may ask the preload, when there is one.
 *
 * None of these is linked: look the name up with dlsym(RTLD_DEFAULT, ...) and go without where it
 * is absent, which means that no preload is in this process.
 */
#ifndef CUSHIM_PRELOAD_H
#define CUSHIM_PRELOAD_H

#ifdef __cplusplus
extern "C" {
#endif

struct CUctx_st;

/**
 * Tell how many stream captures are open.
 * @param context  a CUcontext; NULL means all contexts of the process
 * @return the number of captures begun and not ended yet; 0 in a forked child
 * Threads  any; takes a lock for a moment      Stream   none; makes no CUDA call
 */
int cushim_preload_capturing(struct CUctx_st *context);

#ifdef __cplusplus
}
#endif

#endif
