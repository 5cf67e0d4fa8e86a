/*
 * A process forks after it used CUDA, while another thread allocates. CUDA does not survive a fork:
 * the child's calls are refused, it must not hang, and it ends; the parent continues with all its
 * memory.
 */
#include "answer.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int stop; /* 1: the thread has to end */

static void *allocate_meanwhile(void *cookie) {
    (void)cookie;
    while (!program_load(&stop)) {
        void *block;
        TRY(cudaMalloc(&block, 3000));
        TRY(cudaFree(block));
    }
    return NULL;
}

/* The child's allocations must fail, and its frees must not affect the parent. */
static int child_of(void *block_of_parent) {
    void *block = NULL;
    cudaError_t allocated = answer("malloc in the child", cudaMalloc(&block, 1000));
    answer("free in the child", cudaFree(block_of_parent));
    return allocated == cudaSuccess;
}

int main(void) {
    enum { N_CHILDREN = 5 };
    unsigned char host[1000];
    void *block;
    pthread_t thread;
    TRY(cudaMalloc(&block, sizeof host));
    TRY(cudaMemset(block, 9, sizeof host));
    TRY(cudaDeviceSynchronize());
    MUST(pthread_create(&thread, NULL, allocate_meanwhile, NULL) == 0);
    for (int i = 0; i < N_CHILDREN; i++) {
        int status = -1;
        fflush(stdout);
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            alarm(60); /* ends a child that hangs, as a failure */
            int wrong = child_of(block);
            fflush(stdout);
            _exit(wrong);
        }
        MUST(waitpid(child, &status, 0) == child);
        MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    program_add(&stop, 1);
    MUST(pthread_join(thread, NULL) == 0);
    TRY(cudaMemcpy(host, block, sizeof host, cudaMemcpyDeviceToHost));
    MUST(host[0] == 9 && host[sizeof host - 1] == 9);
    TRY(cudaFree(block));
    printf("fork_after: %d children, the parent right\n", N_CHILDREN);
    return 0;
}
