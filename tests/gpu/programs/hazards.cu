/*
 * What programs get from cudaFree's barrier, knowingly or not: each case leans on it in one way, many
 * times.  Natively, and in cushim's default mode, none of the tries goes wrong.
 *
 *   hazards [--tries N] [--case NAME]
 *
 * Every try starts work that ends some milliseconds later, frees an unrelated scratch block, and looks
 * at once at what the work should have done by then.
 */
#include "program.h"

#include <atomic>
#include <thread>
#include <unistd.h>

enum { WORK_US = 3000, N_WORDS = 1 << 16 };

static __device__ void wait_us(unsigned us) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - start < us * 1000ull);
}

__global__ void wait_kernel(unsigned us) {
    wait_us(us);
}

__global__ void wait_and_set(unsigned us, unsigned *words, unsigned n, unsigned value) {
    if (threadIdx.x == 0)
        wait_us(us);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        words[i] = value;
    __threadfence_system();
}

__global__ void wait_and_print(unsigned us, unsigned value) {
    wait_us(us);
    printf("kernel %u\n", value);
}

__global__ void wait_for_host(volatile unsigned *flag) {
    while (*flag == 0) {
    }
}

struct world {
    cudaStream_t streams[4]; /* legacy, per-thread, blocking, non-blocking */
    unsigned *pinned;        /* N_WORDS */
    unsigned *device;        /* N_WORDS */
    unsigned *host;          /* N_WORDS, pageable */
};

static void *scratch() {
    void *block;
    TRY(cudaMalloc(&block, 100000));
    return block;
}

static bool is_all(const unsigned *words, unsigned value) {
    for (unsigned i = 0; i < N_WORDS; i++) {
        if (words[i] != value)
            return false;
    }
    return true;
}

static void fill(unsigned *words, unsigned value) {
    for (unsigned i = 0; i < N_WORDS; i++)
        words[i] = value;
}

/* ---- the cases: true means that the try went wrong ---- */

static bool pinned_source_is_refilled(world &w, cudaStream_t stream, unsigned value) {
    void *block = scratch();
    fill(w.pinned, value);
    wait_kernel<<<1, 1, 0, stream>>>(WORK_US);
    TRY(cudaMemcpyAsync(w.device, w.pinned, N_WORDS * 4, cudaMemcpyHostToDevice, stream));
    TRY(cudaFree(block));
    fill(w.pinned, ~value);
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaMemcpy(w.host, w.device, N_WORDS * 4, cudaMemcpyDeviceToHost));
    return !is_all(w.host, value);
}

static bool host_words_are_read(unsigned *words, unsigned *seen_by_device, cudaStream_t stream, unsigned value) {
    void *block = scratch();
    wait_and_set<<<1, 256, 0, stream>>>(WORK_US, seen_by_device, N_WORDS, value);
    TRY(cudaFree(block));
    bool is_right = is_all(words, value);
    TRY(cudaStreamSynchronize(stream));
    return !is_right;
}

static bool pinned_result_is_read(world &w, cudaStream_t stream, unsigned value) {
    return host_words_are_read(w.pinned, w.pinned, stream, value);
}

static bool pinned_copy_is_read(world &w, cudaStream_t stream, unsigned value) {
    void *block = scratch();
    wait_and_set<<<1, 256, 0, stream>>>(WORK_US, w.device, N_WORDS, value);
    TRY(cudaMemcpyAsync(w.pinned, w.device, N_WORDS * 4, cudaMemcpyDeviceToHost, stream));
    TRY(cudaFree(block));
    return !is_all(w.pinned, value);
}

static bool registered_result_is_read(world &, cudaStream_t stream, unsigned value) {
    unsigned *words, *mapped;
    MUST(posix_memalign((void **)&words, 4096, N_WORDS * 4) == 0);
    TRY(cudaHostRegister(words, N_WORDS * 4, cudaHostRegisterMapped));
    TRY(cudaHostGetDevicePointer((void **)&mapped, words, 0));
    bool is_wrong = host_words_are_read(words, mapped, stream, value);
    TRY(cudaHostUnregister(words));
    free(words);
    return is_wrong;
}

static bool managed_result_is_read(world &, cudaStream_t stream, unsigned value) {
    unsigned *words;
    TRY(cudaMallocManaged((void **)&words, N_WORDS * 4));
    bool is_wrong = host_words_are_read(words, words, stream, value);
    TRY(cudaFree(words));
    return is_wrong;
}

static void CUDART_CB note(void *value) {
    ((std::atomic<unsigned> *)value)->store(1);
}

static bool host_function_has_run(world &, cudaStream_t stream, unsigned) {
    std::atomic<unsigned> has_run{0};
    void *block = scratch();
    wait_kernel<<<1, 1, 0, stream>>>(WORK_US);
    TRY(cudaLaunchHostFunc(stream, note, &has_run));
    TRY(cudaFree(block));
    bool is_wrong = has_run.load() == 0;
    TRY(cudaStreamSynchronize(stream));
    return is_wrong;
}

static bool elapsed_time_is_ready(world &, cudaStream_t stream, unsigned) {
    cudaEvent_t begin, end;
    float ms = 0;
    void *block = scratch();
    TRY(cudaEventCreate(&begin));
    TRY(cudaEventCreate(&end));
    TRY(cudaEventRecord(begin, stream));
    wait_kernel<<<1, 1, 0, stream>>>(WORK_US);
    TRY(cudaEventRecord(end, stream));
    TRY(cudaFree(block));
    bool is_wrong = cudaEventElapsedTime(&ms, begin, end) != cudaSuccess || ms < 1e-3f * WORK_US;
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaEventDestroy(begin));
    TRY(cudaEventDestroy(end));
    return is_wrong;
}

static bool stream_is_done(world &, cudaStream_t stream, unsigned) {
    void *block = scratch();
    wait_kernel<<<1, 1, 0, stream>>>(WORK_US);
    TRY(cudaFree(block));
    bool is_wrong = cudaStreamQuery(stream) != cudaSuccess;
    TRY(cudaStreamSynchronize(stream));
    return is_wrong;
}

static bool other_stream_sees_it(world &w, cudaStream_t stream, unsigned value) {
    cudaStream_t reader = stream == w.streams[3] ? w.streams[1] : w.streams[3];
    void *block = scratch();
    wait_and_set<<<1, 256, 0, stream>>>(WORK_US, w.device, N_WORDS, value);
    TRY(cudaFree(block));
    TRY(cudaMemcpyAsync(w.pinned, w.device, N_WORDS * 4, cudaMemcpyDeviceToHost, reader));
    TRY(cudaStreamSynchronize(reader));
    bool is_wrong = !is_all(w.pinned, value);
    TRY(cudaStreamSynchronize(stream));
    return is_wrong;
}

/* The next malloc of that size may get the memory: what is queued for the old owner must be over. */
static bool freed_memory_is_reused(world &w, cudaStream_t stream, unsigned value) {
    cudaStream_t other = stream == w.streams[3] ? w.streams[1] : w.streams[3];
    unsigned *first, *second;
    TRY(cudaMalloc((void **)&first, N_WORDS * 4));
    wait_and_set<<<1, 256, 0, stream>>>(WORK_US, first, N_WORDS, ~value);
    TRY(cudaFree(first));
    TRY(cudaMalloc((void **)&second, N_WORDS * 4));
    wait_and_set<<<1, 256, 0, other>>>(0, second, N_WORDS, value);
    TRY(cudaDeviceSynchronize());
    TRY(cudaMemcpy(w.host, second, N_WORDS * 4, cudaMemcpyDeviceToHost));
    TRY(cudaFree(second));
    return !is_all(w.host, value);
}

static bool graph_is_done(world &w, cudaStream_t stream, unsigned value) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    TRY(cudaStreamBeginCapture(w.streams[2], cudaStreamCaptureModeGlobal));
    wait_and_set<<<1, 256, 0, w.streams[2]>>>(WORK_US, w.device, N_WORDS, value);
    TRY(cudaMemcpyAsync(w.pinned, w.device, N_WORDS * 4, cudaMemcpyDeviceToHost, w.streams[2]));
    TRY(cudaStreamEndCapture(w.streams[2], &graph));
    TRY(cudaGraphInstantiate(&executable, graph, 0));
    void *block = scratch();
    TRY(cudaGraphLaunch(executable, stream));
    TRY(cudaFree(block));
    bool is_wrong = !is_all(w.pinned, value);
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaGraphExecDestroy(executable));
    TRY(cudaGraphDestroy(graph));
    return is_wrong;
}

/* The same while this thread captures and another one frees; the capture must stay valid. */
static bool free_during_a_capture(world &w, cudaStream_t stream, unsigned value) {
    if (stream != w.streams[3]) /* the others would join or break the capture natively */
        return false;
    bool is_wrong = false;
    cudaGraph_t graph = NULL;
    TRY(cudaStreamBeginCapture(w.streams[2], cudaStreamCaptureModeThreadLocal));
    wait_kernel<<<1, 1, 0, w.streams[2]>>>(1);
    std::thread([&] { is_wrong = host_words_are_read(w.pinned, w.pinned, stream, value); }).join();
    wait_kernel<<<1, 1, 0, w.streams[2]>>>(1);
    is_wrong |= cudaStreamEndCapture(w.streams[2], &graph) != cudaSuccess;
    TRY(cudaGraphDestroy(graph));
    return is_wrong;
}

/* malloc does not wait for a kernel that waits for the host; a free in another thread ends with it. */
static bool persistent_kernel_lives(world &, cudaStream_t stream, unsigned) {
    unsigned *flag;
    void *early = scratch(), *block;
    std::atomic<int> is_freed{0};
    TRY(cudaMallocHost((void **)&flag, sizeof *flag));
    *flag = 0;
    wait_for_host<<<1, 1, 0, stream>>>(flag);
    TRY(cudaMalloc(&block, 300000));
    std::thread freer([&] {
        TRY(cudaFree(early));
        is_freed = 1;
    });
    usleep(2000);
    bool is_wrong = is_freed != 0;
    *(volatile unsigned *)flag = 1;
    freer.join();
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaFree(block));
    TRY(cudaFreeHost(flag));
    return is_wrong;
}

/* What kernels print comes out with the free. */
static bool print_has_come_out(world &, cudaStream_t stream, unsigned value) {
    FILE *file = tmpfile();
    MUST(file != NULL);
    void *block = scratch();
    fflush(stdout);
    int saved = dup(1);
    MUST(dup2(fileno(file), 1) == 1);
    wait_and_print<<<1, 1, 0, stream>>>(WORK_US, value);
    TRY(cudaFree(block));
    fflush(stdout);
    bool is_wrong = lseek(1, 0, SEEK_END) == 0;
    TRY(cudaStreamSynchronize(stream));
    fflush(stdout);
    MUST(dup2(saved, 1) == 1);
    close(saved);
    fclose(file);
    return is_wrong;
}

static const struct {
    const char *name;
    bool (*goes_wrong)(world &, cudaStream_t, unsigned);
} cases[] = {
    {"pinned_source_is_refilled", pinned_source_is_refilled},
    {"pinned_result_is_read", pinned_result_is_read},
    {"pinned_copy_is_read", pinned_copy_is_read},
    {"registered_result_is_read", registered_result_is_read},
    {"managed_result_is_read", managed_result_is_read},
    {"host_function_has_run", host_function_has_run},
    {"elapsed_time_is_ready", elapsed_time_is_ready},
    {"stream_is_done", stream_is_done},
    {"other_stream_sees_it", other_stream_sees_it},
    {"freed_memory_is_reused", freed_memory_is_reused},
    {"graph_is_done", graph_is_done},
    {"free_during_a_capture", free_during_a_capture},
    {"persistent_kernel_lives", persistent_kernel_lives},
    {"print_has_come_out", print_has_come_out},
};

int main(int argc, char **argv) {
    unsigned n_tries = (unsigned)program_option(argc, argv, "--tries", 40);
    const char *only = NULL;
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--case") == 0)
            only = argv[i + 1];
    }
    world w;
    w.streams[0] = cudaStreamLegacy;
    w.streams[1] = cudaStreamPerThread;
    TRY(cudaStreamCreate(&w.streams[2]));
    TRY(cudaStreamCreateWithFlags(&w.streams[3], cudaStreamNonBlocking));
    TRY(cudaMallocHost((void **)&w.pinned, N_WORDS * 4));
    TRY(cudaMalloc((void **)&w.device, N_WORDS * 4));
    w.host = (unsigned *)program_allocate(N_WORDS * 4);
    unsigned n_all = 0;
    for (const auto &one : cases) {
        unsigned n_wrong = 0;
        if (only && strcmp(only, one.name))
            continue;
        for (unsigned i = 0; i < n_tries; i++) {
            n_wrong += one.goes_wrong(w, w.streams[i % 4], 1000 + i);
            TRY(cudaDeviceSynchronize());
            TRY(cudaGetLastError());
        }
        printf("hazards: %s: %u of %u wrong\n", one.name, n_wrong, n_tries);
        fflush(stdout);
        n_all += n_wrong;
    }
    return n_all != 0;
}
