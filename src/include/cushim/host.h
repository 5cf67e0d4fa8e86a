/*
 * Pinned host memory: allocated here, or the program's own and registered.
 *
 * Copies from and to it run beside the host and at full speed.  The conventions of cushim/memory.h
 * hold: the ledger is asked before the driver, and 0 bytes are CUSHIM_OK without a driver call.
 */
#ifndef CUSHIM_HOST_H
#define CUSHIM_HOST_H

#include <stddef.h>

#include "cushim/status.h"
#include "cushim/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of cushim_host_alloc. */
enum cushim_host_flag {
    CUSHIM_HOST_FLAG_PORTABLE = 1, /* pinned for all contexts */
    CUSHIM_HOST_FLAG_MAPPED = 2,   /* the device can address it */
    CUSHIM_HOST_FLAG_COMBINED = 4  /* write-combined */
};

/* Flags of cushim_host_register. */
enum cushim_register_flag {
    CUSHIM_REGISTER_FLAG_PORTABLE = 1,  /* pinned for all contexts */
    CUSHIM_REGISTER_FLAG_MAPPED = 2,    /* the device can address it */
    CUSHIM_REGISTER_FLAG_IO_MEMORY = 4, /* it is memory of a device */
    CUSHIM_REGISTER_FLAG_READ_ONLY = 8  /* the device only reads it */
};

/**
 * Allocate pinned host memory.
 * @param flags  of enum cushim_host_flag
 * @param p      NULL after a failure, and for 0 bytes
 * @return CUSHIM_OK | CUSHIM_INVALID | CUSHIM_NOMEM
 * Threads  any
 * Stream   none; allowed while a capture is open
 * Owner    the caller: cushim_host_free
 */
CUSHIM_API enum cushim_status cushim_host_alloc(struct cushim_context *ctx, size_t bytes,
                                                unsigned flags, void **p);

/**
 * Free pinned host memory.
 * @param p  as handed out; NULL is fine
 * @return CUSHIM_OK (also if its context is gone) | CUSHIM_UNKNOWNPTR | CUSHIM_DOUBLEFREE |
 *         CUSHIM_INVALID (memory of another kind) | CUSHIM_STATE (of a pool or mapper). After a
 *         failure it is still allocated
 * Threads  any
 * Stream   may wait for all work of the context, as the driver does; allowed while a capture is
 *          open, which stays valid
 */
CUSHIM_API enum cushim_status cushim_host_free(void *p);

/**
 * Pin memory of the program.
 * @param p      its first byte
 * @param flags  of enum cushim_register_flag
 * @return CUSHIM_OK | CUSHIM_INVALID | CUSHIM_STATE (a part of it is pinned already) | CUSHIM_NOMEM
 * Threads  any
 * Stream   none; allowed while a capture is open
 * Owner    the caller; cushim_host_unregister before it is freed
 */
CUSHIM_API enum cushim_status cushim_host_register(struct cushim_context *ctx, void *p,
                                                   size_t bytes, unsigned flags);

/**
 * Unpin memory of the program.
 * @param p  as registered; NULL is fine
 * @return CUSHIM_OK (also if its context is gone) | CUSHIM_UNKNOWNPTR (not registered, or not
 *         any more) | CUSHIM_INVALID (memory of another kind) | CUSHIM_CAPTURE (a capture is open
 *         in its context). After a failure it is still pinned
 * Threads  any
 * Stream   may wait for all work of the context
 */
CUSHIM_API enum cushim_status cushim_host_unregister(void *p);

/**
 * Get the device's address of mapped host memory.
 * @param p   inner addresses too
 * @param dp  0 after a failure
 * @return CUSHIM_OK | CUSHIM_INVALID (device memory, or host memory that is not mapped)
 * Threads  any
 * Stream   none
 */
CUSHIM_API enum cushim_status cushim_host_device_pointer(void *p, cushim_devptr *dp);

#ifdef __cplusplus
}
#endif

#endif
