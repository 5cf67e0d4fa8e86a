/*
 * Events: what resolve/ and state/ tell the folders above them.
 *
 * One constant table holds every listener (events.c), in the order in which they are told.  Events
 * are rare: no fast path raises one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cuda/types.h"
#include "cuda/symbol.h"

struct cushim_mem_heap;

struct cushim_events {
    /* The options were read: once, before cushim is on and any thread allocates. */
    void (*configured)(void);

    /* This is a forked child.  One that `is_fresh` may use CUDA, because its parent did not. */
    void (*forked)(bool is_fresh);

    /* This is a forked child that may not use CUDA, and it called it. */
    void (*called_after_fork)(enum cushim_cuda_symbol symbol);

    /* A driver was loaded, and is judged at the next need.  The lock of the driver's table is held,
     * so listeners may only store atomics. */
    void (*driver_met)(void);

    /* The driver was judged: it is known if it is the software device's. */
    void (*driver_judged)(void);

    /* The driver was unloaded, and every context with it. */
    void (*driver_lost)(void);

    /* The current context is about to get its heap.  The lock of contexts is held. */
    void (*context_opening)(struct cushim_cuda *cuda, int device);

    /* A context is about to be destroyed, and its heap still serves. */
    void (*context_leaving)(CUcontext context);

    /* A context was destroyed. */
    void (*context_gone)(CUcontext context);

    /* A context was destroyed, and with it all blocks of a heap.  The lock of contexts is held. */
    void (*heap_gone)(const struct cushim_mem_heap *heap);

    /* Another process wants a recording in this folder to begin, or (NULL) the one that began so to
     * end.  0 or an errno. */
    int (*recording_wanted)(const char *folder);

    /* A limit was changed, or a member of the group wants memory. */
    void (*limit_asked)(void);

    /* Memory of a device (-1: of any) is short: heaps are about to give back what is idle.  The
     * bytes that others gave back. */
    size_t (*memory_short)(int device);

    /* A call that waits was made, in which memory goes back that is idle for long. */
    void (*looked_at)(void);
};

extern const struct cushim_events cushim_events __attribute__((visibility("hidden")));
