#include "tests/unit/companion/mapped/fake_vulkan.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { MAX_DEVICES = 16, DEVICE_HEAP = 0, HOST_HEAP = 1 };

struct device {
    bool is_alive;
    bool has_fd, has_dma_buf; /* extensions that the device was created with */
    /* a list of all objects ever created, so that the use of a dead one is noticed */
    struct device *next;
};

struct memory {
    int fd;
    VkDeviceSize n_bytes;
    bool is_coherent, is_mapped;
    VkExternalMemoryHandleTypeFlags exports;
    char *pages; /* the pages of the file, as the device sees them */
    char *host;  /* what vkMapMemory returns: the pages, or a copy */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device *made;
static char physical[MAX_DEVICES]; /* their addresses are the handles */

static struct fake_vulkan state = {
    .version = VK_API_VERSION_1_3,
    .n_devices = 2,
    .has_fd = 1,
    .has_budget = 1,
    .has_dma_buf = 1,
    .n_types = 4,
    /* the coherent type is not the first suitable one */
    .types = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
              VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
              VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
              VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                  VK_MEMORY_PROPERTY_HOST_COHERENT_BIT},
    .heap_bytes = 64 << 20,
    .atom_bytes = 64,
};

EXPORT struct fake_vulkan *fake_vulkan(void);
struct fake_vulkan *fake_vulkan(void) {
    return &state;
}

static void misuse(const char *what) {
    state.n_misuses++;
    fprintf(stderr, "fake Vulkan: %s\n", what);
}

static void check(bool is_right, const char *what) {
    if (!is_right)
        misuse(what);
}

/* Whether this call has to fail. The caller holds the lock, here and below. */
static bool fails(void) {
    if (state.fail_at == 0 || --state.fail_at != 0)
        return false;
    state.has_failed = 1;
    return true;
}

/* A function that can fail: it takes the lock, checks for a due failure and does its work. */
#define FALLIBLE(body)                                                                             \
    do {                                                                                           \
        pthread_mutex_lock(&lock);                                                                 \
        VkResult result_ = fails() ? state.fail_result : (body);                                   \
        pthread_mutex_unlock(&lock);                                                               \
        return result_;                                                                            \
    } while (0)

#define LOCKED(body)                                                                               \
    do {                                                                                           \
        pthread_mutex_lock(&lock);                                                                 \
        body;                                                                                      \
        pthread_mutex_unlock(&lock);                                                               \
    } while (0)

#define FAKE static VKAPI_ATTR

/* ---- instances ---- */

static VkResult tell_version(uint32_t *version) {
    *version = state.version;
    return VK_SUCCESS;
}

FAKE VkResult VKAPI_CALL vkEnumerateInstanceVersion(uint32_t *version) {
    FALLIBLE(tell_version(version));
}

static VkResult create_instance(const VkInstanceCreateInfo *info, VkInstance *out) {
    check(info->pApplicationInfo && info->pApplicationInfo->apiVersion >= VK_API_VERSION_1_1,
          "an instance of Vulkan 1.0");
    *out = calloc(1, 1);
    state.n_instances++;
    state.n_created++;
    return VK_SUCCESS;
}

FAKE VkResult VKAPI_CALL vkCreateInstance(const VkInstanceCreateInfo *info,
                                          const VkAllocationCallbacks *allocator,
                                          VkInstance *instance) {
    (void)allocator;
    FALLIBLE(create_instance(info, instance));
}

static void destroy_instance(VkInstance instance) {
    check(state.n_instances > 0, "no instance to destroy");
    check(state.n_logical < state.n_instances, "an instance is destroyed before its device");
    state.n_instances--;
    free(instance);
}

FAKE void VKAPI_CALL vkDestroyInstance(VkInstance instance,
                                       const VkAllocationCallbacks *allocator) {
    (void)allocator;
    LOCKED(destroy_instance(instance));
}

/* ---- physical devices ---- */

static VkResult enumerate(uint32_t *n, VkPhysicalDevice *out) {
    if (!out) {
        *n = state.n_devices;
        return VK_SUCCESS;
    }
    bool is_short = *n < state.n_devices;
    if (!is_short)
        *n = state.n_devices;
    for (uint32_t i = 0; i < *n; i++)
        out[i] = (VkPhysicalDevice)&physical[i];
    return is_short ? VK_INCOMPLETE : VK_SUCCESS;
}

FAKE VkResult VKAPI_CALL vkEnumeratePhysicalDevices(VkInstance instance, uint32_t *n,
                                                    VkPhysicalDevice *devices) {
    (void)instance;
    FALLIBLE(enumerate(n, devices));
}

static VkResult list_extensions(uint32_t *n, VkExtensionProperties *out) {
    const char *names[3];
    uint32_t n_names = 0;
    if (state.has_budget)
        names[n_names++] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    if (state.has_dma_buf)
        names[n_names++] = VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME;
    if (state.has_fd)
        names[n_names++] = VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME;
    for (uint32_t i = 0; out && i < *n && i < n_names; i++)
        snprintf(out[i].extensionName, sizeof out[i].extensionName, "%s", names[i]);
    *n = n_names;
    return VK_SUCCESS;
}

FAKE VkResult VKAPI_CALL vkEnumerateDeviceExtensionProperties(VkPhysicalDevice device,
                                                              const char *layer, uint32_t *n,
                                                              VkExtensionProperties *list) {
    (void)device, (void)layer;
    FALLIBLE(list_extensions(n, list));
}

FAKE void VKAPI_CALL vkGetPhysicalDeviceProperties2(VkPhysicalDevice device,
                                                    VkPhysicalDeviceProperties2 *out) {
    VkPhysicalDeviceIDProperties *id = out->pNext;
    long number = (char *)device - physical;
    check(id && id->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES, "no room for the id");
    memset(&out->properties, 0, sizeof out->properties);
    out->properties.apiVersion = VK_API_VERSION_1_3;
    out->properties.limits.nonCoherentAtomSize = state.atom_bytes;
    memcpy(id->deviceUUID, "cushim-software", VK_UUID_SIZE);
    id->deviceUUID[VK_UUID_SIZE - 1] = (uint8_t)number;
    id->deviceUUID[0] ^= (uint8_t)state.uuid_change;
}

FAKE void VKAPI_CALL vkGetPhysicalDeviceMemoryProperties2(VkPhysicalDevice device,
                                                          VkPhysicalDeviceMemoryProperties2 *out) {
    VkPhysicalDeviceMemoryProperties *memory = &out->memoryProperties;
    VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = out->pNext;
    (void)device;
    memset(memory, 0, sizeof *memory);
    memory->memoryTypeCount = state.n_types;
    for (uint32_t i = 0; i < state.n_types; i++) {
        memory->memoryTypes[i].propertyFlags = state.types[i];
        memory->memoryTypes[i].heapIndex =
            state.types[i] & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT ? DEVICE_HEAP : HOST_HEAP;
    }
    memory->memoryHeapCount = 2;
    memory->memoryHeaps[DEVICE_HEAP].size = state.heap_bytes;
    memory->memoryHeaps[HOST_HEAP].size = (VkDeviceSize)1 << 40;
    if (!budget)
        return;
    check(state.has_budget, "a budget is queried without its extension");
    budget->heapBudget[DEVICE_HEAP] = state.heap_bytes / 2;
    budget->heapUsage[DEVICE_HEAP] = state.used_bytes;
}

FAKE void VKAPI_CALL vkGetPhysicalDeviceExternalBufferProperties(
    VkPhysicalDevice device, const VkPhysicalDeviceExternalBufferInfo *info,
    VkExternalBufferProperties *out) {
    VkExternalMemoryProperties *facts = &out->externalMemoryProperties;
    (void)device;
    check(state.has_dma_buf, "dma-buf is requested without its extension");
    facts->externalMemoryFeatures = VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT;
    facts->compatibleHandleTypes = info->handleType;
    if (!state.is_dma_buf_alone)
        facts->compatibleHandleTypes |= VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
}

/* ---- devices ---- */

static VkResult create_device(const VkDeviceCreateInfo *info, VkDevice *out) {
    struct device *device = calloc(1, sizeof *device);
    check(info->queueCreateInfoCount == 1, "a device without a queue");
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++) {
        const char *name = info->ppEnabledExtensionNames[i];
        device->has_fd |= strcmp(name, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME) == 0;
        device->has_dma_buf |= strcmp(name, VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME) == 0;
    }
    device->is_alive = true;
    device->next = made;
    made = device;
    state.n_logical++;
    *out = (VkDevice)device;
    return VK_SUCCESS;
}

FAKE VkResult VKAPI_CALL vkCreateDevice(VkPhysicalDevice of, const VkDeviceCreateInfo *info,
                                        const VkAllocationCallbacks *allocator, VkDevice *device) {
    (void)of, (void)allocator;
    FALLIBLE(create_device(info, device));
}

static void destroy_device(struct device *device) {
    check(device->is_alive, "a device is destroyed twice");
    check(state.n_memories == 0 || state.n_logical > 1, "a device is destroyed before its memory");
    device->is_alive = false;
    state.n_logical--;
}

FAKE void VKAPI_CALL vkDestroyDevice(VkDevice device, const VkAllocationCallbacks *allocator) {
    (void)allocator;
    LOCKED(destroy_device((struct device *)device));
}

/* ---- memory ---- */

static VkResult allocate(const struct device *device, const VkMemoryAllocateInfo *info,
                         struct memory **out) {
    const VkExportMemoryAllocateInfo *export = info->pNext;
    check(device->is_alive, "memory of a dead device");
    check(info->allocationSize && info->allocationSize <= state.heap_bytes, "a size out of range");
    if (state.used_bytes + info->allocationSize > state.heap_bytes)
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    struct memory *memory = calloc(1, sizeof *memory);
    memory->fd = memfd_create("fake Vulkan", MFD_CLOEXEC);
    memory->n_bytes = info->allocationSize;
    memory->is_coherent = state.types[info->memoryTypeIndex] & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    memory->exports = export ? export->handleTypes : 0;
    check(device->has_dma_buf || memory->exports == VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT,
          "a handle type without its extension");
    if (memory->fd < 0 || ftruncate(memory->fd, (off_t)memory->n_bytes) != 0)
        abort();
    memory->pages = mmap(NULL, memory->n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
    memory->host = memory->is_coherent ? memory->pages : calloc(1, memory->n_bytes);
    state.n_memories++;
    state.n_allocated++;
    state.used_bytes += memory->n_bytes;
    *out = memory;
    return VK_SUCCESS;
}

FAKE VkResult VKAPI_CALL vkAllocateMemory(VkDevice device, const VkMemoryAllocateInfo *info,
                                          const VkAllocationCallbacks *allocator,
                                          VkDeviceMemory *memory) {
    (void)allocator;
    FALLIBLE(allocate((struct device *)device, info, (struct memory **)memory));
}

static void release(const struct device *device, struct memory *memory) {
    check(device->is_alive, "memory outlives its device");
    state.n_memories--;
    state.n_mapped -= memory->is_mapped;
    state.used_bytes -= memory->n_bytes;
    if (!memory->is_coherent)
        free(memory->host);
    munmap(memory->pages, memory->n_bytes);
    close(memory->fd);
    free(memory);
}

FAKE void VKAPI_CALL vkFreeMemory(VkDevice device, VkDeviceMemory memory,
                                  const VkAllocationCallbacks *allocator) {
    (void)allocator;
    LOCKED(release((struct device *)device, (struct memory *)memory));
}

static VkResult map(struct memory *memory, void **out) {
    check(!memory->is_mapped, "memory is mapped twice");
    memory->is_mapped = true;
    state.n_mapped++;
    if (!memory->is_coherent)
        memcpy(memory->host, memory->pages, memory->n_bytes);
    *out = memory->host;
    return VK_SUCCESS;
}

FAKE VkResult VKAPI_CALL vkMapMemory(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset,
                                     VkDeviceSize size, VkMemoryMapFlags flags, void **host) {
    (void)device, (void)flags;
    check(offset == 0 && size == VK_WHOLE_SIZE, "only a part is mapped");
    FALLIBLE(map((struct memory *)memory, host));
}

static void unmap(struct memory *memory) {
    check(memory->is_mapped, "memory is unmapped that was not mapped");
    memory->is_mapped = false;
    state.n_mapped--;
}

FAKE void VKAPI_CALL vkUnmapMemory(VkDevice device, VkDeviceMemory memory) {
    (void)device;
    LOCKED(unmap((struct memory *)memory));
}

/* Copy between the host's view and the device's; coherent memory has one view. */
static VkResult make_visible(const VkMappedMemoryRange *range, bool is_flush) {
    struct memory *memory = (struct memory *)range->memory;
    VkDeviceSize end = range->size == VK_WHOLE_SIZE ? memory->n_bytes : range->offset + range->size;

    check(memory->is_mapped && range->offset < end && end <= memory->n_bytes,
          "a range is outside its memory");
    check(range->offset % state.atom_bytes == 0 &&
              (end % state.atom_bytes == 0 || end == memory->n_bytes),
          "a range ends inside an atom");
    if (memory->is_coherent)
        return VK_SUCCESS;
    char *to = is_flush ? memory->pages : memory->host;
    const char *from = is_flush ? memory->host : memory->pages;
    memcpy(to + range->offset, from + range->offset, end - range->offset);
    return VK_SUCCESS;
}

FAKE VkResult VKAPI_CALL vkFlushMappedMemoryRanges(VkDevice device, uint32_t n,
                                                   const VkMappedMemoryRange *ranges) {
    (void)device;
    check(n == 1, "not one range");
    state.n_flushes++;
    FALLIBLE(make_visible(ranges, true));
}

FAKE VkResult VKAPI_CALL vkInvalidateMappedMemoryRanges(VkDevice device, uint32_t n,
                                                        const VkMappedMemoryRange *ranges) {
    (void)device;
    check(n == 1, "not one range");
    state.n_invalidates++;
    FALLIBLE(make_visible(ranges, false));
}

static VkResult get_fd(const struct device *device, const VkMemoryGetFdInfoKHR *info, int *fd) {
    const struct memory *memory = (struct memory *)info->memory;
    check(device->has_fd, "a descriptor without the extension");
    check(memory->exports & info->handleType, "a handle type that the memory was not created for");
    *fd = dup(memory->fd);
    return VK_SUCCESS;
}

FAKE VkResult VKAPI_CALL vkGetMemoryFdKHR(VkDevice device, const VkMemoryGetFdInfoKHR *info,
                                          int *fd) {
    FALLIBLE(get_fd((struct device *)device, info, fd));
}

/* ---- look-up by name ---- */

FAKE PFN_vkVoidFunction VKAPI_CALL vkGetDeviceProcAddr(VkDevice device, const char *name);

/* Functions of instances and of devices are separate, as in the loader. */
enum level { GLOBAL, INSTANCE, DEVICE };

static PFN_vkVoidFunction find(enum level asked, const char *name) {
    if (state.missing && strcmp(name, state.missing) == 0)
        return NULL;
#define VK(level, function)                                                                        \
    if (level == asked && strcmp(name, #function) == 0)                                            \
        return (PFN_vkVoidFunction)function;
#define VK_GLOBAL(function)   VK(GLOBAL, function)
#define VK_INSTANCE(function) VK(INSTANCE, function)
#define VK_DEVICE(function)   VK(DEVICE, function)
#include "companion/mapped/vulkan.def"
#undef VK
    return NULL;
}

FAKE PFN_vkVoidFunction VKAPI_CALL vkGetDeviceProcAddr(VkDevice device, const char *name) {
    return device ? find(DEVICE, name) : NULL;
}

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance,
                                                                      const char *name);
PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name) {
    return find(instance ? INSTANCE : GLOBAL, name);
}
