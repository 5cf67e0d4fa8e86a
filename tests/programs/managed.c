/*
 * All other kinds of memory: managed, pinned (mapped, portable, registered), pitched, boxes, and
 * stream-ordered; also freed by the other kind of free.
 *
 *   managed [--size ELEMENTS] [--rounds N]
 */
#include "kernel.h"
#include "program.h"

enum { N_THREADS = 128 };

KERNEL(increment, unsigned *, data, size_t, n) {
    if (i < n)
        data[i]++;
}

static void check_all(const unsigned *data, size_t n, unsigned value) {
    for (size_t i = 0; i < n; i++)
        MUST(data[i] == value);
}

/* The host writes it, then a kernel, then the host reads it. */
static void use_managed(size_t n) {
    unsigned *data;
    struct cudaPointerAttributes attributes;
    TRY(cudaMallocManaged((void **)&data, n * sizeof *data, cudaMemAttachGlobal));
    TRY(cudaPointerGetAttributes(&attributes, data));
    MUST(attributes.type == cudaMemoryTypeManaged);
    for (size_t i = 0; i < n; i++)
        data[i] = 41;
    TRY(LAUNCH(increment, BLOCKS(n, N_THREADS), N_THREADS, 0, data, n));
    TRY(cudaDeviceSynchronize());
    check_all(data, n, 42);
    TRY(cudaFree(data));
}

/* A kernel writes pinned memory through its mapping. */
static void use_pinned(size_t n, unsigned flags) {
    unsigned *data, *mapped;
    struct cudaPointerAttributes attributes;
    TRY(cudaHostAlloc((void **)&data, n * sizeof *data, flags | cudaHostAllocMapped));
    TRY(cudaPointerGetAttributes(&attributes, data));
    MUST(attributes.type == cudaMemoryTypeHost);
    memset(data, 0, n * sizeof *data);
    TRY(cudaHostGetDevicePointer((void **)&mapped, data, 0));
    TRY(LAUNCH(increment, BLOCKS(n, N_THREADS), N_THREADS, 0, mapped, n));
    TRY(cudaDeviceSynchronize());
    check_all(data, n, 1);
    TRY(cudaFreeHost(data));
}

static void use_registered(size_t n) {
    unsigned *data = (unsigned *)program_allocate(n * sizeof *data), *device;
    TRY(cudaHostRegister(data, n * sizeof *data, cudaHostRegisterDefault));
    TRY(cudaMalloc((void **)&device, n * sizeof *data));
    TRY(cudaMemset(device, 0x11, n * sizeof *data));
    TRY(cudaMemcpyAsync(data, device, n * sizeof *data, cudaMemcpyDeviceToHost, 0));
    TRY(cudaFree(device));
    TRY(cudaDeviceSynchronize());
    check_all(data, n, 0x11111111u);
    TRY(cudaHostUnregister(data));
    free(data);
}

/* Rows are copied in both directions; the padding between them stays unchanged. */
static void use_pitched(size_t width, size_t height) {
    size_t n_bytes = width * height, pitch;
    unsigned char *in = (unsigned char *)program_allocate(n_bytes);
    unsigned char *out = (unsigned char *)program_allocate(n_bytes);
    void *device;
    for (size_t i = 0; i < n_bytes; i++)
        in[i] = (unsigned char)(i * 7);
    TRY(cudaMallocPitch(&device, &pitch, width, height));
    MUST(pitch >= width && pitch % 512 == 0);
    TRY(cudaMemset2D(device, pitch, 0, width, height));
    TRY(cudaMemcpy2D(device, pitch, in, width, width, height, cudaMemcpyHostToDevice));
    TRY(cudaMemcpy2DAsync(out, width, device, pitch, width, height, cudaMemcpyDeviceToHost, 0));
    TRY(cudaFree(device));
    MUST(memcmp(in, out, n_bytes) == 0);
    free(in);
    free(out);
}

static void use_box(size_t width, size_t height, size_t depth) {
    size_t n_bytes = width * height * depth;
    unsigned char *out = (unsigned char *)program_allocate(n_bytes);
    struct cudaExtent extent;
    struct cudaPitchedPtr box;
    struct cudaMemcpy3DParms copy;
    extent.width = width;
    extent.height = height;
    extent.depth = depth;
    TRY(cudaMalloc3D(&box, extent));
    TRY(cudaMemset3D(box, 0x5a, extent));
    memset(&copy, 0, sizeof copy);
    copy.srcPtr = box;
    copy.dstPtr.ptr = out;
    copy.dstPtr.pitch = copy.dstPtr.xsize = width;
    copy.dstPtr.ysize = height;
    copy.extent = extent;
    copy.kind = cudaMemcpyDeviceToHost;
    TRY(cudaMemcpy3D(&copy));
    for (size_t i = 0; i < n_bytes; i++)
        MUST(out[i] == 0x5a);
    TRY(cudaFree(box.ptr));
    free(out);
}

/* Both kinds of free accept both kinds of pointer. */
static void use_stream_ordered(size_t n, cudaStream_t stream) {
    unsigned *ordered, *plain, *from_pool;
    unsigned *host = (unsigned *)program_allocate(n * sizeof *host);
    cudaMemPool_t pool;
    TRY(cudaDeviceGetDefaultMemPool(&pool, 0));
    TRY(cudaMallocAsync((void **)&ordered, n * sizeof *ordered, stream));
    TRY(cudaMalloc((void **)&plain, n * sizeof *plain));
    TRY(cudaMallocFromPoolAsync((void **)&from_pool, n * sizeof *from_pool, pool, stream));
    TRY(cudaMemsetAsync(ordered, 0, n * sizeof *ordered, stream));
    TRY(LAUNCH(increment, BLOCKS(n, N_THREADS), N_THREADS, stream, ordered, n));
    TRY(cudaMemcpyAsync(plain, ordered, n * sizeof *plain, cudaMemcpyDeviceToDevice, stream));
    TRY(cudaMemcpyAsync(from_pool, plain, n * sizeof *plain, cudaMemcpyDefault, stream));
    TRY(cudaMemcpyAsync(host, from_pool, n * sizeof *host, cudaMemcpyDeviceToHost, stream));
    TRY(cudaFreeAsync(plain, stream));
    TRY(cudaFreeAsync(from_pool, stream));
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaFree(ordered));
    check_all(host, n, 1);
    free(host);
}

int main(int argc, char **argv) {
    size_t n = program_option(argc, argv, "--size", 5000);
    size_t n_rounds = program_option(argc, argv, "--rounds", 20);
    cudaStream_t stream;
    TRY(cudaStreamCreate(&stream));
    for (size_t round = 0; round < n_rounds; round++) {
        use_managed(n + round);
        use_pinned(n + round, round % 2 ? cudaHostAllocPortable : cudaHostAllocDefault);
        use_registered(n + round);
        use_pitched(100 + round, 30);
        use_box(40 + round, 6, 5);
        use_stream_ordered(n + round, stream);
    }
    TRY(cudaStreamDestroy(stream));
    printf("managed: %zu x %zu, 7 kinds of memory right\n", n_rounds, n);
    return 0;
}
