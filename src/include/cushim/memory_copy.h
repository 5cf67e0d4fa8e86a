/*
 * Filling and copying memory: lines, rows and boxes, in one context and between two.
 *
 * The conventions of cushim/memory.h hold.  An address that we handed out must be of the kind that
 * the call says, the range must stay in its block (CUSHIM_INVALID), and device memory must belong
 * to the stream's context (CUSHIM_BADDEVICE).  All this is checked before anything is queued.  A
 * function without a stream works on the legacy stream.  It is refused with CUSHIM_CAPTURE while a
 * capture is known in the context, so that the capture stays valid; so is a call on the legacy
 * stream that the driver would refuse then.
 */
#ifndef CUSHIM_MEMORY_COPY_H
#define CUSHIM_MEMORY_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"
#include "cushim/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- fill */

/**
 * Fill with a byte, a 16-bit or a 32-bit word.
 * @param p      device, managed or mapped memory; aligned to the word
 * @param count  words
 * @return CUSHIM_OK | CUSHIM_INVALID (misaligned, or beyond the block) | CUSHIM_CAPTURE
 * Threads  any
 * Stream   the legacy one; may return before it ends
 */
CUSHIM_API enum cushim_status cushim_memory_set8(cushim_devptr p, uint8_t v, size_t count);
CUSHIM_API enum cushim_status cushim_memory_set16(cushim_devptr p, uint16_t v, size_t count);
CUSHIM_API enum cushim_status cushim_memory_set32(cushim_devptr p, uint32_t v, size_t count);

/**
 * Fill with a byte, a 16-bit or a 32-bit word, in the order of a stream.
 * @return CUSHIM_OK | CUSHIM_INVALID (misaligned, or beyond the block) | CUSHIM_BADDEVICE
 * Threads  any
 * Stream   queued on `s`; capture-safe
 */
CUSHIM_API enum cushim_status cushim_memory_set8_async(cushim_devptr p, uint8_t v, size_t count,
                                                       struct cushim_stream *s);
CUSHIM_API enum cushim_status cushim_memory_set16_async(cushim_devptr p, uint16_t v, size_t count,
                                                        struct cushim_stream *s);
CUSHIM_API enum cushim_status cushim_memory_set32_async(cushim_devptr p, uint32_t v, size_t count,
                                                        struct cushim_stream *s);

/**
 * Fill rows with a byte, a 16-bit or a 32-bit word; what lies between them is left alone.
 * @param pitch_bytes  from row to row; a multiple of the word, at least a row
 * @param width        words of a row
 * @return CUSHIM_OK | CUSHIM_INVALID (misaligned, over the pitch, beyond the block) |
 *         CUSHIM_BADDEVICE
 * Threads  any
 * Stream   queued on `s`; capture-safe
 */
CUSHIM_API enum cushim_status cushim_memory_set2d8(cushim_devptr p, size_t pitch_bytes, uint8_t v,
                                                   size_t width, size_t rows,
                                                   struct cushim_stream *s);
CUSHIM_API enum cushim_status cushim_memory_set2d16(cushim_devptr p, size_t pitch_bytes, uint16_t v,
                                                    size_t width, size_t rows,
                                                    struct cushim_stream *s);
CUSHIM_API enum cushim_status cushim_memory_set2d32(cushim_devptr p, size_t pitch_bytes, uint32_t v,
                                                    size_t width, size_t rows,
                                                    struct cushim_stream *s);

/* --- copy lines */

enum cushim_copy_kind {
    CUSHIM_COPY_H2H = 0,
    CUSHIM_COPY_H2D = 1,
    CUSHIM_COPY_D2H = 2,
    CUSHIM_COPY_D2D = 3,
    CUSHIM_COPY_BY_ADDRESS = 4 /* found by the addresses */
};

/**
 * Copy bytes, and wait until they have arrived.
 * @param dst   a host address or a device address, as `kind` says; may not overlap src
 * @param kind  managed and mapped memory may be on either side
 * @return CUSHIM_OK | CUSHIM_INVALID (a kind that the ledger contradicts, or beyond a block) |
 *         CUSHIM_BADDEVICE (two contexts: cushim_memory_copy_peer) | CUSHIM_CAPTURE
 * Errors   a fault of earlier work may show here
 * Threads  any
 * Stream   the legacy one
 */
CUSHIM_API enum cushim_status cushim_memory_copy(cushim_devptr dst, cushim_devptr src, size_t bytes,
                                                 enum cushim_copy_kind kind);

/**
 * Copy from host to device, from device to host, or in the device, and wait until it is done.
 * @return as cushim_memory_copy
 * Threads  any
 * Stream   the legacy one
 */
CUSHIM_API enum cushim_status cushim_memory_h2d(cushim_devptr dst, const void *src, size_t bytes);
CUSHIM_API enum cushim_status cushim_memory_d2h(void *dst, cushim_devptr src, size_t bytes);
CUSHIM_API enum cushim_status cushim_memory_d2d(cushim_devptr dst, cushim_devptr src, size_t bytes);

/**
 * Copy bytes in the order of a stream.
 * @param kind  as in cushim_memory_copy
 * @return CUSHIM_OK | CUSHIM_INVALID (as cushim_memory_copy) | CUSHIM_BADDEVICE
 * Threads  any
 * Stream   queued on `s`; may return before it ends; capture-safe
 * Owner    host buffers stay with the caller, who keeps them until `s` has passed; in a capture
 *          until the graph is gone
 */
CUSHIM_API enum cushim_status cushim_memory_copy_async(cushim_devptr dst, cushim_devptr src,
                                                       size_t bytes, enum cushim_copy_kind kind,
                                                       struct cushim_stream *s);

/**
 * Copy from host to device, from device to host, or in the device, in the order of a stream.
 * @return as cushim_memory_copy_async
 * Threads  any
 * Stream   queued on `s`; may return before it ends; capture-safe
 * Owner    as cushim_memory_copy_async
 */
CUSHIM_API enum cushim_status cushim_memory_h2d_async(cushim_devptr dst, const void *src,
                                                      size_t bytes, struct cushim_stream *s);
CUSHIM_API enum cushim_status cushim_memory_d2h_async(void *dst, cushim_devptr src, size_t bytes,
                                                      struct cushim_stream *s);
CUSHIM_API enum cushim_status cushim_memory_d2d_async(cushim_devptr dst, cushim_devptr src,
                                                      size_t bytes, struct cushim_stream *s);

/**
 * Copy device memory between contexts or devices, and wait until it has arrived.
 * @param dctx  of dst; NULL: the one in the ledger, else the one that a call would use
 * @param sctx  of src; NULL: the same
 * @return CUSHIM_OK | CUSHIM_INVALID (host memory, or beyond a block) | CUSHIM_BADDEVICE (the
 *         ledger knows another context) | CUSHIM_CAPTURE (one is known in either context)
 * Threads  any
 * Stream   ordered after all work of both contexts, and before their later work
 */
CUSHIM_API enum cushim_status cushim_memory_copy_peer(cushim_devptr dst,
                                                      struct cushim_context *dctx,
                                                      cushim_devptr src,
                                                      struct cushim_context *sctx, size_t bytes);

/**
 * Copy device memory between contexts or devices, in the order of a stream.
 * @param s  of either context
 * @return CUSHIM_OK | CUSHIM_INVALID | CUSHIM_BADDEVICE (as above, or `s` is of a third context)
 * Threads  any
 * Stream   queued on `s`; capture-safe
 */
CUSHIM_API enum cushim_status
cushim_memory_copy_peer_async(cushim_devptr dst, struct cushim_context *dctx, cushim_devptr src,
                              struct cushim_context *sctx, size_t bytes, struct cushim_stream *s);

/* --- copy rows and boxes */

enum cushim_copy_place {
    CUSHIM_PLACE_ANY = 0, /* found by the address */
    CUSHIM_PLACE_HOST = 1,
    CUSHIM_PLACE_DEVICE = 2
};

enum cushim_copy_flag {
    CUSHIM_COPY_FLAG_BLOCKING = 1 /* wait until it is done */
};

/* One end of a copy.  The first byte is at address + z * height * pitch + y * pitch + x. */
struct cushim_copy_end {
    uint64_t address; /* of the block's first row */
    enum cushim_copy_place place;
    int reserved;         /* 0 */
    size_t pitch_bytes;   /* from row to row; 0: as wide as the copy and x_bytes */
    size_t height;        /* 3D: rows from slice to slice; 0: those of the copy and y */
    size_t x_bytes, y, z; /* of the first byte of the copy; z for 3D only */
    struct cushim_context
        *ctx; /* 3D: the context of the memory; NULL: the ledger's, else the stream's */
};

struct cushim_copy2d {
    size_t struct_size; /* sizeof(struct cushim_copy2d) */
    unsigned flags;     /* of enum cushim_copy_flag */
    unsigned reserved;  /* 0 */
    size_t width_bytes, rows;
    struct cushim_copy_end dst, src;
};

struct cushim_copy3d {
    size_t struct_size; /* sizeof(struct cushim_copy3d) */
    unsigned flags;     /* of enum cushim_copy_flag */
    unsigned reserved;  /* 0 */
    size_t width_bytes, rows, slices;
    struct cushim_copy_end dst, src;
};

/**
 * Copy rows.
 * @param copy  read during the call; no width or no rows: CUSHIM_OK, nothing is done
 * @return CUSHIM_OK | CUSHIM_INVALID (beyond a pitch or a block, flags, a place that the ledger
 *         contradicts) | CUSHIM_BADDEVICE | CUSHIM_CAPTURE (BLOCKING, and `s` takes part in one) |
 *         CUSHIM_ABI
 * Threads  any
 * Stream   queued on `s`; BLOCKING waits for it; capture-safe if not BLOCKING
 * Owner    host buffers as in cushim_memory_copy_async
 */
CUSHIM_API enum cushim_status cushim_memory_copy_2d(const struct cushim_copy2d *copy,
                                                    struct cushim_stream *s);

/**
 * Copy a box, also between contexts.
 * @param copy  read during the call; an extent of 0: CUSHIM_OK, nothing is done
 * @return as cushim_memory_copy_2d; also CUSHIM_INVALID beyond a height
 * Threads  any
 * Stream   as cushim_memory_copy_2d; `s` is of either context
 * Owner    host buffers as in cushim_memory_copy_async
 */
CUSHIM_API enum cushim_status cushim_memory_copy_3d(const struct cushim_copy3d *copy,
                                                    struct cushim_stream *s);

#ifdef __cplusplus
}
#endif

#endif
