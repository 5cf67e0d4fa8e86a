/*
 * The judge plays a trace under the preload, step by step, and compares the results.
 *
 * Held bytes are the device's count of pages. Pinned bytes are found from outside: the driver's
 * allocations and mappings that have a live block of the trace. The rest is idle.
 */
#include "trace.h"

#include "tools/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>

/* cuMemGetInfo walks all held memory, so it is called at every 16th step, or 250 times in a long
 * trace. */
enum { INFO_EVERY = 16, N_INFOS = 250 };

/* ---- pinned bytes: the driver's allocations by address, with the blocks in each ---- */

struct pin {
    uintptr_t base; /* 0: none */
    size_t n_bytes, n_blocks;
};

struct pins {
    struct pin *table;
    size_t n_used, capacity; /* a power of two */
    size_t n_bytes;
};

static struct pin *find_pin(const struct pins *pins, uintptr_t base) {
    size_t at = (base / PAGE_BYTES * 0x9e3779b97f4a7c15u) >> 20;
    while (pins->table[at & (pins->capacity - 1)].base &&
           pins->table[at & (pins->capacity - 1)].base != base)
        at++;
    return &pins->table[at & (pins->capacity - 1)];
}

static void grow(struct pins *pins) {
    struct pins old = *pins;
    if (pins->capacity && pins->n_used < pins->capacity / 2)
        return;
    pins->capacity = pins->capacity ? 4 * pins->capacity : 1024;
    pins->table = calloc(pins->capacity, sizeof *pins->table);
    if (!pins->table)
        exit(3);
    pins->n_used = 0;
    for (size_t i = 0; i < old.capacity; i++) {
        if (!old.table[i].n_blocks)
            continue;
        *find_pin(pins, old.table[i].base) = old.table[i];
        pins->n_used++;
    }
    free(old.table);
}

/* A block comes (+1) or goes (-1): count it in each driver allocation that it overlaps. */
static void pin(struct pins *pins, const struct block *block, int change) {
    uintptr_t at = (uintptr_t)block->address, end = at + block->n_bytes;
    void *base;
    size_t n_bytes;
    while (at < end && sim_allocation_at((void *)at, &base, &n_bytes)) {
        grow(pins);
        struct pin *found = find_pin(pins, (uintptr_t)base);
        if (!found->base) {
            *found = (struct pin){(uintptr_t)base, 0, 0};
            pins->n_used++;
        }
        if (!found->n_blocks)
            pins->n_bytes += found->n_bytes = n_bytes;
        found->n_blocks += (size_t)change;
        if (!found->n_blocks)
            pins->n_bytes -= n_bytes;
        at = (uintptr_t)base + n_bytes;
    }
}

/* ---- comparing ---- */

struct findings {
    const char *verdict;
    bool is_by_step; /* print a line per step */
    size_t at_step, n_bytes;
    int answer;
    /* n_more: requests that are served although native refuses them */
    size_t n_requests, n_calls, n_more;
    size_t n_warm_requests, n_warm_calls; /* in the second half */
    size_t peak_live, peak_held, peak_native, peak_pinned;
    size_t context_peak_cut[N_CONTEXTS];
    unsigned long n_capture_calls; /* the driver's memory calls when a capture was last open */
    size_t over_native;            /* the highest pinned bytes beyond native's pages */
    size_t idle;                   /* the highest idle bytes */
    size_t over_idle; /* idle bytes beyond the bound of P3, and beyond twice that for modes in which
                         deferred frees are idle */
    size_t over_twice;
    size_t over_stream; /* the highest held bytes beyond native's pages when a stream has reached
                           its end */
    size_t info_off;    /* the highest difference between cuMemGetInfo's free and free + idle */
};

static void rise(size_t *most, size_t value) {
    if (value > *most)
        *most = value;
}

static size_t beyond(size_t value, size_t limit) {
    return value > limit ? value - limit : 0;
}

static void look_at_info(const struct trace_head *head, size_t held, size_t idle,
                         struct findings *found) {
    size_t n_free, n_total;
    if (cuMemGetInfo(&n_free, &n_total) != CUDA_SUCCESS)
        return;
    size_t told = head->device_bytes + head->slack_bytes - held + idle;
    rise(&found->info_off, n_free > told ? n_free - told : told - n_free);
}

/* Calls that allocate or free device memory in the driver. */
static unsigned long memory_calls(void) {
    static const char *const names[] = {"cuMemAlloc_v2",  "cuMemFree_v2",    "cuMemCreate",
                                        "cuMemRelease",   "cuMemMap",        "cuMemUnmap",
                                        "cuMemSetAccess", "cuMemAllocAsync", "cuMemFreeAsync"};
    static const unsigned long *counters[sizeof names / sizeof *names];
    unsigned long n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!counters[i])
            counters[i] = sim_calls_counter(names[i]);
        n += *counters[i];
    }
    return n;
}

/* Called after an allocation. A block that only cushim serves is freed at once but counts for the
 * peak. */
static void raise_peaks(const struct world *world, struct findings *found) {
    rise(&found->peak_live, world->live_bytes);
    for (int i = 0; i < N_CONTEXTS; i++) {
        if (!world->contexts[i])
            found->context_peak_cut[i] = 0;
        rise(&found->context_peak_cut[i], world->context_cut_bytes[i]);
    }
}

/* Each context keeps what its recent peak allows, which is its highest peak, because the trace is
 * shorter than a window. */
static size_t watermark_of(const struct world *world, const struct findings *found) {
    size_t sum = 0;
    for (int i = 0; i < N_CONTEXTS; i++) {
        size_t peak = found->context_peak_cut[i];
        sum += world->contexts[i] ? peak + peak / 2 + 32 * MIB : 0;
    }
    return sum;
}

/* During a capture a request gives memory back only if memory is out; the first later request that
 * calls the driver does so. */
static void look_at_idle(const struct world *world, size_t idle, bool is_capturing,
                         struct findings *found) {
    size_t allowed = watermark_of(world, found) - world->live_bytes;
    if (is_capturing || idle <= allowed || memory_calls() == found->n_capture_calls)
        return;
    rise(&found->over_idle, idle - allowed);
    rise(&found->over_twice, beyond(idle, 2 * allowed));
}

static void look(const struct trace_head *head, const struct step *step, const struct world *world,
                 const struct pins *pins, bool is_capturing, bool is_info_due,
                 struct findings *found) {
    size_t held = sim_used_bytes(0), idle = beyond(held, pins->n_bytes);
    rise(&found->peak_held, held);
    rise(&found->peak_native, step->used_bytes);
    rise(&found->peak_pinned, pins->n_bytes);
    rise(&found->idle, idle);
    look_at_idle(world, idle, is_capturing, found);
    if (!step->is_late)
        rise(&found->over_native, beyond(pins->n_bytes, step->used_bytes));
    if (step->kind == STEP_STREAM_SYNC)
        rise(&found->over_stream, beyond(held, step->used_bytes));
    if (is_info_due)
        look_at_info(head, held, idle, found);
    if (found->is_by_step)
        printf("%zu\t%lu\t%zu\t%zu\t%zu\t%zu\n", found->at_step, step->used_bytes, held,
               pins->n_bytes, idle, world->live_bytes);
}

static void print(const struct trace_head *head, const struct findings *found) {
    printf("seed=%lu verdict=%s step=%zu of=%lu bytes=%zu answer=%d device=%lu slack=%lu "
           "requests=%zu calls=%zu warm_requests=%zu warm_calls=%zu more=%zu live=%zu held=%zu "
           "native=%zu pinned=%zu over_native=%zu idle=%zu over_idle=%zu over_twice=%zu "
           "over_stream=%zu "
           "info_off=%zu\n",
           head->seed, found->verdict, found->at_step, head->n_steps, found->n_bytes, found->answer,
           head->device_bytes, head->slack_bytes, found->n_requests, found->n_calls,
           found->n_warm_requests, found->n_warm_calls, found->n_more, found->peak_live,
           found->peak_held, found->peak_native, found->peak_pinned, found->over_native,
           found->idle, found->over_idle, found->over_twice, found->over_stream, found->info_off);
    fflush(stdout);
}

/* Removes the blocks of a context before it ends. */
static void unpin_context(struct pins *pins, struct world *world, int place) {
    for (size_t i = 0; i < world->n_blocks; i++) {
        if (world->blocks[i].address && world->blocks[i].context == place)
            pin(pins, &world->blocks[i], -1);
    }
}

static bool is_free(const struct step *step) {
    return step->kind == STEP_FREE || step->kind == STEP_FREE_ASYNC;
}

static bool agrees(const struct step *step, CUresult answer, struct findings *found) {
    if ((int)answer == step->answer)
        return true;
    if (step->kind == STEP_ALLOC && step->answer == CUDA_ERROR_OUT_OF_MEMORY &&
        answer == CUDA_SUCCESS) {
        found->n_more++;
        return true;
    }
    bool is_unserved = step->kind == STEP_ALLOC && step->answer == CUDA_SUCCESS;
    found->verdict = is_unserved ? "unserved" : "answer";
    found->n_bytes = step->n_bytes;
    found->answer = (int)answer;
    return false;
}

void trace_judge(const struct trace_head *head, const struct step *steps, bool is_by_step) {
    struct findings found = {.verdict = "ok", .is_by_step = is_by_step};
    struct pins pins = {0};
    struct world world;
    world_open(&world, getenv("PROPERTY_POOL") != NULL);
    unsigned long n_memory_calls = memory_calls(), n_half = 0;
    size_t info_every = head->n_steps / N_INFOS;
    if (info_every < INFO_EVERY)
        info_every = INFO_EVERY;
    bool is_capturing = false;
    for (size_t i = 0; i < head->n_steps; i++) {
        const struct step *step = &steps[i];
        is_capturing =
            step->kind == STEP_CAPTURE_BEGIN || (is_capturing && step->kind != STEP_CAPTURE_END);
        /* A block that only cushim serves is freed at once, except in a capture, which would keep
         * it. */
        if (is_capturing && step->kind == STEP_ALLOC && step->answer != CUDA_SUCCESS)
            continue;
        struct block *block = world_block(&world, step->slot), before = *block;
        if (is_free(step) && before.address)
            pin(&pins, &before, -1);
        if (step->kind == STEP_CONTEXT_END)
            unpin_context(&pins, &world, step->place);
        if (step->kind == STEP_CAPTURE_END)
            found.n_capture_calls = memory_calls();
        if (i == head->n_steps / 2)
            n_half = memory_calls();
        CUresult answer = world_take(&world, step);
        found.at_step = i + 1;
        found.n_requests += step->kind == STEP_ALLOC;
        found.n_warm_requests += step->kind == STEP_ALLOC && i >= head->n_steps / 2;
        if (!agrees(step, answer, &found))
            break;
        raise_peaks(&world, &found);
        if (step->kind == STEP_ALLOC && answer == CUDA_SUCCESS) {
            if (step->answer == CUDA_SUCCESS)
                pin(&pins, block, 1);
            else
                world_take(&world, &(struct step){.kind = STEP_FREE, .slot = step->slot});
        }
        look(head, step, &world, &pins, is_capturing, i % info_every == 0 || i + 1 == head->n_steps,
             &found);
    }
    found.n_calls = memory_calls() - n_memory_calls;
    found.n_warm_calls = n_half ? memory_calls() - n_half : 0;
    print(head, &found);
}
