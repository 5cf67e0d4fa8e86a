/* The public calls on devices (cushim/device.h). */
#include "cushim/device.h"

#include <stdio.h>
#include <string.h>

#include "companion/context/call.h"
#include "companion/context/context_stack.h"

/* Check that there is a driver, and that the ordinal is valid. */
static enum cushim_status begin(const char *what, int *dev) {
    CUSHIM_TRY(cushim_driver_use(what));
    return cushim_context_ordinal(what, *dev, dev);
}

static enum cushim_status ask(const char *what, int dev, int attr, int *value) {
    char entry[48];
    CUSHIM_TRY(begin(what, &dev));
    CUresult result = CUSHIM_DRIVER(cuDeviceGetAttribute)(value, (CUdevice_attribute)attr, dev);
    if (result == CUDA_SUCCESS)
        return CUSHIM_OK;
    *value = 0;
    snprintf(entry, sizeof entry, "cuDeviceGetAttribute(%d)", attr);
    return cushim_fail_cu(entry, result, "device=%d", dev);
}

/* CUSHIM_CALL without a context. */
#define CALL(dev, entry, ...) CUSHIM_ASK(__func__, entry, (__VA_ARGS__), "device=%d", dev)

enum cushim_status cushim_device_count(int *n) {
    int found = 0;
    CUSHIM_OUT(n);
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_TRY(CUSHIM_ASK(__func__, cuDeviceGetCount, (&found), "%s", ""));
    *n = found;
    return *n ? CUSHIM_OK : CUSHIM_FAIL(CUSHIM_NODEVICE, "%s", "");
}

enum cushim_status cushim_device_set(int dev) {
    struct cushim_context_object *context;
    struct cushim_thread *thread = cushim_thread_get();
    CUSHIM_TRY(begin(__func__, &dev));
    CUSHIM_FAIL_IF(__func__, !thread, CUSHIM_NOMEM, "%s", "");
    struct cushim_context_object *top = cushim_stack_top();
    if (top && !(top->form == CUSHIM_CONTEXT_PRIMARY && top->device == dev))
        return CUSHIM_FAIL(CUSHIM_STATE, "device=%d stack=%d", dev, top->device);
    CUSHIM_TRY(cushim_context_of_device(__func__, dev, &context));
    CUresult result = CUSHIM_DRIVER(cuCtxSetCurrent)(context->handle);
    if (result == CUDA_SUCCESS)
        thread->device = dev;
    else
        cushim_context_note(context, "cuCtxSetCurrent", result);
    cushim_object_release(context);
    return CUSHIM_ANSWER("cuCtxSetCurrent", result, "device=%d", dev);
}

enum cushim_status cushim_device_current(int *dev) {
    CUSHIM_OUT(dev);
    CUSHIM_TRY(cushim_driver_use(__func__));
    return cushim_context_ordinal(__func__, -1, dev);
}

/* ---- names ---- */

enum cushim_status cushim_device_by_pci(const char *text, int *dev) {
    CUdevice found = 0;
    CUSHIM_OUT(dev);
    CUSHIM_NEED(text);
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_TRY(CUSHIM_ASK(__func__, cuDeviceGetByPCIBusId, (&found, text), "text=%s", text));
    *dev = found;
    return CUSHIM_OK;
}

/* Both arguments of a buffer, and the ordinal; the buffer is empty from here on. */
static enum cushim_status begin_text(const char *what, int *dev, char *buf, size_t cap_bytes) {
    if (!buf || !cap_bytes || cap_bytes > SIZE_MAX / 2)
        return cushim_fail(what, CUSHIM_INVALID, "buf=%p cap=%zu", (void *)buf, cap_bytes);
    buf[0] = 0;
    return begin(what, dev);
}

#define TEXT(name, entry, n)                                                                       \
    enum cushim_status cushim_device_##name(int dev, char *buf, size_t cap_bytes) {                \
        char text[n] = "";                                                                         \
        CUSHIM_TRY(begin_text(__func__, &dev, buf, cap_bytes));                                    \
        CUSHIM_TRY(CALL(dev, entry, text, (int)sizeof text, dev));                                 \
        return cushim_give_text(__func__, buf, cap_bytes, text);                                   \
    }

TEXT(pci, cuDeviceGetPCIBusId, 64)
TEXT(name, cuDeviceGetName, 256)

enum cushim_status cushim_device_uuid(int dev, unsigned char *id16) {
    CUuuid uuid = {{0}};
    CUSHIM_NEED(id16);
    memset(id16, 0, 16);
    CUSHIM_TRY(begin(__func__, &dev));
    CUSHIM_TRY(CUSHIM_DRIVER(cuDeviceGetUuid_v2) ? CALL(dev, cuDeviceGetUuid_v2, &uuid, dev)
                                                 : CALL(dev, cuDeviceGetUuid, &uuid, dev));
    memcpy(id16, uuid.bytes, 16);
    return CUSHIM_OK;
}

/* ---- what it can ---- */

enum cushim_status cushim_device_capability(int dev, int *major, int *minor) {
    int high = 0, low = 0;
    CUSHIM_OUT(major);
    CUSHIM_OUT(minor);
    CUSHIM_TRY(ask(__func__, dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &high));
    CUSHIM_TRY(ask(__func__, dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &low));
    *major = high;
    *minor = low;
    return CUSHIM_OK;
}

enum cushim_status cushim_device_memory(int dev, size_t *bytes) {
    CUSHIM_OUT(bytes);
    CUSHIM_TRY(begin(__func__, &dev));
    return CALL(dev, cuDeviceTotalMem_v2, bytes, dev);
}

enum cushim_status cushim_device_attribute(int dev, int attr, int *v) {
    CUSHIM_OUT(v);
    return ask(__func__, dev, attr, v);
}

/* 1 if both attributes are set, or if either is. */
static enum cushim_status ask_two(const char *what, int dev, int a, int b, bool needs_both,
                                  int *yes) {
    int has_a = 0, has_b = 0;
    CUSHIM_TRY(cushim_check_out(what, "yes", yes, sizeof *yes));
    CUSHIM_TRY(ask(what, dev, a, &has_a));
    CUSHIM_TRY(ask(what, dev, b, &has_b));
    *yes = needs_both ? has_a && has_b : has_a || has_b;
    return CUSHIM_OK;
}

enum cushim_status cushim_device_managed(int dev, int *yes) {
    return ask_two(__func__, dev, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
                   CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, true, yes);
}

enum cushim_status cushim_device_shared(int dev, int *yes) {
    return ask_two(__func__, dev, CU_DEVICE_ATTRIBUTE_INTEGRATED,
                   CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, false, yes);
}

/* ---- peers ---- */

enum cushim_status cushim_device_peer(int dev, int peer, int *yes) {
    CUSHIM_OUT(yes);
    CUSHIM_TRY(begin(__func__, &dev));
    CUSHIM_TRY(begin(__func__, &peer));
    if (dev == peer)
        return CUSHIM_OK;
    return CALL(dev, cuDeviceCanAccessPeer, yes, dev, peer);
}

enum cushim_status cushim_device_peer_enable(int dev, int peer) {
    CUSHIM_SCOPE of_peer = {0}, scope = {0}; /* the second ends first */
    CUSHIM_TRY(begin(__func__, &dev));
    CUSHIM_TRY(begin(__func__, &peer));
    CUSHIM_FAIL_IF(__func__, dev == peer, CUSHIM_INVALID, "device=%d peer=%d", dev, peer);
    CUSHIM_NEED_ENTRY(__func__, cuCtxEnablePeerAccess);
    CUSHIM_TRY(cushim_call_begin_device(&of_peer, __func__, peer));
    CUSHIM_TRY(cushim_call_begin_device(&scope, __func__, dev));
    CUresult result = CUSHIM_DRIVER(cuCtxEnablePeerAccess)(of_peer.context->handle, 0);
    if (result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        result = CUDA_SUCCESS;
    return cushim_scope_answer(&scope, "cuCtxEnablePeerAccess", result);
}
