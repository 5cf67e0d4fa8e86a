/*
 * A thread's stack of contexts: references kept by us, its top current.
 *
 * The first push remembers the current CUDA context, and the last pop puts it back; only the top of
 * CUDA's own stack is exchanged.  An entry whose context died, or whose handle was destroyed, is
 * dead and is skipped.  Owner: the thread's record; no lock.
 */
#pragma once

#include "companion/context/context.h"
#include "companion/core/thread.h"

/* The first live entry, or NULL; dead ones above it are dropped. */
struct cushim_context_object *cushim_stack_top(void);

/* Make the context current, and the top.  Failed: neither changed. */
enum cushim_status cushim_stack_push(const char *what, struct cushim_context_object *context);

/* Remove the top.  The entry below, or what was current before, becomes current.  *out is kept. */
enum cushim_status cushim_stack_pop(const char *what, struct cushim_context_object **out);

/* If a destroy of ours killed the top, make the first live entry current, or what was current
 * before the first push. */
void cushim_stack_settle(void);

/* The thread ends: give back its stack, without a driver call. */
void cushim_stack_thread_ended(struct cushim_thread *thread);
