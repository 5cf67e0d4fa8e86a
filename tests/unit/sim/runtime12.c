/*
 * The software runtime of CUDA 12: signatures and structs that differ from CUDA 13.  They are
 * declared here as a program of CUDA 12 is compiled.
 */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <string.h>

#define RT_OK(call) ck_assert_int_eq((call), cudaSuccess)

/* The function of this name, with its type in CUDA 12. */
static void *name_of(const char *name) {
    void *library = dlopen("libcudart.so.12", RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    void *address = dlsym(library, name);
    ck_assert_msg(address != NULL, "%s", name);
    return address;
}

#define FUNCTION(name, parameters)                                                                 \
    cudaError_t(*name) parameters;                                                                 \
    *(void **)&name = name_of(#name)

TEST(the_version_is_that_of_CUDA_12) {
    FUNCTION(cudaRuntimeGetVersion, (int *));
    int version = 0;
    RT_OK(cudaRuntimeGetVersion(&version));
    ck_assert_int_eq(version / 1000, 12);
}

TEST(structs_have_their_size_of_CUDA_12) {
    struct {
        int type, device;
        void *device_pointer, *host_pointer;
        char behind[64];
    } attributes;
    char properties[2048];
    struct cudaDeviceProp newer;
    void *block;
    int number;
    FUNCTION(cudaMalloc, (void **, size_t));
    FUNCTION(cudaPointerGetAttributes, (void *, const void *));
    FUNCTION(cudaGetDeviceProperties, (void *, int));
    FUNCTION(cudaGetDeviceProperties_v2, (void *, int));
    RT_OK(cudaMalloc(&block, 100));
    memset(&attributes, 0x5a, sizeof attributes);
    RT_OK(cudaPointerGetAttributes(&attributes, block));
    ck_assert_int_eq(attributes.type, cudaMemoryTypeDevice);
    ck_assert_ptr_eq(attributes.device_pointer, block);
    for (size_t i = 0; i < sizeof attributes.behind; i++)
        ck_assert_int_eq(attributes.behind[i], 0x5a);

    cudaError_t (*of_13)(struct cudaDeviceProp *, int);
    *(void **)&of_13 = dlsym(RTLD_DEFAULT, "cudaGetDeviceProperties");
    RT_OK(of_13(&newer, 0));
    memset(properties, 0x5a, sizeof properties);
    RT_OK(cudaGetDeviceProperties_v2(properties, 0));
    ck_assert_int_eq(properties[1031], 0);
    ck_assert_int_eq(properties[1032], 0x5a);
    ck_assert_str_eq(properties, newer.name);
    memcpy(&number, properties + 388, sizeof number);
    ck_assert_int_eq(number, newer.multiProcessorCount);
    memcpy(&number, properties + 624, sizeof number);
    ck_assert_int_eq(number, newer.maxThreadsPerMultiProcessor);
    memcpy(&number, properties + 744, sizeof number);
    ck_assert_int_eq(number, newer.memoryPoolsSupported);
    memset(properties, 0x5a, sizeof properties);
    RT_OK(cudaGetDeviceProperties(properties, 0));
    ck_assert_int_ne(properties[727], 0x5a);
    ck_assert_int_eq(properties[728], 0x5a);
}

TEST(a_device_is_named_by_its_number) {
    void *block;
    FUNCTION(cudaMallocManaged, (void **, size_t, unsigned));
    FUNCTION(cudaMemAdvise, (const void *, size_t, int, int));
    FUNCTION(cudaMemPrefetchAsync, (const void *, size_t, int, cudaStream_t));
    RT_OK(cudaMallocManaged(&block, 4096, cudaMemAttachGlobal));
    for (int device = cudaCpuDeviceId; device <= 1; device++) {
        RT_OK(cudaMemAdvise(block, 4096, cudaMemAdviseSetPreferredLocation, device));
        RT_OK(cudaMemPrefetchAsync(block, 4096, device, NULL));
    }
    ck_assert_int_ne(cudaMemAdvise(block, 4096, cudaMemAdviseSetPreferredLocation, 2), cudaSuccess);
    ck_assert_int_ne(cudaMemPrefetchAsync(block, 4096, 2, NULL), cudaSuccess);
}

TEST(edges_and_captures_have_no_edge_data) {
    cudaGraph_t graph;
    cudaGraphNode_t first, second, from[4], to[4];
    cudaStream_t stream;
    int status = 0;
    size_t n = 4;
    unsigned long long id = 0;
    struct cudaGraphNodeParams empty = {.type = cudaGraphNodeTypeEmpty};
    FUNCTION(cudaGraphCreate, (cudaGraph_t *, unsigned));
    FUNCTION(cudaGraphAddNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t,
                                struct cudaGraphNodeParams *));
    FUNCTION(cudaGraphAddDependencies,
             (cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *, size_t));
    FUNCTION(cudaGraphGetEdges, (cudaGraph_t, cudaGraphNode_t *, cudaGraphNode_t *, size_t *));
    FUNCTION(cudaStreamCreate, (cudaStream_t *));
    FUNCTION(cudaStreamBeginCapture, (cudaStream_t, int));
    FUNCTION(cudaStreamGetCaptureInfo, (cudaStream_t, int *, unsigned long long *));
    FUNCTION(cudaStreamGetCaptureInfo_v2, (cudaStream_t, int *, unsigned long long *, cudaGraph_t *,
                                           const cudaGraphNode_t **, size_t *));
    RT_OK(cudaGraphCreate(&graph, 0));
    RT_OK(cudaGraphAddNode(&first, graph, NULL, 0, &empty));
    RT_OK(cudaGraphAddNode(&second, graph, NULL, 0, &empty));
    RT_OK(cudaGraphAddDependencies(graph, &first, &second, 1));
    RT_OK(cudaGraphGetEdges(graph, from, to, &n));
    ck_assert_uint_eq(n, 1);
    ck_assert_ptr_eq(from[0], first);
    ck_assert_ptr_eq(to[0], second);
    RT_OK(cudaStreamCreate(&stream));
    RT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    RT_OK(cudaStreamGetCaptureInfo(stream, &status, &id));
    ck_assert_int_eq(status, cudaStreamCaptureStatusActive);
    ck_assert_uint_ne(id, 0);
    graph = NULL;
    RT_OK(cudaStreamGetCaptureInfo_v2(stream, &status, &id, &graph, NULL, &n));
    ck_assert_ptr_nonnull(graph);
    ck_assert_uint_eq(n, 0);
}

TEST(a_batch_reports_its_failed_index_and_copies) {
    void *block, *to, *from;
    size_t n_bytes = 4, first = 0, failed = 0;
    int number = 12, seen = 0;
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    cudaStream_t stream;
    FUNCTION(cudaMalloc, (void **, size_t));
    FUNCTION(cudaMemcpy, (void *, const void *, size_t, int));
    FUNCTION(cudaStreamCreate, (cudaStream_t *));
    FUNCTION(cudaStreamSynchronize, (cudaStream_t));
    FUNCTION(cudaMemcpyBatchAsync, (void **, void **, size_t *, size_t, void *, size_t *, size_t,
                                    size_t *, cudaStream_t));
    RT_OK(cudaMalloc(&block, 100));
    RT_OK(cudaMemcpy(block, &number, 4, cudaMemcpyHostToDevice));
    RT_OK(cudaStreamCreate(&stream));
    to = &seen;
    from = block;
    RT_OK(cudaMemcpyBatchAsync(&to, &from, &n_bytes, 1, &attributes, &first, 1, &failed, stream));
    RT_OK(cudaStreamSynchronize(stream));
    ck_assert_int_eq(seen, 12);
}

SUITE() {
    return tests_run("runtime12");
}
