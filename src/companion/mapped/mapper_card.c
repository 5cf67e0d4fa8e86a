/* Cards: made and shared, of instance, physical device by UUID and device; and their memory. */
#include "companion/mapped/mapper.h"
#include "companion/mapped/vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/bits.h"
#include "base/lock.h"

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

enum { N_EXTENSIONS = 3, UUID_TEXT_BYTES = 2 * VK_UUID_SIZE + 1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cushim_card *cards; /* under the lock */

static enum cushim_status fail_host(const char *what, size_t n_bytes) {
    return cushim_fail(what, CUSHIM_NOMEM, "host=%zu", n_bytes);
}

/* ---- the instance ---- */

static enum cushim_status open_instance(const char *what, struct cushim_card *card) {
    const struct cushim_vulkan *vulkan;
    uint32_t version = 0;
    CUSHIM_TRY(cushim_vulkan_find(what, &vulkan));
    VkResult result = vulkan->vkEnumerateInstanceVersion(&version);
    if (result != VK_SUCCESS)
        return cushim_vulkan_fail("vkEnumerateInstanceVersion", result, "%s", "");
    if (version < VK_API_VERSION_1_1)
        return cushim_fail(what, CUSHIM_NOTSUPPORTED, "Vulkan %u.%u is older than 1.1",
                           VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .pApplicationName = "cushim",
                                           .apiVersion = VK_API_VERSION_1_1};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &application};
    VkInstance handle;
    result = vulkan->vkCreateInstance(&info, NULL, &handle);
    if (result != VK_SUCCESS)
        return cushim_vulkan_fail("vkCreateInstance", result, "%s",
                                  result == VK_ERROR_INCOMPATIBLE_DRIVER
                                      ? "no Vulkan driver: is the graphics part installed?"
                                      : "");
    card->instance.handle = handle;
    return cushim_vulkan_fill_instance(what, vulkan, &card->instance);
}

/* ---- the physical device ---- */

/* If the UUID is the card's, fill `physical` and what depends on it. */
static bool is_card(struct cushim_card *card, VkPhysicalDevice physical) {
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &id};
    card->instance.vkGetPhysicalDeviceProperties2(physical, &properties);
    if (memcmp(id.deviceUUID, card->uuid, VK_UUID_SIZE) != 0)
        return false;
    card->physical = physical;
    card->atom_bytes = (size_t)properties.properties.limits.nonCoherentAtomSize;
    return true;
}

static enum cushim_status find_physical(const char *what, struct cushim_card *card, int device) {
    uint32_t n_found = 0;
    VkResult result =
        card->instance.vkEnumeratePhysicalDevices(card->instance.handle, &n_found, NULL);
    VkPhysicalDevice *found = NULL;
    if (result == VK_SUCCESS && n_found) {
        found = calloc(n_found, sizeof *found);
        if (!found)
            return fail_host(what, n_found * sizeof *found);
        result = card->instance.vkEnumeratePhysicalDevices(card->instance.handle, &n_found, found);
    }
    /* VK_INCOMPLETE: a device was added between the calls; the list is good all the same. */
    bool is_found = false;
    for (uint32_t i = 0; result >= 0 && !is_found && i < n_found; i++)
        is_found = is_card(card, found[i]);
    free(found);
    if (result < 0)
        return cushim_vulkan_fail("vkEnumeratePhysicalDevices", result, "device=%d", device);
    if (is_found)
        return CUSHIM_OK;
    char text[UUID_TEXT_BYTES];
    for (size_t i = 0; i < VK_UUID_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", card->uuid[i]);
    return cushim_fail(what, CUSHIM_NOTSUPPORTED,
                       "device=%d: none of %u Vulkan devices has the UUID %s", device, n_found,
                       text);
}

/* ---- extensions ---- */

static bool has_extension(const VkExtensionProperties *list, uint32_t n, const char *name) {
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(list[i].extensionName, name) == 0)
            return true;
    }
    return false;
}

/* Whether memory can be exported both as a dma-buf and as an opaque descriptor. */
static bool takes_both(struct cushim_card *card) {
    const VkPhysicalDeviceExternalBufferInfo info = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
        .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
        .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT};
    VkExternalBufferProperties answer = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
    card->instance.vkGetPhysicalDeviceExternalBufferProperties(card->physical, &info, &answer);
    const VkExternalMemoryProperties *facts = &answer.externalMemoryProperties;
    return (facts->externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT) &&
           (facts->compatibleHandleTypes & VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT);
}

static enum cushim_status read_extensions(const char *what, struct cushim_card *card, int device) {
    static const char entry[] = "vkEnumerateDeviceExtensionProperties";
    uint32_t n = 0;
    VkResult result =
        card->instance.vkEnumerateDeviceExtensionProperties(card->physical, NULL, &n, NULL);
    if (result != VK_SUCCESS)
        return cushim_vulkan_fail(entry, result, "device=%d", device);
    VkExtensionProperties *list = calloc(n ? n : 1, sizeof *list);
    if (!list)
        return fail_host(what, n * sizeof *list);
    result = card->instance.vkEnumerateDeviceExtensionProperties(card->physical, NULL, &n, list);
    bool has_fd = has_extension(list, n, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
    card->has_budget = has_extension(list, n, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    card->has_dma_buf =
        has_extension(list, n, VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME) && takes_both(card);
    free(list);
    if (result < 0)
        return cushim_vulkan_fail(entry, result, "device=%d", device);
    return has_fd ? CUSHIM_OK
                  : cushim_fail(what, CUSHIM_NOTSUPPORTED, "device=%d has no %s", device,
                                VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
}

/* ---- the device ---- */

/* A device needs a queue, although we submit nothing; every device has family 0. */
static enum cushim_status open_device(const char *what, struct cushim_card *card, int device) {
    const char *names[N_EXTENSIONS] = {VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME};
    uint32_t n_names = 1;
    if (card->has_budget)
        names[n_names++] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    if (card->has_dma_buf)
        names[n_names++] = VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME;
    const float priority = 0;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = n_names,
                                     .ppEnabledExtensionNames = names};
    VkDevice handle;
    VkResult result = card->instance.vkCreateDevice(card->physical, &info, NULL, &handle);
    if (result != VK_SUCCESS)
        return cushim_vulkan_fail("vkCreateDevice", result, "device=%d", device);
    card->device.handle = handle;
    return cushim_vulkan_fill_device(what, &card->instance, &card->device);
}

static void close_card(struct cushim_card *card) {
    if (card->device.vkDestroyDevice)
        card->device.vkDestroyDevice(card->device.handle, NULL);
    /* the instance may be open only in part */
    if (card->instance.vkDestroyInstance)
        card->instance.vkDestroyInstance(card->instance.handle, NULL);
    free(card);
}

static enum cushim_status fill_card(const char *what, struct cushim_card *card, int device) {
    CUSHIM_TRY(open_instance(what, card));
    CUSHIM_TRY(find_physical(what, card, device));
    CUSHIM_TRY(read_extensions(what, card, device));
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    card->instance.vkGetPhysicalDeviceMemoryProperties2(card->physical, &memory);
    card->memory = memory.memoryProperties;
    return open_device(what, card, device);
}

/* ---- the list ---- */

/* Under the lock. */
static enum cushim_status make_card(const char *what, const unsigned char uuid[VK_UUID_SIZE],
                                    int device, struct cushim_card **out) {
    struct cushim_card *card = calloc(1, sizeof *card);
    if (!card)
        return fail_host(what, sizeof *card);
    memcpy(card->uuid, uuid, VK_UUID_SIZE);
    enum cushim_status status = fill_card(what, card, device);
    if (status != CUSHIM_OK) {
        close_card(card);
        return status;
    }
    card->next = cards;
    cards = card;
    *out = card;
    return CUSHIM_OK;
}

bool cushim_card_is_possible(void) {
    const struct cushim_vulkan *vulkan;
    return cushim_vulkan_find(NULL, &vulkan) == CUSHIM_OK;
}

enum cushim_status cushim_card_obtain(const char *what, const unsigned char uuid[16], int device,
                                      struct cushim_card **out) {
    CUSHIM_LOCKED(&lock);
    *out = cards;
    while (*out && memcmp((*out)->uuid, uuid, VK_UUID_SIZE) != 0)
        *out = (*out)->next;
    if (!*out)
        CUSHIM_TRY(make_card(what, uuid, device, out));
    (*out)->n_owners++;
    return CUSHIM_OK;
}

/* It holds the lock until the end, so that no card of the same device is made meanwhile. */
void cushim_card_release(struct cushim_card *card) {
    if (!card)
        return;
    CUSHIM_LOCKED(&lock);
    if (--card->n_owners == 0) {
        LL_DELETE(cards, card);
        close_card(card);
    }
}

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

void cushim_card_budget(struct cushim_card *card, unsigned heap, size_t *free_bytes,
                        size_t *total_bytes) {
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = &budget};
    *total_bytes = (size_t)card->memory.memoryHeaps[heap].size;
    if (!card->has_budget) { /* then we cannot know what other processes hold */
        *free_bytes = cushim_less(*total_bytes, atomic_load(&card->used_bytes[heap]));
        return;
    }
    card->instance.vkGetPhysicalDeviceMemoryProperties2(card->physical, &memory);
    *free_bytes = cushim_less((size_t)budget.heapBudget[heap], (size_t)budget.heapUsage[heap]);
}

/* ---- allocation ---- */

static enum cushim_status fail_sized(struct cushim_card *card, const char *entry, VkResult result,
                                     unsigned heap, size_t n_bytes) {
    size_t free_bytes, total_bytes;
    cushim_card_budget(card, heap, &free_bytes, &total_bytes);
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

enum cushim_status cushim_card_sync(struct cushim_card *card,
                                    const struct cushim_card_memory *memory, size_t offset,
                                    size_t bytes, enum cushim_card_sync way) {
    const struct cushim_vulkan_device *device = &card->device;
    bool flushes = way == CUSHIM_CARD_FLUSH;
    /* VK_WHOLE_SIZE for a range up to the end, because the driver may have rounded the size up. */
    const VkMappedMemoryRange range = {.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
                                       .memory = handle_of(memory),
                                       .offset = offset,
                                       .size =
                                           bytes >= memory->bytes - offset ? VK_WHOLE_SIZE : bytes};
    VkResult result = (flushes ? device->vkFlushMappedMemoryRanges
                               : device->vkInvalidateMappedMemoryRanges)(device->handle, 1, &range);
    return result == VK_SUCCESS ? CUSHIM_OK
                                : cushim_vulkan_fail(flushes ? "vkFlushMappedMemoryRanges"
                                                             : "vkInvalidateMappedMemoryRanges",
                                                     result, "offset=%zu bytes=%zu", offset, bytes);
}
