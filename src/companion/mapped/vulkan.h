/*
 * The Vulkan loader and its functions: opened at first use, one table a level (vulkan.def).
 *
 * The library is $CUSHIM_LIBVULKAN (absolute, not writable by everybody) or libvulkan.so.1.  It is
 * never closed: drivers that it brought along may have threads.  A search that failed is made again
 * by the next use.  Lock: one mutex, for the search.
 */
#pragma once

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "cushim/status.h"

#define CUSHIM_VK_SLOT(name) PFN_##name name;

struct cushim_vulkan {
    PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr;
#define VK_GLOBAL CUSHIM_VK_SLOT
#include "companion/mapped/vulkan.def"
};

struct cushim_vulkan_instance {
    VkInstance handle;
#define VK_INSTANCE CUSHIM_VK_SLOT
#include "companion/mapped/vulkan.def"
};

struct cushim_vulkan_device {
    VkDevice handle;
#define VK_DEVICE CUSHIM_VK_SLOT
#include "companion/mapped/vulkan.def"
};

/**
 * The functions that need no instance.
 * @param what  our public function, for the text; NULL: no text
 * @param out   static, whole for good once it is handed out
 * @return CUSHIM_OK | CUSHIM_NOTSUPPORTED, the text naming the library that was looked for and the
 *         loader's words
 * Threads  any
 */
enum cushim_status cushim_vulkan_find(const char *what, const struct cushim_vulkan **out);

/* Fill the functions of an instance, or of a device, whose handle is set; NOTSUPPORTED names the
 * function that is missing. */
enum cushim_status cushim_vulkan_fill_instance(const char *what, const struct cushim_vulkan *vulkan,
                                               struct cushim_vulkan_instance *instance);
enum cushim_status cushim_vulkan_fill_device(const char *what,
                                             const struct cushim_vulkan_instance *instance,
                                             struct cushim_vulkan_device *device);

/**
 * A Vulkan function failed.
 * @param entry   its name: the first word of the text; the details begin with result=<its VkResult>
 * @param result  negative
 * @param format  further details; may be ""
 * @return NOMEM (memory of the host, the device or the BAR window) | NOTSUPPORTED (driver,
 *         extension, feature) | VULKAN
 */
__attribute__((format(printf, 3, 4))) enum cushim_status
cushim_vulkan_fail(const char *entry, VkResult result, const char *format, ...);
