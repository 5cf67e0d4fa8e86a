/* What the lanes of a warp, or the threads of a block, do together. */
#ifndef CUSHIM_EMULATOR_COLLECTIVE_H
#define CUSHIM_EMULATOR_COLLECTIVE_H

#include "kernels/tests/emulator/half.h"
#include "kernels/tests/emulator/thread.h"

#include <stdint.h>
#include <string.h>

/* ---- barriers and votes ---- */

static inline void __syncthreads() {
    emulated::meet_block("__syncthreads");
}

int __syncthreads_or(int predicate);
int __syncthreads_and(int predicate);
int __syncthreads_count(int predicate);

void __syncwarp(unsigned mask = 0xffffffffu);
unsigned __ballot_sync(unsigned mask, int predicate);

static inline int __any_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) != 0;
}

static inline int __all_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) == mask;
}

static inline unsigned __activemask() {
    return emulated::lanes_alive();
}

/* ---- shuffles: a value of up to 8 bytes as bits ---- */

namespace emulated {

enum class Shuffle { INDEX, UP, DOWN, XOR };

uint64_t shuffle(Shuffle kind, unsigned mask, uint64_t bits, unsigned argument, int width);

template <class T>
static inline T shuffle_of(Shuffle kind, unsigned mask, T value, unsigned argument, int width) {
    static_assert(sizeof value <= 8, "a shuffle moves up to 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = shuffle(kind, mask, bits, argument, width);
    memcpy(&value, &bits, sizeof value);
    return value;
}

} // namespace emulated

#define EMULATED_SHUFFLES(type)                                                                    \
    static inline type __shfl_sync(unsigned mask, type value, int lane, int width = 32) {          \
        return emulated::shuffle_of(emulated::Shuffle::INDEX, mask, value, (unsigned)lane, width); \
    }                                                                                              \
    static inline type __shfl_up_sync(unsigned mask, type value, unsigned delta, int width = 32) { \
        return emulated::shuffle_of(emulated::Shuffle::UP, mask, value, delta, width);             \
    }                                                                                              \
    static inline type __shfl_down_sync(unsigned mask, type value, unsigned delta,                 \
                                        int width = 32) {                                          \
        return emulated::shuffle_of(emulated::Shuffle::DOWN, mask, value, delta, width);           \
    }                                                                                              \
    static inline type __shfl_xor_sync(unsigned mask, type value, int flips, int width = 32) {     \
        return emulated::shuffle_of(emulated::Shuffle::XOR, mask, value, (unsigned)flips, width);  \
    }

EMULATED_SHUFFLES(int)
EMULATED_SHUFFLES(unsigned)
EMULATED_SHUFFLES(long)
EMULATED_SHUFFLES(unsigned long)
EMULATED_SHUFFLES(long long)
EMULATED_SHUFFLES(unsigned long long)
EMULATED_SHUFFLES(float)
EMULATED_SHUFFLES(double)
EMULATED_SHUFFLES(__half)
EMULATED_SHUFFLES(__half2)

/* ---- one number of all lanes ---- */

unsigned __reduce_add_sync(unsigned mask, unsigned value);
unsigned __reduce_min_sync(unsigned mask, unsigned value);
unsigned __reduce_max_sync(unsigned mask, unsigned value);
int __reduce_add_sync(unsigned mask, int value);
int __reduce_min_sync(unsigned mask, int value);
int __reduce_max_sync(unsigned mask, int value);
unsigned __reduce_and_sync(unsigned mask, unsigned value);
unsigned __reduce_or_sync(unsigned mask, unsigned value);
unsigned __reduce_xor_sync(unsigned mask, unsigned value);

/* The lanes of the mask that have the same value. */
unsigned __match_any_sync(unsigned mask, unsigned value);
unsigned __match_any_sync(unsigned mask, unsigned long long value);

#endif
