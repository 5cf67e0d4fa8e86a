/*
 * The rows of barrier.c about reused memory: the work of its first owner is held, that of the
 * second owner is not, and the two must not overlap.
 */
#pragma once

#include "barrier_rows.h"

/* The second owner writes; then the first owner's work, if it is not done, does its damage. */
static enum answer take_again(struct world *w, size_t n_bytes, unsigned tag) {
    cudaStream_t stream = w->more_streams[STREAM_NON_BLOCKING];
    unsigned *words = (unsigned *)allocate(n_bytes);
    work_fill(words, N_WORDS, tag, stream);
    TRY(cudaStreamSynchronize(stream));
    release_gate();
    TRY(cudaDeviceSynchronize());
    TRY(cudaMemcpy(w->host, words, N_BYTES, cudaMemcpyDeviceToHost));
    TRY(cudaFree(words));
    return wrong_if(host_check(w->host, N_WORDS, tag) != 0);
}

static enum answer written_memory_is_reused(struct world *w, cudaStream_t stream, unsigned tag) {
    unsigned *words = (unsigned *)allocate(N_BYTES);
    hold(stream);
    work_fill(words, N_WORDS, ~tag, stream);
    TRY(cudaFree(words));
    return take_again(w, N_BYTES, tag);
}

static enum answer large_memory_is_reused(struct world *w, cudaStream_t stream, unsigned tag) {
    unsigned *words = (unsigned *)allocate(LARGE_BYTES);
    hold(stream);
    work_fill(words, N_WORDS, ~tag, stream);
    TRY(cudaFree(words));
    return take_again(w, LARGE_BYTES, tag);
}

static enum answer read_memory_is_reused(struct world *w, cudaStream_t stream, unsigned tag) {
    unsigned *words = (unsigned *)allocate(N_BYTES);
    work_fill(words, N_WORDS, tag, stream);
    hold(stream);
    TRY(cudaMemcpyAsync(w->device, words, N_BYTES, cudaMemcpyDeviceToDevice, stream));
    TRY(cudaFree(words));
    take_again(w, N_BYTES, ~tag);
    TRY(cudaMemcpy(w->host, w->device, N_BYTES, cudaMemcpyDeviceToHost));
    return wrong_if(host_check(w->host, N_WORDS, tag) != 0);
}

static enum answer memory_of_a_graph_is_reused(struct world *w, cudaStream_t stream, unsigned tag) {
    unsigned *words = (unsigned *)allocate(N_BYTES);
    cudaGraphExec_t executable = graph_of(words, ~tag, NULL);
    hold(stream);
    TRY(cudaGraphLaunch(executable, stream));
    TRY(cudaFree(words));
    enum answer answer = take_again(w, N_BYTES, tag);
    TRY(cudaGraphExecDestroy(executable));
    return answer;
}

struct passing {
    struct world *world;
    unsigned *words;
    unsigned tag;
    enum answer answer;
};

static void free_and_take_again(void *data) {
    struct passing *passing = (struct passing *)data;
    TRY(cudaFree(passing->words));
    passing->answer = take_again(passing->world, N_BYTES, passing->tag);
}

static enum answer memory_freed_elsewhere_is_reused(struct world *w, cudaStream_t stream,
                                                    unsigned tag) {
    struct passing passing = {w, (unsigned *)allocate(N_BYTES), tag, ABSENT};
    hold(stream);
    work_fill(passing.words, N_WORDS, ~tag, stream);
    in_second_thread(free_and_take_again, &passing);
    return passing.answer;
}

static enum answer memory_freed_in_capture_is_reused(struct world *w, cudaStream_t stream,
                                                     unsigned tag) {
    cudaStream_t captured = stream_create(STREAM_NON_BLOCKING);
    unsigned *words = (unsigned *)allocate(N_BYTES);
    hold(stream);
    work_fill(words, N_WORDS, ~tag, stream);
    in_second_thread(toggle_capture, captured);
    TRY(cudaFree(words));
    unsigned *other = (unsigned *)allocate(N_BYTES); /* probably the same block, during a capture */
    in_second_thread(toggle_capture, captured);
    TRY(cudaStreamDestroy(captured));
    work_fill(other, N_WORDS, tag, w->more_streams[STREAM_NON_BLOCKING]);
    TRY(cudaStreamSynchronize(w->more_streams[STREAM_NON_BLOCKING]));
    release_gate();
    TRY(cudaDeviceSynchronize());
    TRY(cudaMemcpy(w->host, other, N_BYTES, cudaMemcpyDeviceToHost));
    TRY(cudaFree(other));
    return wrong_if(host_check(w->host, N_WORDS, tag) != 0);
}

/* A copy on a stream of the other device reads the block. */
static enum answer peer_memory_is_reused(struct world *w, cudaStream_t unused, unsigned tag) {
    int n_devices = 0;
    cudaStream_t stream;
    (void)unused;
    TRY(cudaGetDeviceCount(&n_devices));
    if (n_devices < 2)
        return ABSENT;
    unsigned *words = (unsigned *)allocate(N_BYTES), *copy;
    work_fill(words, N_WORDS, tag, w->streams[STREAM_NON_BLOCKING]);
    TRY(cudaDeviceSynchronize());
    TRY(cudaSetDevice(1));
    TRY(cudaMalloc((void **)&copy, N_BYTES));
    stream = stream_create(STREAM_NON_BLOCKING);
    hold(stream);
    TRY(cudaMemcpyPeerAsync(copy, 1, words, 0, N_BYTES, stream));
    TRY(cudaSetDevice(0));
    TRY(cudaFree(words));
    take_again(w, N_BYTES, ~tag);
    TRY(cudaSetDevice(1));
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaMemcpy(w->host, copy, N_BYTES, cudaMemcpyDeviceToHost));
    TRY(cudaFree(copy));
    TRY(cudaStreamDestroy(stream));
    TRY(cudaSetDevice(0));
    return wrong_if(host_check(w->host, N_WORDS, tag) != 0);
}

/* The host owns the memory after the second allocation, so the first owner's kernel must not write
 * it. */
static enum answer host_takes_again(unsigned *words, unsigned tag) {
    host_fill(words, N_WORDS, tag);
    release_gate();
    TRY(cudaDeviceSynchronize());
    return wrong_if(host_check(words, N_WORDS, tag) != 0);
}

static enum answer pinned_memory_is_reused(struct world *w, cudaStream_t stream, unsigned tag) {
    unsigned *words;
    (void)w;
    TRY(cudaMallocHost((void **)&words, N_BYTES));
    hold(stream);
    work_fill(words, N_WORDS, ~tag, stream);
    TRY(cudaFreeHost(words));
    TRY(cudaMallocHost((void **)&words, N_BYTES));
    enum answer answer = host_takes_again(words, tag);
    TRY(cudaFreeHost(words));
    return answer;
}

static enum answer managed_memory_is_reused(struct world *w, cudaStream_t stream, unsigned tag) {
    unsigned *words;
    (void)w;
    TRY(cudaMallocManaged((void **)&words, LARGE_BYTES, cudaMemAttachGlobal));
    hold(stream);
    work_fill(words, N_WORDS, ~tag, stream);
    TRY(cudaFree(words));
    TRY(cudaMallocManaged((void **)&words, LARGE_BYTES, cudaMemAttachGlobal));
    enum answer answer = host_takes_again(words, tag);
    TRY(cudaFree(words));
    return answer;
}

/* Freed in stream order: code outside of that order gets the block when its work is done. */
static enum answer ordered_memory_is_reused(struct world *w, cudaStream_t stream, unsigned tag) {
    unsigned *words = (unsigned *)allocate(N_BYTES);
    hold(stream);
    work_fill(words, N_WORDS, ~tag, stream);
    TRY(cudaFreeAsync(words, stream));
    return take_again(w, N_BYTES, tag);
}

/* ---- the last row ---- */

#ifdef __CUDACC__
static __device__ void fault_thread(size_t i, unsigned *nowhere) {
    *nowhere = (unsigned)i;
}
#else
SIM_KERNEL(fault, unsigned *) {
    (void)args;
    launch->turn->fault = CUDA_ERROR_ILLEGAL_ADDRESS;
}
#endif
KERNEL_LAUNCHER(fault, (unsigned *nowhere), (nowhere), (&nowhere))

static enum answer fault_is_reported(struct world *w) {
    cudaStream_t stream = w->streams[STREAM_NON_BLOCKING];
    void *scratch = allocate(1000);
    hold(stream);
    TRY(LAUNCH(fault, 1, 1, stream, (unsigned *)64));
    cudaError_t error = cudaFree(scratch);
    release_gate();
    MUST(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    return wrong_if(error != cudaErrorIllegalAddress);
}
