/*
 * A program whose function `keep` is in one situation, which growth.py names: growth SITUATION
 */
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != CUDA_SUCCESS)                                                                \
            _exit(90);                                                                             \
    } while (0)

enum { N = 100, BYTES = 100000 };

static CUdeviceptr blocks[N];

void keep(CUdeviceptr *block);
__attribute__((noinline)) void keep(CUdeviceptr *block) {
    TRY(cuMemAlloc(block, BYTES));
}

/* As a kernel does that runs for longer than all requests take together, or SIGSTOP. */
static void pass_a_second(void) {
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
}

int main(int argc, char **argv) {
    const char *situation = argc > 1 ? argv[1] : "";
    bool is_stop = strcmp(situation, "stop") == 0, is_result = strcmp(situation, "result") == 0;
    bool is_warm = strcmp(situation, "warm") == 0, is_burst = strcmp(situation, "burst") == 0;
    bool is_kill = strcmp(situation, "kill") == 0, is_load = strcmp(situation, "load") == 0;
    int n = is_stop ? 2 * N : is_warm ? 5 * N : is_result ? N + 1 : N;
    CUcontext context;
    TRY(cuInit(0));
    TRY(cuDevicePrimaryCtxRetain(&context, 0));
    TRY(cuCtxSetCurrent(context));
    for (int i = 0; i < n; i++) {
        if (i == N && !is_warm)
            pass_a_second();
        if (i >= N && is_warm)
            TRY(cuMemFree(blocks[i % N]));
        keep(&blocks[i % N]); /* one site, because a call of another line would be another one */
    }
    for (int i = 0; i < N && is_burst; i++)
        TRY(cuMemFree(blocks[i]));
    if (is_load || is_kill)
        pass_a_second();
    if (is_kill)
        raise(SIGKILL);
    if (strcmp(situation, "run") == 0)
        pause();
    return 0;
}
