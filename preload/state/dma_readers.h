/*
 * Readers of device memory that no event sees: NICs, storage, the CPU through a BAR (HOOKS.md C13).
 *
 * Natively a free revokes their pins.  Once one may be at work, new requests of 2 MiB and up are
 * driver allocations of their own, and are freed natively.
 */
#ifndef CUSHIM_PRELOAD_DMA_READERS_H
#define CUSHIM_PRELOAD_DMA_READERS_H

/* One is at work, or about to be. */
void cushim_dma_readers_expect(void);

/*
 * Is a library of theirs loaded, and its device open?  Walks the list of objects, and where one is
 * loaded goes through some of the descriptors, at most some 150: those opened since the last look,
 * and a part of the others, so that many looks go through all.  For rare moments.
 */
void cushim_dma_readers_look(void);

#endif
