#include "preload/contexts.h"

#include <pthread.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "memory/current.h"
#include "memory/growth.h"
#include "preload/capture.h"
#include "preload/natives.h"

/* One context that we know of. */
struct row {
    CUcontext context;
    struct cushim_mem_pool *pool; /* NULL: served natively */
    bool is_leaving;
    UT_hash_handle hh;
};

/* `lock` guards the table and the spare pools; the driver is asked for device, name and flags alone
 * under it.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct row *rows;
static struct cushim_mem_pool *spares[CUSHIM_MAX_DEVICES]; /* pools without a context */
static unsigned n_spares;
static atomic_uint n_pools;
static atomic_uint_fast64_t epoch = 1;

static struct row *find(CUcontext context) {
    struct row *row;
    HASH_FIND_PTR(rows, &context, row);
    return row;
}

static struct row *add(CUcontext context, struct cushim_mem_pool *pool) {
    struct row *row = calloc(1, sizeof *row);
    if (!row)
        return NULL;
    row->context = context;
    row->pool = pool;
    HASH_ADD_PTR(rows, context, row);
    if (!find(context)) { /* uthash was out of memory */
        free(row);
        return NULL;
    }
    return row;
}

/* Under the lock, the context being current: open a pool for it. */
static struct cushim_mem_pool *open_pool(struct cushim_cuda *cuda, CUcontext context) {
    CUdevice device;
    if (cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 || device >= CUSHIM_MAX_DEVICES)
        return NULL;
    struct cushim_mem_pool *pool = n_spares ? spares[n_spares - 1] : calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    if (!add(context, pool)) {
        if (!n_spares)
            spares[n_spares++] = pool;
        return NULL;
    }
    if (n_spares)
        n_spares--;
    struct cushim_mem_pool_setup setup = {
        .cuda = cuda,
        .context = context,
        .device = device,
        .ledger = &cushim_engine.ledger,
        .gate = &cushim_capture_gate,
        .policy = &cushim_engine.policy,
        .stats = &cushim_engine.stats[device][CUSHIM_KIND_DEVICE],
        .source = &cushim_mem_source_device,
    };
    if (cuda->cuDeviceGetName)
        cuda->cuDeviceGetName(cushim_engine.device_names[device], CUSHIM_NAME_BYTES, device);
    cushim_mem_pool_open(pool, &setup);
    atomic_fetch_add(&n_pools, 1);
    cushim_engine_note_use();
    return pool;
}

/* The context must be current. */
static struct cushim_mem_pool *find_or_open(struct cushim_cuda *cuda, CUcontext context) {
    cushim_engine_watch_forks();
    pthread_mutex_lock(&lock);
    struct row *row = find(context);
    struct cushim_mem_pool *pool = NULL;
    if (!row)
        pool = open_pool(cuda, context);
    else if (!row->is_leaving)
        pool = row->pool;
    pthread_mutex_unlock(&lock);
    return pool;
}

struct cushim_mem_pool *cushim_contexts_current(struct cushim_cuda *cuda) {
    CUcontext context = NULL;
    struct cushim_thread *thread = &cushim_thread;
    if (cuda->cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return NULL;
    uint64_t now = atomic_load_explicit(&epoch, memory_order_acquire);
    if (thread->context == context && thread->pool_epoch == now)
        return thread->pool;
    struct cushim_mem_pool *pool = find_or_open(cuda, context);
    if (pool) {
        thread->context = context;
        thread->pool = pool;
        thread->pool_epoch = now;
    }
    return pool;
}

bool cushim_contexts_is_settled(void) {
    return cushim_thread.pool &&
           cushim_thread.pool_epoch == atomic_load_explicit(&epoch, memory_order_acquire);
}

struct cushim_mem_pool *cushim_contexts_pool(struct cushim_cuda *cuda, CUcontext context) {
    CUresult answer;
    pthread_mutex_lock(&lock);
    struct row *row = find(context);
    struct cushim_mem_pool *pool = row && !row->is_leaving ? row->pool : NULL;
    pthread_mutex_unlock(&lock);
    if (row)
        return pool;
    bool has_entered = cushim_mem_current_enter(cuda, context, &answer);
    if (answer == CUDA_SUCCESS)
        pool = find_or_open(cuda, context);
    if (has_entered)
        cushim_mem_current_leave(cuda);
    return pool;
}

unsigned cushim_contexts_count(void) {
    return atomic_load_explicit(&n_pools, memory_order_relaxed);
}

bool cushim_contexts_is_only_current(struct cushim_cuda *cuda) {
    /* asking for the pool makes one where the context is new, and then it is not the only one */
    return cushim_contexts_count() == 1 && cushim_contexts_current(cuda) &&
           cushim_contexts_count() == 1;
}

CUcontext cushim_contexts_of_stream(struct cushim_cuda *cuda, CUstream stream) {
    CUcontext context = NULL;
    bool is_default = !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
    if (is_default)
        cuda->cuCtxGetCurrent(&context);
    else if (!cuda->cuStreamGetCtx || cuda->cuStreamGetCtx(stream, &context) != CUDA_SUCCESS)
        context = NULL;
    return context;
}

/* A copy of the list of pools, for work that must not be done under the lock. */
static unsigned list_pools(struct cushim_mem_pool **pools, unsigned cap) {
    unsigned n = 0;
    struct row *row, *next;
    pthread_mutex_lock(&lock);
    HASH_ITER(hh, rows, row, next) {
        if (row->pool && !row->is_leaving && n < cap)
            pools[n++] = row->pool;
    }
    pthread_mutex_unlock(&lock);
    return n;
}

enum { MANY = 256 };

void cushim_contexts_link_all(struct cushim_cuda *cuda, CUcontext context) {
    struct cushim_mem_pool *pools[MANY];
    struct cushim_mem_pool *other = context ? cushim_contexts_pool(cuda, context) : NULL;
    unsigned n = other ? list_pools(pools, MANY) : 0;
    for (unsigned i = 0; i < n; i++)
        cushim_mem_fence_link(pools[i]->fence, other->fence);
}

size_t cushim_contexts_give_back(void) {
    struct cushim_mem_pool *pools[MANY];
    size_t n_bytes = 0;
    if (cushim_thread.host_function_depth)
        return 0;
    unsigned n = list_pools(pools, MANY);
    for (unsigned i = 0; i < n; i++)
        n_bytes += cushim_mem_growth_trim(pools[i], 0);
    return n_bytes;
}

size_t cushim_contexts_reusable_bytes(int device) {
    struct cushim_mem_pool *pools[MANY];
    size_t n_bytes = 0;
    unsigned n = list_pools(pools, MANY);
    for (unsigned i = 0; i < n; i++) {
        if (pools[i]->device == device)
            n_bytes += cushim_mem_growth_reusable_bytes(pools[i]);
    }
    return n_bytes;
}

void cushim_contexts_note_green(CUcontext context) {
    pthread_mutex_lock(&lock);
    if (context && !find(context))
        add(context, NULL);
    pthread_mutex_unlock(&lock);
}

static void set_leaving(CUcontext context, bool is_leaving) {
    pthread_mutex_lock(&lock);
    struct row *row = find(context);
    if (row)
        row->is_leaving = is_leaving;
    atomic_fetch_add(&epoch, 1);
    pthread_mutex_unlock(&lock);
}

void cushim_contexts_leave(CUcontext context) {
    set_leaving(context, true);
}

void cushim_contexts_stay(CUcontext context) {
    set_leaving(context, false);
}

/* Under the lock: nobody waits for a fence that is gone. */
static void unlink_everywhere(const struct cushim_mem_pool *gone) {
    struct row *row, *next;
    HASH_ITER(hh, rows, row, next) {
        if (row->pool)
            cushim_mem_fence_unlink(row->pool->fence, gone->fence);
    }
}

void cushim_contexts_gone(CUcontext context) {
    pthread_mutex_lock(&lock);
    struct row *row = find(context);
    struct cushim_mem_pool *pool = row ? row->pool : NULL;
    if (row) {
        HASH_DEL(rows, row);
        free(row);
    }
    if (pool) {
        unlink_everywhere(pool);
        cushim_mem_pool_abandon(pool);
        atomic_fetch_sub(&n_pools, 1);
        if (n_spares < CUSHIM_MAX_DEVICES)
            spares[n_spares++] =
                pool; /* beyond that it is lost: a few KiB for each 65th context alive at once */
    }
    atomic_fetch_add(&epoch, 1);
    pthread_mutex_unlock(&lock);
    cushim_natives_drop(context);
    cushim_capture_drop_context(context);
}

CUcontext cushim_contexts_primary(struct cushim_cuda *cuda, CUdevice device) {
    unsigned flags;
    int is_active = 0;
    CUcontext context = NULL;
    if (!cuda->cuDevicePrimaryCtxGetState || !cuda->cuDevicePrimaryCtxRetain ||
        cuda->cuDevicePrimaryCtxGetState(device, &flags, &is_active) != CUDA_SUCCESS || !is_active)
        return NULL;
    /* the handle is told by a retain alone; the release right behind it cannot be the last */
    if (cuda->cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        return NULL;
    if (cuda->cuDevicePrimaryCtxRelease_v2)
        cuda->cuDevicePrimaryCtxRelease_v2(device);
    else
        cuda->cuDevicePrimaryCtxRelease(device);
    return context;
}
