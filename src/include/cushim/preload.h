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

/**
 * Say that a pass of the program is over: the arena of the current context, where there is one
 * (CUSHIM_ARENA), serves from its start again, never over a block that is still allocated.
 * @return 0 | the number of chunks that are kept for a block in them
 * Threads  any      Stream   none; never waits, may record an event over the context
 */
int cushim_preload_arena_reset(void);

#ifdef __cplusplus
}
#endif

#endif
