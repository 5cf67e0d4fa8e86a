#include "tools/cushim/replay/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "memory/alloc.h"
#include "memory/free.h"
#include "memory/heap.h"
#include "memory/state/heap_state.h"
#include "memory/policy.h"
#include "report/page.h"
#include "tools/cushim/recording/recording.h"
#include "tools/cushim/replay/no_device.h"

/* Of one recording.  A real one has a few pools for each context. */
enum { MOST_POOLS = 4096 };

/* A pool of the recording, and the heap that replaces it. */
struct pool {
    struct {
        uint64_t pool, device, kind;
    } key;
    struct cushim_mem_heap heap;
    UT_hash_handle hh;
};

/* What a block of the recording has as its own if the driver served it here; otherwise it is the
 * new address, or 0 if none was served. */
static const uint64_t by_driver = 1;

/* There is one for each process. */
static struct engine {
    const struct setting *setting;
    struct plan *plan;
    struct cushim_cuda *cuda;
    struct cushim_mem_blocks blocks;
    struct cushim_mem_policy policies[CUSHIM_MEM_PINNED + 1];
    struct cushim_mem_limit budgets[CUSHIM_TRACE_DEVICES];
    struct cushim_mem_stats stats[CUSHIM_TRACE_DEVICES][CUSHIM_MEM_PINNED + 1];
    struct pool *pools;
} engine;

/* ---- the engine ---- */

static bool no_capture(void) {
    return false;
}

static enum cushim_mem_pass pass(void) {
    return CUSHIM_MEM_PASS_RECORD;
}

static void leave(void) {
}

static const struct cushim_mem_capture_guard guard = {no_capture, pass, leave};

static struct plan_sums *sums_of(unsigned device, unsigned kind) {
    return &engine.plan->sums[recording_scope_of(device, kind)];
}

static void count_call(struct cushim_mem_heap *heap, uint64_t base, size_t n_bytes, bool is_there) {
    (void)base;
    (void)n_bytes;
    (void)is_there;
    sums_of((unsigned)heap->device, heap->kind)->n_calls++;
}

static bool begin(const struct setting *setting, struct plan *plan) {
    struct cushim_mem_policy *policy = &engine.policies[CUSHIM_MEM_DEVICE];
    engine.setting = setting;
    engine.plan = plan;
    engine.cuda = no_device_open();
    if (!engine.cuda)
        return false;
    cushim_mem_sizeclass_choose((enum cushim_mem_scheme)setting->buckets);
    atomic_store(&policy->dedicated_bytes, setting->large_bytes);
    policy->segment_moved = count_call;
    policy->is_relaxed = setting->is_relaxed;
    policy->keep = setting->keep;
    policy->reserve = setting->reserve;
    policy->has_keep = !cushim_amount_is_auto(setting->keep);
    if (strcmp(setting->limit, "0") != 0)
        policy->budgets = engine.budgets;
    for (int kind = CUSHIM_MEM_MANAGED; kind <= CUSHIM_MEM_PINNED; kind++)
        cushim_mem_policy_of_kind(&engine.policies[kind], policy, (enum cushim_mem_kind)kind);
    return true;
}

static void set_limit(unsigned device, uint64_t device_bytes) {
    struct cushim_amount limit = cushim_limits_of(engine.setting->limit, (int)device);
    if (!device_bytes && limit.is_percent)
        return; /* the device is unknown, and was not used yet */
    atomic_store(&engine.budgets[device].limit_bytes, cushim_amount_bytes(limit, device_bytes));
}

/* Find or make the pool for one of the recording's.  Returns NULL if there is no memory. */
static struct pool *pool_of(uint64_t number, unsigned device, unsigned kind) {
    static const struct cushim_mem_provider *const providers[] = {
        [CUSHIM_MEM_DEVICE] = &cushim_mem_provider_device,
        [CUSHIM_MEM_MANAGED] = &cushim_mem_provider_managed,
        [CUSHIM_MEM_PINNED] = &cushim_mem_provider_pinned};
    struct pool *pool, wanted = {.key = {number, device, kind}};
    HASH_GET(engine.pools, key, wanted.key, pool);
    if (!pool || HASH_COUNT(engine.pools) > MOST_POOLS)
        return NULL;
    no_device_set_context(number, device);
    if (!cushim_mem_heap_is_open(&pool->heap))
        cushim_mem_heap_open(&pool->heap, &(struct cushim_mem_heap_setup){
                                              .cuda = engine.cuda,
                                              .context = (CUcontext)(uintptr_t)number,
                                              .device = (int)device,
                                              .blocks = &engine.blocks,
                                              .guard = &guard,
                                              .policy = &engine.policies[kind],
                                              .stats = &engine.stats[device][kind],
                                              .kind = (enum cushim_mem_kind)kind,
                                              .provider = providers[kind],
                                          });
    return pool;
}

/* ---- events ---- */

static void lift(uint64_t *peak, uint64_t now) {
    if (now > *peak)
        *peak = now;
}

/* Sum what the pools of a scope hold, and what the driver served in the run, too. */
static void take_held(unsigned device, unsigned kind) {
    struct plan_sums *sums = sums_of(device, kind);
    const bool is_pinned = kind == CUSHIM_KIND_PINNED;
    if (engine.setting->is_native)
        return;
    sums->held_bytes = sums->driver_bytes;
    for (unsigned i = is_pinned ? 0 : device; i < (is_pinned ? CUSHIM_TRACE_DEVICES : device + 1);
         i++) {
        for (unsigned k = 0; k <= CUSHIM_MEM_PINNED; k++) {
            if ((k == CUSHIM_MEM_PINNED) == is_pinned)
                sums->held_bytes += cushim_mem_stats_read(&engine.stats[i][k].held_bytes);
        }
    }
    lift(&sums->peak_held_bytes, sums->held_bytes);
}

enum served { BY_HEAP, BY_DRIVER, REFUSED, NO_MEMORY };

/* Serve a request as the setting does. */
static enum served serve(uint64_t number, unsigned device, unsigned kind, uint64_t n_bytes,
                         struct cushim_mem_block *block) {
    *block = (struct cushim_mem_block){0};
    if (engine.setting->is_native || !number || kind > CUSHIM_MEM_PINNED ||
        !n_bytes) /* only a damaged recording has requests of none */
        return BY_DRIVER;
    struct pool *pool = pool_of(number, device, kind);
    if (!pool)
        return NO_MEMORY;
    if (cushim_mem_alloc(&pool->heap, n_bytes, block) != CUSHIM_OK)
        return REFUSED;
    take_held(device, kind);
    return BY_HEAP;
}

/* NULL: there is no limit, or not for this memory. */
static struct cushim_mem_limit *budget_of(const struct cushim_trace_block *of) {
    struct cushim_mem_limit *budgets = engine.policies[CUSHIM_MEM_DEVICE].budgets;
    bool is_charged = of->kind != CUSHIM_KIND_PINNED && of->kind != CUSHIM_KIND_MANAGED;
    return budgets && is_charged ? &budgets[of->device] : NULL;
}

/* Memory that the driver serves; false: the limit does not let it. */
static bool charge(const struct cushim_trace_block *of, struct plan_sums *sums) {
    if (!cushim_mem_limit_charge(budget_of(of), of->n_bytes))
        return false;
    sums->driver_bytes += of->n_bytes;
    sums->n_calls++;
    take_held(of->device, of->kind);
    return true;
}

static void refund(const struct cushim_trace_block *of, struct plan_sums *sums) {
    cushim_mem_limit_refund(budget_of(of), of->n_bytes);
    sums->driver_bytes -= of->n_bytes;
    sums->n_calls++;
    take_held(of->device, of->kind);
}

static bool replay_alloc(const struct cushim_trace_account *account) {
    const struct cushim_trace_block *of = &account->block;
    struct plan_sums *sums = sums_of(of->device, of->kind);
    struct cushim_mem_block block;
    uint64_t number = account->event.flags & CUSHIM_TRACE_NATIVELY ? 0 : of->pool;
    enum served served = serve(number, of->device, of->kind, of->n_bytes, &block);
    struct cushim_trace_block *live = cushim_trace_account_live(account, of->address);
    live->own = 0; /* of a block whose free was taken back, it is what was freed here */
    sums->n_requests += !(account->event.flags & CUSHIM_TRACE_RESTORED);
    if (served == BY_DRIVER && !charge(of, sums))
        served = REFUSED;
    sums->n_refused += served == REFUSED;
    if (served == REFUSED || served == NO_MEMORY)
        return served == REFUSED;
    sums->live_bytes += of->n_bytes;
    lift(&sums->peak_live_bytes, sums->live_bytes);
    live->own = block.address ? block.address : by_driver;
    return true;
}

static void replay_free(const struct cushim_trace_account *account) {
    const struct cushim_trace_block *of = &account->block;
    struct plan_sums *sums = sums_of(of->device, of->kind);
    struct cushim_mem_lookup lookup;
    CUresult answer;
    if (!account->site || !of->own)
        return;
    sums->live_bytes -= of->n_bytes;
    if (of->own == by_driver) {
        refund(of, sums);
    } else if (cushim_mem_blocks_find(&engine.blocks, of->own, &lookup)) {
        no_device_set_context((uint64_t)(uintptr_t)lookup.segment->heap->context, of->device);
        cushim_mem_free(lookup.segment->heap, &lookup, &answer);
        take_held(of->device, of->kind);
    }
}

static void replay_gone(uint64_t number) {
    for (struct pool *pool = engine.pools; pool; pool = pool->hh.next) {
        if (pool->key.pool != number || !cushim_mem_heap_is_open(&pool->heap))
            continue;
        cushim_mem_heap_abandon(&pool->heap);
        take_held((unsigned)pool->key.device, (unsigned)pool->key.kind);
    }
}

/* Replay a request that was refused in the recording.  If it is served here, the block is freed
 * at once, because the program cannot use it. */
static bool replay_refused(const struct cushim_trace_event *event) {
    struct cushim_mem_block block;
    struct cushim_mem_lookup lookup;
    CUresult answer;
    enum served served = serve(event->pool, event->device, event->kind, event->n_bytes, &block);
    if (served == REFUSED || served == BY_DRIVER)
        sums_of(event->device, event->kind)->n_refused++;
    else if (served == BY_HEAP && cushim_mem_blocks_find(&engine.blocks, block.address, &lookup))
        cushim_mem_free(lookup.segment->heap, &lookup, &answer);
    return served != NO_MEMORY;
}

static int replay(const char *path, const struct setting *setting, struct plan *plan) {
    static struct cushim_trace_account account; /* too large for a stack */
    int error = cushim_trace_account_open(&account, path);
    if (error)
        return error;
    if (!begin(setting, plan))
        return ENOMEM;
    for (unsigned device = 0; device < CUSHIM_TRACE_DEVICES; device++)
        set_limit(device, 0);
    while (!error && cushim_trace_account_next(&account)) {
        const struct cushim_trace_event *event = &account.event;
        no_device_set_time(event->time_ns ? event->time_ns : 1);
        if ((event->code == CUSHIM_TRACE_ALLOC && !replay_alloc(&account)) ||
            (event->code == CUSHIM_TRACE_REFUSE && !replay_refused(event))) {
            error = ENOMEM;
        } else if (event->code == CUSHIM_TRACE_FREE) {
            replay_free(&account);
        } else if (event->code == CUSHIM_TRACE_GONE) {
            replay_gone(event->number);
        } else if (event->code == CUSHIM_TRACE_DEVICE) {
            no_device_set_memory(event->device, event->n_bytes);
            set_limit(event->device, event->n_bytes);
        }
    }
    return error ? error : account.error;
}

/* ---- the run as it was ---- */

int plan_recorded(struct plan *plan, const char *path) {
    struct recording_scope scopes[RECORDING_SCOPES];
    int n = recording_scopes(path, scopes);
    memset(plan, 0, sizeof *plan);
    for (int i = 0; i < n; i++) {
        if (scopes[i].device == RECORDING_IMPORTED)
            continue;
        plan->sums[scopes[i].device < 0 ? CUSHIM_TRACE_DEVICES : scopes[i].device] =
            (struct plan_sums){.n_requests = scopes[i].n_requests,
                               .n_refused = scopes[i].n_refused,
                               .n_calls = scopes[i].n_calls,
                               .peak_live_bytes = scopes[i].peak_bytes,
                               .peak_held_bytes = scopes[i].peak_held_bytes};
    }
    return n < 0 ? -n : 0;
}

/* ---- children ---- */

int plan_make(struct plan *plan, const char *path, const struct setting *setting) {
    struct plan *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return errno;
    shared->error = ECHILD;
    pid_t child = fork();
    if (child == 0) {
        shared->error = replay(path, setting, shared);
        _exit(0);
    }
    int error = child < 0 ? errno : 0;
    if (child > 0)
        TEMP_FAILURE_RETRY(waitpid(child, NULL, 0));
    *plan = *shared;
    munmap(shared, sizeof *shared);
    return error ? error : plan->error;
}

static uint64_t refused(const struct plan *plan) {
    uint64_t n = 0;
    for (int i = 0; i < PLAN_SCOPES; i++)
        n += plan->sums[i].n_refused;
    return n;
}

int plan_least_limit(uint64_t *n_bytes, const char *path, const struct setting *setting) {
    static const uint64_t step_bytes = (uint64_t)2 << 20;
    static struct plan plan;
    struct setting limited = *setting;
    uint64_t most = 0, least = 0;
    int error = plan_make(&plan, path, setting);
    uint64_t n_refused = refused(&plan);
    for (int i = 0; i < CUSHIM_TRACE_DEVICES; i++) {
        lift(&most, plan.sums[i].peak_held_bytes);
    }
    most = (most + step_bytes - 1) / step_bytes;
    /* a limit of the peak refuses nothing */
    while (!error && least + 1 < most) {
        uint64_t middle = least + (most - least) / 2;
        snprintf(limited.limit, sizeof limited.limit, "%zu", (size_t)(middle * step_bytes));
        error = plan_make(&plan, path, &limited);
        if (refused(&plan) > n_refused)
            least = middle;
        else
            most = middle;
    }
    *n_bytes = most * step_bytes;
    return error;
}
