/* The listeners of each event. */
#include "companion/events.h"

#include "companion/context/context_stack.h"
#include "companion/stream/stream_host.h"
#include "memory/stream_heap.h"

static void thread_ended(struct cushim_thread *thread) {
    cushim_stack_thread_ended(thread);
    cushim_mem_streams_end_thread();
}

const struct cushim_events cushim_events = {.thread_ended = thread_ended,
                                            .fence_host = &cushim_stream_host};
