#include "memory/layout/trait.h"

enum { LOG2_NUMBER = CUSHIM_MEM_STATE_BITS + 2, MOST_NUMBERS = 1 << (32 - LOG2_NUMBER) };

static uint32_t next_number(void) {
    static atomic_uint last;
    uint32_t number = (atomic_fetch_add(&last, 1) + 1) % MOST_NUMBERS;
    return number ? number : next_number();
}

uint32_t cushim_mem_trait_number(const struct cushim_mem_lookup *found) {
    uint32_t word = atomic_load(&found->cell->state), number = 0;
    while (cushim_mem_state_of(word) == CUSHIM_MEM_LIVE && !(word >> LOG2_NUMBER)) {
        if (!number)
            number = next_number();
        if (atomic_compare_exchange_weak(&found->cell->state, &word, word | number << LOG2_NUMBER))
            return number;
    }
    return cushim_mem_state_of(word) == CUSHIM_MEM_LIVE ? word >> LOG2_NUMBER : 0;
}

void cushim_mem_trait_watch(const struct cushim_mem_lookup *found) {
    atomic_fetch_or_explicit(&found->cell->state, CUSHIM_MEM_TRAIT_WATCHED, memory_order_relaxed);
}

static bool exchange(const struct cushim_mem_lookup *found, bool is_synchronous) {
    uint32_t word = atomic_load(&found->cell->state);
    while (cushim_mem_state_of(word) == CUSHIM_MEM_LIVE &&
           !(word & CUSHIM_MEM_TRAIT_SYNCHRONOUS) == is_synchronous) {
        if (atomic_compare_exchange_weak(&found->cell->state, &word,
                                         word ^ CUSHIM_MEM_TRAIT_SYNCHRONOUS))
            return true;
    }
    return false;
}

bool cushim_mem_trait_set_synchronous(const struct cushim_mem_lookup *found, bool is_synchronous) {
    atomic_uint *n_synchronous = &found->segment->n_synchronous;
    if (is_synchronous)
        atomic_fetch_add(n_synchronous, 1);
    bool is_done = exchange(found, is_synchronous);
    if (is_done != is_synchronous)
        atomic_fetch_sub(n_synchronous, 1);
    return is_done;
}
