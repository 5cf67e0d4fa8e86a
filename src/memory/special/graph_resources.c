#include "memory/special/graph_resources.h"

#include "cuda/current_context.h"
#include "memory/state/heap_state.h"
#include "memory/state/segments.h"
#include "memory/heap/heap.h"

/* One block, in pieces of its pool's descriptor memory. */
struct cushim_mem_held {
    struct cushim_mem_held *next; /* on the pool's stack, once nobody holds it */
    struct cushim_mem_heap *pool;
    uint64_t life; /* generation of the pool */
    struct cushim_mem_blockref place;
    atomic_uint n_holds;
    unsigned n_slots;
    struct cushim_mem_graph_resources_slot slots[];
};

static size_t size_of(unsigned n_slots) {
    return sizeof(struct cushim_mem_held) +
           n_slots * sizeof(struct cushim_mem_graph_resources_slot);
}

enum cushim_status cushim_mem_graph_resources_free(struct cushim_mem_heap *pool,
                                                   const struct cushim_mem_lookup *found,
                                                   struct cushim_mem_graph_resources *const *holds,
                                                   unsigned n_holds) {
    uint64_t life = atomic_load(&pool->generation);
    enum cushim_status status = cushim_mem_heap_claim(pool, found);
    if (status != CUSHIM_OK)
        return status;
    pthread_mutex_lock(&pool->lock);
    struct cushim_mem_held *held = cushim_mem_meta_obtain(&pool->meta, size_of(n_holds));
    pthread_mutex_unlock(&pool->lock);
    if (!held)
        return CUSHIM_NOMEM;
    held->pool = pool;
    held->life = life;
    held->place = found->place;
    held->n_slots = n_holds;
    atomic_init(&held->n_holds, n_holds);
    for (unsigned i = 0; i < n_holds; i++) {
        held->slots[i] = (struct cushim_mem_graph_resources_slot){holds[i]->first, held};
        holds[i]->first = &held->slots[i];
        holds[i]->n_blocks++;
    }
    return CUSHIM_OK;
}

/* Nobody holds it any more. */
static void push(struct cushim_mem_held *held) {
    struct cushim_mem_heap *pool = held->pool;
    held->next = atomic_load_explicit(&pool->unheld, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&pool->unheld, &held->next, held,
                                                  memory_order_release, memory_order_relaxed)) {
    }
}

void cushim_mem_graph_resources_let_go(struct cushim_mem_graph_resources_slot *first) {
    for (struct cushim_mem_graph_resources_slot *slot = first, *next; slot; slot = next) {
        next = slot->next; /* read first: behind the decrement the slot is somebody else's */
        if (atomic_fetch_sub_explicit(&slot->held->n_holds, 1, memory_order_acq_rel) == 1)
            push(slot->held);
    }
}

/* What is not cached goes to the driver, whose free waits as a free of the program would have. */
static bool give_to_driver(struct cushim_mem_heap *pool, struct cushim_mem_segment *segment) {
    CUresult answer;
    if (!cushim_mem_heap_is_uncached(pool, segment))
        return false;
    CUstreamCaptureMode mode = cushim_mode_relaxed(pool->cuda);
    bool is_gone = cushim_mem_segments_free(pool, segment, NULL, &answer) == CUSHIM_OK;
    cushim_mode_back(pool->cuda, mode);
    return is_gone;
}

/* False where host memory is out. */
static bool take_back(struct cushim_mem_heap *pool, struct cushim_mem_held *held, uint64_t tag) {
    bool is_gone = atomic_load(&pool->generation) != held->life || /* with its context */
                   give_to_driver(pool, held->place.extent->segment);
    pthread_mutex_lock(&pool->lock);
    bool is_done = is_gone ||
                   atomic_load_explicit(&pool->generation, memory_order_relaxed) != held->life ||
                   cushim_mem_deferred_add(&pool->deferred, &pool->meta, &held->place, tag);
    if (is_done)
        cushim_mem_meta_release(&pool->meta, held, size_of(held->n_slots));
    pthread_mutex_unlock(&pool->lock);
    return is_done;
}

void cushim_mem_graph_resources_take_back(struct cushim_mem_heap *pool) {
    struct cushim_mem_held *held = atomic_exchange(&pool->unheld, NULL);
    /* the exchange above was the full fence */
    uint64_t tag = cushim_mem_fence_tag(pool->fence);
    for (struct cushim_mem_held *next; held; held = next) {
        next = held->next;
        if (!take_back(pool, held, tag)) /* another time */
            push(held);
    }
}
