#include "memory/graph_resources.h"

#include "base/lock.h"
#include "base/try.h"
#include "cuda/current_context.h"
#include "memory/state/heap_state.h"
#include "memory/state/segments.h"
#include "memory/free.h"
#include "memory/heap.h"

/* One block, in pieces of its heap's descriptor memory. */
struct cushim_mem_held {
    struct cushim_mem_held *next; /* on the heap's stack, when nothing holds it */
    struct cushim_mem_heap *heap;
    uint64_t life; /* generation of the heap */
    struct cushim_mem_blockref ref;
    atomic_uint n_holds;
    unsigned n_slots;
    struct cushim_mem_graph_resources_slot slots[];
};

static size_t size_of(unsigned n_slots) {
    return sizeof(struct cushim_mem_held) +
           n_slots * sizeof(struct cushim_mem_graph_resources_slot);
}

enum cushim_status cushim_mem_graph_resources_free(struct cushim_mem_heap *heap,
                                                   const struct cushim_mem_lookup *lookup,
                                                   struct cushim_mem_graph_resources *const *holds,
                                                   unsigned n_holds) {
    uint64_t life = atomic_load(&heap->generation);
    CUSHIM_TRY(cushim_mem_free_claim(heap, lookup));
    struct cushim_mem_held *held =
        CUSHIM_UNDER(&heap->lock, cushim_mem_meta_obtain(&heap->meta, size_of(n_holds)));
    if (!held)
        return CUSHIM_NOMEM;
    held->heap = heap;
    held->life = life;
    held->ref = lookup->ref;
    held->n_slots = n_holds;
    atomic_init(&held->n_holds, n_holds);
    for (unsigned i = 0; i < n_holds; i++) {
        held->slots[i] = (struct cushim_mem_graph_resources_slot){holds[i]->first, held};
        holds[i]->first = &held->slots[i];
        holds[i]->n_blocks++;
    }
    return CUSHIM_OK;
}

/* Nothing holds the block any more. */
static void push(struct cushim_mem_held *held) {
    struct cushim_mem_heap *heap = held->heap;
    held->next = load_relaxed(&heap->unheld);
    while (!atomic_compare_exchange_weak_explicit(&heap->unheld, &held->next, held,
                                                  memory_order_release, memory_order_relaxed)) {
    }
}

void cushim_mem_graph_resources_let_go(struct cushim_mem_graph_resources_slot *first) {
    for (struct cushim_mem_graph_resources_slot *slot = first, *next; slot; slot = next) {
        next = slot->next; /* read first, because after the decrement another thread may free the
                            * slot */
        if (atomic_fetch_sub_explicit(&slot->held->n_holds, 1, memory_order_acq_rel) == 1)
            push(slot->held);
    }
}

/* Memory that is not cached goes to the driver, whose free waits as a free of the program would
 * have. */
static bool give_to_driver(struct cushim_mem_heap *heap, struct cushim_mem_segment *segment) {
    CUresult answer;
    return cushim_mem_heap_is_uncached(heap, segment) &&
           CUSHIM_IN_RELAXED(heap->cuda, cushim_mem_segments_free(heap, segment, NULL, &answer)) ==
               CUSHIM_OK;
}

/* False: host memory is out. */
static bool take_back(struct cushim_mem_heap *heap, struct cushim_mem_held *held, uint64_t tag) {
    bool is_gone = atomic_load(&heap->generation) != held->life || /* with its context */
                   give_to_driver(heap, held->ref.extent->segment);
    CUSHIM_LOCKED(&heap->lock);
    bool is_done = is_gone || load_relaxed(&heap->generation) != held->life ||
                   cushim_mem_deferred_add(&heap->deferred, &heap->meta, &held->ref, tag);
    if (is_done)
        cushim_mem_meta_release(&heap->meta, held, size_of(held->n_slots));
    return is_done;
}

void cushim_mem_graph_resources_take_back(struct cushim_mem_heap *heap) {
    struct cushim_mem_held *held = atomic_exchange(&heap->unheld, NULL);
    /* the exchange above was the full fence */
    uint64_t tag = cushim_mem_fence_tag(heap->fence);
    for (struct cushim_mem_held *next; held; held = next) {
        next = held->next;
        if (!take_back(heap, held, tag)) /* try again another time */
            push(held);
    }
}
