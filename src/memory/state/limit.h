/*
 * The budget of a device: what this process may take of it (CUSHIM_LIMIT), whoever takes it.
 *
 * Pools charge their segments, the host of the pools what the driver serves natively.  A charge
 * comes before the driver's call and is refunded where that fails, so that threads that allocate at
 * the same time do not pass the limit together.
 */
#ifndef CUSHIM_MEMORY_LIMIT_H
#define CUSHIM_MEMORY_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero is a budget without a limit. */
struct cushim_mem_limit {
    atomic_size_t limit_bytes; /* 0: none; written once, before the device's first allocation */
    atomic_size_t charged_bytes;
};

/* What an allocation costs: above 1 MiB the driver takes whole pages of 2 MiB. */
static inline size_t cushim_mem_limit_cost(size_t n_bytes) {
    const size_t page_bytes = 2 << 20;
    if (n_bytes <= 1 << 20 || n_bytes > SIZE_MAX - page_bytes)
        return n_bytes;
    return (n_bytes + page_bytes - 1) / page_bytes * page_bytes;
}

/* Charge n_bytes; false, and nothing is charged, where that would pass the limit. */
static inline bool cushim_mem_limit_charge(struct cushim_mem_limit *budget, size_t n_bytes) {
    if (!budget)
        return true;
    size_t limit_bytes = atomic_load_explicit(&budget->limit_bytes, memory_order_relaxed);
    size_t cost_bytes = cushim_mem_limit_cost(n_bytes);
    size_t now_bytes = atomic_load_explicit(&budget->charged_bytes, memory_order_relaxed);
    if (!limit_bytes)
        return true;
    do {
        if (now_bytes > limit_bytes || cost_bytes > limit_bytes - now_bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&budget->charged_bytes, &now_bytes,
                                                    now_bytes + cost_bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

/* n_bytes as charged. */
static inline void cushim_mem_limit_refund(struct cushim_mem_limit *budget, size_t n_bytes) {
    if (budget && atomic_load_explicit(&budget->limit_bytes, memory_order_relaxed))
        atomic_fetch_sub_explicit(&budget->charged_bytes, cushim_mem_limit_cost(n_bytes),
                                  memory_order_relaxed);
}

#endif
