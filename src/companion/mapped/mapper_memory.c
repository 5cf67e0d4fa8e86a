/* Memory of a card: which type, how much, allocation with its mapping, descriptors, flushes. */
#include <string.h>

#include "companion/mapped/mapper_card.h"

/* ---- the type ---- */

/* Rate a type; 0: unusable. */
static int rate(VkMemoryPropertyFlags flags, unsigned wanted) {
    const VkMemoryPropertyFlags needed =
        VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
    bool is_coherent = flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    if ((flags & needed) != needed || (flags & VK_MEMORY_PROPERTY_PROTECTED_BIT))
        return 0;
    if (wanted & CUSHIM_MAPPER_FLAG_COHERENT)
        return is_coherent;
    return is_coherent == !(wanted & CUSHIM_MAPPER_FLAG_NON_COHERENT) ? 2 : 1;
}

enum cushim_status cushim_card_choose(const char *what, struct cushim_card *card, unsigned flags,
                                      struct cushim_card_type *type) {
    const VkPhysicalDeviceMemoryProperties *memory = &card->memory;
    int best = 0;
    for (uint32_t i = 0; i < memory->memoryTypeCount; i++) {
        VkMemoryPropertyFlags found = memory->memoryTypes[i].propertyFlags;
        int rating = rate(found, flags);
        if (rating <= best) /* the first of equals, because Vulkan lists the faster one first */
            continue;
        best = rating;
        bool is_coherent = (found & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) &&
                           !(flags & CUSHIM_MAPPER_FLAG_NON_COHERENT);
        *type = (struct cushim_card_type){.index = i,
                                          .heap = memory->memoryTypes[i].heapIndex,
                                          .is_coherent = is_coherent,
                                          .atom_bytes = is_coherent ? 1 : card->atom_bytes,
                                          .unit_bytes = card->atom_bytes};
    }
    return best ? CUSHIM_OK
                : cushim_fail(what, CUSHIM_NOTSUPPORTED,
                              "no memory type of %u is DEVICE_LOCAL and HOST_VISIBLE%s",
                              memory->memoryTypeCount,
                              flags & CUSHIM_MAPPER_FLAG_COHERENT ? " and HOST_COHERENT" : "");
}

/* ---- how much ---- */

static size_t rest(size_t whole, size_t part) {
    return whole > part ? whole - part : 0;
}

static void read_budget(struct cushim_card *card, unsigned heap, size_t *free_bytes,
                        size_t *total_bytes) {
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = &budget};
    *total_bytes = (size_t)card->memory.memoryHeaps[heap].size;
    if (!card->has_budget) { /* then we cannot know what other processes hold */
        *free_bytes = rest(*total_bytes, atomic_load(&card->used_bytes[heap]));
        return;
    }
    card->instance.vkGetPhysicalDeviceMemoryProperties2(card->physical, &memory);
    *free_bytes = rest((size_t)budget.heapBudget[heap], (size_t)budget.heapUsage[heap]);
}

void cushim_card_budget(struct cushim_card *card, const struct cushim_card_type *type,
                        size_t *free_bytes, size_t *total_bytes) {
    read_budget(card, type->heap, free_bytes, total_bytes);
}

/* ---- allocation ---- */

static enum cushim_status fail_sized(struct cushim_card *card, const char *entry, VkResult result,
                                     unsigned heap, size_t n_bytes) {
    size_t free_bytes, total_bytes;
    read_budget(card, heap, &free_bytes, &total_bytes);
    return cushim_vulkan_fail(entry, result, "asked=%zu free=%zu total=%zu", n_bytes, free_bytes,
                              total_bytes);
}

enum cushim_status cushim_card_alloc(struct cushim_card *card, const struct cushim_card_type *type,
                                     size_t bytes, struct cushim_card_memory *memory) {
    const VkExportMemoryAllocateInfo export = {
        .sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
        .handleTypes =
            VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT |
            (card->has_dma_buf ? (unsigned)VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT : 0)};
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .pNext = &export,
                                       .allocationSize = bytes,
                                       .memoryTypeIndex = type->index};
    VkDeviceMemory handle = VK_NULL_HANDLE;
    /* Vulkan forbids to ask for more than the heap has. */
    VkResult result =
        bytes > card->memory.memoryHeaps[type->heap].size
            ? VK_ERROR_OUT_OF_DEVICE_MEMORY
            : card->device.vkAllocateMemory(card->device.handle, &info, NULL, &handle);
    if (result != VK_SUCCESS)
        return fail_sized(card, "vkAllocateMemory", result, type->heap, bytes);
    void *host;
    result = card->device.vkMapMemory(card->device.handle, handle, 0, VK_WHOLE_SIZE, 0, &host);
    if (result != VK_SUCCESS) {
        card->device.vkFreeMemory(card->device.handle, handle, NULL);
        return fail_sized(card, "vkMapMemory", result, type->heap, bytes);
    }
    *memory = (struct cushim_card_memory){.host = host, .bytes = bytes, .heap = type->heap};
    memcpy(&memory->handle, &handle, sizeof handle);
    atomic_fetch_add(&card->used_bytes[type->heap], bytes);
    return CUSHIM_OK;
}

/* A pointer on some machines, a number on others. */
static VkDeviceMemory handle_of(const struct cushim_card_memory *memory) {
    VkDeviceMemory handle;
    _Static_assert(sizeof handle == sizeof memory->handle, "a handle has 64 bits");
    memcpy(&handle, &memory->handle, sizeof handle);
    return handle;
}

void cushim_card_free(struct cushim_card *card, struct cushim_card_memory *memory) {
    card->device.vkUnmapMemory(card->device.handle, handle_of(memory));
    card->device.vkFreeMemory(card->device.handle, handle_of(memory), NULL);
    atomic_fetch_sub(&card->used_bytes[memory->heap], memory->bytes);
}

/* ---- descriptors and flushes ---- */

enum cushim_status cushim_card_export(const char *what, struct cushim_card *card,
                                      const struct cushim_card_memory *memory,
                                      enum cushim_card_export kind, int *fd) {
    const VkMemoryGetFdInfoKHR info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
        .memory = handle_of(memory),
        .handleType = kind == CUSHIM_CARD_DMA_BUF ? VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT
                                                  : VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    if (kind == CUSHIM_CARD_DMA_BUF && !card->has_dma_buf)
        return cushim_fail(what, CUSHIM_NOTSUPPORTED, "no %s beside opaque descriptors",
                           VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME);
    VkResult result = card->device.vkGetMemoryFdKHR(card->device.handle, &info, fd);
    return result == VK_SUCCESS ? CUSHIM_OK
                                : cushim_vulkan_fail("vkGetMemoryFdKHR", result, "%s", "");
}

/* VK_WHOLE_SIZE for a range up to the end, because the driver may have rounded the size up. */
static VkMappedMemoryRange range_of(const struct cushim_card_memory *memory, size_t offset,
                                    size_t bytes) {
    return (VkMappedMemoryRange){.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
                                 .memory = handle_of(memory),
                                 .offset = offset,
                                 .size = bytes >= memory->bytes - offset ? VK_WHOLE_SIZE : bytes};
}

enum cushim_status cushim_card_sync(struct cushim_card *card,
                                    const struct cushim_card_memory *memory, size_t offset,
                                    size_t bytes, enum cushim_card_sync way) {
    const struct cushim_vulkan_device *device = &card->device;
    VkMappedMemoryRange range = range_of(memory, offset, bytes);
    const char *entry = "vkFlushMappedMemoryRanges";
    VkResult result;
    if (way == CUSHIM_CARD_FLUSH) {
        result = device->vkFlushMappedMemoryRanges(device->handle, 1, &range);
    } else {
        entry = "vkInvalidateMappedMemoryRanges";
        result = device->vkInvalidateMappedMemoryRanges(device->handle, 1, &range);
    }
    return result == VK_SUCCESS
               ? CUSHIM_OK
               : cushim_vulkan_fail(entry, result, "offset=%zu bytes=%zu", offset, bytes);
}
