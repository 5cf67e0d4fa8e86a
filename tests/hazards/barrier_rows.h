/*
 * The rows of barrier.c: each holds work back, frees memory, checks, and returns the result. The
 * gate is still closed when a try returns, unless the free waited for it.
 */
#pragma once

#include "barrier_world.h"

/* ---- effects that the host can see ---- */

static enum answer pinned_source_is_refilled(struct world *w, cudaStream_t stream, unsigned tag) {
    void *scratch = allocate(1000);
    host_fill(w->pinned, N_WORDS, tag);
    hold(stream);
    TRY(cudaMemcpyAsync(w->device, w->pinned, N_BYTES, cudaMemcpyHostToDevice, stream));
    TRY(cudaFree(scratch));
    host_fill(w->pinned, N_WORDS, ~tag);
    release_gate();
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaMemcpy(w->host, w->device, N_BYTES, cudaMemcpyDeviceToHost));
    return wrong_if(host_check(w->host, N_WORDS, tag) != 0);
}

static enum answer copy_is_read(struct world *w, unsigned *words, cudaStream_t stream,
                                unsigned tag) {
    void *scratch = allocate(1000);
    hold(stream);
    work_fill(w->device, N_WORDS, tag, stream);
    TRY(cudaMemcpyAsync(words, w->device, N_BYTES, cudaMemcpyDeviceToHost, stream));
    TRY(cudaFree(scratch));
    return wrong_if(host_check(words, N_WORDS, tag) != 0);
}

static enum answer pinned_copy_is_read(struct world *w, cudaStream_t stream, unsigned tag) {
    return copy_is_read(w, w->pinned, stream, tag);
}

/* A driver call, because the runtime has none that makes a stream write a word. */
typedef int write_word_fn(cudaStream_t stream, unsigned long long address, unsigned value,
                          unsigned flags);

static enum answer word_of_a_stream_is_read(struct world *w, cudaStream_t stream, unsigned tag) {
    void *scratch = allocate(1000), *found = NULL;
    enum cudaDriverEntryPointQueryResult verdict;
    write_word_fn *write_word;
    TRY(cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", &found, 12000, 0, &verdict));
    MUST(found && verdict == cudaDriverEntryPointSuccess);
    memcpy(&write_word, &found, sizeof write_word);
    host_fill(w->pinned, 1, ~tag);
    hold(stream);
    MUST(write_word(stream, (unsigned long long)(uintptr_t)w->pinned, tag, 0) == 0);
    TRY(cudaFree(scratch));
    return wrong_if(host_check(w->pinned, 1, tag) != 0);
}

/* Memory of the program, pinned for a while. */
static unsigned *register_words(void) {
    void *words = NULL;
    MUST(posix_memalign(&words, 4096, N_BYTES) == 0);
    memset(words, 0, N_BYTES);
    TRY(cudaHostRegister(words, N_BYTES, cudaHostRegisterMapped));
    return (unsigned *)words;
}

static void unregister_words(unsigned *words) {
    release_gate();
    TRY(cudaDeviceSynchronize());
    TRY(cudaHostUnregister(words));
    free(words);
}

static enum answer registered_copy_is_read(struct world *w, cudaStream_t stream, unsigned tag) {
    unsigned *words = register_words();
    enum answer answer = copy_is_read(w, words, stream, tag);
    unregister_words(words);
    return answer;
}

static void CUDART_CB note(void *n_runs) {
    program_add((int *)n_runs, 1);
}

static void CUDART_CB note_of_stream(cudaStream_t stream, cudaError_t status, void *n_runs) {
    (void)stream;
    MUST(status == cudaSuccess);
    program_add((int *)n_runs, 1);
}

static enum answer call_back(cudaStream_t stream, int by_stream) {
    int n_runs = 0;
    void *scratch = allocate(1000);
    hold(stream);
    if (by_stream)
        TRY(cudaStreamAddCallback(stream, note_of_stream, &n_runs, 0));
    else
        TRY(cudaLaunchHostFunc(stream, note, &n_runs));
    TRY(cudaFree(scratch));
    int is_wrong = program_load(&n_runs) == 0;
    release_gate();
    TRY(cudaStreamSynchronize(stream));
    return wrong_if(is_wrong);
}

static enum answer host_function_has_run(struct world *w, cudaStream_t stream, unsigned tag) {
    (void)w;
    (void)tag;
    return call_back(stream, 0);
}

static enum answer stream_callback_has_run(struct world *w, cudaStream_t stream, unsigned tag) {
    (void)w;
    (void)tag;
    return call_back(stream, 1);
}

/* fill, then a copy to `copy` unless that is NULL */
static cudaGraphExec_t graph_of(unsigned *words, unsigned tag, unsigned *copy) {
    cudaStream_t captured = stream_create(STREAM_NON_BLOCKING);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    TRY(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal));
    work_fill(words, N_WORDS, tag, captured);
    if (copy)
        TRY(cudaMemcpyAsync(copy, words, N_BYTES, cudaMemcpyDeviceToHost, captured));
    TRY(cudaStreamEndCapture(captured, &graph));
    TRY(cudaGraphInstantiate(&executable, graph, 0));
    TRY(cudaGraphDestroy(graph));
    TRY(cudaStreamDestroy(captured));
    return executable;
}

static enum answer graph_launch_is_done(struct world *w, cudaStream_t stream, unsigned tag) {
    cudaGraphExec_t executable = graph_of(w->device, tag, w->pinned);
    void *scratch = allocate(1000);
    hold(stream);
    TRY(cudaGraphLaunch(executable, stream));
    TRY(cudaFree(scratch));
    int is_wrong = host_check(w->pinned, N_WORDS, tag) != 0;
    release_gate();
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaGraphExecDestroy(executable));
    return wrong_if(is_wrong);
}

/* ---- the barrier, for the work of kernels ---- */

static enum answer result_is_read(unsigned *words, unsigned *for_device, cudaStream_t stream,
                                  unsigned tag) {
    void *scratch = allocate(1000);
    hold(stream);
    work_fill(for_device, N_WORDS, tag, stream);
    TRY(cudaFree(scratch));
    return wrong_if(host_check(words, N_WORDS, tag) != 0);
}

static enum answer pinned_result_is_read(struct world *w, cudaStream_t stream, unsigned tag) {
    return result_is_read(w->pinned, w->pinned, stream, tag);
}

static enum answer registered_result_is_read(struct world *w, cudaStream_t stream, unsigned tag) {
    unsigned *words = register_words(), *for_device;
    (void)w;
    TRY(cudaHostGetDevicePointer((void **)&for_device, words, 0));
    enum answer answer = result_is_read(words, for_device, stream, tag);
    unregister_words(words);
    return answer;
}

static enum answer managed_result_is_read(struct world *w, cudaStream_t stream, unsigned tag) {
    unsigned *words;
    (void)w;
    TRY(cudaMallocManaged((void **)&words, N_BYTES, cudaMemAttachGlobal));
    enum answer answer = result_is_read(words, words, stream, tag);
    release_gate();
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaFree(words));
    return answer;
}

static enum answer events_are_done(cudaStream_t stream, int with_time) {
    cudaEvent_t begin, end;
    float ms = 0;
    void *scratch = allocate(1000);
    TRY(cudaEventCreate(&begin));
    TRY(cudaEventCreate(&end));
    TRY(cudaEventRecord(begin, stream));
    hold(stream);
    TRY(cudaEventRecord(end, stream));
    TRY(cudaFree(scratch));
    cudaError_t error = with_time ? cudaEventElapsedTime(&ms, begin, end) : cudaEventQuery(end);
    MUST(error == cudaSuccess || error == cudaErrorNotReady);
    cudaGetLastError();
    release_gate();
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaEventDestroy(begin));
    TRY(cudaEventDestroy(end));
    return wrong_if(error != cudaSuccess);
}

static enum answer elapsed_time_is_ready(struct world *w, cudaStream_t stream, unsigned tag) {
    (void)w;
    (void)tag;
    return events_are_done(stream, 1);
}

static enum answer event_is_done(struct world *w, cudaStream_t stream, unsigned tag) {
    (void)w;
    (void)tag;
    return events_are_done(stream, 0);
}

static enum answer is_busy(cudaStream_t stream) {
    cudaError_t error = cudaStreamQuery(stream);
    MUST(error == cudaSuccess || error == cudaErrorNotReady);
    cudaGetLastError();
    return wrong_if(error != cudaSuccess);
}

static enum answer stream_is_done(struct world *w, cudaStream_t stream, unsigned tag) {
    void *scratch = allocate(1000);
    (void)w;
    (void)tag;
    hold(stream);
    TRY(cudaFree(scratch));
    return is_busy(stream);
}

/* ---- the barrier, for frees of any memory by any thread ---- */

static void free_it(void *block) {
    TRY(cudaFree(block));
}

static enum answer free_by_another_thread(struct world *w, cudaStream_t stream, unsigned tag) {
    void *scratch = allocate(1000);
    (void)w;
    (void)tag;
    hold(stream);
    in_second_thread(free_it, scratch);
    return is_busy(stream);
}

static enum answer free_of_large_memory(struct world *w, cudaStream_t stream, unsigned tag) {
    void *scratch = allocate(LARGE_BYTES);
    (void)w;
    (void)tag;
    hold(stream);
    TRY(cudaFree(scratch));
    return is_busy(stream);
}

static enum answer free_of_pitched_memory(struct world *w, cudaStream_t stream, unsigned tag) {
    void *scratch;
    size_t pitch;
    (void)w;
    (void)tag;
    TRY(cudaMallocPitch(&scratch, &pitch, 1000, 10)); /* the first tells the pitch */
    TRY(cudaFree(scratch));
    TRY(cudaMallocPitch(&scratch, &pitch, 1000, 10));
    hold(stream);
    TRY(cudaFree(scratch));
    return is_busy(stream);
}

static enum answer free_of_pinned_memory(struct world *w, cudaStream_t stream, unsigned tag) {
    void *scratch;
    (void)w;
    (void)tag;
    TRY(cudaMallocHost(&scratch, 1000));
    hold(stream);
    TRY(cudaFreeHost(scratch));
    return is_busy(stream);
}

static enum answer free_of_managed_memory(struct world *w, cudaStream_t stream, unsigned tag) {
    void *scratch;
    (void)w;
    (void)tag;
    TRY(cudaMallocManaged(&scratch, LARGE_BYTES, cudaMemAttachGlobal));
    hold(stream);
    TRY(cudaFree(scratch));
    return is_busy(stream);
}

/* Begin or end a capture in the second thread. */
static void toggle_capture(void *stream) {
    static int is_open;
    cudaGraph_t graph;
    if (!is_open) {
        TRY(cudaStreamBeginCapture((cudaStream_t)stream, cudaStreamCaptureModeThreadLocal));
    } else {
        TRY(cudaStreamEndCapture((cudaStream_t)stream, &graph));
        TRY(cudaGraphDestroy(graph));
    }
    is_open = !is_open;
}

static enum answer free_during_a_capture(struct world *w, cudaStream_t stream, unsigned tag) {
    cudaStream_t captured = w->more_streams[STREAM_NON_BLOCKING];
    void *scratch = allocate(1000);
    (void)tag;
    hold(stream);
    in_second_thread(toggle_capture, captured);
    TRY(cudaFree(scratch));
    enum answer answer = is_busy(stream);
    in_second_thread(toggle_capture, captured);
    return answer;
}

struct look {
    cudaStream_t stream;
    struct world *world;
    unsigned tag;
    int is_wrong;
};

static void read_by_copy(void *data) {
    struct look *look = (struct look *)data;
    struct world *w = look->world;
    TRY(cudaMemcpyAsync(w->pinned, w->device, N_BYTES, cudaMemcpyDeviceToHost, look->stream));
    TRY(cudaStreamSynchronize(look->stream));
    look->is_wrong = host_check(w->pinned, N_WORDS, look->tag) != 0;
}

static void write_held(void *data) {
    struct look *look = (struct look *)data;
    hold(look->stream);
    work_fill(look->world->device, N_WORDS, look->tag, look->stream);
}

static enum answer another_thread_reads(struct world *w, cudaStream_t stream, unsigned tag) {
    struct look writer = {stream, w, tag, 0}, reader = {w->more_streams[3], w, tag, 0};
    void *scratch = allocate(1000);
    write_held(&writer);
    TRY(cudaFree(scratch));
    in_second_thread(read_by_copy, &reader);
    return wrong_if(reader.is_wrong);
}

static enum answer another_process_reads(struct world *w, cudaStream_t stream, unsigned tag) {
    if (!w->shared)
        return ABSENT;
    void *scratch = allocate(1000);
    hold(stream);
    work_fill(w->shared, N_WORDS, tag, stream);
    TRY(cudaFree(scratch));
    return wrong_if(partner_ask(&w->partner, tag) != 0);
}

/* ---- a free flushes what kernels print ---- */

#ifdef __CUDACC__
static __device__ void print_tag_thread(size_t i, unsigned tag) {
    (void)i;
    printf("kernel %u\n", tag);
}
#else
SIM_KERNEL(print_tag, unsigned) {
    (void)args;
    launch->turn->print = "a kernel of the software device\n";
}
#endif

KERNEL_LAUNCHER(print_tag, (unsigned tag), (tag), (&tag))

/* Whether the free flushes the output if the kernel is held, or if it ended before. */
static enum answer does_print_come_out(cudaStream_t stream, unsigned tag, int is_held) {
    void *scratch = allocate(1000);
    FILE *file = tmpfile();
    MUST(file != NULL);
    fflush(stdout);
    int saved = dup(1);
    MUST(dup2(fileno(file), 1) == 1);
    if (is_held)
        hold(stream);
    TRY(LAUNCH(print_tag, 1, 1, stream, tag));
    while (!is_held && cudaStreamQuery(stream) == cudaErrorNotReady) {
    }
    cudaGetLastError(); /* "not ready" from a query is no error */
    TRY(cudaFree(scratch));
    fflush(stdout);
    int is_wrong = lseek(1, 0, SEEK_END) == 0;
    release_gate();
    TRY(cudaStreamSynchronize(stream));
    fflush(stdout);
    MUST(dup2(saved, 1) == 1);
    close(saved);
    fclose(file);
    return wrong_if(is_wrong);
}

static enum answer print_has_come_out(struct world *w, cudaStream_t stream, unsigned tag) {
    (void)w;
    return does_print_come_out(stream, tag, 1);
}

static enum answer print_from_before_has_come_out(struct world *w, cudaStream_t stream,
                                                  unsigned tag) {
    (void)w;
    return does_print_come_out(stream, tag, 0);
}

/* ---- pairs of streams ---- */

static int is_same_stream(int from, int to) {
    return from == to && from != STREAM_BLOCKING && from != STREAM_NON_BLOCKING;
}

/* The legacy stream and all blocking streams wait for each other. */
static int is_ordered(int from, int to) {
    return (from == STREAM_LEGACY && to != STREAM_NON_BLOCKING) ||
           (to == STREAM_LEGACY && from != STREAM_NON_BLOCKING);
}

static void in_place(int place, void (*run)(void *), struct look *look) {
    if (place == PLACE_OTHER_THREAD)
        in_second_thread(run, look);
    else
        run(look);
}

static enum answer try_pair(struct world *w, int from, int to, unsigned tag) {
    struct look writer = {cudaStreamPerThread, w, tag, 0}, reader = writer;
    void *scratch = allocate(1000);
    if (from != PLACE_OTHER_THREAD)
        writer.stream = w->streams[from];
    if (to != PLACE_OTHER_THREAD)
        reader.stream = w->more_streams[to];
    in_place(from, write_held, &writer);
    TRY(cudaFree(scratch));
    in_place(to, read_by_copy, &reader);
    settle();
    return wrong_if(reader.is_wrong);
}
