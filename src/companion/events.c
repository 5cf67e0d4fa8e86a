/* The listeners of each event. */
#include "companion/events.h"

#include "companion/context/context_stack.h"
#include "companion/memory/memory.h"
#include "companion/pool/pool.h"

static void thread_ended(struct cushim_thread *thread) {
    cushim_stack_thread_ended(thread);
    cushim_thread_end_pools();
}

const struct cushim_events cushim_events = {.thread_ended = thread_ended,
                                            .context_ended = cushim_memory_async_end};
