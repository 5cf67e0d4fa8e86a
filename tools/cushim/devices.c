#include "tools/cushim/devices.h"
#include "base/bits.h"
#include "base/writer.h"
#include "report/page_file.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- NVML: a few of its calls, as its header has them ---- */

struct memory {
    unsigned long long total, free, used;
};

static struct {
    bool is_asked, is_there;
    int (*begin)(void);
    int (*find)(const char *uuid, void **device);
    int (*get_memory)(void *device, struct memory *memory);
    int (*count)(unsigned *n);
    int (*at)(unsigned index, void **device);
    int (*get_processes)(void *device, unsigned *n, struct device_process *processes);
} nvml;

static bool open_nvml(void) {
    static const char *const names[] = {"nvmlInit_v2",
                                        "nvmlDeviceGetHandleByUUID",
                                        "nvmlDeviceGetMemoryInfo",
                                        "nvmlDeviceGetCount_v2",
                                        "nvmlDeviceGetHandleByIndex_v2",
                                        "nvmlDeviceGetComputeRunningProcesses_v3"};
    void *symbols[sizeof names / sizeof *names];
    if (nvml.is_asked)
        return nvml.is_there;
    nvml.is_asked = nvml.is_there = true;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        symbols[i] = library ? dlsym(library, names[i]) : NULL;
        nvml.is_there &= symbols[i] || i >= 3; /* an old library has only the first three */
    }
    memcpy(&nvml.begin, symbols, sizeof symbols);
    nvml.is_there = nvml.is_there && nvml.begin() == 0;
    return nvml.is_there;
}

static void ask(struct device *device) {
    struct memory memory = {0};
    void *handle = NULL;
    if (!open_nvml() || !*device->uuid || nvml.find(device->uuid, &handle) != 0 ||
        nvml.get_memory(handle, &memory) != 0 || memory.free > memory.total)
        return;
    device->all_bytes = memory.total;
    device->free_bytes = memory.free;
}

unsigned devices_free(uint64_t free_bytes[CUSHIM_MAX_DEVICES]) {
    unsigned n = 0;
    if (!open_nvml() || !nvml.count || !nvml.at || nvml.count(&n) != 0)
        return 0;
    n = n < CUSHIM_MAX_DEVICES ? n : CUSHIM_MAX_DEVICES;
    for (unsigned i = 0; i < n; i++) {
        struct memory memory = {0};
        void *device;
        if (nvml.at(i, &device) == 0)
            nvml.get_memory(device, &memory);
        free_bytes[i] = memory.free;
    }
    return n;
}

static unsigned list(void *device, struct device_process processes[DEVICES_MOST_PROCESSES]) {
    unsigned n = DEVICES_MOST_PROCESSES;
    if (!nvml.get_processes || nvml.get_processes(device, &n, processes) != 0)
        return 0;
    for (unsigned i = 0; i < n; i++)
        processes[i].n_bytes = processes[i].n_bytes == ~0ull ? 0 : processes[i].n_bytes;
    return n;
}

unsigned devices_processes(unsigned number,
                           struct device_process processes[DEVICES_MOST_PROCESSES]) {
    void *device;
    bool has_device = open_nvml() && nvml.at && nvml.at(number, &device) == 0;
    return has_device ? list(device, processes) : 0;
}

/* The processes of a device, as NVML told them at the first question about it. */
static struct told {
    char uuid[CUSHIM_REPORT_UUID_BYTES];
    unsigned n;
    struct device_process processes[DEVICES_MOST_PROCESSES];
} told[CUSHIM_MAX_DEVICES];
static unsigned n_told;

void devices_ask_again(void) {
    n_told = 0;
}

static const struct told *told_of(const char *uuid) {
    void *device;
    for (unsigned i = 0; i < n_told; i++) {
        if (strcmp(told[i].uuid, uuid) == 0)
            return &told[i];
    }
    n_told %= CUSHIM_MAX_DEVICES;
    struct told *new = &told[n_told++];
    strcpy(new->uuid, uuid);
    new->n = nvml.find(uuid, &device) == 0 ? list(device, new->processes) : 0;
    return new;
}

uint64_t devices_unaccounted_bytes(const struct cushim_report *report, int wanted) {
    const struct cushim_page_head *head = &report->page.head;
    bool can_ask = head->namespace == cushim_page_namespace() && open_nvml();
    uint64_t n_bytes = 0;
    for (int device = 0; device < CUSHIM_MAX_DEVICES && can_ask; device++) {
        char uuid[CUSHIM_REPORT_UUID_BYTES];
        if ((wanted >= 0 && device != wanted) ||
            !*cushim_report_uuid(uuid, report->page.device_uuids[device]))
            continue;
        const struct told *of = told_of(uuid);
        for (unsigned i = 0; i < of->n; i++) {
            if (of->processes[i].process == head->process)
                n_bytes += cushim_less(of->processes[i].n_bytes,
                                       cushim_report_sum_device(report, device, held_bytes));
        }
    }
    return n_bytes;
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
    uint64_t others_bytes = cushim_less(used_bytes, device->held_bytes);
    if (device->all_bytes)
        snprintf(text, n_bytes, "dev %-2d %-11.11s held %9s of %9s  others %9s  free %9s",
                 device->number, device->name, CUSHIM_BYTES(device->held_bytes),
                 CUSHIM_BYTES(device->all_bytes), CUSHIM_BYTES(others_bytes),
                 CUSHIM_BYTES(device->free_bytes));
    else
        snprintf(text, n_bytes, "dev %-2d %-28.28s held %9s by %s", device->number, device->name,
                 CUSHIM_BYTES(device->held_bytes), CUSHIM_SOME(device->n_processes, "process"));
}
