#include "preload/entry/async_pool.h"

#include "cuda/current_context.h"
#include "cuda/table.h"
#include "preload/state/contexts.h"
#include "preload/state/process_options.h"

/* The number of streams that were destroyed, because a later stream may get the handle of one. */
static atomic_uint n_gone;

void cushim_async_forget_streams(void) {
    atomic_fetch_add_explicit(&n_gone, 1, memory_order_relaxed);
}

static bool ask(struct cushim_cuda *cuda, CUstream stream, struct cushim_async_owner *owner) {
    CUresult answer;
    owner->context = cushim_contexts_of_stream(cuda, stream);
    if (!owner->context)
        return false;
    bool has_entered = cushim_current_context_enter(cuda, owner->context, &answer);
    if (answer == CUDA_SUCCESS)
        answer = cuda->cuCtxGetDevice(&owner->device);
    if (has_entered)
        cushim_current_context_leave(cuda);
    return answer == CUDA_SUCCESS && owner->device >= 0 && owner->device < CUSHIM_MAX_DEVICES;
}

bool cushim_async_find_owner(struct cushim_cuda *cuda, CUstream stream,
                             struct cushim_async_owner *owner) {
    static _Thread_local struct {
        CUstream stream; /* NULL: none */
        uint64_t epoch;  /* of the guard; if it has changed, a context may be gone */
        unsigned n_gone;
        struct cushim_async_owner owner;
    } last __attribute__((tls_model("initial-exec")));
    bool is_default = !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
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

static void raise_threshold(struct cushim_cuda *cuda, CUdevice device) {
    CUmemoryPool pool;
    cuuint64_t now_bytes, wanted_bytes = cushim_process_options.async_keep;
    if (cuda->cuDeviceGetDefaultMemPool(&pool, device) == CUDA_SUCCESS &&
        cuda->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &now_bytes) ==
            CUDA_SUCCESS &&
        now_bytes < wanted_bytes)
        cuda->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &wanted_bytes);
}

void cushim_async_keep(struct cushim_cuda *cuda, CUstream stream) {
    static atomic_bool is_raised[CUSHIM_MAX_DEVICES];
    struct cushim_async_owner owner;
    if (!cushim_process_is_on() || !cushim_process_options.async_keep ||
        !cuda->cuDeviceGetDefaultMemPool || !cuda->cuMemPoolGetAttribute ||
        !cuda->cuMemPoolSetAttribute)
        return;
    if (cushim_async_find_owner(cuda, stream, &owner) &&
        !atomic_exchange(&is_raised[owner.device], true))
        raise_threshold(cuda, owner.device);
}
