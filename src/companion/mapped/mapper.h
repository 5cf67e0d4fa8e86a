/*
 * Mappers, and the cards behind them: memory of a device that the host sees, from Vulkan.
 *
 * A card is one VkDevice with its instance, shared by all mappers of the same UUID and gone with
 * the last of them; its functions speak no Vulkan, so that mappers and blocks compile without the
 * headers (mapper_none.c then answers for the cards).  A mapper is a card, the memory type chosen
 * for it, the context that blocks are imported into, and slabs.
 *
 * A mapper of a device (not of a context) has object.context NULL: the primary context is retained
 * by its first allocation.  Blocks keep their mapper, so a closed one lives until its last block.
 */
#pragma once

#include "cushim/mapped.h"
#include "companion/context/call.h"

/* ---- cards ---- */

struct cushim_card;

/* How memory of a card is allocated. */
struct cushim_card_type {
    unsigned index; /* VkMemoryType */
    unsigned heap;
    bool is_coherent;  /* and not forced to be treated otherwise */
    size_t atom_bytes; /* the unit of flushes; 1 if coherent */
    size_t unit_bytes; /* two blocks may not share one of these, for any type */
};

/* One VkDeviceMemory, mapped whole. */
struct cushim_card_memory {
    uint64_t handle;
    void *host;
    size_t bytes; /* as allocated */
    unsigned heap;
};

enum cushim_card_export { CUSHIM_CARD_OPAQUE, CUSHIM_CARD_DMA_BUF };

/* Whether there is a Vulkan loader to ask; no error text. */
bool cushim_card_is_possible(void);

/**
 * The card of a device.
 * @param what    our public function, for the text
 * @param uuid    the driver's, of cuDeviceGetUuid
 * @param device  ordinal, for the text
 * @param out     the caller's, for cushim_card_release
 * @return CUSHIM_OK | NOTSUPPORTED (no loader, no driver, no such device, no extension: the text
 *         names it) | NOMEM | VULKAN
 * Threads  any; under the lock of the list of cards, which waits for no work of the device
 */
enum cushim_status cushim_card_obtain(const char *what, const unsigned char uuid[16], int device,
                                      struct cushim_card **out);

void cushim_card_release(struct cushim_card *card);

/* The type of memory for the flags of a mapper; NOTSUPPORTED if there is none. */
enum cushim_status cushim_card_choose(const char *what, struct cushim_card *card, unsigned flags,
                                      struct cushim_card_type *type);

/* Bytes of a heap, and how many of them are free. */
void cushim_card_budget(struct cushim_card *card, unsigned heap, size_t *free_bytes,
                        size_t *total_bytes);

/* Allocate and map; nothing is held after a failure. */
enum cushim_status cushim_card_alloc(struct cushim_card *card, const struct cushim_card_type *type,
                                     size_t bytes, struct cushim_card_memory *memory);
void cushim_card_free(struct cushim_card *card, struct cushim_card_memory *memory);

/* A descriptor of the memory, the caller's to close. */
enum cushim_status cushim_card_export(const char *what, struct cushim_card *card,
                                      const struct cushim_card_memory *memory,
                                      enum cushim_card_export kind, int *fd);

enum cushim_card_sync { CUSHIM_CARD_FLUSH, CUSHIM_CARD_INVALIDATE };

/* Write host writes back, or drop what the host has read; whole atoms, or to the memory's end. */
enum cushim_status cushim_card_sync(struct cushim_card *card,
                                    const struct cushim_card_memory *memory, size_t offset,
                                    size_t bytes, enum cushim_card_sync way);

/* ---- mappers ---- */

struct cushim_mapper_object {
    struct cushim_object object; /* context NULL: of a device */
    int device;
    struct cushim_card *card;
    struct cushim_card_type type;
    pthread_mutex_t lock;      /* of the slabs; held over no call of CUDA or Vulkan */
    struct cushim_slab *slabs; /* those with memory, in no order */
};
