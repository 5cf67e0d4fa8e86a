/*
 * What a step of a stream, or a node of a graph, does when its turn comes.
 *
 * A work owns what it points to (arguments, staged bytes); sim_work_finish releases it.  Kernels
 * and host functions run without the lock.
 */
#pragma once

#include "tools/sim/driver/core/abi.h"
#include "sim.h"

#include <stdbool.h>
#include <stddef.h>

struct sim_context;
struct sim_event_slot;
struct sim_exec;
struct sim_function;
struct sim_graph;
struct sim_graph_run;
struct sim_stream;

enum sim_work_kind {
    SIM_WORK_EMPTY, /* a mark: an event's record, a wait's end, a node that only joins */
    SIM_WORK_KERNEL,
    SIM_WORK_COPY,
    SIM_WORK_SET,
    SIM_WORK_HOST,
    SIM_WORK_CALLBACK,
    SIM_WORK_WRITE_VALUE,
    SIM_WORK_WAIT_VALUE,
    SIM_WORK_WORDS,       /* of a graph: several of these two, one after the other */
    SIM_WORK_ALLOC,       /* of a graph: the memory is there already */
    SIM_WORK_FREE,        /* in stream order */
    SIM_WORK_FREE_NODE,   /* of a graph, for a graph's memory: graph_memory.h */
    SIM_WORK_CHILD,       /* of a graph: another graph */
    SIM_WORK_CONDITIONAL, /* of a graph: one of several graphs, or none */
    SIM_WORK_RUN,         /* the launch of a graph */
    SIM_WORK_TELL,        /* an event's record, for other processes: event_ipc.h */
    SIM_WORK_HEAR,        /* a wait for another process's record */
};

struct sim_kernel_work {
    struct sim_function *function;
    sim_kernel_fn *kernel; /* as at the launch; NULL: a skipped one */
    struct sim_launch launch;
    struct sim_turn turn;
    size_t n_params;
    void **args; /* [n_params], into `bytes` */
    char *bytes;
    size_t n_bytes;
};

/* A box of bytes; a line is a box of height and depth 1. */
struct sim_copy_work {
    char *dst;
    const char *src;
    size_t dst_pitch, dst_slice, src_pitch,
        src_slice; /* bytes from row to row, from layer to layer */
    size_t width_bytes, height, depth;
    char *staged;                   /* what src points to if the source had to be kept; or NULL */
    struct sim_context *touches[2]; /* the contexts whose memory is written and read; NULL: the
                                       host's */
};

struct sim_set_work {
    char *dst;
    size_t pitch;
    unsigned value, element_bytes;
    size_t width, height; /* elements, rows */
};

struct sim_work {
    enum sim_work_kind kind;
    uint64_t due_ns; /* when it may be done, once its first turn has come; 0: not yet */
    union {
        struct sim_kernel_work kernel;
        struct sim_copy_work copy;
        struct sim_set_work set;
        struct {
            CUhostFn fn;
            void *data;
        } host;
        struct {
            CUstreamCallback fn;
            void *data;
        } callback;
        struct {
            char *address;
            uint64_t value;
            unsigned n_bytes, flags;
        } value;
        struct {
            struct sim_work *list; /* [n], owned; they own nothing */
            size_t n, n_done;
        } words;
        CUdeviceptr address;     /* ALLOC, FREE, FREE_NODE */
        struct sim_graph *child; /* CHILD: owned */
        struct {
            struct sim_graph **bodies; /* [n], owned; the program reads the list */
            unsigned n, chosen;        /* n: none of them */
        } conditional;
        struct sim_graph_run *run; /* RUN: owned */
        struct {
            struct sim_event_slot *slot; /* a reference */
            uint64_t n;
        } event; /* TELL, HEAR */
    } as;
};

/* One turn, for a stream.  False: the work needs another turn. */
bool sim_work_turn(struct sim_work *work, struct sim_stream *stream);

/* Does it copy from or to memory of a context?  That context's own frees wait for it. */
bool sim_work_touches(const struct sim_work *work, const struct sim_context *root);

/* A second work that does the same and shares nothing; false: no memory. */
bool sim_work_clone(struct sim_work *copy, const struct sim_work *work);

void sim_work_finish(struct sim_work *work);
