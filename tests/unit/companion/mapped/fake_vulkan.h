/*
 * A libvulkan.so.1 without a GPU: devices with the UUIDs of the software device, memory in files
 * whose descriptors its cuImportExternalMemory takes, and calls that fail when they are told to.
 *
 * Memory that is not coherent has a copy for the host, so that a flush or an invalidate that is
 * left out is seen.  What Vulkan's rules forbid is counted as misuse, and said on standard error.
 */
#ifndef CUSHIM_TESTS_UNIT_RUNTIME_FAKE_VULKAN_H
#define CUSHIM_TESTS_UNIT_RUNTIME_FAKE_VULKAN_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

enum { FAKE_N_TYPES = 4 };

struct fake_vulkan {
    /* the tests': set before the library meets them */
    uint32_t version;     /* of the loader */
    unsigned n_devices;   /* numbered as the software device's */
    unsigned uuid_change; /* put over the UUIDs, so that none fits */
    int has_fd, has_budget, has_dma_buf, is_dma_buf_alone;
    const char *missing; /* this function is not to be had; NULL: all are */
    uint32_t n_types;
    VkMemoryPropertyFlags types[FAKE_N_TYPES];
    VkDeviceSize heap_bytes, atom_bytes;
    unsigned long fail_at; /* the n-th fallible call from now, 1 the next; 0: none */
    VkResult fail_result;

    /* the fake's: what is alive, and what was done */
    int has_failed;
    long n_instances, n_logical, n_memories, n_mapped;
    unsigned long n_created, n_allocated, n_flushes, n_invalidates, n_misuses;
    VkDeviceSize used_bytes;
};

/* Exported as fake_vulkan: the one state of the process. */
typedef struct fake_vulkan *fake_vulkan_fn(void);

#endif
