/* NVML's devices: which there are, and their names. */
#include "nvml.h"

#include <stdbool.h>
#include <stdio.h>
#include <strings.h>

enum { MAX_DEVICES = 16, UUID_BYTES = 41 };

/* A handle is a place in this table. */
struct nvml_device {
    char unused;
};
static struct nvml_device handles[MAX_DEVICES];

nvmlReturn_t sim_nvml_find(nvmlDevice_t handle, const void *out, int *device,
                           struct sim_device_look *look) {
    NVML_TRY(sim_nvml_ready());
    for (int i = 0; out && i < MAX_DEVICES; i++) {
        if (handle == &handles[i] && sim_device_look(i, look)) {
            *device = i;
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *n) {
    struct sim_device_look look;
    NVML_TRY(sim_nvml_ready());
    if (!n)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (*n = 0; sim_device_look((int)*n, &look);)
        ++*n;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned *n) {
    return nvmlDeviceGetCount_v2(n);
}

/* ---- handles ---- */

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    unsigned n;
    NVML_TRY(nvmlDeviceGetCount_v2(&n));
    if (!device || index >= n)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = &handles[index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

static void write_uuid(char text[UUID_BYTES], const CUuuid *uuid) {
    int n = snprintf(text, UUID_BYTES, "GPU-");
    for (int i = 0; i < 16; i++)
        n += snprintf(text + n, (size_t)(UUID_BYTES - n), "%s%02x",
                      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                      (unsigned char)uuid->bytes[i]);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *text, nvmlDevice_t *device) {
    struct sim_device_look look;
    char uuid[UUID_BYTES];
    NVML_TRY(sim_nvml_ready());
    if (!text || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; sim_device_look(i, &look); i++) {
        write_uuid(uuid, &look.uuid);
        if (strcasecmp(text, uuid) == 0)
            return nvmlDeviceGetHandleByIndex_v2((unsigned)i, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

/* With or without the domain, and the function. */
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *text, nvmlDevice_t *device) {
    struct sim_device_look look;
    unsigned domain = 0, bus, slot;
    NVML_TRY(sim_nvml_ready());
    if (!text || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3) {
        domain = 0;
        if (sscanf(text, "%x:%x", &bus, &slot) != 2)
            return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (int i = 0; sim_device_look(i, &look); i++) {
        if (domain == 0 && slot == 0 && (int)bus == look.bus)
            return nvmlDeviceGetHandleByIndex_v2((unsigned)i, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *text, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByPciBusId_v2(text, device);
}

/* ---- what they are ---- */

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index) {
    struct sim_device_look look;
    int i;
    NVML_TRY(sim_nvml_find(device, index, &i, &look));
    *index = (unsigned)i;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned n_bytes) {
    struct sim_device_look look;
    int i;
    NVML_TRY(sim_nvml_find(device, text, &i, &look));
    return sim_nvml_text(text, n_bytes, look.name);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned n_bytes) {
    struct sim_device_look look;
    char uuid[UUID_BYTES];
    int i;
    NVML_TRY(sim_nvml_find(device, text, &i, &look));
    write_uuid(uuid, &look.uuid);
    return sim_nvml_text(text, n_bytes, uuid);
}

/* It is no device of NVIDIA's, so the ids of vendor and model are 0. */
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, struct nvml_pci_v2 *pci) {
    struct sim_device_look look;
    int i;
    NVML_TRY(sim_nvml_find(device, pci, &i, &look));
    *pci = (struct nvml_pci_v2){.bus = (unsigned)look.bus};
    snprintf(pci->bus_id, sizeof pci->bus_id, "0000:%02X:00.0", (unsigned)look.bus);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct nvml_pci_v3 *pci) {
    struct sim_device_look look;
    int i;
    NVML_TRY(sim_nvml_find(device, pci, &i, &look));
    *pci = (struct nvml_pci_v3){.bus = (unsigned)look.bus};
    snprintf(pci->bus_id_legacy, sizeof pci->bus_id_legacy, "0000:%02X:00.0", (unsigned)look.bus);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", (unsigned)look.bus);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    struct sim_device_look look;
    int i;
    NVML_TRY(sim_nvml_find(device, major && minor ? major : NULL, &i, &look));
    *major = look.capability / 10;
    *minor = look.capability % 10;
    return NVML_SUCCESS;
}

/* Any process may have contexts on it: NVML_COMPUTEMODE_DEFAULT. */
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned *mode) {
    struct sim_device_look look;
    int i;
    NVML_TRY(sim_nvml_find(device, mode, &i, &look));
    *mode = 0;
    return NVML_SUCCESS;
}

/* Does the device reach the other's memory, and by what? */
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t other, unsigned index,
                                    unsigned *status) {
    struct sim_device_look look, other_look;
    int i, other_i;
    NVML_TRY(sim_nvml_find(device, status, &i, &look));
    NVML_TRY(sim_nvml_find(other, status, &other_i, &other_look));
    if (i == other_i || index > NVML_P2P_PCI)
        return NVML_ERROR_INVALID_ARGUMENT;
    bool is_way = index == NVML_P2P_READ || index == NVML_P2P_WRITE || index == NVML_P2P_PCI;
    *status = is_way && other_look.is_reachable ? NVML_P2P_OK : NVML_P2P_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

/* Each field has an answer of its own: there are no sensors, links or counters here. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int n, struct nvml_field *fields) {
    struct sim_device_look look;
    int i;
    NVML_TRY(sim_nvml_find(device, fields, &i, &look));
    if (n < 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int field = 0; field < n; field++)
        fields[field].result = NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}
