/*
 * Hooks of pitched memory, and of allocations that the driver serves (interposition.md C): counted,
 * and retried once after we gave back what we hold (C12).
 */
#include <string.h>

#include "cuda/patchable.h"
#include "preload/entry/alloc.h"
#include "preload/entry/async_pool.h"
#include "preload/entry/context_memory.h"
#include "preload/entry/device_limit.h"
#include "preload/entry/graph_memory.h"
#include "preload/entry/entry.h"
#include "preload/entry/free.h"
#include "preload/entry/pitch.h"
#include "preload/entry/stale_address.h"
#include "preload/hooks/hook.h"
#include "preload/state/captures.h"

CUSHIM_PATCHABLE(cuMemAllocPitch_v2)
HOOK(cuMemAllocPitch_v2,
     TAKES(CUdeviceptr *address, size_t *pitch_bytes, size_t width_bytes, size_t height,
           unsigned element_bytes),
     return cushim_pitch_alloc(cuda, address, pitch_bytes, width_bytes, height, element_bytes))

/* ---- stream-ordered memory: the driver's own pools, passed through and counted ---- */

/* The driver, or a limit, has answered.  What is spilled may be used at once, by all streams.
 * `order` is the stream that 0 means. */
static CUresult alloced_async(struct cushim_cuda *cuda, CUresult answer, CUdeviceptr *address,
                              size_t n_bytes, CUstream order) {
    if (answer == CUDA_ERROR_OUT_OF_MEMORY && address && n_bytes &&
        !cushim_capture_is_captured(cuda, order) && cushim_entry_spill(cuda, address, n_bytes))
        return CUDA_SUCCESS;
    return cushim_entry_note_on(cuda, order, answer, answer == CUDA_SUCCESS ? *address : 0,
                                n_bytes);
}

/* What a hook does that allocates in stream order; `call` is the driver's. */
#define ALLOC_ASYNC(call)                                                                          \
    bool is_admitted = cushim_device_limit_admits(cuda, n_bytes);                                  \
    CUresult answer = is_admitted ? CUSHIM_ENTRY_RETRIED(call) : CUDA_ERROR_OUT_OF_MEMORY;         \
    return alloced_async(cuda, answer, address, n_bytes, ORDER)

CUSHIM_PATCHABLE(cuMemAllocAsync)
HOOKS_PTSZ(cuMemAllocAsync, TAKES(CUdeviceptr *address, size_t n_bytes, CUstream stream),
           ALLOC_ASYNC(REAL(address, n_bytes, stream)))
CUSHIM_PATCHABLE(cuMemAllocFromPoolAsync)
HOOKS_PTSZ(cuMemAllocFromPoolAsync,
           TAKES(CUdeviceptr *address, size_t n_bytes, CUmemoryPool pool, CUstream stream),
           ALLOC_ASYNC(REAL(address, n_bytes, pool, stream)))

/* Either free may get either kind of pointer.  `order` is the stream that orders a free of ours. */
static CUresult free_async(struct cushim_cuda *cuda, __typeof__(&cuMemFreeAsync) real,
                           CUdeviceptr address, CUstream stream, CUstream order) {
    CUresult answer;
    struct cushim_foreign foreign;
    if (!cushim_process_is_on())
        return real(address, stream);
    if (cushim_entry_free_on(cuda, address, order, &answer))
        return answer;
    bool was_known = cushim_entry_forget(address, &foreign);
    cushim_async_note_use();
    if (was_known || !cushim_stale_address_may_be_freed(cuda) ||
        !cushim_stale_address_is_freed(cuda, address, &answer))
        answer = real(address, stream);
    return cushim_entry_forgot(was_known, &foreign, address, answer);
}

CUSHIM_PATCHABLE(cuMemFreeAsync)
HOOKS_PTSZ(cuMemFreeAsync, TAKES(CUdeviceptr address, CUstream stream),
           return free_async(cuda, REAL, address, stream, ORDER))

HOOK(cuMemPoolCreate, TAKES(CUmemoryPool *pool, const CUmemPoolProps *properties),
     ON_SUCCESS(REAL(pool, properties),
                if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
                    cushim_async_made(cuda, *pool, properties->location.id)))
HOOK(cuMemPoolDestroy, TAKES(CUmemoryPool pool), return cushim_async_destroy(cuda, pool))
HOOK(cuMemPoolSetAttribute, TAKES(CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
     return attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
                ? cushim_async_set_threshold(cuda, pool, value)
                : REAL(pool, attribute, value))

/* The program reads the 0 that it left there. */
HOOK(cuMemPoolGetAttribute, TAKES(CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
     ON_SUCCESS(REAL(pool, attribute, value),
                if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && cushim_async_is_kept(pool))
                    memset(value, 0, sizeof(cuuint64_t))))

/* The process that exported it has it in its sum. */
HOOK(cuMemPoolImportPointer,
     TAKES(CUdeviceptr *address, CUmemoryPool pool, CUmemPoolPtrExportData *data),
     ON_SUCCESS(REAL(address, pool, data), cushim_entry_note_imported(cuda, *address)))

/* ---- memory of graphs ---- */

HOOK(cuGraphAddMemAllocNode,
     TAKES(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t n_dependencies,
           CUDA_MEM_ALLOC_NODE_PARAMS *params),
     ON_SUCCESS(REAL(node, graph, dependencies, n_dependencies, params),
                if (cushim_process_is_on())
                    cushim_graph_memory_note(params->poolProps.location.id, params->dptr)))

CUSHIM_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device) {
    CUSHIM_ENTER(cuDeviceGraphMemTrim)
    CUresult answer = cuda->cuDeviceGraphMemTrim(device);
    if (atomic_load(&cushim_graph_memory_devices))
        cushim_graph_memory_look(cuda);
    return answer;
}

/* ---- images of code: forwarded unchanged, retried once when memory is out, and measured ---- */

#define LOAD(handle, call)                                                                         \
    struct cushim_context_memory memory = cushim_context_memory_of_module(cuda);                   \
    CUresult answer = CUSHIM_ENTRY_RETRIED(call);                                                  \
    if (answer == CUDA_SUCCESS)                                                                    \
        cushim_context_memory_taken(&memory, *(handle));                                           \
    else if (answer == CUDA_ERROR_OUT_OF_MEMORY)                                                   \
        cushim_entry_note(cuda, CUSHIM_KIND_CONTEXT, answer, 0, 0);                                \
    return answer

HOOK(cuModuleLoad, TAKES(CUmodule *module, const char *file), LOAD(module, REAL(module, file)))
HOOK(cuModuleLoadData, TAKES(CUmodule *module, const void *image),
     LOAD(module, REAL(module, image)))
HOOK(cuModuleLoadDataEx,
     TAKES(CUmodule *module, const void *image, unsigned n_options, CUjit_option *options,
           void **values),
     LOAD(module, REAL(module, image, n_options, options, values)))
HOOK(cuModuleLoadFatBinary, TAKES(CUmodule *module, const void *image),
     LOAD(module, REAL(module, image)))
HOOK(cuLibraryLoadData,
     TAKES(CUlibrary *library, const void *code, CUjit_option *jit_options, void **jit_values,
           unsigned n_jit_options, CUlibraryOption *options, void **values, unsigned n_options),
     LOAD(library,
          REAL(library, code, jit_options, jit_values, n_jit_options, options, values, n_options)))
HOOK(cuLibraryLoadFromFile,
     TAKES(CUlibrary *library, const char *file, CUjit_option *jit_options, void **jit_values,
           unsigned n_jit_options, CUlibraryOption *options, void **values, unsigned n_options),
     LOAD(library,
          REAL(library, file, jit_options, jit_values, n_jit_options, options, values, n_options)))

HOOK(cuModuleUnload, TAKES(CUmodule module), cushim_context_memory_unload(module);
     return REAL(module))
HOOK(cuLibraryUnload, TAKES(CUlibrary library), cushim_context_memory_unload(library);
     return REAL(library))
