/* A card as Vulkan has it: shared by mapper_card.c, which makes it, and mapper_memory.c. */
#ifndef CUSHIM_COMPANION_MAPPER_CARD_H
#define CUSHIM_COMPANION_MAPPER_CARD_H

#include "companion/mapped/mapper.h"
#include "companion/mapped/vulkan.h"

struct cushim_card {
    unsigned char uuid[VK_UUID_SIZE];
    unsigned n_owners;        /* under the lock of the list */
    struct cushim_card *next; /* under the lock of the list */

    /* written before the card is in the list, and read only from then on */
    struct cushim_vulkan_instance instance;
    struct cushim_vulkan_device device;
    VkPhysicalDevice physical;
    VkPhysicalDeviceMemoryProperties memory;
    size_t atom_bytes; /* nonCoherentAtomSize */
    bool has_budget;   /* VK_EXT_memory_budget */
    bool has_dma_buf;  /* VK_EXT_external_memory_dma_buf, and together with opaque descriptors */

    atomic_size_t used_bytes[VK_MAX_MEMORY_HEAPS]; /* by our allocations */
};

#endif
