#include "preload/entry/async_pool.h"

#include <pthread.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/lock.h"
#include "cuda/table.h"
#include "preload/state/captures.h"
#include "preload/state/contexts.h"
#include "preload/state/primary.h"
#include "preload/state/process_options.h"

/* The number of streams that were destroyed, because a later stream may get the handle of one. */
static atomic_uint n_gone;

void cushim_async_forget_streams(void) {
    atomic_fetch_add_explicit(&n_gone, 1, memory_order_relaxed);
}

static bool ask(struct cushim_cuda *cuda, CUstream stream, struct cushim_async_owner *owner) {
    owner->context = cushim_contexts_of_stream(cuda, stream);
    owner->device = owner->context ? cushim_device_of(cuda, owner->context) : -1;
    return owner->device >= 0 && owner->device < CUSHIM_MAX_DEVICES;
}

bool cushim_async_find_owner(struct cushim_cuda *cuda, CUstream stream,
                             struct cushim_async_owner *owner) {
    static _Thread_local struct {
        CUstream stream; /* NULL: none */
        uint64_t epoch;  /* of the guard; if it has changed, a context may be gone */
        unsigned n_gone;
        struct cushim_async_owner owner;
    } last __attribute__((tls_model("initial-exec")));
    bool is_default = cushim_stream_is_default(stream);
    unsigned n = atomic_load_explicit(&n_gone, memory_order_relaxed);
    uint64_t epoch = cushim_guard_epoch(cushim_guard_now());
    if (!is_default && last.stream == stream && last.epoch == epoch && last.n_gone == n) {
        *owner = last.owner;
        return true;
    }
    if (!ask(cuda, stream, owner))
        return false;
    if (!is_default) {
        last.stream = stream;
        last.epoch = epoch;
        last.n_gone = n;
        last.owner = *owner;
    }
    return true;
}

/* ---- how much freed memory pools keep ---- */

static const uint64_t idle_ns = 1000000000, look_ns = 100000000;

/* Pools that were seen.  The lock is held while the driver is asked about one, because another
 * thread may destroy it. */
enum { MOST_POOLS = 64, UNKNOWN = -1 };
static struct {
    pthread_mutex_t lock;
    struct {
        CUmemoryPool pool;
        int device;   /* UNKNOWN: it is not asked */
        bool is_ours; /* its threshold */
    } rows[MOST_POOLS];
    unsigned n;
    atomic_bool is_any; /* whose device is known */
    atomic_bool is_seen[CUSHIM_MAX_DEVICES];
    atomic_uint_fast64_t used_ns, looked_ns;
} pools = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_auto(void) {
    return cushim_amount_is_auto(cushim_process_options.async_keep);
}

static bool is_off(void) {
    const struct cushim_mem_policy *policy = &cushim_process.policy;
    bool keeps_nothing = !cushim_process_options.pool || (policy->has_keep && !policy->keep.number);
    return !cushim_process_options.async_keep.number || (is_auto() && keeps_nothing);
}

/* Idle memory stays below half of what would be free, as that of heaps does, and below --keep. */
static uint64_t most_idle_bytes(uint64_t idle_bytes, size_t free_bytes, size_t device_bytes) {
    const struct cushim_mem_policy *policy = &cushim_process.policy;
    uint64_t most_bytes = (free_bytes + idle_bytes) / 2;
    if (policy->has_keep)
        most_bytes = cushim_least(most_bytes, cushim_amount_bytes(policy->keep, device_bytes));
    return cushim_least(idle_bytes, most_bytes);
}

/* May the driver be asked now?  A capture might be invalidated, and in a forked child the lock may
 * be held for ever. */
static bool is_open(struct cushim_cuda *cuda) {
    return cushim_process_is_on() && cuda && cuda->cuMemPoolGetAttribute &&
           cuda->cuMemPoolSetAttribute && cuda->cuMemPoolTrimTo && !cushim_capture_is_open() &&
           !cushim_thread.host_function_depth;
}

static uint64_t attribute(struct cushim_cuda *cuda, CUmemoryPool pool, CUmemPool_attribute which) {
    cuuint64_t value = 0;
    return cuda->cuMemPoolGetAttribute(pool, which, &value) == CUDA_SUCCESS ? value : 0;
}

static uint64_t idle_bytes_of(struct cushim_cuda *cuda, CUmemoryPool pool) {
    return cushim_less(attribute(cuda, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
                       attribute(cuda, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
}

/* Its place; pools.n: it has none.  The caller holds the lock. */
static unsigned find(CUmemoryPool pool) {
    unsigned i = 0;
    while (i < pools.n && pools.rows[i].pool != pool)
        i++;
    return i;
}

/* Its place, new or not; MOST_POOLS: the table is full.  The caller holds the lock. */
static unsigned enter(CUmemoryPool pool, int device) {
    unsigned i = find(pool);
    if (i == MOST_POOLS)
        return i;
    if (i == pools.n) {
        pools.n++;
        pools.rows[i].pool = pool;
        pools.rows[i].device = UNKNOWN;
        pools.rows[i].is_ours = false;
    }
    if (device != UNKNOWN) {
        pools.rows[i].device = device;
        atomic_store(&pools.is_any, true);
    }
    return i;
}

/* It is counted from now on, and its threshold is set if it may be. */
static void meet(struct cushim_cuda *cuda, CUmemoryPool pool, int device, bool may_set) {
    struct cushim_amount wish = cushim_process_options.async_keep;
    size_t free_bytes, device_bytes = 0;
    if (wish.is_percent && cuda->cuMemGetInfo_v2(&free_bytes, &device_bytes) != CUDA_SUCCESS)
        return;
    cuuint64_t wanted_bytes = cushim_amount_bytes(wish, device_bytes);
    CUSHIM_LOCKED(&pools.lock);
    uint64_t now_bytes = attribute(cuda, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
    bool is_new = find(pool) == pools.n;
    unsigned i = enter(pool, device);
    may_set =
        may_set && (is_auto() ? is_new && !now_bytes && i < MOST_POOLS : now_bytes < wanted_bytes);
    if (may_set)
        cuda->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &wanted_bytes);
    if (may_set && is_auto())
        pools.rows[i].is_ours = true;
}

/* What pools have reserved and is not live is held, and idle, from one look to the next. */
static void count_idle(int device, uint64_t reserved_bytes) {
    struct cushim_mem_stats *stats = &cushim_page.stats[device][CUSHIM_KIND_ASYNC];
    uint64_t idle_bytes = cushim_less(reserved_bytes, cushim_mem_stats_read(&stats->live_bytes));
    uint64_t change = idle_bytes - cushim_mem_stats_read(&stats->free_segment_bytes);
    if (!change)
        return;
    cushim_mem_stats_add(&stats->free_segment_bytes, change);
    cushim_mem_stats_grow_held(stats, change);
}

/* Look at all pools.  Each whose threshold is ours gives back what it has idle beyond a part of
 * what is free then.  Returns the bytes. */
static size_t give_back(bool is_all) {
    struct cushim_cuda *cuda = cushim_driver();
    size_t n_bytes = 0, free_bytes = 0, total_bytes = 0;
    uint64_t reserved_bytes[CUSHIM_MAX_DEVICES] = {0};
    if (!atomic_load_explicit(&pools.is_any, memory_order_relaxed) || !is_open(cuda))
        return 0;
    bool may_trim = is_all || cuda->cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS;
    CUSHIM_LOCKED(&pools.lock);
    for (unsigned i = 0; i < pools.n; i++) {
        CUmemoryPool pool = pools.rows[i].pool;
        if (pools.rows[i].device == UNKNOWN)
            continue;
        uint64_t idle_bytes = may_trim && pools.rows[i].is_ours ? idle_bytes_of(cuda, pool) : 0;
        uint64_t kept_bytes = is_all ? 0 : most_idle_bytes(idle_bytes, free_bytes, total_bytes);
        if (idle_bytes > kept_bytes) {
            cuda->cuMemPoolTrimTo(pool, attribute(cuda, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) +
                                            kept_bytes);
            n_bytes += cushim_less(idle_bytes, idle_bytes_of(cuda, pool));
        }
        reserved_bytes[pools.rows[i].device] +=
            attribute(cuda, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    }
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++)
        count_idle(device, reserved_bytes[device]);
    return n_bytes;
}

void cushim_async_look(void) {
    give_back(false);
}

size_t cushim_async_give_back(void) {
    return give_back(true);
}

void cushim_async_give_back_stale(void) {
    uint64_t used_ns = atomic_load_explicit(&pools.used_ns, memory_order_relaxed);
    if (used_ns && cushim_clock_coarse_ns() - used_ns >= idle_ns &&
        atomic_compare_exchange_strong(&pools.used_ns, &used_ns, 0))
        give_back(true);
}

void cushim_async_note_use(void) {
    if (!atomic_load_explicit(&pools.is_any, memory_order_relaxed))
        return;
    uint64_t now_ns = cushim_clock_coarse_ns();
    cushim_async_give_back_stale();
    atomic_store_explicit(&pools.used_ns, now_ns, memory_order_relaxed);
    if (now_ns - atomic_load_explicit(&pools.looked_ns, memory_order_relaxed) < look_ns)
        return;
    atomic_store_explicit(&pools.looked_ns, now_ns, memory_order_relaxed);
    give_back(false);
}

void cushim_async_keep(struct cushim_cuda *cuda, CUdevice device) {
    CUmemoryPool pool;
    if (!atomic_load_explicit(&pools.is_seen[device], memory_order_relaxed) && is_open(cuda) &&
        cuda->cuDeviceGetDefaultMemPool && !atomic_exchange(&pools.is_seen[device], true) &&
        cuda->cuDeviceGetDefaultMemPool(&pool, device) == CUDA_SUCCESS)
        meet(cuda, pool, device, !is_off());
    cushim_async_note_use();
}

size_t cushim_async_idle_bytes(struct cushim_cuda *cuda, CUdevice device) {
    size_t n_bytes = 0;
    if (!atomic_load_explicit(&pools.is_any, memory_order_relaxed) || !is_open(cuda))
        return 0;
    CUSHIM_LOCKED(&pools.lock);
    for (unsigned i = 0; i < pools.n; i++)
        n_bytes += pools.rows[i].is_ours && pools.rows[i].device == device
                       ? idle_bytes_of(cuda, pools.rows[i].pool)
                       : 0;
    return n_bytes;
}

void cushim_async_forget(bool is_driver_there) {
    struct cushim_cuda *cuda = is_driver_there ? cushim_driver() : NULL;
    unsigned n = 0;
    CUSHIM_LOCKED(&pools.lock);
    for (unsigned i = 0; i < pools.n; i++) {
        pools.rows[i].device = UNKNOWN; /* it may go, unseen */
        if (cuda && !pools.rows[i].is_ours)
            pools.rows[n++] = pools.rows[i];
        else if (cuda)
            cuda->cuMemPoolSetAttribute(pools.rows[i].pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                        &(cuuint64_t){0});
    }
    pools.n = n;
    atomic_store(&pools.is_any, false);
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        atomic_store(&pools.is_seen[device], false);
        count_idle(device, 0);
    }
}

/* ---- the calls of the program ---- */

void cushim_async_made(struct cushim_cuda *cuda, CUmemoryPool pool, int device) {
    if (device >= 0 && device < CUSHIM_MAX_DEVICES && is_open(cuda))
        meet(cuda, pool, device, is_auto() && !is_off());
}

CUresult cushim_async_destroy(struct cushim_cuda *cuda, CUmemoryPool pool) {
    if (!cushim_process_is_on())
        return cuda->cuMemPoolDestroy(pool);
    pthread_mutex_lock(&pools.lock);
    CUresult answer = cuda->cuMemPoolDestroy(pool);
    unsigned i = find(pool);
    if (answer == CUDA_SUCCESS && i < pools.n)
        pools.rows[i] = pools.rows[--pools.n];
    pthread_mutex_unlock(&pools.lock);
    cushim_async_look();
    return answer;
}

CUresult cushim_async_set_threshold(struct cushim_cuda *cuda, CUmemoryPool pool, void *value) {
    if (!cushim_process_is_on() || !is_auto())
        return cuda->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, value);
    CUSHIM_LOCKED(&pools.lock);
    CUresult answer = cuda->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, value);
    unsigned i = answer == CUDA_SUCCESS ? enter(pool, UNKNOWN) : MOST_POOLS;
    if (i < MOST_POOLS)
        pools.rows[i].is_ours = false;
    return answer;
}

bool cushim_async_is_kept(CUmemoryPool pool) {
    if (!atomic_load_explicit(&pools.is_any, memory_order_relaxed) || !cushim_process_is_on())
        return false;
    CUSHIM_LOCKED(&pools.lock);
    unsigned i = find(pool);
    return i < pools.n && pools.rows[i].is_ours;
}
