/*
 * Contexts: which heap serves which context, and what happens when a context is destroyed
 * (interposition.md E).
 *
 * A context gets its heap at its first allocation of device memory, and one heap for each kind and
 * flags of other memory at the first allocation of that.  A green context stands for the primary
 * context of its device: memory allocated under it belongs to the primary context and outlives it.
 *
 * Heaps are never freed: those of a context that was destroyed are opened again for a later one.
 * The driver may give a new context the handle of an old one.  So the epoch of the fast-path guard
 * rises with every context that is destroyed, and what a thread remembers of the old context is not
 * used for the new one.
 */
#pragma once

#include "preload/state/process.h"

struct cushim_mem_heap;

/* Derive the policies of pinned and managed memory from that of device memory; called once, at the
 * start.
 */
void cushim_contexts_set_policies(void);

/*
 * The heap of the calling thread's current context, made if there is none.  NULL: no context is
 * current, it is being destroyed, or host memory is out.
 */
struct cushim_mem_heap *cushim_contexts_current(struct cushim_cuda *cuda);

/*
 * Hold a heap: the end of its context waits until cushim_contexts_let.  A thread that takes memory
 * from a heap, gives it back, or touches it holds the heap meanwhile, also during driver calls.
 * Only the fast paths do not.  False, or NULL: the context is being ended, so the driver must
 * serve.
 */
enum { CUSHIM_CONTEXTS_PATIENCE_NS = 2000000000 }; /* of an end, for threads that hold */
bool cushim_contexts_hold(struct cushim_mem_heap *heap);
void cushim_contexts_let(struct cushim_mem_heap *heap);
struct cushim_mem_heap *cushim_contexts_hold_current(struct cushim_cuda *cuda);
/* The same, after a wait if another thread is ending the context. */
struct cushim_mem_heap *cushim_contexts_hold_settled(struct cushim_cuda *cuda);

/*
 * Find the block at an address whose context nobody is ending.  The driver ends a context before we
 * hear of it, and may have given its addresses anew.  A thread waits for that end if may_wait.
 * False: the address is foreign, or the wait was in vain.
 */
bool cushim_contexts_find_block(uint64_t address, bool may_wait, struct cushim_mem_lookup *lookup);
/* The same, always with that wait, and the heap of the block is held. */
bool cushim_contexts_hold_block(uint64_t address, struct cushim_mem_lookup *lookup);

/*
 * Has the calling thread been in an entry point of the driver since a context was last destroyed?
 * If not, the runtime may still have to make a new context current.  So the runtime's entry points
 * then call the runtime.
 */
static inline bool cushim_contexts_is_settled(void) {
    return cushim_thread.heap && cushim_thread.heap_epoch == cushim_guard_epoch(cushim_guard_now());
}

/*
 * The heap of the current context for pinned or managed memory with these flags, or for what is
 * spilled (CUSHIM_MEM_DEVICE, 0), made if there is none, and held.  NULL as above, or if managed
 * memory of the device cannot be reused.
 */
struct cushim_mem_heap *cushim_contexts_hold_kind(struct cushim_cuda *cuda,
                                                  enum cushim_mem_kind kind, unsigned flags);

/* The heap of a context; NULL: it has none, or the context is being destroyed. */
struct cushim_mem_heap *cushim_contexts_find(CUcontext context);

/* How many contexts have a heap. */
unsigned cushim_contexts_count(void);

static inline bool cushim_stream_is_default(CUstream stream) {
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

/* The context of a stream; of a default stream, the current one.  NULL: the driver does not say. */
CUcontext cushim_contexts_of_stream(struct cushim_cuda *cuda, CUstream stream);

/* The host can see the result of work that was just submitted, in any context. */
void cushim_contexts_note_effects(void);

/*
 * All heaps give their idle memory back to the driver.  Only the second function includes those of
 * pinned memory; it is for when host memory is out.  The third waits for nothing.  They return the
 * bytes.  Inside a host function they do nothing, because it may not call the driver.
 */
size_t cushim_contexts_give_back(void);
size_t cushim_contexts_give_back_all(void);
size_t cushim_contexts_give_back_at_once(void);

/* Call a function for each heap, which is held meanwhile. */
void cushim_contexts_each(void (*visit)(struct cushim_mem_heap *heap));

/*
 * Heaps that held idle memory for a second while no free looked at it give back what they may no
 * longer hold.  Those of `synchronised`, a context that was just synchronised (NULL: none was), may
 * wait for it; the others wait for nothing.
 */
void cushim_contexts_give_back_stale(CUcontext synchronised);

/* The same for the heaps of one heap's device; waits until `until_ns` (cushim_clock_ns) at most. */
size_t cushim_contexts_make_room(const struct cushim_mem_heap *heap, uint64_t until_ns);

/* How many bytes of a device's memory its heaps could give back, or of what is spilled for it. */
size_t cushim_contexts_reusable_bytes(int device, bool is_spilled);

/* Before a block of this heap is freed: if it is spilled, wait for the work of other contexts,
 * which may be a copy of it, but not for a kernel that never ends.  The driver makes the free of
 * device memory wait for copies of other contexts. */
void cushim_contexts_await_others(const struct cushim_mem_heap *heap);

/* The owner of what is allocated under `context`: its primary context if it is a green one, else
 * itself. */
CUcontext cushim_contexts_owner(CUcontext context);

/* Note what a report says about a device: one whose memory is served without a heap. */
void cushim_contexts_note_device(struct cushim_cuda *cuda, int device);

/* `context` is a green one: from now on the heap of its primary context serves it. */
void cushim_contexts_note_green(struct cushim_cuda *cuda, CUcontext context);

/*
 * cuCtxAttach added a use of a context.  Call the second before cuCtxDetach takes one away.  False:
 * it is the last use, its creator's, and the context is destroyed with it.
 */
void cushim_contexts_attach(CUcontext context);
bool cushim_contexts_detach(CUcontext context);

/* Before a context is destroyed: from now on no heap serves it, and no thread is inside one. */
void cushim_contexts_leave(CUcontext context);

/* It was destroyed, and its blocks are foreign now; or it was not, and its heap serves again. */
void cushim_contexts_settle(CUcontext context, bool is_gone);

/* The driver was unloaded, and every context with it. */
void cushim_contexts_gone_all(void);
