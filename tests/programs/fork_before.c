/*
 * A process forks before it uses CUDA: parent and child use it like new processes.
 */
#include "program.h"

#include <sys/wait.h>
#include <unistd.h>

static void use_device(int value) {
    unsigned char host[5000];
    for (int round = 0; round < 100; round++) {
        void *block;
        TRY(cudaMalloc(&block, sizeof host));
        TRY(cudaMemset(block, value, sizeof host));
        TRY(cudaMemcpy(host, block, sizeof host, cudaMemcpyDeviceToHost));
        TRY(cudaFree(block));
        MUST(host[0] == value && host[sizeof host - 1] == value);
    }
}

int main(void) {
    int status = -1;
    pid_t child = fork();
    MUST(child >= 0);
    use_device(child == 0 ? 1 : 2);
    if (child == 0)
        return 0;
    MUST(waitpid(child, &status, 0) == child);
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    printf("fork_before: parent and child right\n");
    return 0;
}
