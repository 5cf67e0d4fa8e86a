/*
 * Loads and stores with hints, fences, and atomic operations on integers.
 *
 * One thread runs at a time, and another only when the first one waits, so everything is atomic.
 */
#ifndef CUSHIM_EMULATOR_MEMORY_H
#define CUSHIM_EMULATOR_MEMORY_H

#define EMULATED_LOAD(name)                                                                        \
    template <class T> static inline T name(const T *from) {                                       \
        return *from;                                                                              \
    }
#define EMULATED_STORE(name)                                                                       \
    template <class T> static inline void name(T *to, T value) {                                   \
        *to = value;                                                                               \
    }

EMULATED_LOAD(__ldg)
EMULATED_LOAD(__ldca)
EMULATED_LOAD(__ldcg)
EMULATED_LOAD(__ldcs)
EMULATED_LOAD(__ldcv)
EMULATED_LOAD(__ldlu)
EMULATED_STORE(__stcg)
EMULATED_STORE(__stcs)
EMULATED_STORE(__stwb)
EMULATED_STORE(__stwt)

static inline void __threadfence() {
}

static inline void __threadfence_block() {
}

static inline void __threadfence_system() {
}

/* ---- atomics: the value before ---- */

namespace emulated {

template <class T, class Next> static inline T exchange(T *place, Next next) {
    T before = *place;
    *place = next(before);
    return before;
}

/* Sums wrap. */
template <class T> static inline T wrapped_sum(T a, T b) {
    T sum;
    (void)__builtin_add_overflow(a, b, &sum);
    return sum;
}

} // namespace emulated

#define EMULATED_ATOMIC(name, type, result)                                                        \
    static inline type name(type *place, type value) {                                             \
        return emulated::exchange(place, [=](type old) -> type { return result; });                \
    }

#define EMULATED_ATOMICS(type)                                                                     \
    EMULATED_ATOMIC(atomicAdd, type, emulated::wrapped_sum(old, value))                            \
    EMULATED_ATOMIC(atomicMax, type, old > value ? old : value)                                    \
    EMULATED_ATOMIC(atomicMin, type, old < value ? old : value)                                    \
    EMULATED_ATOMIC(atomicAnd, type, old &value)                                                   \
    EMULATED_ATOMIC(atomicOr, type, old | value)                                                   \
    EMULATED_ATOMIC(atomicXor, type, old ^ value)                                                  \
    EMULATED_ATOMIC(atomicExch, type, ((void)old, value))                                          \
    static inline type atomicCAS(type *place, type wanted, type value) {                           \
        return emulated::exchange(place, [=](type old) { return old == wanted ? value : old; });   \
    }

EMULATED_ATOMICS(int)
EMULATED_ATOMICS(unsigned)
EMULATED_ATOMICS(unsigned long long)
EMULATED_ATOMIC(atomicMax, long long, old > value ? old : value)
EMULATED_ATOMIC(atomicMin, long long, old < value ? old : value)
EMULATED_ATOMIC(atomicSub, int, (int)((unsigned)old - (unsigned)value))
EMULATED_ATOMIC(atomicSub, unsigned, old - value)
EMULATED_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
EMULATED_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)

#endif
