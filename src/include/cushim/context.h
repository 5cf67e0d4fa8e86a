/*
 * Contexts: primary (retained, shared with the CUDA runtime), owned (created here), or wrapped.
 *
 * The library keeps a stack of references to contexts for each thread.  It sets only the current
 * context, so CUDA's own stack keeps its depth: the first push remembers the context that was
 * current, if any, and the last pop puts it back.  A thread or the process may end with contexts on
 * its stack.  A context may be destroyed while on a stack: its entry is dead and is skipped.
 */
#ifndef CUSHIM_CONTEXT_H
#define CUSHIM_CONTEXT_H

#include "cushim/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of cushim_context_create; at most one of the first three. */
enum cushim_context_flag {
    CUSHIM_CONTEXT_FLAG_SPIN = 1,
    CUSHIM_CONTEXT_FLAG_YIELD = 2,
    CUSHIM_CONTEXT_FLAG_BLOCKING = 4,
    CUSHIM_CONTEXT_FLAG_MAP_HOST = 8,
    CUSHIM_CONTEXT_FLAG_RESIZE_LMEM = 16,
    CUSHIM_CONTEXT_FLAG_PUSH = 65536 /* and push it */
};

/**
 * Create a new context on a device.
 * @param dev    ordinal, -1: the calling thread's
 * @param flags  of enum cushim_context_flag; 0: automatic
 * @param ctx    out
 * @return CUSHIM_OK | INVALID | BADDEVICE | NOMEM | the driver's: neither the stack nor the current
 *         context has changed
 * Threads  any
 * Owner    caller: cushim_context_destroy
 */
CUSHIM_API enum cushim_status cushim_context_create(int dev, unsigned flags,
                                                    struct cushim_context **ctx);

/**
 * Retain the primary context of a device: the one that the CUDA runtime uses.
 * @param dev  ordinal, -1: the calling thread's
 * @param ctx  out; the same handle for each caller until it is destroyed; if others reset the
 *             context, the handle is dead and the next call gives a new one
 * @return CUSHIM_OK | BADDEVICE | NOMEM | the driver's
 * Threads  any
 * Owner    caller: cushim_context_destroy
 */
CUSHIM_API enum cushim_status cushim_context_primary(int dev, struct cushim_context **ctx);

/**
 * Make a handle for a context that other code created.
 * @param cu   alive
 * @param ctx  out; the handle that the context already has, if there is one
 * @return CUSHIM_OK | INVALID | NOMEM | the driver's
 * Threads  any
 * Owner    the context still belongs to the code that created it
 */
CUSHIM_API enum cushim_status cushim_context_wrap(struct CUctx_st *cu, struct cushim_context **ctx);

/**
 * Get the driver's handle.
 * @param cu  out; valid while the context lives
 * @return CUSHIM_OK | BADHANDLE | DEADCONTEXT
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_context_handle(struct cushim_context *ctx,
                                                    struct CUctx_st **cu);

/**
 * Get a number that no other context of this process has, or will have.
 * @param id  out
 * @return CUSHIM_OK | BADHANDLE | DEADCONTEXT
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_context_id(struct cushim_context *ctx, uint64_t *id);

/**
 * Put a context on the calling thread's stack and make it current.
 * @param ctx  may be on it already, and on other threads' stacks
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT | NOMEM | the driver's: nothing has changed
 * Threads  any
 * Owner    the stack keeps a reference
 */
CUSHIM_API enum cushim_status cushim_context_push(struct cushim_context *ctx);

/**
 * Take the top off the calling thread's stack; the one below becomes current.
 * @param ctx  out, may be NULL: what was taken off
 * @return CUSHIM_OK | NOCONTEXT: there is no live entry
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_context_pop(struct cushim_context **ctx);

/**
 * Get the context that a call without one would use: the top of our stack or, if that is empty, the
 * thread's CUDA context.
 * @param ctx  out; NULL if there is none
 * @return CUSHIM_OK | NOMEM | the driver's
 * Threads  any
 * Owner    borrowed, but if the handle did not exist before, the caller destroys it
 */
CUSHIM_API enum cushim_status cushim_context_current(struct cushim_context **ctx);

/**
 * Get the device of a context.
 * @param ctx  NULL: of the context that a call would use
 * @param dev  out: ordinal
 * @return CUSHIM_OK | BADHANDLE | DEADCONTEXT | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_context_device(struct cushim_context *ctx, int *dev);

/**
 * Wait for all work of a context.
 * @param ctx  NULL: the context that a call would use
 * @return CUSHIM_OK | CAPTURE (a capture is known there; no driver call was made) | the driver's
 * Errors   faults of earlier work show here
 * Threads  any
 * Stream   waits for all
 */
CUSHIM_API enum cushim_status cushim_context_synchronize(struct cushim_context *ctx);

/**
 * Release a context.
 * @param ctx  NULL is fine. Owned: destroyed now, and the objects in it are dead. Primary: our
 *             reference is released once the objects in it are gone; it is never reset. Wrapped:
 *             only the handle goes.
 * @return CUSHIM_OK (also if it was dead) | BADHANDLE | the driver's; the handle is gone then, too
 * Threads  any; if our stack made it current in this thread, the next live entry becomes current; a
 *          primary context that ends with its last reference is not left current in this thread
 */
CUSHIM_API enum cushim_status cushim_context_destroy(struct cushim_context *ctx);

/**
 * Read a limit.
 * @param ctx    NULL: the context that a call would use
 * @param limit  number of CUlimit
 * @param value  out
 * @return CUSHIM_OK | INVALID | NOTSUPPORTED | DEADCONTEXT | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_context_limit_get(struct cushim_context *ctx, int limit,
                                                       size_t *value);

/**
 * Set a limit.
 * @param limit  number of CUlimit
 * @return as cushim_context_limit_get
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_context_limit_set(struct cushim_context *ctx, int limit,
                                                       size_t value);

/**
 * Read the preference between cache and shared memory.
 * @param value  out: number of CUfunc_cache
 * @return CUSHIM_OK | INVALID | DEADCONTEXT | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_context_cache_get(struct cushim_context *ctx, int *value);

/**
 * Set the preference between cache and shared memory.
 * @param value  number of CUfunc_cache
 * @return CUSHIM_OK | INVALID | DEADCONTEXT | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_context_cache_set(struct cushim_context *ctx, int value);

/**
 * Check whether a context is usable, as far as earlier calls have seen.
 * @param ctx  NULL: the context that a call would use
 * @return CUSHIM_OK | the first failure that damaged the context for good; the text names the call
 *         that saw it | DEADCONTEXT
 * Threads  any
 * Stream   none; never waits
 */
CUSHIM_API enum cushim_status cushim_context_check(struct cushim_context *ctx);

/**
 * Announce a capture that code outside this library begins in a context: until the leave, the
 * library does nothing there that would invalidate it. Calls are counted.
 * @param ctx  NULL: the context that a call would use
 * @return CUSHIM_OK | BADHANDLE | DEADCONTEXT | the driver's
 * Threads  any; enter and leave may be in different ones
 */
CUSHIM_API enum cushim_status cushim_context_capture_enter(struct cushim_context *ctx);

/**
 * Withdraw an announcement.
 * @param ctx  as given to the enter
 * @return CUSHIM_OK | STATE: none was made
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_context_capture_leave(struct cushim_context *ctx);

#ifdef __cplusplus
}
#endif

#endif
