#include "maker.h"

#include "tools/sim/sim.h"

#include <stdlib.h>

static uint64_t mix(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

size_t maker_below(struct maker *maker, size_t n) {
    return n ? mix(&maker->state) % n : 0;
}

size_t maker_between(struct maker *maker, size_t low, size_t high) {
    return high > low ? low + maker_below(maker, high - low + 1) : low;
}

size_t maker_any_size(struct maker *maker, size_t low, size_t high) {
    int first = 63 - __builtin_clzll(low), last = 63 - __builtin_clzll(high);
    size_t power = (size_t)1 << maker_between(maker, (size_t)first, (size_t)last);
    size_t n = power + maker_below(maker, power);
    return n < low ? low : n > high ? high : n;
}

size_t maker_free_bytes(const struct maker *maker) {
    size_t taken = sim_used_bytes(0) + maker->late_bytes;
    return taken < maker->device_bytes ? maker->device_bytes - taken : 0;
}

CUresult maker_take(struct maker *maker, struct step step) {
    if (maker->n_steps == maker->capacity) {
        maker->capacity = maker->capacity ? 2 * maker->capacity : 512;
        maker->steps = realloc(maker->steps, maker->capacity * sizeof step);
        maker->live = realloc(maker->live, maker->capacity * sizeof *maker->live);
        if (!maker->steps || !maker->live)
            exit(3);
    }
    if (maker->n_threads)
        step.thread = (uint8_t)maker_below(maker, maker->n_threads);
    step.answer = world_take(&maker->world, &step);
    step.used_bytes = sim_used_bytes(0);
    step.is_late = maker->late_bytes != 0;
    size_t small_bytes = step.used_bytes - maker->world.large_live_bytes;
    if (!step.is_late && small_bytes > maker->peak_small_bytes)
        maker->peak_small_bytes = small_bytes;
    maker->steps[maker->n_steps++] = step;
    return step.answer;
}

bool maker_ask(struct maker *maker, size_t n_bytes) {
    struct step step = {.kind = STEP_ALLOC, .slot = maker->n_slots, .n_bytes = n_bytes};
    if (maker_take(maker, step) != CUDA_SUCCESS)
        return false;
    maker->live[maker->n_live++] = maker->n_slots++;
    return true;
}

static void note_late(struct maker *maker, uint32_t slot) {
    size_t freed = large_bytes(world_block(&maker->world, slot)->n_bytes);
    maker->late_bytes += freed ? freed : PAGE_BYTES;
}

void maker_let_go(struct maker *maker, size_t i) {
    struct step step = {.kind = STEP_FREE, .slot = maker->live[i]};
    maker->live[i] = maker->live[--maker->n_live];
    if (maker->is_capturing)
        note_late(maker, step.slot);
    maker_take(maker, step);
}

void maker_let_go_async(struct maker *maker, size_t i, size_t stream) {
    struct step step = {.kind = STEP_FREE_ASYNC, .place = (uint8_t)stream, .slot = maker->live[i]};
    maker->live[i] = maker->live[--maker->n_live];
    note_late(maker, step.slot);
    maker_take(maker, step);
}

void maker_let_go_any(struct maker *maker) {
    if (maker->n_live)
        maker_let_go(maker, maker_below(maker, maker->n_live));
}

void maker_let_go_every(struct maker *maker, size_t first, size_t n, size_t remainder) {
    size_t n_kept = first;
    for (size_t i = first; i < maker->n_live; i++) {
        struct step step = {.kind = STEP_FREE, .slot = maker->live[i]};
        if ((i - first) % n == remainder)
            maker_take(maker, step);
        else
            maker->live[n_kept++] = maker->live[i];
    }
    maker->n_live = n_kept;
}

void maker_forget_dead(struct maker *maker) {
    size_t n = 0;
    for (size_t i = 0; i < maker->n_live; i++) {
        if (world_block(&maker->world, maker->live[i])->address)
            maker->live[n++] = maker->live[i];
    }
    maker->n_live = n;
}

void maker_act(struct maker *maker, enum step_kind kind, size_t place) {
    maker_take(maker, (struct step){.kind = (uint8_t)kind, .place = (uint8_t)place});
}

void maker_launch(struct maker *maker) {
    size_t stream = maker_below(maker, N_STREAMS), n_turns = maker_below(maker, 6);
    maker_take(maker,
               (struct step){.kind = STEP_LAUNCH, .place = (uint8_t)stream, .n_bytes = n_turns});
}

void maker_churn(struct maker *maker, size_t n_steps, size_t low, size_t high) {
    size_t target = maker->device_bytes / 100 * maker_between(maker, 50, 100);
    for (size_t i = 0; i < n_steps; i++) {
        size_t n_bytes = maker_any_size(maker, low, high);
        size_t pages = n_bytes > MIB ? large_bytes(n_bytes) : PAGE_BYTES;
        if (maker_below(maker, 100) == 0)
            maker_ask(maker, maker->device_bytes - sim_used_bytes(0) + n_bytes);
        else if (sim_used_bytes(0) + maker->late_bytes + pages <= target && maker_below(maker, 8))
            maker_ask(maker, n_bytes);
        else
            maker_let_go_any(maker);
    }
}

size_t maker_largest(const struct maker *maker) {
    size_t n = maker->device_bytes / 4;
    return n < 2 * GIB ? n : 2 * GIB;
}
