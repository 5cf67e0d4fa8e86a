#include "companion/context/pressure.h"
#include "base/lock.h"
#include "companion/context/call.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of adding */
static _Atomic(struct cushim_pressure *) first;

void cushim_pressure_add(struct cushim_pressure *pressure) {
    CUSHIM_LOCKED(&lock);
    struct cushim_pressure *head = load_relaxed(&first), *at = head;
    while (at && at != pressure)
        at = at->next;
    if (!at) {
        pressure->next = head;
        store_release(&first, pressure);
    }
}

size_t cushim_pressure_ask(struct cushim_context_object *context, size_t bytes) {
    size_t given_bytes = 0;
    struct cushim_pressure *at = load_acquire(&first);
    for (; at && given_bytes < bytes; at = at->next) {
        if (at->give)
            given_bytes += at->give(context, bytes - given_bytes);
    }
    return given_bytes;
}

struct cushim_pressure_held cushim_pressure_sum(struct cushim_context_object *context) {
    struct cushim_pressure_held held = {0};
    struct cushim_pressure *at = load_acquire(&first);
    for (; at; at = at->next) {
        if (at->count)
            at->count(context, &held);
    }
    return held;
}

bool cushim_pressure_release(const char *what, uint64_t start, bool is_host,
                             enum cushim_status *status) {
    struct cushim_pressure *at = load_acquire(&first);
    while (at && !(at->release && at->release(what, start, is_host, status)))
        at = at->next;
    return at != NULL;
}

bool cushim_pressure_find(uint64_t address, struct cushim_address_map_row *row) {
    struct cushim_pressure *at = load_acquire(&first);
    while (at && !(at->find && at->find(address, row)))
        at = at->next;
    return at != NULL;
}

enum cushim_status cushim_pressure_fail(struct cushim_scope *scope, const char *entry,
                                        size_t asked_bytes, const char *steps) {
    size_t free_bytes = 0, total_bytes = 0;
    if (CUSHIM_DRIVER(cuMemGetInfo_v2)) /* if it fails they stay 0, and the text says so */
        CUSHIM_DRIVER(cuMemGetInfo_v2)(&free_bytes, &total_bytes);
    struct cushim_pressure_held held = cushim_pressure_sum(scope->context);
    return cushim_scope_fail_cu(
        scope, entry, CUDA_ERROR_OUT_OF_MEMORY,
        "device=%d asked=%zu free=%zu total=%zu pools_cached=%zu pools_live=%zu steps=%s",
        scope->context->device, asked_bytes, free_bytes, total_bytes, held.cached_bytes,
        held.live_bytes, steps);
}
