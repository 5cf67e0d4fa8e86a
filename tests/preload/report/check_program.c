/*
 * Programs with a mistake each, for the checking mode; `clean` has none.  Each prints what it
 * computed: no answer of a call, and no byte of a block, may differ under the check.
 *
 *   check_program clean|fresh|ipc|over|under|far|late|after|twice|inner|leak|sync|copy|set|pinned
 *   check_program hundred
 *   check_program large        sets of memory and requests that one large block takes
 *   check_program stuck        the device stands still until the driver is asked for more
 *   check_program refused      each call that may fails once, with blocks of several sizes
 *   check_program turns N M    N blocks, M freed ones, and what a synchronisation asks the driver
 */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/sim/sim.h"

enum { N_BYTES = 1000 };

SIM_KERNEL(poke, unsigned char *, int) {
    (void)launch;
    *SIM_ARG(unsigned char *, 0) = (unsigned char)SIM_ARG(int, 1);
}

static void must(CUresult answer, const char *what) {
    if (answer == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s: %d\n", what, (int)answer);
    exit(1);
}

/* A kernel that writes one byte, wherever that is. */
static void write_byte_on(CUstream stream, CUdeviceptr address, int value) {
    void *args[] = {&address, &value};
    CUfunction function;
    must(sim_function_by_name(&function, "poke"), "function");
    must(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL), "launch");
}

static void write_byte(CUdeviceptr address, int value) {
    write_byte_on(NULL, address, value);
}

static CUstream make_stream(void) {
    CUstream stream;
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
    return stream;
}

/* So that the stack of a finding has its name. */
#define NAMED __attribute__((noinline, visibility("default")))

NAMED CUdeviceptr obtain_block(size_t n_bytes);
CUdeviceptr obtain_block(size_t n_bytes) {
    CUdeviceptr block;
    must(cuMemAlloc(&block, n_bytes), "malloc");
    must(cuMemsetD8(block, 3, n_bytes), "set");
    return block;
}

NAMED void free_block(CUdeviceptr block);
void free_block(CUdeviceptr block) {
    must(cuMemFree(block), "free");
}

static unsigned sum_of(CUdeviceptr block) {
    unsigned char host[N_BYTES];
    unsigned sum = 0;
    must(cuMemcpyDtoH(host, block, N_BYTES), "copy");
    for (int i = 0; i < N_BYTES; i++)
        sum += host[i];
    return sum;
}

/* A block that is freed so is not checked, and its memory is soon reused. */
static void free_in_stream_order(void) {
    CUstream stream = make_stream();
    for (int i = 0; i < 5; i++) {
        CUdeviceptr block = obtain_block(N_BYTES);
        must(cuCtxSynchronize(), "synchronise"); /* this stream does not wait for the filling */
        must(cuMemFreeAsync(block, stream), "free in stream order");
        must(cuStreamSynchronize(stream), "synchronise");
        CUdeviceptr larger = obtain_block(N_BYTES + 900);
        must(cuCtxSynchronize(), "synchronise");
        free_block(larger);
    }
}

/* A block that is freed while a capture is open is not checked either. */
static void free_under_a_capture(void) {
    CUstream stream = make_stream();
    CUgraph graph;
    CUdeviceptr blocks[4];
    must(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    for (int i = 0; i < 4; i++)
        must(cuMemAlloc(&blocks[i], N_BYTES), "malloc");
    for (int i = 0; i < 4; i++)
        must(cuMemFree(blocks[i]), "free");
    must(cuStreamEndCapture(stream, &graph), "end");
    for (int i = 0; i < 4; i++) {
        blocks[i] = obtain_block(N_BYTES);
        must(cuMemsetD8(blocks[i], (unsigned char)i, N_BYTES), "set");
    }
    for (unsigned i = 0; i < 4; i++) {
        if (sum_of(blocks[i]) != i * N_BYTES)
            printf("a block lies over another\n");
        free_block(blocks[i]);
    }
}

/* A handle names the whole allocation of the driver, with the guards. */
static void export_block(void) {
    CUipcMemHandle handle;
    CUdeviceptr block = obtain_block(4 << 20);
    printf("handle: %d\n", (int)cuIpcGetMemHandle(&handle, block));
    free_block(block);
}

/* The last of n_blocks is damaged.  One synchronisation checks some blocks, the next one others. */
static void take_turns(int n_blocks, int n_freed) {
    for (int i = 0; i < n_freed; i++)
        free_block(obtain_block(256));
    CUdeviceptr *blocks = calloc((size_t)n_blocks, sizeof *blocks);
    for (int i = 0; i < n_blocks; i++)
        must(cuMemAlloc(&blocks[i], 256), "malloc");
    must(cuCtxSynchronize(), "synchronise"); /* all are new: it looks at all */
    for (int i = 0; i < 3; i++) {
        sim_calls_reset();
        must(cuCtxSynchronize(), "synchronise");
        printf("reads %lu, waits %lu\n", sim_calls("cuMemcpyDtoHAsync_v2"),
               sim_calls("cuEventSynchronize"));
    }
    write_byte(blocks[n_blocks - 1] + 256, 7);
    for (int i = 0; i < 3; i++)
        must(cuCtxSynchronize(), "synchronise");
    for (int i = 0; i < n_blocks; i++)
        free_block(blocks[i]);
    free(blocks);
}

enum { LARGE_BYTES = 150 << 20 }; /* of a device that has no room for two of them */

static void obtain_large(void) {
    CUdeviceptr block;
    sim_calls_reset();
    must(cuMemAlloc(&block, LARGE_BYTES), "malloc");
    printf("sets %lu, requests %lu\n", sim_calls("cuMemsetD8Async"), sim_calls("cuMemAlloc_v2"));
    must(cuMemsetD8(block, 3, LARGE_BYTES), "set");
    printf("sum %u\n", sum_of(block));
    free_block(block);
}

/* Nothing runs until a request for a second block failed. */
static void *release_late(void *nothing) {
    while (sim_calls("cuMemAlloc_v2") < 2)
        usleep(1000);
    sim_release_hold();
    return nothing;
}

static void obtain_from_stuck(void) {
    pthread_t thread;
    CUdeviceptr block;
    sim_calls_reset();
    sim_hold();
    pthread_create(&thread, NULL, release_late, NULL);
    CUresult answer = cuMemAlloc(&block, LARGE_BYTES);
    printf("stuck: %d\n", (int)answer);
    pthread_join(thread, NULL);
    must(answer, "malloc");
    must(cuMemsetD8(block, 3, LARGE_BYTES), "set");
    printf("sum %u\n", sum_of(block));
    free_block(block);
}

/* No block may lose its bytes, whichever call fails while it is obtained. */
static void obtain_refused(void) {
    static const size_t sizes[] = {N_BYTES, 40000, 3 << 20};
    for (unsigned long n = 1; n < 40; n++) {
        CUdeviceptr blocks[3];
        for (int i = 0; i < 3; i++) {
            sim_fail_at(n, CUDA_ERROR_OUT_OF_MEMORY);
            CUresult answer = cuMemAlloc(&blocks[i], sizes[i]);
            sim_fail_at(0, CUDA_SUCCESS);
            if (answer != CUDA_SUCCESS)
                must(cuMemAlloc(&blocks[i], sizes[i]), "malloc");
            must(cuMemsetD8(blocks[i], 3, sizes[i]), "set");
        }
        must(cuCtxSynchronize(), "synchronise");
        for (int i = 0; i < 3; i++) {
            if (sum_of(blocks[i]) != 3 * N_BYTES)
                printf("a block lost its bytes: call %lu\n", n);
            free_block(blocks[i]);
        }
    }
}

static void free_again(CUdeviceptr block, int n) {
    free_block(block);
    for (int i = 0; i < n; i++) {
        if (cuMemFree(block) != CUDA_ERROR_INVALID_VALUE)
            exit(1);
    }
}

/* Pinned memory has no guards, but a free of it may be wrong as well. */
static void free_pinned_twice(void) {
    void *block, *other;
    must(cuMemAllocHost(&block, N_BYTES), "pinned");
    must(cuMemAllocHost(&other, N_BYTES), "pinned"); /* so that memory stays there */
    must(cuMemFreeHost(block), "free of pinned");
    printf("pinned again: %d\n", (int)cuMemFreeHost(block));
    must(cuMemFreeHost(other), "free of pinned");
}

static void make_mistake(const char *mistake, CUdeviceptr block) {
    CUdeviceptr other = obtain_block(N_BYTES);
    unsigned char host[2 * N_BYTES];
    if (strcmp(mistake, "fresh") == 0)
        must(cuMemAlloc(&other, 5 << 20), "malloc"), printf("fresh %u\n", sum_of(other));
    else if (strcmp(mistake, "ipc") == 0)
        export_block();
    else if (strcmp(mistake, "over") == 0)
        write_byte(block + N_BYTES, 7);
    else if (strcmp(mistake, "under") == 0)
        write_byte(block - 1, 7);
    else if (strcmp(mistake, "far") == 0)
        write_byte(block + N_BYTES + 511, 7);
    else if (strcmp(mistake, "late") == 0)
        write_byte_on(make_stream(), other + N_BYTES, 7), free_block(other);
    else if (strcmp(mistake, "after") == 0)
        free_block(other), write_byte(other + 500, 7);
    else if (strcmp(mistake, "twice") == 0)
        free_block(other), printf("again: %d\n", (int)cuMemFree(other));
    else if (strcmp(mistake, "inner") == 0)
        printf("inner: %d\n", (int)cuMemFree(block + 512));
    else if (strcmp(mistake, "copy") == 0)
        printf("copy: %d\n", (int)cuMemcpyDtoH(host, block, 2 * N_BYTES));
    else if (strcmp(mistake, "set") == 0)
        free_block(other), printf("set: %d\n", (int)cuMemsetD8(other + 100, 1, 10));
    else if (strcmp(mistake, "hundred") == 0)
        free_again(other, 100);
    else if (strcmp(mistake, "pinned") == 0)
        free_pinned_twice();
    else if (strcmp(mistake, "leak") == 0)
        write_byte(other + N_BYTES, 7), must(cuDevicePrimaryCtxReset(0), "reset"), exit(0);
    else if (strcmp(mistake, "sync") == 0)
        write_byte(other + N_BYTES, 7), must(cuCtxSynchronize(), "synchronise"),
            must(cuCtxSynchronize(), "synchronise"); /* told once */
}

int main(int argc, char **argv) {
    CUcontext context;
    const char *mistake = argc > 1 ? argv[1] : "clean";
    must(cuInit(0), "init");
    must(cuDevicePrimaryCtxRetain(&context, 0), "retain");
    must(cuCtxSetCurrent(context), "current");
    if (argc > 3) {
        take_turns(atoi(argv[2]), atoi(argv[3]));
        return 0;
    }
    static const struct {
        const char *name;
        void (*run)(void);
    } whole[] = {
        {"large", obtain_large}, {"stuck", obtain_from_stuck}, {"refused", obtain_refused}};
    for (unsigned i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        if (strcmp(mistake, whole[i].name) == 0) {
            whole[i].run();
            return 0;
        }
    }
    CUdeviceptr before = obtain_block(N_BYTES); /* so that there is memory to write to, also without
                                                 * cushim */
    CUdeviceptr block = obtain_block(N_BYTES);
    for (int i = 0; i < 20; i++) {
        CUdeviceptr passing = obtain_block((size_t)i * 7001 + N_BYTES);
        if (sum_of(passing) != 3 * N_BYTES)
            printf("a block lost its bytes\n");
        free_block(passing);
    }
    free_in_stream_order();
    free_under_a_capture();
    make_mistake(mistake, block);
    printf("sum %u\n", sum_of(block));
    free_block(block);
    free_block(before);
    for (int i = 0; i < 6; i++) /* blocks in quarantine leave it */
        free_block(obtain_block(100000));
    printf("check_program: done\n");
    return 0;
}
