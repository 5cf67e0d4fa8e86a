/*
 * A libvulkan.so.1 without a GPU: devices with the UUIDs of the software device, memory in files
 * whose descriptors its cuImportExternalMemory takes, and calls that fail when they are told to.
 *
 * Memory that is not coherent has a copy for the host, so that a missing flush or invalidate is
 * noticed.  A call that Vulkan's rules forbid is counted as misuse and reported on standard error.
 */
#pragma once

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

enum { FAKE_N_TYPES = 4 };

struct fake_vulkan {
    /* set by the tests before the library loads the fake */
    uint32_t version;     /* version of the loader */
    unsigned n_devices;   /* in the order of the software device's devices */
    unsigned uuid_change; /* replaces the UUIDs, so that none matches */
    int has_fd, has_budget, has_dma_buf, is_dma_buf_alone;
    const char *missing; /* the function that is missing; NULL: none is */
    uint32_t n_types;
    VkMemoryPropertyFlags types[FAKE_N_TYPES];
    VkDeviceSize heap_bytes, atom_bytes;
    unsigned long fail_at; /* the n-th fallible call from now, 1 the next; 0: none */
    VkResult fail_result;

    /* set by the fake: live objects, and counts of calls */
    int has_failed;
    long n_instances, n_logical, n_memories, n_mapped;
    unsigned long n_created, n_allocated, n_flushes, n_invalidates, n_misuses;
    VkDeviceSize used_bytes;
};

/* Exported as fake_vulkan: the only instance in the process. */
typedef struct fake_vulkan *fake_vulkan_fn(void);
