#include "preload/observe/sites.h"

#include <pthread.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/backtrace.h"
#include "base/clock.h"
#include "base/lock.h"
#include "memory/state/heap_state.h"
#include "preload/state/live.h"
#include "preload/observe/stack.h"
#include "report/site.h"

/* A sampled block that is live. */
struct row {
    uint64_t address;
    const void *heap;
    size_t n_bytes;
    uint64_t key;
    UT_hash_handle hh;
};

static struct {
    const struct cushim_page_head *head;
    struct cushim_mem_blocks *blocks;
    uint64_t mean_bytes;       /* 0: off.  Constant once the options were read */
    pthread_mutex_t lock;      /* guards what is below, and the sites of the page */
    struct row *rows, *spares; /* the second a list by hh.next */
} sites = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The stack of each row of the page, for a recording that begins late; under the lock. */
static struct cushim_backtrace stacks[CUSHIM_PAGE_SITES];

void cushim_sites_begin(const struct cushim_page_head *head, struct cushim_mem_blocks *blocks) {
    sites.head = head;
    sites.blocks = blocks;
    sites.mean_bytes = head->sample_bytes;
}

void cushim_sites_in_child(bool is_fresh) {
    pthread_mutex_init(&sites.lock, NULL);
    sites.rows = sites.spares = NULL; /* the parent's */
    sites.mean_bytes = is_fresh ? sites.mean_bytes : 0;
}

bool cushim_sites_are_on(void) {
    return sites.mean_bytes;
}

/* ---- which requests ---- */

/* Uniform below the mean.  Each thread has its own state, so that no cache line is shared. */
static uint64_t draw(void) {
    static _Thread_local uint64_t state __attribute__((tls_model("initial-exec")));
    if (!state)
        state = cushim_clock_ns() ^ (uint64_t)&state;
    state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
    return (uint64_t)((__uint128_t)state * sites.mean_bytes >> 64);
}

/* ---- whose they are ---- */

/* A hash of the innermost frames, which two requests of one place have in common if both are on the
 * device, or both spilled (CUSHIM_PAGE_SITE_SPILLED). */
static uint64_t key_of(const struct cushim_backtrace *stack, bool is_spilled) {
    enum { DEPTH = 12 };
    uint64_t key = 1;
    for (int i = 0; i < stack->n_frames && i < DEPTH; i++) {
        key = (key ^ (uint64_t)stack->frames[i]) * 0x9e3779b97f4a7c15u;
        key ^= key >> 29;
    }
    key = (key & ~CUSHIM_PAGE_SITE_SPILLED) | (is_spilled ? CUSHIM_PAGE_SITE_SPILLED : 0);
    return key ? key : 2;
}

/* The site of a stack, which is described if it is new; NULL: no row is left.  The caller holds the
 * lock. */
static struct cushim_page_site *site_of(uint64_t key, const struct cushim_backtrace *stack) {
    struct cushim_page_site *site = cushim_site_find(&cushim_page_sites, key);
    cushim_live_show(site ? (void *)site : &cushim_page_sites, sizeof *site);
    if (!site) {
        cushim_mem_stats_add(&cushim_page_sites.n_lost, 1);
    } else if (stack && !cushim_mem_stats_read(&site->key)) {
        stacks[site - cushim_page_sites.rows] = *stack;
        site->n_frames = cushim_stack_describe(stack, site->frames, CUSHIM_PAGE_SITE_FRAMES);
        atomic_store_explicit(&site->key, key, memory_order_release);
    }
    return site;
}

static uint64_t run_ns(void) {
    return cushim_clock_ns() - sites.head->start_ns;
}

/* ---- blocks, under the lock ---- */

static struct row *find(uint64_t address) {
    struct row *row;
    HASH_FIND(hh, sites.rows, &address, sizeof address, row);
    return row;
}

static void spare(struct row *row) {
    row->hh.next = sites.spares;
    sites.spares = row;
}

static void drop(struct row *row) {
    struct cushim_page_site *site = site_of(row->key, NULL);
    if (site)
        cushim_site_subtract(site, sites.mean_bytes, row->n_bytes, run_ns());
    HASH_DEL(sites.rows, row);
    spare(row);
}

static void enter(const struct cushim_sites_free *block, const struct cushim_backtrace *stack) {
    struct row *row = find(block->address);
    if (row) /* it was freed unseen */
        drop(row);
    struct cushim_page_site *site = site_of(block->key, stack);
    row = !site ? NULL : sites.spares ? sites.spares : malloc(sizeof *row);
    if (!row)
        return;
    if (row == sites.spares)
        sites.spares = row->hh.next;
    row->address = block->address;
    row->heap = block->heap;
    row->n_bytes = block->n_bytes;
    row->key = block->key;
    HASH_ADD(hh, sites.rows, address, sizeof row->address, row);
    if (find(block->address))
        cushim_site_add(site, sites.mean_bytes, block->n_bytes, run_ns());
    else
        spare(row);
}

bool cushim_sites_stack(uint64_t address, struct cushim_backtrace *stack) {
    CUSHIM_LOCKED(&sites.lock);
    const struct row *row = cushim_sites_are_on() ? find(address) : NULL;
    const struct cushim_page_site *site =
        row ? cushim_site_find(&cushim_page_sites, row->key) : NULL;
    if (site)
        *stack = stacks[site - cushim_page_sites.rows];
    return site;
}

/* ---- events ---- */

void cushim_sites_alloc(const void *heap, uint64_t address, size_t n_bytes, bool is_spilled) {
    struct cushim_backtrace stack;
    struct cushim_mem_lookup lookup;
    if (!cushim_sites_are_on() || draw() >= n_bytes)
        return;
    cushim_backtrace_take(&stack);
    if (heap && cushim_mem_blocks_find_live(sites.blocks, address, &lookup))
        cushim_mem_block_watch(&lookup);
    CUSHIM_LOCKED(&sites.lock);
    enter(&(struct cushim_sites_free){address, heap, n_bytes, key_of(&stack, is_spilled)}, &stack);
}

struct cushim_sites_free cushim_sites_free(const struct cushim_mem_lookup *lookup,
                                           uint64_t address) {
    struct cushim_sites_free freed = {.address = address};
    if (!cushim_sites_are_on() || (lookup && !cushim_mem_block_is_watched(lookup)))
        return freed;
    CUSHIM_LOCKED(&sites.lock);
    struct row *row = find(address);
    if (row) {
        freed = (struct cushim_sites_free){address, row->heap, row->n_bytes, row->key};
        drop(row);
    }
    return freed;
}

void cushim_sites_restore(const struct cushim_sites_free *freed) {
    if (!freed->key)
        return;
    CUSHIM_LOCKED(&sites.lock);
    enter(freed, NULL);
}

void cushim_sites_gone(const void *heap) {
    struct row *row, *next;
    if (!cushim_sites_are_on())
        return;
    CUSHIM_LOCKED(&sites.lock);
    HASH_ITER(hh, sites.rows, row, next) {
        if (row->heap == heap)
            drop(row);
    }
}
