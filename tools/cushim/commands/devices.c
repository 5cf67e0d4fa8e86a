#include "tools/cushim/commands/devices.h"
#include "tools/cushim/numbers.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- NVML: a few of its calls, as its header has them ---- */

struct memory {
    unsigned long long total, free, used;
};

static struct {
    bool is_asked;
    int (*find)(const char *uuid, void **device);
    int (*get_memory)(void *device, struct memory *memory);
} nvml;

static void open_nvml(void) {
    int (*begin)(void);
    nvml.is_asked = true;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbols[] = {library ? dlsym(library, "nvmlInit_v2") : NULL,
                       library ? dlsym(library, "nvmlDeviceGetHandleByUUID") : NULL,
                       library ? dlsym(library, "nvmlDeviceGetMemoryInfo") : NULL};
    memcpy(&begin, &symbols[0], sizeof begin);
    if (!symbols[0] || !symbols[1] || !symbols[2] || begin() != 0)
        return;
    memcpy(&nvml.find, &symbols[1], sizeof nvml.find);
    memcpy(&nvml.get_memory, &symbols[2], sizeof nvml.get_memory);
}

static void ask(struct device *device) {
    struct memory memory = {0};
    void *handle = NULL;
    if (!nvml.is_asked)
        open_nvml();
    if (!nvml.find || !*device->uuid || nvml.find(device->uuid, &handle) != 0 ||
        nvml.get_memory(handle, &memory) != 0 || memory.free > memory.total)
        return;
    device->all_bytes = memory.total;
    device->free_bytes = memory.free;
}

/* ---- all of them ---- */

void devices_add(struct devices *devices, const struct cushim_report *report, int number) {
    char uuid[CUSHIM_REPORT_UUID_BYTES];
    unsigned i = 0;
    cushim_report_uuid(uuid, report->page.device_uuids[number]);
    while (i < devices->n && (strcmp(devices->rows[i].uuid, uuid) != 0 ||
                              (!*uuid && devices->rows[i].number != number)))
        i++;
    if (i == CUSHIM_MAX_DEVICES)
        return;
    struct device *device = &devices->rows[i];
    if (i == devices->n) {
        devices->n++;
        *device = (struct device){.number = number};
        memcpy(device->uuid, uuid, sizeof uuid);
    }
    if (!*device->name)
        snprintf(device->name, sizeof device->name, "%s", report->page.device_names[number]);
    device->number = number < device->number ? number : device->number;
    device->n_processes++;
    device->held_bytes += cushim_report_sum_device(report, number, held_bytes);
}

static int in_order(const void *one, const void *other) {
    const struct device *a = one, *b = other;
    return a->number != b->number ? a->number - b->number : strcmp(a->uuid, b->uuid);
}

void devices_settle(struct devices *devices) {
    for (unsigned i = 0; i < devices->n; i++)
        ask(&devices->rows[i]);
    qsort(devices->rows, devices->n, sizeof *devices->rows, in_order);
}

void devices_text(const struct device *device, char *text, size_t n_bytes) {
    uint64_t used_bytes = device->all_bytes - device->free_bytes;
    uint64_t others_bytes = used_bytes > device->held_bytes ? used_bytes - device->held_bytes : 0;
    if (device->all_bytes)
        snprintf(text, n_bytes, "dev %-2d %-11.11s held %9s of %9s  others %9s  free %9s",
                 device->number, device->name, text_of_bytes(device->held_bytes),
                 text_of_bytes(device->all_bytes), text_of_bytes(others_bytes),
                 text_of_bytes(device->free_bytes));
    else
        snprintf(text, n_bytes, "dev %-2d %-28.28s held %9s by %s", device->number, device->name,
                 text_of_bytes(device->held_bytes), text_of_some(device->n_processes, "process"));
}
