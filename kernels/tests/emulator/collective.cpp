#include "kernels/tests/emulator/collective.h"
#include "kernels/tests/emulator/block.h"

#include <string.h>

namespace emulated {

unsigned lane() {
    return running.thread->number % 32;
}

static Warp *own_warp() {
    return &running.block->warps[running.thread->number / 32];
}

unsigned lanes_alive() {
    return own_warp()->present & ~own_warp()->returned;
}

/* All lanes of the mask wait; check that they wait at the same place. */
static void judge(const Thread *first, const char *what, unsigned mask) {
    for (unsigned i = 0; i < 32; i++) {
        if (!(mask >> i & 1) || (first[i].mask == mask && is_same(first[i].what, what)))
            continue;
        fail("is at %s of mask %08x, but lane %u is at %s of mask %08x", what, mask, i,
             first[i].what, first[i].mask);
    }
}

void meet_lanes(const char *what, unsigned mask, void *data,
                void (*work)(void *const lanes[32], unsigned mask)) {
    Thread *self = running.thread;
    Warp *warp = own_warp();
    if (!(mask >> lane() & 1))
        fail("is at %s of mask %08x, which lane %u is not in", what, mask, lane());
    if (mask & ~warp->present)
        fail("is at %s of mask %08x, but the warp has only %08x", what, mask, warp->present);
    self->what = what;
    self->mask = mask;
    self->data = data;
    warp->waiting |= 1u << lane();
    if ((warp->waiting & mask) != mask) {
        wait_at(State::AT_LANES, what);
        return;
    }
    Thread *first = self - lane();
    void *lanes[32];
    judge(first, what, mask);
    for (unsigned i = 0; i < 32; i++)
        lanes[i] = mask >> i & 1 ? first[i].data : nullptr;
    warp->waiting &= ~mask;
    if (work)
        work(lanes, mask);
    for (unsigned i = 0; i < 32; i++) {
        if ((mask >> i & 1) && &first[i] != self)
            make_ready(&first[i]);
    }
}

/* ---- shuffles ---- */

struct ShuffleData {
    Shuffle kind;
    uint64_t bits, result;
    unsigned argument, width;
};

/* The lane from which a lane reads. */
static unsigned source_of(unsigned lane, const ShuffleData *data) {
    unsigned first = lane & ~(data->width - 1), last = lane | (data->width - 1), source = lane;
    switch (data->kind) {
    case Shuffle::INDEX:
        return first | (data->argument & (data->width - 1));
    case Shuffle::UP:
        return lane - first >= data->argument ? lane - data->argument : lane;
    case Shuffle::DOWN:
        return last - lane >= data->argument ? lane + data->argument : lane;
    case Shuffle::XOR:
        source = lane ^ data->argument;
        return source <= last ? source : lane;
    }
    return source;
}

static void shuffle_lanes(void *const lanes[32], unsigned mask) {
    for (unsigned i = 0; i < 32; i++) {
        ShuffleData *data = (ShuffleData *)lanes[i];
        if (!data)
            continue;
        unsigned source = source_of(i, data);
        if (source >= 32 || !lanes[source])
            fail("lane %u of a shuffle of mask %08x reads lane %u, which is not in it", i, mask,
                 source);
        data->result = ((const ShuffleData *)lanes[source])->bits;
    }
}

uint64_t shuffle(Shuffle kind, unsigned mask, uint64_t bits, unsigned argument, int width) {
    static const char *const names[] = {"__shfl_sync", "__shfl_up_sync", "__shfl_down_sync",
                                        "__shfl_xor_sync"};
    ShuffleData data = {kind, bits, 0, argument, (unsigned)width};
    if (width < 1 || width > 32 || (width & (width - 1)))
        fail("a shuffle of width %d, which is no power of two up to 32", width);
    meet_lanes(names[(int)kind], mask, &data, shuffle_lanes);
    return data.result;
}

/* ---- one result for all lanes ---- */

struct Number {
    uint64_t value, result;
};

/* Fold the lanes upwards, and give each the result. */
template <class Fold> static void fold_lanes(void *const lanes[32], Fold fold) {
    bool is_first = true;
    uint64_t sum = 0;
    for (unsigned i = 0; i < 32; i++) {
        if (!lanes[i])
            continue;
        uint64_t value = ((const Number *)lanes[i])->value;
        sum = is_first ? value : fold(sum, value);
        is_first = false;
    }
    for (unsigned i = 0; i < 32; i++) {
        if (lanes[i])
            ((Number *)lanes[i])->result = sum;
    }
}

static void ballot_lanes(void *const lanes[32], unsigned) {
    fold_lanes(lanes, [](uint64_t a, uint64_t b) { return a | b; });
}

static void match_lanes(void *const lanes[32], unsigned) {
    for (unsigned i = 0; i < 32; i++) {
        for (unsigned k = 0; k < 32 && lanes[i]; k++) {
            if (lanes[k] && ((Number *)lanes[k])->value == ((Number *)lanes[i])->value)
                ((Number *)lanes[i])->result |= 1u << k;
        }
    }
}

static uint64_t meet_number(const char *what, unsigned mask, uint64_t value,
                            void (*work)(void *const lanes[32], unsigned mask)) {
    Number number = {value, 0};
    meet_lanes(what, mask, &number, work);
    return number.result;
}

} // namespace emulated

void __syncwarp(unsigned mask) {
    emulated::meet_lanes("__syncwarp", mask, nullptr, nullptr);
}

unsigned __ballot_sync(unsigned mask, int predicate) {
    uint64_t bit = (uint64_t)(predicate != 0) << emulated::lane();
    return (unsigned)emulated::meet_number("a vote", mask, bit, emulated::ballot_lanes);
}

unsigned __match_any_sync(unsigned mask, unsigned value) {
    return (unsigned)emulated::meet_number("__match_any_sync", mask, value, emulated::match_lanes);
}

unsigned __match_any_sync(unsigned mask, unsigned long long value) {
    return (unsigned)emulated::meet_number("__match_any_sync", mask, value, emulated::match_lanes);
}

#define REDUCE(op, type, result)                                                                   \
    type __reduce_##op##_sync(unsigned mask, type value) {                                         \
        return (type)emulated::meet_number(                                                        \
            "__reduce_" #op "_sync", mask, (uint64_t)value, [](void *const lanes[32], unsigned) {  \
                emulated::fold_lanes(lanes, [](uint64_t left, uint64_t right) {                    \
                    type a = (type)left, b = (type)right;                                          \
                    return (uint64_t)(type)(result);                                               \
                });                                                                                \
            });                                                                                    \
    }
REDUCE(add, unsigned, a + b)
REDUCE(min, unsigned, a < b ? a : b)
REDUCE(max, unsigned, a > b ? a : b)
REDUCE(and, unsigned, a &b)
REDUCE(or, unsigned, a | b)
REDUCE(xor, unsigned, a ^ b)
REDUCE(add, int, (unsigned)a + (unsigned)b)
REDUCE(min, int, a < b ? a : b)
REDUCE(max, int, a > b ? a : b)

/* ---- barriers with a vote ---- */

static int count_votes(const char *what, int predicate) {
    emulated::running.block->n_votes += predicate != 0;
    emulated::meet_block(what);
    return emulated::running.block->result;
}

int __syncthreads_count(int predicate) {
    return count_votes("__syncthreads_count", predicate);
}

int __syncthreads_or(int predicate) {
    return count_votes("__syncthreads_or", predicate) != 0;
}

int __syncthreads_and(int predicate) {
    return count_votes("__syncthreads_and", predicate) ==
           (int)emulated::running.block->threads.size();
}
