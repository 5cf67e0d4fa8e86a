/*
 * The runtime door (HOOKS.md C8): for programs on a shared libcudart it answers what takes no
 * driver call, and leaves all else to the runtime's own function, which makes the context and sets
 * the last error and comes back through the driver door.  Everything works without this file; it
 * saves the wrapper.
 */
#include "preload/door.h"

/*
 * Before 12.0 a new device's context becomes current later than cudaSetDevice returns, so "the
 * current context" is not the runtime's: nothing is answered here then.
 */
static bool is_new_enough(struct cushim_cudart *cudart) {
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
static struct cushim_cuda *shortcut(struct cushim_cudart *cudart) {
    return cushim_engine_is_on() && cushim_engine.options.runtime && is_new_enough(cudart)
               ? cushim_driver()
               : NULL;
}

static void count(enum cushim_row row) {
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
    if (cuda && cushim_door_free_live(cuda, (CUdeviceptr)(uintptr_t)address))
        return cudaSuccess;
    inside_enter();
    return inside_leave(cudart->cudaFree(address));
}

CUSHIM_EXPORT cudaError_t cudaMallocManaged(void **address, size_t n_bytes, unsigned flags) {
    ENTER(cudaMallocManaged)
    inside_enter();
    return inside_leave(cudart->cudaMallocManaged(address, n_bytes, flags));
}

CUSHIM_EXPORT cudaError_t cudaMallocHost(void **address, size_t n_bytes) {
    ENTER(cudaMallocHost)
    inside_enter();
    return inside_leave(cudart->cudaMallocHost(address, n_bytes));
}

CUSHIM_EXPORT cudaError_t cudaHostAlloc(void **address, size_t n_bytes, unsigned flags) {
    ENTER(cudaHostAlloc)
    inside_enter();
    return inside_leave(cudart->cudaHostAlloc(address, n_bytes, flags));
}

CUSHIM_EXPORT cudaError_t cudaFreeHost(void *address) {
    ENTER(cudaFreeHost)
    inside_enter();
    return inside_leave(cudart->cudaFreeHost(address));
}
