/*
 * Contexts.
 *
 * A green context stands for its root, the primary context of its device: memory, streams and
 * damage belong to the root, and only handles and queries distinguish the two.  Context objects are
 * never freed, so that a thread with a dead current context finds it dead.  A primary context comes
 * to life again under the same handle.
 */
#pragma once

#include "tools/sim/driver/core/abi.h"
#include "device.h"
#include "tools/sim/driver/stream/step.h"

#include <stdbool.h>

enum { SIM_N_LIMITS = 8 };

struct sim_slab;
struct sim_stream;

struct sim_context {
    struct sim_device *device;
    struct sim_context *root; /* itself, unless it is a green context */
    bool is_alive;
    unsigned flags;
    unsigned api_version;
    unsigned n_attached; /* uses beyond its maker's */
    unsigned long long id;
    size_t limits[SIM_N_LIMITS]; /* by CUlimit */
    struct sim_context *next;    /* of the contexts that live, or have work left */
    /* for roots only */
    CUresult fault;                  /* what every call returns; success: undamaged */
    unsigned peers;                  /* a bit for each device whose memory may be reached */
    struct sim_stream *streams;      /* all of them, also dead ones with work left */
    struct sim_stream *fence_stream; /* records and waits of the whole context; it has no handle and
                                        is in no list */
    struct sim_step *fence;          /* later work comes after it; a reference, or NULL */
    struct sim_slab *slabs;          /* the pages of small allocations */
    size_t n_taken;                  /* pages, by the options `context` and `lazy` */
    bool has_launched;
};

/* Make a living one; NULL: no memory.  root: NULL for a root. */
struct sim_context *sim_context_create(struct sim_device *device, struct sim_context *root,
                                       unsigned flags);

/* A kernel is about to be launched in it. */
void sim_context_note_launch(struct sim_context *context);

/* A primary context comes to life again. */
void sim_context_revive(struct sim_context *context);

/* Wait for its work, then take its streams and memory away. */
void sim_context_end(struct sim_context *context);

/* The head of the list of contexts that live, or have work left; NULL: there is none. */
struct sim_context *sim_contexts(void);

/* The calling thread's top of stack, alive or not, or NULL. */
struct sim_context *sim_context_top(void);

/* The same, for calls that need a living one. */
CUresult sim_context_current(struct sim_context **out);

/* The context of a handle; NULL means the current one. */
CUresult sim_context_of_handle(CUcontext handle, struct sim_context **out);

/* Success unless it is damaged; NULL and dead contexts are not damaged. */
CUresult sim_context_fault(const struct sim_context *context);
void sim_context_damage(struct sim_context *context, CUresult fault);

/*
 * All work that a free of its memory waits for: what its streams have left, and copies on other
 * contexts' streams that touch its memory.  False: no memory.
 */
bool sim_context_marks(struct sim_context *context, struct sim_marks *marks);

/* Wait for that work; returns the state of the context afterwards. */
CUresult sim_context_synchronize(struct sim_context *context);
