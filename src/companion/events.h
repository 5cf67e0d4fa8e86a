/*
 * Events that core/ and context/ raise for the folders above them.  One constant table has the
 * listeners (events.c); no fast path raises an event.
 */
#pragma once

struct cushim_thread;

struct cushim_events {
    /* A thread that called the library ends.  The listeners make no driver call. */
    void (*thread_ended)(struct cushim_thread *thread);

    /* No event: the functions by which the engine asks about the context of a fence. */
    const struct cushim_mem_stream_host *fence_host;
};

extern const struct cushim_events cushim_events;
