#include "companion/mapped/vulkan.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "companion/core/error.h"
#include "base/lock.h"
#include "base/vet.h"

enum { DETAIL_BYTES = 512 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cushim_vulkan globals; /* filled under the lock, then never written */
static bool is_found;                /* under the lock */

/* ---- the library ---- */

/* The library, or NULL with the reason in the text; `what` NULL: without a text. */
static void *open_library(const char *what) {
    const char *given = secure_getenv("CUSHIM_LIBVULKAN");
    bool is_given = given && *given;
    const char *name = is_given ? given : "libvulkan.so.1";
    const char *wrong = is_given ? cushim_vet_library(name) : NULL;
    void *handle = wrong ? NULL : dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle && what)
        cushim_fail(what, CUSHIM_NOTSUPPORTED, "no Vulkan loader: %s%s: %s",
                    is_given ? "CUSHIM_LIBVULKAN=" : "", name,
                    wrong ? wrong : cushim_vet_refusal(name));
    return handle;
}

static enum cushim_status fail_missing(const char *what, const char *name) {
    return what ? cushim_fail(what, CUSHIM_NOTSUPPORTED, "Vulkan has no %s", name)
                : CUSHIM_NOTSUPPORTED;
}

/* Functions come as PFN_vkVoidFunction, so copy the bytes into their own type. */
#define FILL(table, find, handle, name)                                                            \
    do {                                                                                           \
        PFN_vkVoidFunction function_ = (find)((handle), #name);                                    \
        if (!function_)                                                                            \
            return fail_missing(what, #name);                                                      \
        memcpy(&(table)->name, &function_, sizeof function_);                                      \
    } while (0);

/* Under the lock. */
static enum cushim_status load(const char *what) {
    void *handle = open_library(what);
    if (!handle)
        return CUSHIM_NOTSUPPORTED;
    void *address = dlsym(handle, "vkGetInstanceProcAddr");
    if (!address)
        return fail_missing(what, "vkGetInstanceProcAddr");
    memcpy(&globals.vkGetInstanceProcAddr, &address, sizeof address);
#define VK_GLOBAL(name) FILL(&globals, globals.vkGetInstanceProcAddr, NULL, name)
#include "companion/mapped/vulkan.def"
    is_found = true;
    return CUSHIM_OK;
}

enum cushim_status cushim_vulkan_find(const char *what, const struct cushim_vulkan **out) {
    enum cushim_status status = CUSHIM_UNDER(&lock, is_found ? CUSHIM_OK : load(what));
    *out = status == CUSHIM_OK ? &globals : NULL;
    return status;
}

/* ---- the other tables ---- */

enum cushim_status cushim_vulkan_fill_instance(const char *what, const struct cushim_vulkan *vulkan,
                                               struct cushim_vulkan_instance *instance) {
#define VK_INSTANCE(name) FILL(instance, vulkan->vkGetInstanceProcAddr, instance->handle, name)
#include "companion/mapped/vulkan.def"
    return CUSHIM_OK;
}

enum cushim_status cushim_vulkan_fill_device(const char *what,
                                             const struct cushim_vulkan_instance *instance,
                                             struct cushim_vulkan_device *device) {
#define VK_DEVICE(name) FILL(device, instance->vkGetDeviceProcAddr, device->handle, name)
#include "companion/mapped/vulkan.def"
    return CUSHIM_OK;
}

/* ---- results ---- */

static const struct {
    VkResult result;
    const char *name;
    enum cushim_status status;
} known[] = {
#define RESULT(name, status)                                                                       \
    { name, #name, status }
    RESULT(VK_ERROR_OUT_OF_HOST_MEMORY, CUSHIM_NOMEM),
    RESULT(VK_ERROR_OUT_OF_DEVICE_MEMORY, CUSHIM_NOMEM),
    RESULT(VK_ERROR_MEMORY_MAP_FAILED, CUSHIM_NOMEM),
    RESULT(VK_ERROR_TOO_MANY_OBJECTS, CUSHIM_NOMEM),
    RESULT(VK_ERROR_INITIALIZATION_FAILED, CUSHIM_NOTSUPPORTED),
    RESULT(VK_ERROR_LAYER_NOT_PRESENT, CUSHIM_NOTSUPPORTED),
    RESULT(VK_ERROR_EXTENSION_NOT_PRESENT, CUSHIM_NOTSUPPORTED),
    RESULT(VK_ERROR_FEATURE_NOT_PRESENT, CUSHIM_NOTSUPPORTED),
    RESULT(VK_ERROR_INCOMPATIBLE_DRIVER, CUSHIM_NOTSUPPORTED),
    RESULT(VK_ERROR_DEVICE_LOST, CUSHIM_VULKAN),
    RESULT(VK_ERROR_INVALID_EXTERNAL_HANDLE, CUSHIM_VULKAN),
    RESULT(VK_ERROR_UNKNOWN, CUSHIM_VULKAN),
#undef RESULT
};

enum cushim_status cushim_vulkan_fail(const char *entry, VkResult result, const char *format, ...) {
    char details[DETAIL_BYTES], number[32];
    const char *name = number;
    enum cushim_status status = CUSHIM_VULKAN;
    snprintf(number, sizeof number, "%d", (int)result);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].result == result) {
            name = known[i].name;
            status = known[i].status;
        }
    }
    va_list arguments;
    va_start(arguments, format);
    int n_bytes = vsnprintf(details, sizeof details, format, arguments);
    va_end(arguments);
    return cushim_fail(entry, status, "result=%s%s%s", name, n_bytes > 0 ? " " : "", details);
}
