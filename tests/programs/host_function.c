/*
 * Calls inside a host function and a callback, which CUDA refuses; and a host function that runs
 * while a cudaFree of another thread waits for it.
 */
#include "answer.h"

struct job {
    void *block;
    cudaError_t freed;
    cudaError_t allocated;
    int n_runs;
};

static void CUDART_CB free_inside(void *cookie) {
    struct job *job = (struct job *)cookie;
    void *fresh = NULL;
    job->freed = cudaFree(job->block);
    job->allocated = cudaMalloc(&fresh, 1000);
    program_add(&job->n_runs, 1);
}

static void CUDART_CB callback(cudaStream_t stream, cudaError_t status, void *cookie) {
    (void)stream;
    MUST(status == cudaSuccess);
    free_inside(cookie);
}

static void report(const char *what, struct job *job) {
    printf("%s ran %d times\n", what, program_load(&job->n_runs));
    answer_is("  free inside it", job->freed, cudaErrorNotPermitted);
    answer("  malloc inside it", job->allocated);
}

int main(void) {
    static struct job job;
    cudaStream_t stream;
    void *scratch;
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    TRY(cudaMalloc(&job.block, 100000));

    TRY(cudaLaunchHostFunc(stream, free_inside, &job));
    TRY(cudaStreamSynchronize(stream));
    report("host function", &job);
    TRY(cudaStreamAddCallback(stream, callback, &job, 0));
    TRY(cudaStreamSynchronize(stream));
    report("callback", &job);

    /* A free waits for an earlier host function. */
    TRY(cudaMalloc(&scratch, 1000));
    TRY(cudaMemsetAsync(scratch, 1, 1000, stream));
    TRY(cudaLaunchHostFunc(stream, free_inside, &job));
    TRY(cudaFree(scratch));
    printf("after a free: %d runs\n", program_load(&job.n_runs));
    MUST(program_load(&job.n_runs) == 3);

    answer_is("free outside", cudaFree(job.block), cudaSuccess);
    answer_is("free outside, again", cudaFree(job.block), cudaErrorInvalidValue);
    TRY(cudaStreamDestroy(stream));
    return 0;
}
