/*
 * Readers of device memory that no event sees: NICs, storage, the CPU through a BAR
 * (interposition.md C13).
 *
 * Without cushim a free takes the memory away from them, and no fence says when they are done.  So
 * once one may be at work, each new request of 2 MiB and more gets a driver allocation of its own,
 * which the driver frees.
 */
#pragma once

/* Such a reader is at work, or about to be. */
void cushim_dma_readers_expect(void);

/*
 * Look whether a library of such a reader is loaded and its device is open.  It walks the list of
 * loaded objects.  If one of the libraries is there, it looks at some 150 file descriptors at most:
 * those opened since the last look, and a part of the others, so that many looks see all.  Call it
 * rarely.
 */
void cushim_dma_readers_look(void);
