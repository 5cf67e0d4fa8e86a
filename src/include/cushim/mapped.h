/*
 * Device memory that the host writes and reads through a mapping, without a copy by the driver.
 *
 * It comes from Vulkan.  A loader (libvulkan.so.1, or $CUSHIM_LIBVULKAN: an absolute path, not
 * writable by everybody) and the driver's graphics part are opened at first use.  If either is
 * missing, opening a mapper gives CUSHIM_NOTSUPPORTED, and the text says what was looked for.
 *
 * A launch sees what the host wrote before it, and flushed if the memory is not coherent; a kernel
 * that already runs need not see it.  The mapping is write-combined: writing is fast, reading slow.
 * The window of the PCIe bus limits how much memory there is.
 */
#ifndef CUSHIM_MAPPED_H
#define CUSHIM_MAPPED_H

#include "cushim/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum cushim_mapper_flag {
    CUSHIM_MAPPER_FLAG_CURRENT = 1, /* the current context; ctx and dev are ignored */
    CUSHIM_MAPPER_FLAG_NON_COHERENT =
        2,                          /* treat the memory as non-coherent, even if it is coherent */
    CUSHIM_MAPPER_FLAG_COHERENT = 4 /* coherent memory or none */
};

enum cushim_mapped_flag {
    CUSHIM_MAPPED_FLAG_SLAB = 1 /* a piece of a larger allocation, for many small blocks */
};

/**
 * Open a mapper for a context.
 * @param ctx     NULL: the thread's current context, else the primary one of its device
 * @param flags   of enum cushim_mapper_flag; 0 prefers coherent memory; COHERENT and NON_COHERENT:
 *                coherent memory or none, treated as non-coherent
 * @param mapper  out
 * @return CUSHIM_OK | INVALID (unknown flag) | NOCONTEXT (CURRENT, and none is) | NOTSUPPORTED (no
 *         loader, no driver, no device of that UUID, no such memory: the text names it) | NOMEM |
 *         VULKAN
 * Threads  any
 * Owner    caller: cushim_mapper_close
 */
CUSHIM_API enum cushim_status cushim_mapper_open(struct cushim_context *ctx, unsigned flags,
                                                 struct cushim_mapper **mapper);

/**
 * Open a mapper for a device; the first allocation retains its primary context.
 * @param dev     ordinal, -1: the calling thread's
 * @param flags   as above
 * @param mapper  out
 * @return as above | BADDEVICE
 * Threads  any
 * Owner    caller: cushim_mapper_close
 */
CUSHIM_API enum cushim_status cushim_mapper_open_device(int dev, unsigned flags,
                                                        struct cushim_mapper **mapper);

/**
 * Close a mapper. Its memory stays; the last memory of all mappers of the device closes Vulkan.
 * @param mapper  NULL: CUSHIM_OK
 * @return CUSHIM_OK | BADHANDLE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_mapper_close(struct cushim_mapper *mapper);

/**
 * Get how much memory there is to map.
 * @param free_bytes   out; what is still free; without a budget from the driver, what this process
 *                     has not taken
 * @param total_bytes  out; the size of the heap
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_mapper_budget(struct cushim_mapper *mapper, size_t *free_bytes,
                                                   size_t *total_bytes);

/**
 * Allocate memory, mapped whole, in the context of the mapper.
 * @param bytes   at least 1
 * @param flags   of enum cushim_mapped_flag
 * @param mapped  out
 * @return CUSHIM_OK | INVALID | NOMEM (the text names VK_ERROR_OUT_OF_DEVICE_MEMORY, asked, free
 *         and total) | BADHANDLE | DEADCONTEXT | VULKAN | the driver's: nothing is held
 * Threads  any
 * Stream   none; captures stay valid
 * Owner    caller: cushim_mapped_free
 */
CUSHIM_API enum cushim_status cushim_mapped_alloc(struct cushim_mapper *mapper, size_t bytes,
                                                  unsigned flags, struct cushim_mapped **mapped);

/**
 * Free memory; its addresses are dead, on the host too.
 * @param mapped  NULL: CUSHIM_OK
 * @return CUSHIM_OK | BADHANDLE | CAPTURE (nothing is freed) | a fault of earlier work: the memory
 *         is freed all the same
 * Threads  any
 * Stream   waits for all work of the context
 */
CUSHIM_API enum cushim_status cushim_mapped_free(struct cushim_mapped *mapped);

/**
 * Get the host's address of the first byte.
 * @param p  out; valid until the free; read and written by any thread
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_mapped_host(struct cushim_mapped *mapped, void **p);

/**
 * Get the device's address of the first byte.
 * @param p  out; for kernels, copies and sets of the context
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_mapped_device(struct cushim_mapped *mapped, cushim_devptr *p);

/**
 * Get the size.
 * @param bytes  out; as asked for
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_mapped_size(struct cushim_mapped *mapped, size_t *bytes);

/**
 * Check whether host and device see each other's writes without flush and invalidate.
 * @param yes  out; 0 or 1
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_mapped_coherent(struct cushim_mapped *mapped, int *yes);

/**
 * Get the unit of flushes and invalidates.
 * @param bytes  out; 1 if the memory is coherent
 * @return CUSHIM_OK | INVALID | BADHANDLE | DEADCONTEXT
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_mapped_atom(struct cushim_mapped *mapped, size_t *bytes);

/**
 * Make host writes visible to later launches; if memory is coherent, this is a store fence.
 * @param off    a multiple of the atom
 * @param bytes  a multiple of the atom, or what is left to the end; 0: nothing is done
 * @return CUSHIM_OK | INVALID (misaligned, or beyond the end) | BADHANDLE | DEADCONTEXT | VULKAN
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_mapped_flush(struct cushim_mapped *mapped, size_t off,
                                                  size_t bytes);

/**
 * Make writes of finished work visible to the host; host writes that were not flushed are lost.
 * @param off    as above
 * @param bytes  as above
 * @return as above
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_mapped_invalidate(struct cushim_mapped *mapped, size_t off,
                                                       size_t bytes);

/**
 * Copy into mapped memory: whole lines of 64 bytes past the caches, then a store fence.
 * @param dst    in a mapping, or any memory; no alignment
 * @param src    may not overlap dst
 * @param bytes  0: nothing is done
 * @return CUSHIM_OK | INVALID (NULL with bytes, more than 2^63-1)
 * Units    bytes; a plain copy on other machines than x86-64
 * Threads  any; needs no CUDA
 */
CUSHIM_API enum cushim_status cushim_mapped_copy_in(void *dst, const void *src, size_t bytes);

/**
 * Copy out of mapped memory by streaming loads, because these read a whole line at once.
 * @param dst    may not overlap src; no alignment
 * @param src    in a mapping, or any memory
 * @param bytes  0: nothing is done
 * @return as above
 * Units    bytes; a plain copy on other machines than x86-64 with SSE4.1
 * Threads  any; needs no CUDA
 */
CUSHIM_API enum cushim_status cushim_mapped_copy_out(void *dst, const void *src, size_t bytes);

/**
 * Export memory as a dma-buf, for drivers of other devices.
 * @param fd  out; -1 after a failure
 * @return CUSHIM_OK | INVALID | STATE (a piece of a slab, because its neighbours would be exported,
 *         too) | NOTSUPPORTED (the driver has no VK_EXT_external_memory_dma_buf) | BADHANDLE |
 *         DEADCONTEXT | VULKAN
 * Threads  any
 * Owner    caller: close(2); the memory lives until both are gone
 */
CUSHIM_API enum cushim_status cushim_mapped_export(struct cushim_mapped *mapped, int *fd);

#ifdef __cplusplus
}
#endif

#endif
