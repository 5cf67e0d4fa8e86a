/* Devices as the program asks for them: cuInit, enumeration, properties, peers. */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/core/calls.h"
#include "checkpoint.h"
#include "context.h"
#include "device.h"
#include "tools/sim/driver/core/model.h"

#include <stdio.h>
#include <string.h>

static CUresult init(unsigned flags) {
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_devices_count() == 0)
        SIM_TRY(sim_devices_init());
    SIM_TRY(sim_start());
    return sim_checkpoint_begin();
}

CUresult cuInit(unsigned int flags) {
    SIM_ENTER(cuInit);
    return sim_leave(init(flags));
}

CUresult cuDriverGetVersion(int *version) {
    SIM_ENTER(cuDriverGetVersion);
    if (!version)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *version = SIM_DRIVER_VERSION;
    return sim_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetCount(int *count) {
    SIM_ENTER(cuDeviceGetCount);
    if (!count)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *count = sim_devices_count();
    return sim_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    SIM_ENTER(cuDeviceGet);
    if (!device)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (!sim_device_at(ordinal))
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    *device = ordinal;
    return sim_leave(CUDA_SUCCESS);
}

static CUresult find(CUdevice ordinal, const void *out, struct sim_device **device) {
    *device = sim_device_at(ordinal);
    if (!*device)
        return CUDA_ERROR_INVALID_DEVICE;
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_name(char *name, int n_bytes, CUdevice ordinal) {
    struct sim_device *device;
    SIM_TRY(find(ordinal, name, &device));
    if (n_bytes <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_device_name(name, (size_t)n_bytes);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev) {
    SIM_ENTER(cuDeviceGetName);
    return sim_leave(get_name(name, len, dev));
}

static CUresult get_uuid(CUuuid *uuid, CUdevice ordinal) {
    struct sim_device *device;
    SIM_TRY(find(ordinal, uuid, &device));
    sim_device_uuid(device->number, uuid);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) {
    SIM_ENTER(cuDeviceGetUuid);
    return sim_leave(get_uuid(uuid, dev));
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev) {
    SIM_ENTER(cuDeviceGetUuid_v2);
    return sim_leave(get_uuid(uuid, dev));
}

static CUresult total_mem(size_t *bytes, CUdevice ordinal) {
    struct sim_device *device;
    SIM_TRY(find(ordinal, bytes, &device));
    *bytes = device->n_pages * SIM_PAGE_BYTES;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
    SIM_ENTER(cuDeviceTotalMem_v2);
    return sim_leave(total_mem(bytes, dev));
}

static int attribute_of(CUdevice_attribute attribute, const struct sim_device *device) {
    const struct sim_model model = sim_model();
    switch ((int)attribute) {
#define ATTRIBUTE(name, value)                                                                     \
    case CU_DEVICE_ATTRIBUTE_##name:                                                               \
        return value;
#include "device_attributes.def"
#undef ATTRIBUTE
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return sim_device_bus(device->number);
    case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID:
        return device->number;
    default:
        return 0;
    }
}

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice ordinal) {
    struct sim_device *device;
    SIM_TRY(find(ordinal, value, &device));
    if (attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = attribute_of(attribute, device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev) {
    SIM_ENTER(cuDeviceGetAttribute);
    return sim_leave(get_attribute(pi, attrib, dev));
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev) {
    SIM_ENTER(cuDeviceComputeCapability);
    if (!major || !minor)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (!sim_device_at(dev))
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    *major = 9;
    *minor = 0;
    return sim_leave(CUDA_SUCCESS);
}

static CUresult get_properties(CUdevprop *prop, CUdevice ordinal) {
    struct sim_device *device;
    SIM_TRY(find(ordinal, prop, &device));
    *prop = (CUdevprop){.maxThreadsPerBlock = 1024,
                        .maxThreadsDim = {1024, 1024, 64},
                        .maxGridSize = {2147483647, 65535, 65535},
                        .sharedMemPerBlock = 49152,
                        .totalConstantMemory = 65536,
                        .SIMDWidth = 32,
                        .memPitch = 2147483647,
                        .regsPerBlock = 65536,
                        .clockRate = 1980000,
                        .textureAlign = 512};
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev) {
    SIM_ENTER(cuDeviceGetProperties);
    return sim_leave(get_properties(prop, dev));
}

static CUresult get_pci(char *text, int n_bytes, CUdevice ordinal) {
    struct sim_device *device;
    SIM_TRY(find(ordinal, text, &device));
    if (n_bytes < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(text, (size_t)n_bytes, "0000:%02X:00.0", (unsigned)sim_device_bus(device->number));
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev) {
    SIM_ENTER(cuDeviceGetPCIBusId);
    return sim_leave(get_pci(pciBusId, len, dev));
}

/* With or without the domain, and the function. */
static CUresult by_pci(CUdevice *out, const char *text) {
    unsigned domain = 0, bus, slot;
    if (!out || !text)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3 &&
        sscanf(text, "%x:%x", &bus, &slot) != 2)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < sim_devices_count(); i++) {
        if (domain == 0 && slot == 0 && (int)bus == sim_device_bus(i)) {
            *out = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId) {
    SIM_ENTER(cuDeviceGetByPCIBusId);
    return sim_leave(by_pci(dev, pciBusId));
}

CUresult cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev) {
    SIM_ENTER(cuDeviceGetExecAffinitySupport);
    if (!pi || (int)type < 0 || type >= CU_EXEC_AFFINITY_TYPE_MAX)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (!sim_device_at(dev))
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    *pi = 0;
    return sim_leave(CUDA_SUCCESS);
}

/* ---- peers ---- */

static CUresult ask_peers(CUdevice ordinal, CUdevice peer_ordinal, int *reaches) {
    const struct sim_device *device = sim_device_at(ordinal), *peer = sim_device_at(peer_ordinal);
    if (!device || !peer)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!reaches)
        return CUDA_ERROR_INVALID_VALUE;
    *reaches = sim_device_reaches(device, peer);
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev) {
    SIM_ENTER(cuDeviceCanAccessPeer);
    return sim_leave(ask_peers(dev, peerDev, canAccessPeer));
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                 CUdevice dstDevice) {
    SIM_ENTER(cuDeviceGetP2PAttribute);
    CUresult result = ask_peers(srcDevice, dstDevice, value);
    if (result == CUDA_SUCCESS && srcDevice == dstDevice)
        result = CUDA_ERROR_INVALID_DEVICE;
    if (result == CUDA_SUCCESS && attrib != CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED &&
        attrib != CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED)
        *value = 0;
    return sim_leave(result);
}

/* The current context, and the bit of the peer's device in it. */
static CUresult find_peer(CUcontext peer, struct sim_context **context, unsigned *bit) {
    struct sim_context *other;
    SIM_TRY(sim_context_current(context));
    if (!peer)
        return CUDA_ERROR_INVALID_CONTEXT;
    SIM_TRY(sim_context_of_handle(peer, &other));
    if (other->root == (*context)->root)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = (*context)->root;
    if (other->device != (*context)->device &&
        !sim_device_reaches((*context)->device, other->device))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    *bit = 1u << other->device->ordinal;
    return CUDA_SUCCESS;
}

static CUresult enable_peer(CUcontext peer, unsigned flags) {
    struct sim_context *context;
    unsigned bit;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(find_peer(peer, &context, &bit));
    if (context->peers & bit)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    context->peers |= bit;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
    SIM_ENTER(cuCtxEnablePeerAccess);
    return sim_leave(enable_peer(peerContext, Flags));
}

static CUresult disable_peer(CUcontext peer) {
    struct sim_context *context;
    unsigned bit;
    SIM_TRY(find_peer(peer, &context, &bit));
    if (!(context->peers & bit))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->peers &= ~bit;
    return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext) {
    SIM_ENTER(cuCtxDisablePeerAccess);
    return sim_leave(disable_peer(peerContext));
}
