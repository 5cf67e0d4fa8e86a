// RMM's resources behind the three functions that alloc.c asks of a peer; built against RMM's
// wheels.
//
//   pool   as RMM's own benchmark makes it: half of the free memory at once
//   arena  all of the free memory but 1 GiB, likewise
//   async  the driver's pool, through RMM
#include <cuda_runtime.h>

#include <exception>
#include <optional>
#include <string>

#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/resource_ref.hpp>

// Never destroyed: a process ends without giving the device's memory back.
static std::optional<cuda::mr::any_resource<cuda::mr::device_accessible>> &resource() {
    static auto *only = new std::optional<cuda::mr::any_resource<cuda::mr::device_accessible>>;
    return *only;
}

extern "C" __attribute__((visibility("default"))) int peer_open(const char *kind) {
    std::size_t free_bytes, total_bytes;
    std::string name = kind;
    if (cudaMemGetInfo(&free_bytes, &total_bytes))
        return 1;
    try {
        rmm::mr::cuda_memory_resource upstream;
        if (name == "pool")
            resource().emplace(rmm::mr::pool_memory_resource(upstream, free_bytes / 2 / 256 * 256));
        else if (name == "arena")
            resource().emplace(rmm::mr::arena_memory_resource(
                upstream, (free_bytes - (std::size_t{1} << 30)) / 256 * 256));
        else if (name == "async")
            resource().emplace(rmm::mr::cuda_async_memory_resource());
        else
            return 1;
    } catch (std::exception const &) {
        return 1;
    }
    return 0;
}

extern "C" __attribute__((visibility("default"))) int peer_obtain(void **block, std::size_t n_bytes,
                                                                  cudaStream_t stream) {
    try {
        *block = resource()->allocate(cuda::stream_ref(stream), n_bytes, 256);
        return 0;
    } catch (std::exception const &) {
        return cudaErrorMemoryAllocation;
    }
}

extern "C" __attribute__((visibility("default"))) int peer_release(void *block, std::size_t n_bytes,
                                                                   cudaStream_t stream) {
    resource()->deallocate(cuda::stream_ref(stream), block, n_bytes, 256);
    return 0;
}
