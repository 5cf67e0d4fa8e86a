/*
 * What is known of the code that calls the runtime's functions, by the page of its address.  A page
 * of code belongs to one object, so all calls from it mean the same runtime.  Two loads find a
 * page, whether one or a million are known.
 *
 * A note is valid until a library goes: it carries the *age* in which it was made, and is void in
 * the next.  There is no lock; notes are words.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The facts of a note. */
enum {
    CUSHIM_CALLERS_RUNTIME = 15,   /* the number of its table, plus 1 */
    CUSHIM_CALLERS_ANSWERED = 16,  /* the runtime's entry points may answer */
    CUSHIM_CALLERS_LOG2_FACTS = 5, /* the age is above these */
};

enum {
    CUSHIM_CALLERS_LOG2_PAGE = 12, /* the smallest page there is */
    CUSHIM_CALLERS_LOG2_LEAF = 18,
    CUSHIM_CALLERS_LOG2_ROOT = 18, /* together 48 bits, which cover code on both machines */
};

typedef atomic_uint_fast64_t cushim_callers_note_word;

/* Two variables, because the age begins with 1, and the leaves must take no space in the file. */
extern cushim_callers_note_word cushim_callers_now /* the age, above the facts */
    __attribute__((visibility("hidden")));
extern _Atomic(cushim_callers_note_word *) cushim_callers_leaves[1 << CUSHIM_CALLERS_LOG2_ROOT]
    __attribute__((visibility("hidden")));

/* The address of a leaf, and of a note in it. */
static inline uintptr_t cushim_callers_leaf(const void *caller) {
    return (uintptr_t)caller >> (CUSHIM_CALLERS_LOG2_PAGE + CUSHIM_CALLERS_LOG2_LEAF);
}

static inline uintptr_t cushim_callers_place(const void *caller) {
    return ((uintptr_t)caller >> CUSHIM_CALLERS_LOG2_PAGE) & ((1u << CUSHIM_CALLERS_LOG2_LEAF) - 1);
}

static inline uint64_t cushim_callers_age(void) {
    return atomic_load_explicit(&cushim_callers_now, memory_order_acquire);
}

/* The note on a caller, minus the present age; a note of another age gives no number of facts. */
static inline uint64_t cushim_callers_read(const void *caller) {
    uintptr_t leaf = cushim_callers_leaf(caller);
    const cushim_callers_note_word *notes =
        leaf >> CUSHIM_CALLERS_LOG2_ROOT
            ? NULL
            : atomic_load_explicit(&cushim_callers_leaves[leaf], memory_order_acquire);
    if (!notes)
        return UINT64_MAX;
    return atomic_load_explicit(&notes[cushim_callers_place(caller)], memory_order_acquire) -
           cushim_callers_age();
}

/* The valid facts; 0: nothing is known. */
static inline unsigned cushim_callers_facts(const void *caller) {
    uint64_t facts = cushim_callers_read(caller);
    return facts >> CUSHIM_CALLERS_LOG2_FACTS ? 0 : (unsigned)facts;
}

static inline bool cushim_callers_is_answered(const void *caller) {
    uint64_t facts = cushim_callers_read(caller);
    return (facts & ~(uint64_t)CUSHIM_CALLERS_RUNTIME) == CUSHIM_CALLERS_ANSWERED;
}

/* Note facts that were found in an age; if host memory is out they are lost. */
void cushim_callers_note(const void *caller, uint64_t age, unsigned facts);

/* A new age: a library is gone. */
void cushim_callers_forget(void);
