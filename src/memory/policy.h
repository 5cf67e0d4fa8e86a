/*
 * Policy: the settings of all heaps of a process, made by the host of the allocator.
 *
 * They are set before the first heap is opened.  Fields that may change later are atomic and are
 * read relaxed.
 *
 * One is the limit of a device: how much of it this process may take (CUSHIM_LIMIT).  Heaps charge
 * their segments, and their host charges what the driver serves.  A charge comes before the
 * driver's call and is refunded if the call fails, so that threads which allocate at the same time
 * do not pass the limit together.
 */
#pragma once

#include "base/atomics.h"
#include "base/amount.h"

enum cushim_mem_kind { CUSHIM_MEM_DEVICE, CUSHIM_MEM_MANAGED, CUSHIM_MEM_PINNED };

/* Which free functions accept a block: those of the driver for pinned memory accept nothing
 * else. */
enum cushim_mem_free_entry {
    CUSHIM_MEM_FREE_ENTRY_NONE,
    CUSHIM_MEM_FREE_ENTRY_ANY,
    CUSHIM_MEM_FREE_ENTRY_PINNED
};

struct cushim_mem_heap;
struct cushim_mem_reclaim;
struct cushim_mem_census;
struct cushim_mem_lookup;

/* All zero is a budget without a limit; what is charged is counted even so. */
struct cushim_mem_limit {
    atomic_size_t limit_bytes; /* 0: none */
    atomic_size_t charged_bytes;
    atomic_size_t others_bytes; /* what those have with whom it is shared, when it was last asked */
    /* Charge those with whom it is shared; is_forced: in any case, and give back if n_bytes is
     * negative.  False: nothing is charged.  NULL: it is shared with nobody. */
    bool (*share)(struct cushim_mem_limit *budget, ptrdiff_t n_bytes, bool is_forced);
};

struct cushim_mem_policy {
    atomic_size_t
        dedicated_bytes; /* requests of this size and up are driver allocations of their own */
    atomic_bool
        is_dedicated_uncached;    /* and go back to the driver when freed (interposition.md C13) */
    bool is_sparing;              /* for host memory: hold little that is free */
    struct cushim_amount keep;    /* the most that may be idle; with has_keep */
    struct cushim_amount reserve; /* the least that may be held */
    bool has_keep;
    size_t least_idle_bytes;          /* this much may be idle in any case */
    struct cushim_mem_limit *budgets; /* [devices]; NULL: nothing is charged */
    /* Other heaps of the device give back what they can, and wait until until_ns at most; returns
     * the bytes.  NULL: there are no other heaps. */
    size_t (*make_room)(const struct cushim_mem_heap *heap, uint64_t until_ns);
    /* A segment is about to go to the driver, so its context must not end before `let`.  False: it
     * is ending, and the segment goes with it.  NULL: the caller makes sure of that. */
    bool (*hold)(struct cushim_mem_heap *heap);
    void (*let)(struct cushim_mem_heap *heap);
    /* A request found no memory; no lock is held.  It may be NULL. */
    void (*memory_out)(struct cushim_mem_heap *heap, const struct cushim_mem_reclaim *tried,
                       const struct cushim_mem_census *census, size_t n_bytes);
    /* The driver gave memory to a heap, or (not is_there) gets it back now; no lock is held.  It
     * may be NULL. */
    void (*segment_moved)(struct cushim_mem_heap *heap, uint64_t base, size_t n_bytes,
                          bool is_there);
    /* A free claimed a RECORDED block (layout/block.h), or (not is_freed) failed, so the block
     * lives on. */
    void (*block_moved)(const struct cushim_mem_heap *heap, const struct cushim_mem_lookup *lookup,
                        bool is_freed);
    void (*look_around)(void); /* called now and then before memory is fetched; may be NULL */
    bool is_relaxed;           /* frees do not wait */
    bool has_guards;           /* around each block of device memory */
    bool is_sampled;           /* an observer must see each request */
    size_t arena_bytes;        /* the most that the arena of a heap may hold; 0: there is none */
    size_t arena_most_bytes;   /* the arena serves requests up to this size */
};

/* Pinned requests of this size and up are driver allocations of their own. */
enum { CUSHIM_MEM_DEDICATED_PINNED_BYTES = 64 << 20 };

/* The policy of a kind, derived from that for device memory. */
static inline void cushim_mem_policy_of_kind(struct cushim_mem_policy *policy,
                                             const struct cushim_mem_policy *of_device,
                                             enum cushim_mem_kind kind) {
    *policy = *of_device;
    if (kind == CUSHIM_MEM_DEVICE)
        return;
    atomic_store(&policy->is_dedicated_uncached, false);
    policy->arena_bytes = 0;
    policy->make_room = NULL;
    policy->has_guards = false;
    /* advice, prefetch and attachment apply to a whole allocation */
    atomic_store(&policy->dedicated_bytes,
                 kind == CUSHIM_MEM_MANAGED ? 1 : CUSHIM_MEM_DEDICATED_PINNED_BYTES);
    if (kind == CUSHIM_MEM_PINNED) {
        policy->is_sparing = true;
        /* both limits are about device memory */
        policy->has_keep = false;
        policy->reserve = (struct cushim_amount){0};
    }
}

/* ---- the limit of a device ---- */

/* The cost of an allocation.  Above 1 MiB the driver takes whole pages of 2 MiB. */
static inline size_t cushim_mem_limit_cost(size_t n_bytes) {
    const size_t page_bytes = 2 << 20;
    if (n_bytes <= 1 << 20 || n_bytes > SIZE_MAX - page_bytes)
        return n_bytes;
    return (n_bytes + page_bytes - 1) / page_bytes * page_bytes;
}

/* Add to what a group has, or take back.  No group has more than its signed sums hold, so such a
 * request, which the driver refuses, is left out. */
static inline bool cushim_mem_limit_share(struct cushim_mem_limit *budget, size_t cost_bytes,
                                          bool is_back, bool is_forced) {
    ptrdiff_t n_bytes = (ptrdiff_t)cost_bytes;
    return !budget->share || cost_bytes > PTRDIFF_MAX ||
           budget->share(budget, is_back ? -n_bytes : n_bytes, is_forced);
}

/* Charge n_bytes.  False: that would pass the limit, and nothing is charged. */
static inline bool cushim_mem_limit_charge(struct cushim_mem_limit *budget, size_t n_bytes) {
    size_t cost_bytes = cushim_mem_limit_cost(n_bytes);
    if (!budget)
        return true;
    if (!cushim_mem_limit_share(budget, cost_bytes, false, false))
        return false;
    size_t limit_bytes = load_relaxed(&budget->limit_bytes);
    size_t now_bytes = load_relaxed(&budget->charged_bytes);
    do {
        if (!limit_bytes || (now_bytes <= limit_bytes && cost_bytes <= limit_bytes - now_bytes))
            continue;
        cushim_mem_limit_share(budget, cost_bytes, true, true);
        return false;
    } while (!atomic_compare_exchange_weak_explicit(&budget->charged_bytes, &now_bytes,
                                                    now_bytes + cost_bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

/* Charge memory that is there already, whatever the limit is. */
static inline void cushim_mem_limit_force(struct cushim_mem_limit *budget, size_t n_bytes) {
    size_t cost_bytes = cushim_mem_limit_cost(n_bytes);
    atomic_fetch_add_explicit(&budget->charged_bytes, cost_bytes, memory_order_relaxed);
    cushim_mem_limit_share(budget, cost_bytes, false, true);
}

/* n_bytes as charged. */
static inline void cushim_mem_limit_refund(struct cushim_mem_limit *budget, size_t n_bytes) {
    size_t cost_bytes = cushim_mem_limit_cost(n_bytes);
    if (!budget)
        return;
    atomic_fetch_sub_explicit(&budget->charged_bytes, cost_bytes, memory_order_relaxed);
    cushim_mem_limit_share(budget, cost_bytes, true, true);
}
