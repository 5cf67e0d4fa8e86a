/*
 * A program whose functions hold, churn and leak amounts that the tests of recordings know.
 *
 *     holder [kill | busy | pause]
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != CUDA_SUCCESS)                                                                \
            _exit(90);                                                                             \
    } while (0)

enum {
    N_BUSY = 5,
    N_HELD = 4,
    HELD_BYTES = 1 << 20,
    N_STEPS = 200,
    CHURN_BYTES = 4000,
    LEAK_BYTES = 1000
};

void hold_much(void);
__attribute__((noinline)) void hold_much(void) {
    CUdeviceptr block;
    for (int i = 0; i < N_HELD; i++)
        TRY(cuMemAlloc(&block, HELD_BYTES)); /* held */
}

void churn(void);
__attribute__((noinline)) void churn(void) {
    CUdeviceptr block;
    TRY(cuMemAlloc(&block, CHURN_BYTES)); /* churned */
    TRY(cuMemFree(block));
}

void leak_some(void);
__attribute__((noinline)) void leak_some(void) {
    CUdeviceptr block;
    TRY(cuMemAlloc(&block, LEAK_BYTES)); /* leaked */
}

void pin_some(void);
__attribute__((noinline)) void pin_some(void) {
    void *block;
    TRY(cuMemAllocHost(&block, 1 << 16)); /* pinned */
}

static void CUDA_CB work(void *nothing) {
    (void)nothing;
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* Frees that find the device at work. */
void free_busy(void);
__attribute__((noinline)) void free_busy(void) {
    CUdeviceptr block;
    for (int i = 0; i < N_BUSY; i++) {
        TRY(cuMemAlloc(&block, CHURN_BYTES)); /* busy */
        TRY(cuLaunchHostFunc(NULL, work, NULL));
        TRY(cuMemFree(block));
    }
}

int main(int argc, char **argv) {
    CUcontext context;
    CUdevice device;
    CUdeviceptr block;
    TRY(cuInit(0));
    TRY(cuDeviceGet(&device, 0));
    TRY(cuDevicePrimaryCtxRetain(&context, device));
    TRY(cuCtxSetCurrent(context));
    hold_much();
    pin_some();
    for (int i = 0; i < N_STEPS; i++) {
        leak_some();
        churn();
    }
    if (argc > 1 && strcmp(argv[1], "busy") == 0)
        free_busy();
    if (argc > 1 && strcmp(argv[1], "pause") == 0) {
        puts("ready");
        fflush(stdout);
        pause();
    }
    cuMemAlloc(&block, (size_t)1 << 46); /* refused */
    if (argc > 1 && strcmp(argv[1], "kill") == 0)
        raise(SIGKILL);
    return 0;
}
