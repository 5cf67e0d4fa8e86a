#include "tests/unit/memory/heap_fixture.h"

#include <check.h>
#include <stdlib.h>

#include "cuda/table.h"
#include "cuda/translate.h"
#include "memory/reclaim.h"
#include "memory/alloc.h"
#include "memory/free.h"
#include "memory/heap.h"
#include "memory/state/heap_state.h"
#include "memory/cache/cache.h"
#include "memory/state/deferred.h"

atomic_int fixture_pass;
atomic_uint fixture_n_enters, fixture_n_leaves;
bool fixture_holds;

static bool is_open(void) {
    return atomic_load(&fixture_pass) != CUSHIM_MEM_PASS_RECORD;
}

static enum cushim_mem_pass enter(void) {
    enum cushim_mem_pass pass = (enum cushim_mem_pass)atomic_load(&fixture_pass);
    atomic_fetch_add(&fixture_n_enters, pass == CUSHIM_MEM_PASS_RECORD);
    return pass;
}

static void leave(void) {
    atomic_fetch_add(&fixture_n_leaves, 1);
}

struct fixture *fixture_create(const char *without) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fake_reset();
    if (!cushim_mem_sizeclass_count())
        cushim_mem_sizeclass_choose(CUSHIM_MEM_FINE);
    fixture->cuda = calloc(1, sizeof *fixture->cuda);
    fake_load(fixture->cuda, without);
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_RECORD);
    atomic_store(&fixture_n_enters, 0);
    atomic_store(&fixture_n_leaves, 0);
    fixture->guard = (struct cushim_mem_capture_guard){is_open, enter, leave};
    atomic_store(&fixture->policy.dedicated_bytes, (size_t)256 << 20);
    fake_set_current(fake_context(0));
    fixture_open(fixture, 0);
    return fixture;
}

const struct cushim_mem_stats *fixture_stats(struct fixture *fixture) {
    cushim_mem_cache_sum(&fixture->stats, &fixture->sum);
    return &fixture->sum;
}

void fixture_destroy(struct fixture *fixture) {
    for (unsigned k = 0; k < FIXTURE_HEAPS; k++)
        cushim_mem_cache_forget_all(&fixture->heaps[k]); /* caches outlive their heaps */
    free(fixture->cuda);
    free(fixture);
}

static void open_on(struct fixture *fixture, unsigned k, CUcontext context,
                    struct cushim_mem_fence *fence) {
    cushim_mem_heap_open(&fixture->heaps[k],
                         &(struct cushim_mem_heap_setup){.cuda = fixture->cuda,
                                                         .context = context,
                                                         .fence = fence,
                                                         .blocks = &fixture->blocks,
                                                         .guard = &fixture->guard,
                                                         .policy = &fixture->policy,
                                                         .stats = &fixture->stats,
                                                         .provider = &cushim_mem_provider_device});
}

void fixture_open(struct fixture *fixture, unsigned k) {
    open_on(fixture, k, fake_context(k), NULL);
}

void fixture_open_beside(struct fixture *fixture) {
    open_on(fixture, 1, fake_context(0), fixture->heaps[0].fence);
}

uint64_t fixture_obtain(struct fixture *fixture, size_t n_bytes, enum cushim_status *status) {
    struct cushim_mem_heap *heap = &fixture->heaps[0];
    struct cushim_mem_block block = {0};
    if (!fixture->guard.is_open() && n_bytes - 1 < heap->quick_bytes) /* as the entry points do */
        block.address = cushim_mem_alloc_fast(heap, n_bytes);
    *status = block.address ? CUSHIM_OK : cushim_mem_alloc(heap, n_bytes, &block);
    return *status == CUSHIM_OK ? block.address : 0;
}

uint64_t fixture_take(struct fixture *fixture, size_t n_bytes) {
    enum cushim_status status;
    uint64_t address = fixture_obtain(fixture, n_bytes, &status);
    ck_assert_int_eq(status, CUSHIM_OK);
    ck_assert_uint_ne(address, 0);
    return address;
}

static enum cushim_status find(struct fixture *fixture, uint64_t address,
                               struct cushim_mem_lookup *lookup) {
    if (!cushim_mem_blocks_find(&fixture->blocks, address, lookup))
        return CUSHIM_UNKNOWNPTR;
    if (lookup->state != CUSHIM_MEM_LIVE)
        return CUSHIM_DOUBLEFREE;
    return lookup->base == address ? CUSHIM_OK : CUSHIM_INVALID;
}

enum cushim_status fixture_release(struct fixture *fixture, uint64_t address, CUresult *answer) {
    struct cushim_mem_lookup lookup;
    enum cushim_status status = find(fixture, address, &lookup);
    int fast = CUSHIM_MEM_FREE_DECLINED;
    *answer = CUDA_SUCCESS;
    bool is_fast = !fixture->guard.is_open(); /* as the entry points do */
    if (is_fast && !fixture->policy.is_relaxed)
        fast =
            cushim_mem_free_fast_behind_wait(&fixture->blocks, address, CUSHIM_MEM_FREE_ENTRY_ANY);
    else if (is_fast && cushim_mem_free_fast(&fixture->blocks, address, CUSHIM_MEM_FREE_ENTRY_ANY))
        fast = CUDA_SUCCESS;
    if (fast != CUSHIM_MEM_FREE_DECLINED) {
        *answer = (CUresult)fast;
        return cushim_status_from_cu(*answer);
    }
    return status == CUSHIM_OK ? cushim_mem_free(lookup.segment->heap, &lookup, answer) : status;
}

enum cushim_status fixture_release_on(struct fixture *fixture, uint64_t address, CUstream stream,
                                      CUresult *answer) {
    struct cushim_mem_lookup lookup;
    enum cushim_status status = find(fixture, address, &lookup);
    *answer = CUDA_SUCCESS;
    return status == CUSHIM_OK ? cushim_mem_free_on(lookup.segment->heap, &lookup, stream, answer)
                               : status;
}

void fixture_give(struct fixture *fixture, uint64_t address) {
    CUresult answer;
    ck_assert_int_eq(fixture_release(fixture, address, &answer), CUSHIM_OK);
    ck_assert_int_eq(answer, CUDA_SUCCESS);
}

size_t fixture_trim(struct fixture *fixture, size_t keep_bytes) {
    cushim_mem_cache_drain_all(&fixture->heaps[0]);
    return cushim_mem_reclaim_trim(&fixture->heaps[0], keep_bytes);
}

size_t fixture_used_bytes(struct fixture *fixture) {
    size_t n_bytes = fixture->heaps[0].live_bytes;
    const struct cushim_mem_cache *cache = fixture->heaps[0].caches;
    for (; cache; cache = cache->next_of_heap)
        n_bytes -= cache->cached_bytes;
    return n_bytes;
}

enum cushim_mem_state fixture_state(struct fixture *fixture, uint64_t address) {
    struct cushim_mem_lookup lookup;
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, address, &lookup));
    return lookup.state;
}

enum cushim_mem_verdict fixture_judge(struct fixture *fixture, uint64_t address, size_t n_bytes) {
    struct cushim_mem_lookup lookup;
    return cushim_mem_blocks_find(&fixture->blocks, address, &lookup)
               ? cushim_mem_blocks_judge(&lookup, address, n_bytes)
               : CUSHIM_MEM_FOREIGN;
}
