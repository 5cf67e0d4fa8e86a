/*
 * The least that a decode step of the 8B shape can take: programs that only read what a step reads.
 *
 *   nvcc -O3 -std=c++17 -arch=sm_90a -o step_floor step_floor.cu && ./step_floor
 *
 * A phase stands for a product or an attention: all threads of the grid read its bytes, after they
 * have read x, which the phase before wrote.  Either each phase is a kernel, in a graph of
 * dependent launches, or one grid runs all phases with a barrier between them.  Weights are asked
 * for before x in both.  The size of the cache is that of 1,000 positions of floats.
 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

namespace {

enum { RUNS = 25, MOST_X = 131072, PIECE = 16, MARGIN = 1 << 22 };

struct Phase {
    size_t begin, n_bytes;
    int n_x; /* floats */
};

/* A thread's pieces of 16 bytes, on their way through its own slots of shared memory. */
template <int SLOTS> struct Stream {
    const char *from, *end;
    size_t step; /* to the thread's next piece */
    unsigned slots, put = 0, got = 0, sum = 0;

    __device__ Stream(const char *from, size_t n_bytes, char *shared)
        : from(from + (blockIdx.x * (size_t)blockDim.x + threadIdx.x) * PIECE), end(from + n_bytes),
          step((size_t)gridDim.x * blockDim.x * PIECE),
          slots((unsigned)__cvta_generic_to_shared(shared) + threadIdx.x * PIECE) {
        for (int i = 1; i < SLOTS; i++)
            ask();
    }
    __device__ void ask() {
        if (from < end)
            asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(
                             slots + put * blockDim.x * PIECE),
                         "l"(from));
        asm volatile("cp.async.commit_group;");
        from += step;
        put = put + 1 == SLOTS ? 0 : put + 1;
    }
    __device__ void take() {
        uint4 piece;
        asm volatile("cp.async.wait_group %0;" ::"n"(SLOTS - 1));
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(piece.x), "=r"(piece.y), "=r"(piece.z), "=r"(piece.w)
                     : "r"(slots + got * blockDim.x * PIECE));
        sum ^= piece.x ^ piece.y ^ piece.z ^ piece.w;
        got = got + 1 == SLOTS ? 0 : got + 1;
    }
    /* Read n_bytes of the whole grid. */
    __device__ void read(size_t n_bytes) {
        for (size_t at = 0; at < n_bytes; at += step) {
            ask();
            take();
        }
    }
};

/* Each thread has a part of x, four loads at once. */
__device__ float read_x(const float *x, int n, float *shared) {
    enum { AT_ONCE = 4 };
    float sum = 0;
    for (int i = (int)threadIdx.x * 4; i < n; i += (int)blockDim.x * 4 * AT_ONCE) {
        float4 four[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int at = i + j * (int)blockDim.x * 4;
            four[j] = at < n ? __ldcg((const float4 *)(x + at)) : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            sum += four[j].x + four[j].y + four[j].z + four[j].w;
    }
    shared[threadIdx.x] = sum;
    __syncthreads();
    return shared[(threadIdx.x + 1) % blockDim.x];
}

/* A float a warp. */
__device__ void write_y(float *y, float x, unsigned sum) {
    size_t warp = (blockIdx.x * (size_t)blockDim.x + threadIdx.x) / 32;
    sum = __reduce_xor_sync(0xFFFFFFFF, sum);
    if (threadIdx.x % 32 == 0)
        y[warp] = x * 1e-9f + (float)(sum & 1);
}

extern __shared__ __align__(128) char shared_slots[];

template <int SLOTS>
__global__ void read_phase(const char *weights, Phase phase, const float *x, float *y) {
    __shared__ float sums[1024];
    asm volatile("griddepcontrol.launch_dependents;");
    Stream<SLOTS> stream(weights + phase.begin, phase.n_bytes, shared_slots);
    asm volatile("griddepcontrol.wait;" ::: "memory");
    float of_x = read_x(x, phase.n_x, sums);
    stream.read(phase.n_bytes);
    write_y(y, of_x, stream.sum);
}

__device__ unsigned n_arrived;

/* A phase is a multiple of what the grid reads at once. */
template <int SLOTS>
__global__ void read_phases(const char *weights, size_t n_bytes, const Phase *phases, int n_phases,
                            float *x) {
    __shared__ float sums[1024];
    Stream<SLOTS> stream(weights, n_bytes, shared_slots);
    for (int i = 0; i < n_phases; i++) {
        float of_x = read_x(x + i % 2 * MOST_X, phases[i].n_x, sums);
        stream.read(phases[i].n_bytes);
        write_y(x + (i + 1) % 2 * MOST_X, of_x, stream.sum);
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned wanted = (unsigned)(i + 1) * gridDim.x, seen;
            asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(&n_arrived) : "memory");
            do {
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                             : "=r"(seen)
                             : "l"(&n_arrived)
                             : "memory");
            } while (seen < wanted);
        }
        __syncthreads();
    }
}

/* Sizes are multiples of `unit`. */
std::vector<Phase> phases_of_step(size_t unit) {
    enum { LAYERS = 32, HIDDEN = 4096, FF = 14336, QKV = 6144, VOCABULARY = 128256 };
    std::vector<Phase> phases;
    size_t begin = 0;
    auto add = [&](size_t n_bytes, int n_x) {
        n_bytes = (n_bytes + unit - 1) / unit * unit;
        phases.push_back({begin, n_bytes, n_x});
        begin += n_bytes;
    };
    auto product = [&](size_t m, int k) { add(m * (size_t)k / 256 * 144, k); }; /* q4_K */
    for (int layer = 0; layer < LAYERS; layer++) {
        product(QKV, HIDDEN);
        add(1000 * 2 * 8 * 128 * sizeof(float), QKV);
        product(HIDDEN, HIDDEN);
        product(2 * FF, HIDDEN);
        product(HIDDEN, FF);
    }
    product(VOCABULARY, HIDDEN);
    return phases;
}

struct Device {
    int n_sms;
    char *weights;
    float *x;
    cudaStream_t stream;
};

template <class Work> double median_us(const Device &device, Work work) {
    std::vector<float> times;
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int i = 0; i < RUNS; i++) {
        unsigned none = 0;
        float ms;
        CHECK(cudaMemcpyToSymbol(n_arrived, &none, sizeof none));
        CHECK(cudaEventRecord(begin, device.stream));
        work();
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(end, device.stream));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    return times[RUNS / 2] * 1e3;
}

template <int SLOTS> void measure_chain(const Device &device, int n_threads, bool is_dependent) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    int shared_bytes = SLOTS * n_threads * PIECE, number = 0;
    CHECK(cudaFuncSetAttribute(read_phase<SLOTS>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               shared_bytes));
    CHECK(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeGlobal));
    for (const Phase &phase : phases_of_step(PIECE)) {
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = is_dependent;
        cudaLaunchConfig_t config = {};
        config.gridDim = device.n_sms;
        config.blockDim = n_threads;
        config.dynamicSmemBytes = shared_bytes;
        config.stream = device.stream;
        config.attrs = &attribute;
        config.numAttrs = 1;
        const float *x = device.x + number % 2 * MOST_X;
        CHECK(cudaLaunchKernelEx(&config, read_phase<SLOTS>, (const char *)device.weights, phase, x,
                                 device.x + ++number % 2 * MOST_X));
    }
    CHECK(cudaStreamEndCapture(device.stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    double us = median_us(device, [&] { CHECK(cudaGraphLaunch(exec, device.stream)); });
    printf("a chain of %slaunches, %d threads, %d KB in flight: %.0f us\n",
           is_dependent ? "dependent " : "", n_threads, shared_bytes >> 10, us);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

template <int SLOTS> void measure_grid(const Device &device, int n_threads) {
    std::vector<Phase> phases = phases_of_step((size_t)device.n_sms * n_threads * PIECE);
    size_t n_bytes = phases.back().begin + phases.back().n_bytes;
    int shared_bytes = SLOTS * n_threads * PIECE;
    Phase *there;
    CHECK(cudaFuncSetAttribute(read_phases<SLOTS>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               shared_bytes));
    CHECK(cudaMalloc(&there, phases.size() * sizeof(Phase)));
    CHECK(cudaMemcpy(there, phases.data(), phases.size() * sizeof(Phase), cudaMemcpyHostToDevice));
    double us = median_us(device, [&] {
        read_phases<SLOTS><<<device.n_sms, n_threads, shared_bytes, device.stream>>>(
            device.weights, n_bytes, there, (int)phases.size(), device.x);
    });
    printf("one grid, %d threads, %d KB in flight: %.0f us\n", n_threads, shared_bytes >> 10, us);
    CHECK(cudaFree(there));
}

void measure_one_kernel(const Device &device) {
    enum { SLOTS = 12, THREADS = 1024 };
    Phase phase = {0, (size_t)4 << 30, 4096};
    CHECK(cudaFuncSetAttribute(read_phase<SLOTS>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               SLOTS * THREADS * PIECE));
    double us = median_us(device, [&] {
        read_phase<SLOTS><<<device.n_sms, THREADS, SLOTS * THREADS * PIECE, device.stream>>>(
            device.weights, phase, device.x, device.x + MOST_X);
    });
    printf("4 GiB in one kernel: %.0f us, %.0f GB/s\n", us, (double)phase.n_bytes / us / 1e3);
}

} // namespace

int main() {
    cudaDeviceProp properties;
    Device device;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    device.n_sms = properties.multiProcessorCount;
    CHECK(cudaStreamCreate(&device.stream));
    CHECK(cudaMalloc(&device.weights, (size_t)5 << 30));
    CHECK(cudaMemset(device.weights, 1, (size_t)5 << 30));
    CHECK(cudaMalloc(&device.x, MARGIN));
    CHECK(cudaMemset(device.x, 0, MARGIN));
    measure_chain<6>(device, 1024, true);
    measure_chain<12>(device, 1024, true);
    measure_chain<12>(device, 512, true);
    measure_chain<16>(device, 256, true);
    measure_chain<6>(device, 1024, false);
    measure_grid<6>(device, 1024);
    measure_grid<12>(device, 512);
    measure_one_kernel(device);
    return 0;
}
