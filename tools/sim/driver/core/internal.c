#include "internal.h"

#include "tools/sim/driver/context/context.h"
#include "options.h"

#include <stdlib.h>
#include <string.h>

void sim_internal_note(const struct sim_block *block) {
    struct sim_device *device = block->device;
    if (!sim_options()->internal || block->kind != SIM_BLOCK_DEVICE || block->slab)
        return;
    if (!device->was_left)
        device->was_left = calloc(device->space.n_pages, 1);
    if (device->was_left)
        memset(device->was_left + (size_t)(block->address - device->space.base) / SIM_PAGE_BYTES, 1,
               sim_space_round(&device->space, block->n_bytes) / SIM_PAGE_BYTES);
}

static void give(void *page) {
    struct sim_device *device = sim_device_of(page);
    sim_space_give(&device->space, page, SIM_PAGE_BYTES);
    sim_device_refund(device, 1);
}

/* False: the page is in use, or there is no memory for it. */
static bool take(struct sim_context *root, char *page) {
    struct sim_device *device = root->device;
    struct sim_block *block;
    if (!sim_device_charge(device, 1))
        return false;
    if (!sim_space_take_at(&device->space, page, SIM_PAGE_BYTES)) {
        sim_device_refund(device, 1);
        return false;
    }
    if (sim_block_note(SIM_BLOCK_INTERNAL, root, device, page, SIM_PAGE_BYTES, &block) !=
        CUDA_SUCCESS) {
        give(page);
        return false;
    }
    block->owner_data = page;
    block->end_owner = give;
    return true;
}

void sim_internal_take(struct sim_context *root) {
    const struct sim_device *device = root->device;
    size_t n_left = sim_options()->internal / SIM_PAGE_BYTES;
    for (size_t i = 0; device->was_left && n_left > 0 && i < device->space.n_pages; i++) {
        if (device->was_left[i] && take(root, device->space.base + i * SIM_PAGE_BYTES))
            n_left--;
    }
}
