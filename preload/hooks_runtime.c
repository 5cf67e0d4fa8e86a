/*
 * The runtime door (HOOKS.md C8): for programs on a shared libcudart it answers what takes no
 * driver call, and leaves all else to the runtime's own function, which makes the context and sets
 * the last error and comes back through the driver door.  Everything works without this file; it
 * saves the wrapper.
 */
#include "preload/door.h"
#include "preload/kinds.h"

/*
 * Before 12.0 a new device's context becomes current later than cudaSetDevice returns, so "the
 * current context" is not the runtime's: nothing is answered here then.
 */
static inline bool is_new_enough(struct cushim_cudart *cudart) {
    static _Atomic(struct cushim_cudart *) known;
    int version = 0;
    if (atomic_load_explicit(&known, memory_order_relaxed) == cudart)
        return true;
    if (!cudart->cudaRuntimeGetVersion || cudart->cudaRuntimeGetVersion(&version) != cudaSuccess ||
        version < 12000)
        return false;
    atomic_store_explicit(&known, cudart, memory_order_relaxed);
    return true;
}

/* The driver's table where this door may answer by itself, else NULL. */
static inline struct cushim_cuda *shortcut(struct cushim_cudart *cudart) {
    return cushim_engine_is_on() && cushim_engine.options.runtime && is_new_enough(cudart)
               ? cushim_driver()
               : NULL;
}

static inline void count(enum cushim_row row) {
    if (cushim_engine_is_on())
        cushim_engine_count(row);
}

/* Around a call of the runtime's own function: this door has counted the call. */
static void inside_enter(void) {
    cushim_thread.runtime_depth++;
}

static cudaError_t inside_leave(cudaError_t error) {
    cushim_thread.runtime_depth--;
    return error;
}

/* How a runtime hook begins: `cudart` is the table and has the function, or there is no runtime
 * (B17). */
#define ENTER(abi)                                                                                 \
    struct cushim_cudart *cudart = cushim_runtime(__builtin_return_address(0));                    \
    if (!cudart || !cudart->abi)                                                                   \
        return cudaErrorInitializationError;                                                       \
    count(CUSHIM_ROW_##abi);

CUSHIM_EXPORT cudaError_t cudaMalloc(void **address, size_t n_bytes) {
    ENTER(cudaMalloc)
    CUdeviceptr block;
    struct cushim_cuda *cuda = address && n_bytes ? shortcut(cudart) : NULL;
    if (cuda && cushim_door_alloc_hit(cuda, &block, n_bytes)) {
        *address = (void *)(uintptr_t)block;
        return cudaSuccess;
    }
    inside_enter();
    return inside_leave(cudart->cudaMalloc(address, n_bytes));
}

CUSHIM_EXPORT cudaError_t cudaFree(void *address) {
    ENTER(cudaFree)
    struct cushim_cuda *cuda = address ? shortcut(cudart) : NULL;
    if (cuda && cushim_door_free_live(cuda, (CUdeviceptr)(uintptr_t)address, CUSHIM_FREE))
        return cudaSuccess;
    inside_enter();
    return inside_leave(cudart->cudaFree(address));
}

/* Serve a hit of pinned or managed memory. */
static bool alloc_hit(struct cushim_cudart *cudart, void **address, struct cushim_want want) {
    struct cushim_cuda *cuda = address && want.n_bytes ? shortcut(cudart) : NULL;
    uint64_t block;
    if (!cuda || !cushim_kinds_alloc_hit(cuda, &want, &block))
        return false;
    *address = (void *)(uintptr_t)block;
    return true;
}

/* The flags of attachment are the driver's own. */
CUSHIM_EXPORT cudaError_t cudaMallocManaged(void **address, size_t n_bytes, unsigned flags) {
    ENTER(cudaMallocManaged)
    if (alloc_hit(cudart, address, (struct cushim_want){CUSHIM_MEM_MANAGED, flags, n_bytes}))
        return cudaSuccess;
    inside_enter();
    return inside_leave(cudart->cudaMallocManaged(address, n_bytes, flags));
}

/*
 * Which flags the runtime gives the driver for those that it is given is its own affair: learnt at
 * the first call, that of cudaMallocHost in the last place.
 */
enum { N_PINNED_FLAGS = 8, NO_PINNED_FLAGS = -1 };
static atomic_int learnt_flags[N_PINNED_FLAGS + 1]; /* plus 1; 0: not yet */

static bool pinned_hit(struct cushim_cudart *cudart, void **address, size_t n_bytes,
                       unsigned place) {
    int learnt = atomic_load_explicit(&learnt_flags[place], memory_order_relaxed);
    return learnt &&
           alloc_hit(cudart, address,
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
    ENTER(cudaMallocHost)
    if (pinned_hit(cudart, address, n_bytes, N_PINNED_FLAGS))
        return cudaSuccess;
    pinned_enter();
    return pinned_leave(cudart->cudaMallocHost(address, n_bytes), N_PINNED_FLAGS);
}

CUSHIM_EXPORT cudaError_t cudaHostAlloc(void **address, size_t n_bytes, unsigned flags) {
    ENTER(cudaHostAlloc)
    if (flags >= N_PINNED_FLAGS) {
        inside_enter();
        return inside_leave(cudart->cudaHostAlloc(address, n_bytes, flags));
    }
    if (pinned_hit(cudart, address, n_bytes, flags))
        return cudaSuccess;
    pinned_enter();
    return pinned_leave(cudart->cudaHostAlloc(address, n_bytes, flags), flags);
}

CUSHIM_EXPORT cudaError_t cudaFreeHost(void *address) {
    ENTER(cudaFreeHost)
    struct cushim_cuda *cuda = address ? shortcut(cudart) : NULL;
    if (cuda && cushim_door_free_live(cuda, (CUdeviceptr)(uintptr_t)address, CUSHIM_FREE_HOST))
        return cudaSuccess;
    inside_enter();
    return inside_leave(cudart->cudaFreeHost(address));
}
