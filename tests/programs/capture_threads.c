/*
 * One thread captures, in each mode, while another thread allocates and frees; then the capturing
 * thread does. Results are printed. Without cushim a GLOBAL capture refuses the other thread's
 * calls and is invalidated by them. An allocator that serves them must keep the capture valid, so a
 * resulting graph is launched and checked.
 */
#include "answer.h"
#include "kernel.h"

#include <pthread.h>

enum { N = 1000, N_THREADS = 128 };

KERNEL(write_all, unsigned *, data, unsigned, value, size_t, n) {
    if (i < n)
        data[i] = value;
}

static const struct {
    enum cudaStreamCaptureMode mode;
    const char *name;
} modes[] = {{cudaStreamCaptureModeGlobal, "global"},
             {cudaStreamCaptureModeThreadLocal, "thread local"},
             {cudaStreamCaptureModeRelaxed, "relaxed"}};

static cudaError_t allocate_and_free(const char *who) {
    char what[64];
    void *block = NULL;
    snprintf(what, sizeof what, "  %s: malloc", who);
    cudaError_t error = answer(what, cudaMalloc(&block, 10000));
    if (error != cudaSuccess)
        return error;
    snprintf(what, sizeof what, "  %s: free", who);
    return answer(what, cudaFree(block));
}

static void *other_thread(void *result) {
    *(cudaError_t *)result = allocate_and_free("other thread");
    return NULL;
}

static cudaError_t ask_other_thread(void) {
    pthread_t thread;
    cudaError_t error = cudaErrorUnknown;
    fflush(stdout);
    MUST(pthread_create(&thread, NULL, other_thread, &error) == 0);
    MUST(pthread_join(thread, NULL) == 0);
    return error;
}

static void launch_and_check(cudaGraph_t graph, cudaStream_t stream, unsigned *data,
                             unsigned value) {
    static unsigned host[N];
    cudaGraphExec_t executable;
    TRY(cudaGraphInstantiate(&executable, graph, 0));
    TRY(cudaGraphLaunch(executable, stream));
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < N; i++)
        MUST(host[i] == value);
    TRY(cudaGraphExecDestroy(executable));
    TRY(cudaGraphDestroy(graph));
}

static void capture(size_t m, int by_itself, cudaStream_t stream, unsigned *data) {
    cudaGraph_t graph = NULL;
    unsigned value = (unsigned)(m * 2 + (size_t)by_itself + 1);
    printf("capture in mode %s\n", modes[m].name);
    TRY(cudaStreamBeginCapture(stream, modes[m].mode));
    cudaError_t served = by_itself ? allocate_and_free("same thread") : ask_other_thread();
    /* In an invalidated capture the launch is refused too. */
    cudaError_t launched =
        LAUNCH(write_all, BLOCKS(N, N_THREADS), N_THREADS, stream, data, value, N);
    answer("  launch", launched);
    cudaError_t ended = answer("  end", cudaStreamEndCapture(stream, &graph));
    if (modes[m].mode == cudaStreamCaptureModeRelaxed ||
        (modes[m].mode == cudaStreamCaptureModeThreadLocal && !by_itself))
        MUST(served == cudaSuccess);
    MUST((served == cudaSuccess) == (ended == cudaSuccess));
    if (ended == cudaSuccess)
        launch_and_check(graph, stream, data, value);
}

int main(void) {
    cudaStream_t stream;
    unsigned *data;
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    TRY(cudaMalloc((void **)&data, N * sizeof *data));
    TRY(LAUNCH(write_all, BLOCKS(N, N_THREADS), N_THREADS, stream, data, 0, N));
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaFree(NULL));
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        capture(m, 0, stream, data);
        capture(m, 1, stream, data);
    }
    TRY(cudaDeviceSynchronize());
    TRY(cudaFree(data));
    TRY(cudaStreamDestroy(stream));
    printf("capture_threads: done\n");
    return 0;
}
