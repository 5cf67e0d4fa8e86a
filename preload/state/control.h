/*
 * Control: what another process asks of this one through the live page (`cushim trim`).
 *
 * With CUSHIM_CONTROL one thread of ours sleeps on a word of the page and answers.  Without it the
 * next call answers that looks for idle memory: a synchronisation, a synchronous copy, a query of
 * free memory.  No fast path looks.
 */
#ifndef CUSHIM_PRELOAD_CONTROL_H
#define CUSHIM_PRELOAD_CONTROL_H

#include "preload/state/process.h"

/* A context gets its heap: start the thread if it is wanted, once in each process. */
void cushim_control_begin(void);

void cushim_control_answer(void);

/* Answer if something was asked for. */
static inline void cushim_control_look(void) {
    const struct cushim_page_control *control = &cushim_page.head.control;
    if (atomic_load_explicit(&control->n_asked, memory_order_acquire) !=
        atomic_load_explicit(&control->n_answered, memory_order_relaxed))
        cushim_control_answer();
}

#endif
