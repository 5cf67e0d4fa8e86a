/*
 * Memory: device, managed and stream-ordered; what is known about an address; other processes.
 *
 * Every address that the library handed out is in a ledger with its size, kind, context and owner,
 * and frees and copies look there first: a double free, a range that leaves its block, or memory of
 * another context is refused before the driver sees it.  Other addresses go to the driver
 * unchanged.
 *
 * A call runs in the context of the address; if it is unknown, in `ctx` if that is not NULL,
 * otherwise in the current one.  Every function may also return NOCUDA, NODEVICE, BADHANDLE (a
 * handle that is not open), DEADCONTEXT, NOSYM (the driver lacks the entry) and the driver's own
 * failures; the text is in cushim_last_error.  Sizes above 2^63-1 are CUSHIM_INVALID, 0 bytes are
 * CUSHIM_OK without a driver call, and out parameters are 0 after a failure.
 */
#ifndef CUSHIM_MEMORY_H
#define CUSHIM_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "cushim/host.h"
#include "cushim/memory_copy.h"
#include "cushim/status.h"
#include "cushim/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- device memory */

/**
 * Allocate device memory.
 * @param ctx    NULL: the current context, else the primary one
 * @param bytes  0: *p is 0 and CUSHIM_OK
 * @param p      aligned to 256 bytes at least
 * @return CUSHIM_OK | CUSHIM_INVALID | CUSHIM_NOMEM (the text has what was requested, free, total,
 *         and held by our pools; the state is as before, but the pools' idle blocks were given
 *         back)
 * Errors   out of memory: the idle blocks of the pools go back first, then one retry
 * Threads  any
 * Stream   none; allowed while a capture is open
 * Owner    the caller: cushim_memory_free
 */
CUSHIM_API enum cushim_status cushim_memory_alloc(struct cushim_context *ctx, size_t bytes,
                                                  cushim_devptr *p);

/**
 * Allocate rows, padded so that each begins on a boundary good for the device.
 * @param width_bytes  of a row; 0, or no rows: *p and *pitch_bytes are 0 and CUSHIM_OK
 * @param elem_bytes   4, 8 or 16: the largest access a kernel makes
 * @param pitch_bytes  from row to row
 * @return CUSHIM_OK | CUSHIM_INVALID | CUSHIM_NOMEM
 * Threads  any
 * Stream   none; allowed while a capture is open
 * Owner    the caller: cushim_memory_free
 */
CUSHIM_API enum cushim_status cushim_memory_alloc_pitch(struct cushim_context *ctx,
                                                        size_t width_bytes, size_t rows,
                                                        unsigned elem_bytes, cushim_devptr *p,
                                                        size_t *pitch_bytes);

/**
 * Free device or managed memory.
 * @param p  as handed out; 0 is fine
 * @return CUSHIM_OK (also if its context is gone) | CUSHIM_UNKNOWNPTR (not handed out, or an inner
 *         address) | CUSHIM_DOUBLEFREE | CUSHIM_STATE (of a pool, arena, graph or module, adopted,
 *         or of another process) | CUSHIM_INVALID (host memory: cushim_host_free). After a failure
 *         it is still allocated
 * Threads  any
 * Stream   may wait for all work of the context, as the driver does; allowed while a capture is
 *          open, which stays valid
 */
CUSHIM_API enum cushim_status cushim_memory_free(cushim_devptr p);

/**
 * Put memory that others allocated into the ledger, so that ranges of it are checked.
 * @param p      an address in one allocation of the driver
 * @param bytes  from there; the range may not leave the allocation
 * @return CUSHIM_OK | CUSHIM_INVALID (not a range of the driver's) | CUSHIM_BADDEVICE (of another
 *         context) | CUSHIM_STATE (in the ledger already)
 * Threads  any
 * Stream   none
 * Owner    its allocator; call cushim_memory_disown before it is freed there
 */
CUSHIM_API enum cushim_status cushim_memory_adopt(struct cushim_context *ctx, cushim_devptr p,
                                                  size_t bytes);

/**
 * Take adopted memory out of the ledger.
 * @param p  as adopted; 0 is fine
 * @return CUSHIM_OK | CUSHIM_UNKNOWNPTR | CUSHIM_DOUBLEFREE | CUSHIM_INVALID (it is not adopted)
 * Threads  any
 * Stream   none; makes no driver call
 */
CUSHIM_API enum cushim_status cushim_memory_disown(cushim_devptr p);

/* --- managed memory */

enum cushim_attach_flag {
    CUSHIM_ATTACH_FLAG_GLOBAL = 1, /* any stream of any device may use it */
    CUSHIM_ATTACH_FLAG_HOST = 2,   /* no stream, until it is attached */
    CUSHIM_ATTACH_FLAG_SINGLE = 4  /* cushim_memory_attach: only that stream may use it */
};

/**
 * Allocate managed memory, which host and devices address alike.
 * @param flags  GLOBAL or HOST of enum cushim_attach_flag
 * @param p      also valid as a host pointer
 * @return CUSHIM_OK | CUSHIM_INVALID | CUSHIM_NOMEM | CUSHIM_NOTSUPPORTED (the device has none;
 *         device memory is never given instead)
 * Threads  any
 * Stream   none; allowed while a capture is open
 * Owner    the caller: cushim_memory_free
 */
CUSHIM_API enum cushim_status cushim_memory_alloc_managed(struct cushim_context *ctx, size_t bytes,
                                                          unsigned flags, cushim_devptr *p);

/**
 * Say which stream uses managed memory.
 * @param p      managed
 * @param bytes  the whole block, as the driver wants it
 * @param flags  one of enum cushim_attach_flag; SINGLE names `s`
 * @return CUSHIM_OK | CUSHIM_INVALID (another kind of memory, flags, range) | CUSHIM_BADDEVICE |
 *         CUSHIM_CAPTURE (`s` takes part in one)
 * Threads  any
 * Stream   queued on `s`; takes effect when its turn comes
 */
CUSHIM_API enum cushim_status cushim_memory_attach(cushim_devptr p, size_t bytes, unsigned flags,
                                                   struct cushim_stream *s);

/**
 * Move managed memory to the place of its next use.
 * @param p    managed
 * @param dev  a device's ordinal; -1: the host
 * @return CUSHIM_OK | CUSHIM_INVALID (another kind of memory, range) | CUSHIM_BADDEVICE |
 *         CUSHIM_CAPTURE (`s` takes part in one)
 * Threads  any
 * Stream   queued on `s`
 */
CUSHIM_API enum cushim_status cushim_memory_prefetch(cushim_devptr p, size_t bytes, int dev,
                                                     struct cushim_stream *s);

/* --- in the order of a stream */

/**
 * Allocate device memory in the order of a stream, from a driver pool of our own.
 * @param s  in a capture: the allocation becomes a node, and the graph's memory
 * @param p  valid at once for work queued on `s` after this call
 * @return CUSHIM_OK | CUSHIM_INVALID | CUSHIM_NOMEM
 * Errors   a driver or device without such pools: as cushim_memory_alloc
 * Threads  any
 * Stream   queued; waits for nothing; capture-safe
 * Owner    the caller: cushim_memory_free_async or cushim_memory_free; a node's: the graph
 */
CUSHIM_API enum cushim_status cushim_memory_alloc_async(struct cushim_stream *s, size_t bytes,
                                                        cushim_devptr *p);

/**
 * Free device memory in the order of a stream.
 * @param p  as handed out; 0 is fine. For memory of a graph's node this frees what the last launch
 *           left, so that the graph can be launched again; the address stays the graph's
 * @param s  a stream of its context, behind all work that uses it; if it was destroyed, the call is
 *           cushim_memory_free
 * @return CUSHIM_OK | CUSHIM_UNKNOWNPTR | CUSHIM_DOUBLEFREE | CUSHIM_STATE (as cushim_memory_free;
 *         a node's memory that no launch left) | CUSHIM_INVALID (managed or host memory) |
 *         CUSHIM_BADDEVICE (a stream of another context) | CUSHIM_CAPTURE (`s` takes part in a
 *         capture that did not allocate it)
 * Errors   a driver or device without such pools: as cushim_memory_free
 * Threads  any
 * Stream   queued; waits for nothing; a node if a capture is open
 */
CUSHIM_API enum cushim_status cushim_memory_free_async(cushim_devptr p, struct cushim_stream *s);

/**
 * Set what the driver pool of a context keeps when it is idle.
 * @param bytes  0: nothing; 512 MiB until set
 * @return CUSHIM_OK | CUSHIM_INVALID | CUSHIM_NOTSUPPORTED (no such pools)
 * Threads  any
 * Stream   none; the device's default pool is never touched
 */
CUSHIM_API enum cushim_status cushim_memory_async_threshold(struct cushim_context *ctx,
                                                            size_t bytes);

/**
 * Give idle memory of that pool back to the device.
 * @param keep_bytes  stay in the pool
 * @return CUSHIM_OK (also if there is no such pool yet) | CUSHIM_INVALID
 * Threads  any
 * Stream   waits for nothing: memory still in use stays
 */
CUSHIM_API enum cushim_status cushim_memory_async_trim(struct cushim_context *ctx,
                                                       size_t keep_bytes);

/* --- questions */

/* The owner of memory, which must free it. */
enum cushim_memory_owner {
    CUSHIM_OWNER_NONE = 0,   /* other code: foreign, adopted, registered memory */
    CUSHIM_OWNER_CALLER = 1, /* by the free that belongs to its kind */
    CUSHIM_OWNER_POOL = 2,
    CUSHIM_OWNER_ARENA = 3,
    CUSHIM_OWNER_GRAPH = 4,
    CUSHIM_OWNER_MODULE = 5,
    CUSHIM_OWNER_MAPPER = 6
};

struct cushim_memory_info {
    size_t struct_size;  /* set by the caller: sizeof(struct cushim_memory_info) */
    cushim_devptr start; /* as handed out; foreign memory: the driver's range */
    size_t bytes;        /* as asked; foreign memory: the driver's range */
    enum cushim_memory_kind kind;
    int device; /* -1: the driver names none */
    enum cushim_memory_owner owner;
    unsigned flags;      /* those of its allocation */
    void *owner_handle;  /* the pool, arena, graph, module or mapper; NULL: none */
    uint64_t context_id; /* as cushim_context_id; 0: not known */
};

/**
 * Get how many bytes were asked for.
 * @param p  as handed out
 * @return CUSHIM_OK | CUSHIM_UNKNOWNPTR (not handed out, an inner address too)
 * Threads  any
 * Stream   none; makes no driver call
 */
CUSHIM_API enum cushim_status cushim_memory_size(cushim_devptr p, size_t *n);

/**
 * Get the driver's allocation that contains an address.
 * @param p     inner addresses too, and memory of others
 * @param base  NULL: not wanted
 * @param n     NULL: not wanted
 * @return CUSHIM_OK | CUSHIM_INVALID (both NULL, or p is 0) | CUSHIM_UNKNOWNPTR (the driver knows
 *         no such allocation)
 * Threads  any
 * Stream   none
 */
CUSHIM_API enum cushim_status cushim_memory_range(cushim_devptr p, cushim_devptr *base, size_t *n);

/**
 * Get everything that is known about an address.
 * @param p     inner addresses too, and memory of others
 * @param info  struct_size is read, the rest written
 * @return CUSHIM_OK | CUSHIM_UNKNOWNPTR (neither we nor the driver know it) | CUSHIM_ABI
 * Threads  any
 * Stream   none
 */
CUSHIM_API enum cushim_status cushim_memory_query(cushim_devptr p, struct cushim_memory_info *info);

/**
 * Get the device's memory, in bytes, as the driver counts it.
 * @param free_bytes   NULL: not wanted
 * @param total_bytes  NULL: not wanted
 * @return CUSHIM_OK | CUSHIM_INVALID (both NULL)
 * Threads  any
 * Stream   none
 */
CUSHIM_API enum cushim_status cushim_memory_info(struct cushim_context *ctx, size_t *free_bytes,
                                                 size_t *total_bytes);

/**
 * Get how many bytes our pools in this context could give back; the idle bytes of
 * cushim_memory_alloc_async's pool are included.
 * @return CUSHIM_OK | CUSHIM_INVALID
 * Threads  any
 * Stream   none
 */
CUSHIM_API enum cushim_status cushim_memory_info_pools(struct cushim_context *ctx,
                                                       size_t *reusable_bytes);

/* --- other processes */

enum { CUSHIM_IPC_BYTES = 64 };

/**
 * Make a handle by which another process of this machine opens device memory.
 * @param p    the start of a driver allocation
 * @param h64  64 bytes, to be sent as they are
 * @return CUSHIM_OK | CUSHIM_STATE (inner addresses, and blocks of pools and arenas that share an
 *         allocation) | CUSHIM_UNKNOWNPTR | CUSHIM_INVALID (a kind that cannot be shared)
 * Threads  any
 * Stream   none
 * Owner    the memory must outlive its use by others
 */
CUSHIM_API enum cushim_status cushim_memory_ipc_get(cushim_devptr p, void *h64);

/**
 * Open device memory of another process.
 * @param h64  64 bytes from cushim_memory_ipc_get there
 * @return CUSHIM_OK | CUSHIM_INVALID | CUSHIM_STATE (open already in this process) | CUSHIM_NOMEM
 * Threads  any
 * Stream   none
 * Owner    the caller: cushim_memory_ipc_close, never a free
 */
CUSHIM_API enum cushim_status cushim_memory_ipc_open(struct cushim_context *ctx, const void *h64,
                                                     cushim_devptr *p);

/**
 * Close memory of another process.
 * @param p  as opened; 0 is fine
 * @return CUSHIM_OK (also if its context is gone) | CUSHIM_UNKNOWNPTR | CUSHIM_DOUBLEFREE |
 *         CUSHIM_INVALID (memory of another kind) | CUSHIM_CAPTURE (a capture is open in its
 *         context)
 * Threads  any
 * Stream   may wait for all work of the context
 */
CUSHIM_API enum cushim_status cushim_memory_ipc_close(cushim_devptr p);

#ifdef __cplusplus
}
#endif

#endif
