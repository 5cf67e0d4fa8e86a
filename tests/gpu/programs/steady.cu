/*
 * Workloads that hardly allocate: products of cuBLAS, transforms of cuFFT, replays of a graph,
 * small launches, managed memory that host and device change in turn, and one that allocates and
 * frees a block in each step. All results are checked.
 *
 *   steady [--turns]
 *
 * With --turns it measures every workload at each line of its input, and prints a line per workload
 * and an empty one (tests/bench/run/turns.py).
 */
#include "program.h"

#include <algorithm>
#include <cublas_v2.h>
#include <cufft.h>
#include <functional>
#include <unistd.h>
#include <vector>

enum { N = 1024, N_POINTS = 1 << 20, N_LAUNCHES = 200, N_MANAGED = 4 << 20 };
static const double slice_s = 0.1;

__global__ void add_one(float *values, size_t n) {
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        values[i] += 1;
}

/* The addresses of memory change times by one or two per cent, so with turns each process places
 * each workload elsewhere. */
static unsigned long long place;

static void shift(void) {
    void *unused;
    if (place)
        TRY(cudaMalloc(&unused, 1 + (size_t)(program_random(&place) % (64 << 20))));
}

static float *filled(size_t n, float value) {
    std::vector<float> host(n, value);
    float *device;
    shift();
    TRY(cudaMalloc((void **)&device, n * sizeof(float)));
    TRY(cudaMemcpy(device, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    return device;
}

static float first_of(const float *device) {
    float value;
    TRY(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

struct workload {
    const char *name;
    std::function<void()> work; /* only queues the work; the measuring code waits */
    std::function<bool()> is_right;
};

static workload products() {
    static cublasHandle_t blas;
    static float *a = filled((size_t)N * N, 1), *b = filled((size_t)N * N, 2),
                 *c = filled((size_t)N * N, 0);
    MUST(cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS);
    return {"cublas",
            [] {
                float one = 1, zero = 0;
                for (int i = 0; i < 20; i++)
                    MUST(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &one, a, N, b, N,
                                     &zero, c, N) == CUBLAS_STATUS_SUCCESS);
            },
            [] { return first_of(c) == 2 * N; }};
}

static workload transforms() {
    static cufftHandle plan;
    static float *points = filled(2 * (size_t)N_POINTS, 0), *out = filled(2 * (size_t)N_POINTS, 1);
    MUST(cufftPlan1d(&plan, N_POINTS, CUFFT_C2C, 1) == CUFFT_SUCCESS);
    return {"cufft",
            [] {
                for (int i = 0; i < 20; i++)
                    MUST(cufftExecC2C(plan, (cufftComplex *)points, (cufftComplex *)out,
                                      CUFFT_FORWARD) == CUFFT_SUCCESS);
            },
            [] { return first_of(out) == 0; }};
}

static workload plans() {
    static float *points = filled(2 * (size_t)N_POINTS, 0), *out = filled(2 * (size_t)N_POINTS, 1);
    return {"cufft_plans",
            [] {
                for (int n = 1 << 12; n <= N_POINTS; n *= 4) {
                    cufftHandle plan;
                    MUST(cufftPlan1d(&plan, n, CUFFT_C2C, 1) == CUFFT_SUCCESS);
                    MUST(cufftExecC2C(plan, (cufftComplex *)points, (cufftComplex *)out,
                                      CUFFT_FORWARD) == CUFFT_SUCCESS);
                    MUST(cufftDestroy(plan) == CUFFT_SUCCESS);
                }
            },
            [] { return first_of(out) == 0; }};
}

static workload launches() {
    static float *values = filled(256, 0);
    static float n_done = 0;
    return {"launches",
            [] {
                for (int i = 0; i < N_LAUNCHES; i++)
                    add_one<<<1, 256>>>(values, 256);
                n_done += N_LAUNCHES;
            },
            [] { return n_done >= 1 << 24 || first_of(values) == n_done; }};
}

static workload replays() {
    static float *values = filled(256, 0);
    static float n_done = 0;
    static cudaGraphExec_t ready;
    static cudaStream_t stream;
    cudaGraph_t graph;
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 10; i++)
        add_one<<<1, 256, 0, stream>>>(values, 256);
    TRY(cudaStreamEndCapture(stream, &graph));
    TRY(cudaGraphInstantiateWithFlags(&ready, graph, 0));
    TRY(cudaGraphDestroy(graph));
    return {"graph_replays",
            [] {
                for (int i = 0; i < 50; i++)
                    TRY(cudaGraphLaunch(ready, stream));
                n_done += 500;
            },
            [] { return n_done >= 1 << 24 || first_of(values) == n_done; }};
}

static workload managed() {
    static float *values;
    static float n_done = 0;
    TRY(cudaMallocManaged((void **)&values, N_MANAGED * sizeof(float)));
    std::fill(values, values + N_MANAGED, 0.f);
    return {"managed",
            [] {
                add_one<<<256, 256>>>(values, N_MANAGED);
                TRY(cudaDeviceSynchronize());
                for (size_t i = 0; i < N_MANAGED; i += 1024)
                    values[i] += 1;
                n_done += 2;
            },
            [] { return values[0] == n_done; }};
}

static workload one_block() {
    static float *last;
    return {"one_block",
            [] {
                if (last)
                    TRY(cudaFree(last));
                TRY(cudaMalloc((void **)&last, 32 << 20));
                TRY(cudaMemset(last, 0, 32 << 20));
                for (int i = 0; i < 50; i++)
                    add_one<<<256, 256>>>(last, 8 << 20);
            },
            [] { return first_of(last) == 50; }};
}

static void measure(const workload &each) {
    std::vector<double> times;
    double end = program_seconds() + slice_s;
    while (times.size() < 5 || program_seconds() < end) {
        double start = program_seconds();
        each.work();
        TRY(cudaDeviceSynchronize());
        times.push_back(program_seconds() - start);
    }
    std::sort(times.begin(), times.end());
    printf("{\"case\": \"steady/%s\", \"n\": %zu, \"p0_ns\": %.0f, \"p50_ns\": %.0f, \"p99_ns\": "
           "%.0f, \"max_ns\": %.0f}\n",
           each.name, times.size(), 1e9 * times[0], 1e9 * times[times.size() / 2],
           1e9 * times[(times.size() - 1) * 99 / 100], 1e9 * times.back());
}

int main(int argc, char **argv) {
    bool is_by_turns = program_flag(argc, argv, "--turns");
    place = is_by_turns ? (unsigned)getpid() : 0;
    const workload all[] = {products(), transforms(), plans(),    launches(),
                            replays(),  managed(),    one_block()};
    for (const workload &each : all) {
        each.work();
        TRY(cudaDeviceSynchronize());
        MUST(each.is_right());
        if (!is_by_turns)
            printf("steady: %s is right\n", each.name);
    }
    while (is_by_turns && getchar() != EOF) {
        for (const workload &each : all)
            measure(each);
        for (const workload &each : all)
            MUST(each.is_right());
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
