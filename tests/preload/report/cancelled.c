/* Allocations and frees of a thread whose cancellation is pending.  Without cushim none of them is
 * a cancellation point.  The last word says how the thread ended.  Then the first thread does other
 * things that we log. */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_PAIRS = 1500, LARGE = 20 << 20 };

static CUcontext context;

/* Enough for a second chunk of a recording. */
static void *ask(void *unused) {
    CUdeviceptr block;
    cuCtxSetCurrent(context);
    pthread_cancel(pthread_self());
    cuMemFree(0x12340); /* no allocation is there, which is logged at CUSHIM_LOG=debug */
    for (size_t i = 0; i < N_PAIRS; i++) {
        if (cuMemAlloc(&block, 100 + i) == CUDA_SUCCESS)
            cuMemFree(block);
    }
    return unused;
}

static void do_the_rest(void) {
    CUdeviceptr block;
    void *pinned, *pageable = calloc(1, LARGE);
    if (cuMemAlloc(&block, LARGE) == CUDA_SUCCESS) {
        cuMemcpyHtoD(block, pageable, LARGE);
        cuMemcpyDtoH(pageable, block, LARGE);
        cuMemcpyDtoH(pageable, block + 1, LARGE); /* it leaves its block */
        cuMemFree(block);
        cuMemFree(block);
    }
    if (cuMemHostAlloc(&pinned, 5000, 0) == CUDA_SUCCESS)
        cuMemFreeHost(pinned);
    cuMemAlloc(&block, (size_t)1 << 44);
    cuCtxSynchronize();
    free(pageable);
}

int main(void) {
    pthread_t thread;
    void *answer;
    CUdevice device;
    cuInit(0);
    cuDeviceGet(&device, 0);
    cuDevicePrimaryCtxRetain(&context, device);
    pthread_create(&thread, NULL, ask, &context);
    pthread_join(thread, &answer);
    cuCtxSetCurrent(context);
    do_the_rest();
    cuDevicePrimaryCtxRelease(device);
    puts(answer == &context ? "went through" : "was cancelled");
    return 0;
}
