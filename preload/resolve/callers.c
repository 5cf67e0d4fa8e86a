#include "preload/resolve/callers.h"

#include <sys/mman.h>

cushim_callers_note_word cushim_callers_now = 1 << CUSHIM_CALLERS_LOG2_FACTS;
_Atomic(cushim_callers_note_word *) cushim_callers_leaves[1 << CUSHIM_CALLERS_LOG2_ROOT];

static cushim_callers_note_word *find_or_make(uintptr_t leaf) {
    static const size_t n_bytes = sizeof(cushim_callers_note_word) << CUSHIM_CALLERS_LOG2_LEAF;
    cushim_callers_note_word *notes = atomic_load(&cushim_callers_leaves[leaf]), *others = NULL;
    if (notes)
        return notes;
    notes = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
    if (notes == MAP_FAILED)
        return NULL;
    if (atomic_compare_exchange_strong(&cushim_callers_leaves[leaf], &others, notes))
        return notes;
    munmap(notes, n_bytes);
    return others;
}

void cushim_callers_note(const void *caller, uint64_t age, unsigned facts) {
    uintptr_t leaf = cushim_callers_leaf(caller);
    cushim_callers_note_word *notes = leaf >> CUSHIM_CALLERS_LOG2_ROOT ? NULL : find_or_make(leaf);
    if (notes)
        atomic_store_explicit(&notes[cushim_callers_place(caller)], age | facts,
                              memory_order_release);
}

void cushim_callers_forget(void) {
    atomic_fetch_add(&cushim_callers_now, 1 << CUSHIM_CALLERS_LOG2_FACTS);
}
