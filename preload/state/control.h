/*
 * Control: what another process asks of this one, through the live page (`cushim trim`, `cushim
 * record --pid`) or as a member of its group: to give back idle memory.
 *
 * A call that looks for idle memory answers: a synchronisation, a synchronous copy, a query of free
 * memory.  No fast path looks.  With CUSHIM_CONTROL one thread of ours sleeps on a word of the
 * page, and looks as such a call does, when it is woken and each second.
 */
#pragma once

#include "base/clock.h"
#include "preload/state/process.h"

/* A context gets its heap: start the thread if it is wanted, once in each process. */
void cushim_control_begin(void);

void cushim_control_answer(void);

extern struct cushim_control {
    _Atomic(const atomic_uint_fast64_t *) group; /* how often members of its group asked; NULL */
    atomic_uint_fast64_t n_seen;                 /* of all requests: those that were answered */
    /* calls that wait are told: mapped memory may lie idle, or contexts are measured */
    atomic_bool is_looked_at;
} cushim_control __attribute__((visibility("hidden")));

/* How often others have asked: `cushim trim` and `cushim limit` in the page, and its group. */
static inline uint64_t cushim_control_n_asked(void) {
    const atomic_uint_fast64_t *group = load_relaxed(&cushim_control.group);
    return load_acquire(&cushim_page.head.control.n_asked) +
           load_acquire(&cushim_page.head.n_limits) + (group ? load_acquire(group) : 0);
}

/* Is the time of a recording over that another process asked for? */
static inline bool cushim_control_is_over(void) {
    const struct cushim_page_control *control = &cushim_page.head.control;
    unsigned claim = atomic_load_explicit(&control->claim, memory_order_relaxed);
    return claim && (claim != atomic_load(&control->n_claims) ||
                     cushim_clock_ns() > atomic_load(&control->record_until_ns));
}

/* Answer if something was asked for. */
static inline void cushim_control_look(void) {
    if (unlikely(cushim_control_n_asked() != load_relaxed(&cushim_control.n_seen)) ||
        unlikely(cushim_control_is_over()))
        cushim_control_answer();
}
