/*
 * Hooks of the memory that heaps serve, of driver and runtime: the fast path, and what it declines.
 *
 * The driver's pair serves or forwards.  The runtime's entry points (interposition.md C8) are for
 * programs with a shared libcudart: they answer calls that need no driver call.  All others go to
 * the runtime's own function, which makes the context, sets the last error and comes back through
 * the driver's.  Everything works without them; they save the wrapper.
 */
#include "cuda/patchable.h"
#include "cuda/table.h"
#include "memory/alloc.h"
#include "memory/free.h"
#include "memory/state/heap_state.h"
#include "preload/entry/alloc.h"
#include "preload/entry/free.h"
#include "preload/entry/memory_kinds.h"
#include "preload/resolve/callers.h"
#include "preload/resolve/lookup.h"
#include "preload/state/process_options.h"

/* ---- the fast path ---- */

/*
 * Was this thread served since a context last went, and is nothing else to be looked at?  Then its
 * heap and its counters are known, and the heap knows the driver (the fast-path guard, process.h).
 */
static inline bool is_fast(const struct cushim_thread *thread) {
    return thread->fast_epoch == atomic_load_explicit(&cushim_guard.now, memory_order_acquire);
}

/* The thread's current context, which may be none; false: the driver will not say. */
static inline bool ask_context(const struct cushim_thread *thread, CUcontext *context) {
    return thread->heap->cuda->cuCtxGetCurrent(context) == CUDA_SUCCESS;
}

/* One more call of a row, by a thread that has a shard.  All else is counted in the slow path. */
static inline void count_in(struct cushim_shard *shard, enum cushim_cuda_symbol symbol) {
    uint64_t n_calls = atomic_load_explicit(&shard->calls[symbol], memory_order_relaxed);
    atomic_store_explicit(&shard->calls[symbol], n_calls + 1, memory_order_relaxed);
}

/* Device memory of the current context; 0: nothing was done. */
static inline CUdeviceptr alloc_fast(size_t n_bytes, enum cushim_cuda_symbol symbol) {
    const struct cushim_thread *thread = &cushim_thread;
    CUcontext context;
    CUdeviceptr block = 0;
    if (is_fast(thread) && n_bytes - 1 < thread->heap->quick_bytes &&
        ask_context(thread, &context) && context == thread->context)
        block = cushim_mem_alloc_fast(thread->heap, n_bytes);
    if (block)
        count_in(thread->shard, symbol);
    return block;
}

/* Take a live block of ours back, whichever context is current: CUSHIM_MEM_FREE_DECLINED, or the
 * driver's answer. */
static inline int free_fast(CUdeviceptr address, enum cushim_mem_free_entry entry,
                            enum cushim_cuda_symbol symbol) {
    struct cushim_mem_blocks *blocks = &cushim_process.blocks;
    int answer = CUSHIM_MEM_FREE_DECLINED;
    if (!cushim_process.policy.is_relaxed)
        answer = cushim_mem_free_fast_behind_wait(blocks, address, entry);
    else if (cushim_mem_free_fast(blocks, address, entry))
        answer = CUDA_SUCCESS;
    if (answer == CUDA_SUCCESS)
        count_in(cushim_thread.shard, symbol);
    return answer;
}

/* ---- the driver's pair ---- */

/* The slow paths apart, so that the fast path's frame has no space for what they need. */
#define APART static __attribute__((noinline))

APART CUresult driver_alloc_at_length(CUdeviceptr *address, size_t n_bytes) {
    CUSHIM_ENTER(cuMemAlloc_v2)
    return cushim_entry_alloc(cuda, address, n_bytes);
}

CUSHIM_PATCHABLE(cuMemAlloc_v2)
CUSHIM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t n_bytes) {
    CUdeviceptr block = address ? alloc_fast(n_bytes, CUSHIM_SYMBOL_cuMemAlloc_v2) : 0;
    if (!block)
        return driver_alloc_at_length(address, n_bytes);
    *address = block;
    return CUDA_SUCCESS;
}

APART CUresult driver_free_at_length(CUdeviceptr address, int answer) {
    CUSHIM_ENTER(cuMemFree_v2)
    return answer == CUSHIM_MEM_FREE_DECLINED ? cushim_entry_free(cuda, address, CUSHIM_FREE)
                                              : cushim_entry_freed((CUresult)answer);
}

CUSHIM_PATCHABLE(cuMemFree_v2)
CUSHIM_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
    int answer = CUSHIM_MEM_FREE_DECLINED;
    if (is_fast(&cushim_thread))
        answer = free_fast(address, CUSHIM_MEM_FREE_ENTRY_ANY, CUSHIM_SYMBOL_cuMemFree_v2);
    return answer == CUDA_SUCCESS ? CUDA_SUCCESS : driver_free_at_length(address, answer);
}

/* ---- the runtime's ---- */

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

/* Does it begin with another library's instruction? */
static inline bool is_patched(const atomic_uint *first) {
    return atomic_load_explicit(first, memory_order_relaxed) != CUSHIM_PATCHABLE_FIRST;
}

/* The driver's table if these may answer by themselves, instead of a driver's function that begins
 * with `first`; otherwise NULL. */
static struct cushim_cuda *shortcut(struct cushim_cudart *cudart, const atomic_uint *first,
                                    const void *caller) {
    if (is_patched(first) || !cushim_process_is_on())
        return NULL;
    if (!cushim_callers_is_answered(caller)) {
        if (!cushim_process_options.runtime || cushim_runtime_is_interposed() ||
            !is_new_enough(cudart))
            return NULL;
        note_answered(caller);
    }
    return cushim_driver();
}

/* Around a call of the runtime's own function, which comes back through the driver's: the call is
 * counted already, and `missed` (or NULL) has asked the heap's lists. */
static void inside_enter(const struct cushim_mem_request *missed) {
    cushim_thread.missed = missed;
    cushim_thread_enter(&cushim_thread.runtime_depth);
}

static cudaError_t inside_leave(cudaError_t error) {
    cushim_thread.missed = NULL;
    cushim_thread_leave(&cushim_thread.runtime_depth);
    return error;
}

/* The begin of a runtime hook: `cudart` is the table and has the function, or there is no runtime
 * (B17). */
#define ENTER(abi, caller)                                                                         \
    struct cushim_cudart *cudart = cushim_runtime(caller);                                         \
    if (!cudart || !cudart->abi)                                                                   \
        return cudaErrorInitializationError;                                                       \
    cushim_process_note_call(CUSHIM_SYMBOL_##abi);

APART cudaError_t malloc_at_length(void **address, size_t n_bytes, const void *caller) {
    ENTER(cudaMalloc, caller)
    CUdeviceptr block;
    struct cushim_mem_request request;
    request.life = 0;
    struct cushim_cuda *cuda =
        address && n_bytes ? shortcut(cudart, &cushim_first_cuMemAlloc_v2, caller) : NULL;
    if (cuda && cushim_entry_alloc_hit(cuda, &block, n_bytes, &request)) {
        *address = (void *)(uintptr_t)block;
        return cudaSuccess;
    }
    inside_enter(&request);
    return inside_leave(cudart->cudaMalloc(address, n_bytes));
}

CUSHIM_EXPORT cudaError_t cudaMalloc(void **address, size_t n_bytes) {
    const void *caller = __builtin_return_address(0);
    CUdeviceptr block = 0;
    if (address && !is_patched(&cushim_first_cuMemAlloc_v2) && cushim_callers_is_answered(caller))
        block = alloc_fast(n_bytes, CUSHIM_SYMBOL_cudaMalloc);
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
    return !is_patched(first) && is_fast(thread) && cushim_callers_is_answered(caller) &&
           ask_context(thread, &context) && context &&
           free_fast((CUdeviceptr)(uintptr_t)address, entry, symbol) == CUDA_SUCCESS;
}

static bool free_live(struct cushim_cuda *cuda, void *address, enum cushim_entry_free_fn entry) {
    CUcontext context = NULL;
    return cuda && address && cuda->cuCtxGetCurrent(&context) == CUDA_SUCCESS && context &&
           cushim_entry_free_live((CUdeviceptr)(uintptr_t)address, entry);
}

APART cudaError_t free_at_length(void *address, const void *caller) {
    ENTER(cudaFree, caller)
    if (free_live(shortcut(cudart, &cushim_first_cuMemFree_v2, caller), address, CUSHIM_FREE))
        return cudaSuccess;
    inside_enter(NULL);
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
static inline bool alloc_hit(struct cushim_cuda *cuda, void **address, struct cushim_want want,
                             struct cushim_mem_request *request) {
    uint64_t block;
    if (!cuda || !address || !want.n_bytes ||
        !cushim_memory_kinds_alloc_hit(cuda, &want, &block, request))
        return false;
    *address = (void *)(uintptr_t)block;
    return true;
}

/* The flags of attachment are the driver's own. */
CUSHIM_EXPORT cudaError_t cudaMallocManaged(void **address, size_t n_bytes, unsigned flags) {
    const void *caller = __builtin_return_address(0);
    struct cushim_mem_request request;
    request.life = 0;
    ENTER(cudaMallocManaged, caller)
    if (alloc_hit(shortcut(cudart, &cushim_first_cuMemAllocManaged, caller), address,
                  (struct cushim_want){CUSHIM_MEM_MANAGED, flags, n_bytes}, &request))
        return cudaSuccess;
    inside_enter(&request);
    return inside_leave(cudart->cudaMallocManaged(address, n_bytes, flags));
}

/*
 * The runtime may translate flags before it gives them to the driver.  The translation is learnt at
 * the first call with each flag; the last place is for cudaMallocHost.
 */
enum { N_PINNED_FLAGS = 8, NO_PINNED_FLAGS = -1 };
static atomic_int learnt_flags[N_PINNED_FLAGS + 1]; /* plus 1; 0: not learnt yet */

static inline bool pinned_hit(struct cushim_cuda *cuda, void **address, size_t n_bytes,
                              unsigned place, struct cushim_mem_request *request) {
    int learnt = atomic_load_explicit(&learnt_flags[place], memory_order_relaxed);
    return learnt &&
           alloc_hit(cuda, address,
                     (struct cushim_want){CUSHIM_MEM_PINNED, (unsigned)learnt - 1, n_bytes},
                     request);
}

static void pinned_enter(const struct cushim_mem_request *missed) {
    cushim_thread.pinned_flags = NO_PINNED_FLAGS;
    inside_enter(missed);
}

static cudaError_t pinned_leave(cudaError_t error, unsigned place) {
    if (cushim_thread.pinned_flags != NO_PINNED_FLAGS)
        atomic_store_explicit(&learnt_flags[place], cushim_thread.pinned_flags + 1,
                              memory_order_relaxed);
    return inside_leave(error);
}

CUSHIM_EXPORT cudaError_t cudaMallocHost(void **address, size_t n_bytes) {
    const void *caller = __builtin_return_address(0);
    struct cushim_mem_request request;
    request.life = 0;
    ENTER(cudaMallocHost, caller)
    if (pinned_hit(shortcut(cudart, &cushim_first_cuMemHostAlloc, caller), address, n_bytes,
                   N_PINNED_FLAGS, &request))
        return cudaSuccess;
    pinned_enter(&request);
    return pinned_leave(cudart->cudaMallocHost(address, n_bytes), N_PINNED_FLAGS);
}

CUSHIM_EXPORT cudaError_t cudaHostAlloc(void **address, size_t n_bytes, unsigned flags) {
    const void *caller = __builtin_return_address(0);
    struct cushim_mem_request request;
    request.life = 0;
    ENTER(cudaHostAlloc, caller)
    if (flags >= N_PINNED_FLAGS) {
        inside_enter(NULL);
        return inside_leave(cudart->cudaHostAlloc(address, n_bytes, flags));
    }
    if (pinned_hit(shortcut(cudart, &cushim_first_cuMemHostAlloc, caller), address, n_bytes, flags,
                   &request))
        return cudaSuccess;
    pinned_enter(&request);
    return pinned_leave(cudart->cudaHostAlloc(address, n_bytes, flags), flags);
}

APART cudaError_t free_host_at_length(void *address, const void *caller) {
    ENTER(cudaFreeHost, caller)
    if (free_live(shortcut(cudart, &cushim_first_cuMemFreeHost, caller), address, CUSHIM_FREE_HOST))
        return cudaSuccess;
    inside_enter(NULL);
    return inside_leave(cudart->cudaFreeHost(address));
}

CUSHIM_EXPORT cudaError_t cudaFreeHost(void *address) {
    const void *caller = __builtin_return_address(0);
    if (free_at_once(address, &cushim_first_cuMemFreeHost, CUSHIM_MEM_FREE_ENTRY_PINNED,
                     CUSHIM_SYMBOL_cudaFreeHost, caller))
        return cudaSuccess;
    return free_host_at_length(address, caller);
}
