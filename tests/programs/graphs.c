/*
 * Graphs: work of two streams is captured, instantiated in each of the three ways, replayed and
 * destroyed. It uses memory of cudaMalloc, and scratch memory is allocated and freed between the
 * replays.
 *
 *   graphs [--size ELEMENTS] [--rounds N]
 */
#include "kernel.h"
#include "program.h"

enum { N_THREADS = 128 };

KERNEL(step, unsigned *, data, const unsigned *, term, size_t, n) {
    if (i < n)
        data[i] = data[i] * 3 + term[i];
}

static cudaGraph_t capture(cudaStream_t main_stream, cudaStream_t side_stream, unsigned *data,
                           unsigned *term, unsigned *pinned, size_t n) {
    size_t n_bytes = n * sizeof *data;
    cudaEvent_t fork, join;
    cudaGraph_t graph;
    enum cudaStreamCaptureStatus status;
    TRY(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    TRY(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));

    TRY(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeThreadLocal));
    TRY(cudaEventRecord(fork, main_stream));
    TRY(cudaStreamWaitEvent(side_stream, fork, 0));
    TRY(cudaMemsetAsync(term, 2, n_bytes, side_stream));
    TRY(cudaStreamIsCapturing(side_stream, &status));
    MUST(status == cudaStreamCaptureStatusActive);
    TRY(cudaEventRecord(join, side_stream));
    TRY(cudaStreamWaitEvent(main_stream, join, 0));
    TRY(LAUNCH(step, BLOCKS(n, N_THREADS), N_THREADS, main_stream, data, term, n));
    TRY(cudaMemcpyAsync(pinned, data, n_bytes, cudaMemcpyDeviceToHost, main_stream));
    TRY(cudaStreamEndCapture(main_stream, &graph));

    TRY(cudaStreamIsCapturing(side_stream, &status));
    MUST(status == cudaStreamCaptureStatusNone);
    size_t n_nodes = 0;
    TRY(cudaGraphGetNodes(graph, NULL, &n_nodes));
    MUST(n_nodes == 3);
    TRY(cudaEventDestroy(fork));
    TRY(cudaEventDestroy(join));
    return graph;
}

static cudaGraphExec_t instantiate(cudaGraph_t graph, size_t round) {
    cudaGraphExec_t executable;
    cudaGraphInstantiateParams params;
    memset(&params, 0, sizeof params);
    if (round % 3 == 0)
        TRY(cudaGraphInstantiate(&executable, graph, 0));
    else if (round % 3 == 1)
        TRY(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    else
        TRY(cudaGraphInstantiateWithParams(&executable, graph, &params));
    return executable;
}

int main(int argc, char **argv) {
    enum { N_REPLAYS = 8 };
    size_t n = program_option(argc, argv, "--size", 2048);
    size_t n_rounds = program_option(argc, argv, "--rounds", 9);
    size_t n_bytes = n * sizeof(unsigned);
    unsigned long long checksum = CHECKSUM;
    cudaStream_t main_stream, side_stream;
    TRY(cudaStreamCreateWithFlags(&main_stream, cudaStreamNonBlocking));
    TRY(cudaStreamCreateWithFlags(&side_stream, cudaStreamNonBlocking));

    for (size_t round = 0; round < n_rounds; round++) {
        unsigned *data, *term, *pinned, expected = 0;
        TRY(cudaMalloc((void **)&data, n_bytes));
        TRY(cudaMalloc((void **)&term, n_bytes));
        TRY(cudaMallocHost((void **)&pinned, n_bytes));
        TRY(cudaMemset(data, 0, n_bytes));
        TRY(cudaDeviceSynchronize());
        cudaGraph_t graph = capture(main_stream, side_stream, data, term, pinned, n);
        cudaGraphExec_t executable = instantiate(graph, round);
        TRY(cudaGraphDestroy(graph));
        for (int replay = 0; replay < N_REPLAYS; replay++) {
            void *scratch;
            TRY(cudaGraphLaunch(executable, main_stream));
            TRY(cudaMalloc(&scratch, n_bytes));
            TRY(cudaMemsetAsync(scratch, 0xff, n_bytes, side_stream));
            TRY(cudaFree(scratch));
            expected = expected * 3 + 0x02020202u;
        }
        TRY(cudaStreamSynchronize(main_stream));
        for (size_t i = 0; i < n; i++)
            MUST(pinned[i] == expected);
        checksum = program_checksum(checksum, pinned, n_bytes);
        TRY(cudaGraphExecDestroy(executable));
        TRY(cudaFree(data));
        TRY(cudaFree(term));
        TRY(cudaFreeHost(pinned));
    }
    TRY(cudaStreamDestroy(main_stream));
    TRY(cudaStreamDestroy(side_stream));
    printf("graphs: %zu x %d x %zu, checksum %016llx\n", n_rounds, N_REPLAYS, n, checksum);
    return 0;
}
