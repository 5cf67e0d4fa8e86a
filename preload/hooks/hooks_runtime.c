/*
 * The runtime's entry points (interposition.md C8).  For programs with a shared libcudart they
 * answer calls that need no driver call.  All others go to the runtime's own function, which makes
 * the context, sets the last error and comes back through the driver's.  Everything works without
 * this file; it saves the wrapper.
 */
#include "cuda/patchable.h"
#include "cuda/table.h"
#include "preload/resolve/callers.h"
#include "preload/entry/memory_kinds.h"
#include "preload/resolve/lookup.h"
#include "preload/entry/entry_fast.h"
#include "preload/state/process_options.h"

/*
 * Before 12.0 a new device's context becomes current later than cudaSetDevice returns, so "the
 * current context" is not the runtime's, and nothing is answered here.
 */
static bool is_new_enough(struct cushim_cudart *cudart) {
    int version = 0;
    return cudart->cudaRuntimeGetVersion &&
           cudart->cudaRuntimeGetVersion(&version) == cudaSuccess && version >= 12000;
}

static void note_answered(const void *caller) {
    uint64_t age = cushim_callers_age();
    unsigned facts = cushim_callers_facts(caller);
    if (facts)
        cushim_callers_note(caller, age, facts | CUSHIM_CALLERS_ANSWERED);
}

/*
 * The runtime's function would call the driver's.  If another library has patched that one
 * (cuda/patchable.h), it has to be called, so nothing is answered here.
 */
CUSHIM_PATCHABLE_ELSEWHERE(cuMemAlloc_v2)
CUSHIM_PATCHABLE_ELSEWHERE(cuMemAllocManaged)
CUSHIM_PATCHABLE_ELSEWHERE(cuMemHostAlloc)
CUSHIM_PATCHABLE_ELSEWHERE(cuMemFree_v2)
CUSHIM_PATCHABLE_ELSEWHERE(cuMemFreeHost)

/* The driver's table if these may answer by themselves, instead of a driver's function that begins
 * with `first`; otherwise NULL. */
static struct cushim_cuda *shortcut(struct cushim_cudart *cudart, const atomic_uint *first,
                                    const void *caller) {
    if (cushim_is_patched(first) || !cushim_process_is_on())
        return NULL;
    if (!cushim_callers_is_answered(caller)) {
        if (!cushim_process_options.runtime || cushim_runtime_is_interposed() ||
            !is_new_enough(cudart))
            return NULL;
        note_answered(caller);
    }
    return cushim_driver();
}

static inline void count(enum cushim_cuda_symbol symbol) {
    if (cushim_process_is_on())
        cushim_process_count(symbol);
}

/* Around a call of the runtime's own function, because the call is counted already. */
static void inside_enter(void) {
    cushim_thread_enter(&cushim_thread.runtime_depth);
}

static cudaError_t inside_leave(cudaError_t error) {
    cushim_thread_leave(&cushim_thread.runtime_depth);
    return error;
}

/* The begin of a runtime hook: `cudart` is the table and has the function, or there is no runtime
 * (B17). */
#define ENTER(abi, caller)                                                                         \
    struct cushim_cudart *cudart = cushim_runtime(caller);                                         \
    if (!cudart || !cudart->abi)                                                                   \
        return cudaErrorInitializationError;                                                       \
    count(CUSHIM_SYMBOL_##abi);

/* The slow paths are separate functions, so that the fast path's frame has no space for them. */
#define APART static cudaError_t __attribute__((noinline))

APART malloc_at_length(void **address, size_t n_bytes, const void *caller) {
    ENTER(cudaMalloc, caller)
    CUdeviceptr block;
    struct cushim_cuda *cuda =
        address && n_bytes ? shortcut(cudart, &cushim_first_cuMemAlloc_v2, caller) : NULL;
    if (cuda && cushim_entry_alloc_hit(cuda, &block, n_bytes)) {
        *address = (void *)(uintptr_t)block;
        return cudaSuccess;
    }
    inside_enter();
    return inside_leave(cudart->cudaMalloc(address, n_bytes));
}

CUSHIM_EXPORT cudaError_t cudaMalloc(void **address, size_t n_bytes) {
    const void *caller = __builtin_return_address(0);
    CUdeviceptr block = 0;
    if (address && !cushim_is_patched(&cushim_first_cuMemAlloc_v2) &&
        cushim_callers_is_answered(caller))
        block = cushim_entry_fast_alloc(n_bytes, CUSHIM_SYMBOL_cudaMalloc);
    if (!block)
        return malloc_at_length(address, n_bytes, caller);
    *address = (void *)(uintptr_t)block;
    return cudaSuccess;
}

/* Without a context the runtime's own function would make one current, so leave it to that. */
static inline bool free_at_once(void *address, const atomic_uint *first,
                                enum cushim_mem_free_entry entry, enum cushim_cuda_symbol symbol,
                                const void *caller) {
    const struct cushim_thread *thread = &cushim_thread;
    CUcontext context;
    return !cushim_is_patched(first) && cushim_entry_fast_is(thread) &&
           cushim_callers_is_answered(caller) && cushim_entry_fast_context(thread, &context) &&
           context &&
           cushim_entry_fast_free((CUdeviceptr)(uintptr_t)address, entry, symbol) == CUDA_SUCCESS;
}

static bool free_live(struct cushim_cuda *cuda, void *address, enum cushim_entry_free_fn entry) {
    CUcontext context = NULL;
    return cuda && address && cuda->cuCtxGetCurrent(&context) == CUDA_SUCCESS && context &&
           cushim_entry_free_live((CUdeviceptr)(uintptr_t)address, entry);
}

APART free_at_length(void *address, const void *caller) {
    ENTER(cudaFree, caller)
    if (free_live(shortcut(cudart, &cushim_first_cuMemFree_v2, caller), address, CUSHIM_FREE))
        return cudaSuccess;
    inside_enter();
    return inside_leave(cudart->cudaFree(address));
}

CUSHIM_EXPORT cudaError_t cudaFree(void *address) {
    const void *caller = __builtin_return_address(0);
    if (free_at_once(address, &cushim_first_cuMemFree_v2, CUSHIM_MEM_FREE_ENTRY_ANY,
                     CUSHIM_SYMBOL_cudaFree, caller))
        return cudaSuccess;
    return free_at_length(address, caller);
}

/* Serve a hit of pinned or managed memory. */
static bool alloc_hit(struct cushim_cuda *cuda, void **address, struct cushim_want want) {
    uint64_t block;
    if (!cuda || !address || !want.n_bytes || !cushim_memory_kinds_alloc_hit(cuda, &want, &block))
        return false;
    *address = (void *)(uintptr_t)block;
    return true;
}

/* The flags of attachment are the driver's own. */
CUSHIM_EXPORT cudaError_t cudaMallocManaged(void **address, size_t n_bytes, unsigned flags) {
    const void *caller = __builtin_return_address(0);
    ENTER(cudaMallocManaged, caller)
    if (alloc_hit(shortcut(cudart, &cushim_first_cuMemAllocManaged, caller), address,
                  (struct cushim_want){CUSHIM_MEM_MANAGED, flags, n_bytes}))
        return cudaSuccess;
    inside_enter();
    return inside_leave(cudart->cudaMallocManaged(address, n_bytes, flags));
}

/*
 * The runtime may translate flags before it gives them to the driver.  The translation is learnt at
 * the first call with each flag; the last place is for cudaMallocHost.
 */
enum { N_PINNED_FLAGS = 8, NO_PINNED_FLAGS = -1 };
static atomic_int learnt_flags[N_PINNED_FLAGS + 1]; /* plus 1; 0: not learnt yet */

static bool pinned_hit(struct cushim_cuda *cuda, void **address, size_t n_bytes, unsigned place) {
    int learnt = atomic_load_explicit(&learnt_flags[place], memory_order_relaxed);
    return learnt &&
           alloc_hit(cuda, address,
                     (struct cushim_want){CUSHIM_MEM_PINNED, (unsigned)learnt - 1, n_bytes});
}

static void pinned_enter(void) {
    cushim_thread.pinned_flags = NO_PINNED_FLAGS;
    inside_enter();
}

static cudaError_t pinned_leave(cudaError_t error, unsigned place) {
    if (cushim_thread.pinned_flags != NO_PINNED_FLAGS)
        atomic_store_explicit(&learnt_flags[place], cushim_thread.pinned_flags + 1,
                              memory_order_relaxed);
    return inside_leave(error);
}

CUSHIM_EXPORT cudaError_t cudaMallocHost(void **address, size_t n_bytes) {
    const void *caller = __builtin_return_address(0);
    ENTER(cudaMallocHost, caller)
    if (pinned_hit(shortcut(cudart, &cushim_first_cuMemHostAlloc, caller), address, n_bytes,
                   N_PINNED_FLAGS))
        return cudaSuccess;
    pinned_enter();
    return pinned_leave(cudart->cudaMallocHost(address, n_bytes), N_PINNED_FLAGS);
}

CUSHIM_EXPORT cudaError_t cudaHostAlloc(void **address, size_t n_bytes, unsigned flags) {
    const void *caller = __builtin_return_address(0);
    ENTER(cudaHostAlloc, caller)
    if (flags >= N_PINNED_FLAGS) {
        inside_enter();
        return inside_leave(cudart->cudaHostAlloc(address, n_bytes, flags));
    }
    if (pinned_hit(shortcut(cudart, &cushim_first_cuMemHostAlloc, caller), address, n_bytes, flags))
        return cudaSuccess;
    pinned_enter();
    return pinned_leave(cudart->cudaHostAlloc(address, n_bytes, flags), flags);
}

APART free_host_at_length(void *address, const void *caller) {
    ENTER(cudaFreeHost, caller)
    if (free_live(shortcut(cudart, &cushim_first_cuMemFreeHost, caller), address, CUSHIM_FREE_HOST))
        return cudaSuccess;
    inside_enter();
    return inside_leave(cudart->cudaFreeHost(address));
}

CUSHIM_EXPORT cudaError_t cudaFreeHost(void *address) {
    const void *caller = __builtin_return_address(0);
    if (free_at_once(address, &cushim_first_cuMemFreeHost, CUSHIM_MEM_FREE_ENTRY_PINNED,
                     CUSHIM_SYMBOL_cudaFreeHost, caller))
        return cudaSuccess;
    return free_host_at_length(address, caller);
}
