#include "device.h"

#include "share.h"
#include "visible.h"
#include "tools/sim/driver/core/options.h"
#include "tools/sim/driver/memory/pool.h"

#include <stdlib.h>

/* Addresses are plentiful, so that memory runs out long before a gap does. */
enum { PAGES_OF_RANGE_PER_PAGE = 4, MIN_PAGES_OF_RANGE = 4096 };

/* Addresses cost nothing then.  A driver joins pages from anywhere, so no trace may run out of
 * gaps. */
enum { N_TIMES_UNBACKED = 8 };

static struct sim_device devices[SIM_MAX_DEVICES];
static int n_devices;

static CUresult init_one(struct sim_device *device, CUdevice ordinal, int number) {
    device->ordinal = ordinal;
    device->number = number;
    device->n_pages = sim_device_pages();
    size_t n_range = device->n_pages * PAGES_OF_RANGE_PER_PAGE;
    if (n_range < MIN_PAGES_OF_RANGE)
        n_range = MIN_PAGES_OF_RANGE;
    bool is_unbacked = sim_options()->unbacked;
    if (is_unbacked)
        n_range *= N_TIMES_UNBACKED;
    if (!sim_space_init(&device->space, SIM_PAGE_BYTES, n_range, !is_unbacked))
        return CUDA_ERROR_OPERATING_SYSTEM;
    device->space.is_unbacked = is_unbacked;
    device->default_pool = device->pool = sim_pool_create(device);
    return device->pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_devices_init(void) {
    int numbers[SIM_MAX_DEVICES];
    int n =
        sim_visible_devices(getenv("CUDA_VISIBLE_DEVICES"), (int)sim_options()->devices, numbers);
    if (n == 0)
        return CUDA_ERROR_NO_DEVICE;
    if (!sim_share_join())
        return CUDA_ERROR_OPERATING_SYSTEM;
    for (; n_devices < n; n_devices++)
        SIM_TRY(init_one(&devices[n_devices], n_devices, numbers[n_devices]));
    return CUDA_SUCCESS;
}

size_t sim_device_pages(void) {
    return sim_options()->memory / SIM_PAGE_BYTES;
}

int sim_devices_count(void) {
    return n_devices;
}

struct sim_device *sim_device_at(CUdevice ordinal) {
    return ordinal >= 0 && ordinal < n_devices ? &devices[ordinal] : NULL;
}

bool sim_device_reaches(const struct sim_device *device, const struct sim_device *owner) {
    return device != owner && !(sim_options()->unreachable >> owner->number & 1);
}

struct sim_device *sim_device_of(const void *address) {
    for (int i = 0; i < n_devices; i++) {
        if (sim_space_has(&devices[i].space, address))
            return &devices[i];
    }
    return NULL;
}

bool sim_device_charge(struct sim_device *device, size_t n_pages) {
    return sim_share_charge(device->number, n_pages, device->n_pages) ||
           (sim_pools_empty(device) && sim_share_charge(device->number, n_pages, device->n_pages));
}

void sim_device_refund(struct sim_device *device, size_t n_pages) {
    sim_share_refund(device->number, n_pages);
}

/* If two processes take at the same time, both may have been counted for a moment. */
size_t sim_device_pages_left(const struct sim_device *device) {
    size_t n_used = sim_share_used(device->number);
    return n_used < device->n_pages ? device->n_pages - n_used : 0;
}
