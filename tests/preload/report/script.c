/*
 * A fixed sequence of driver calls and their answers: script [--log | --fail[-small] CODE FIRST
 * STEP].
 *
 * Alone it prints the answers. --log adds every call that reached the driver, in order, so that two
 * runs can be compared. --fail runs the sequence in one child for each n, from FIRST on each
 * STEP-th, whose n-th driver call fails with CODE, until a run meets no failure, and says what was
 * left over; --fail-small leaves out large blocks, for runs in which each byte of a block is
 * written.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/sim/sim.h"

enum { N_BLOCKS = 12, N_SMALL = 3, MOST_RUNS = 2000, MIB = 1 << 20 };

SIM_KERNEL(script_write, unsigned *, unsigned) {
    (void)launch;
    *SIM_ARG(unsigned *, 0) = SIM_ARG(unsigned, 1);
}

static int n_blocks = N_BLOCKS;
static bool prints;
static CUresult allowed; /* besides success; CUDA_SUCCESS: anything may be answered */
static bool is_wrong;

/* Note an answer; true: it was a success. */
static bool answer(const char *what, CUresult result) {
    if (prints)
        printf("%s: %d\n", what, (int)result);
    if (result != CUDA_SUCCESS && allowed != CUDA_SUCCESS && result != allowed) {
        printf("wrong: %s gave %d\n", what, (int)result);
        is_wrong = true;
    }
    return result == CUDA_SUCCESS;
}

#define ASK(call) answer(#call, call)

static const size_t sizes[N_BLOCKS] = {1,       1000,    1000,    70000,    700000,   700001,
                                       2 * MIB, 3 * MIB, 9 * MIB, 20 * MIB, 32 * MIB, 40 * MIB};

static void launch(CUdeviceptr address, CUstream stream) {
    CUfunction function;
    unsigned value = 7;
    void *args[] = {&address, &value};
    if (sim_function_by_name(&function, "script_write") == CUDA_SUCCESS)
        ASK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

static void use_streams(CUdeviceptr block) {
    CUstream stream;
    CUdeviceptr ordered;
    unsigned word;
    if (!ASK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)))
        return;
    launch(block, stream);
    if (ASK(cuMemAllocAsync(&ordered, 5000, stream)) && !ASK(cuMemFreeAsync(ordered, stream)))
        ASK(cuMemFreeAsync(ordered, stream));
    ASK(cuStreamSynchronize(stream));
    ASK(cuMemcpyDtoH(&word, block, sizeof word));
    ASK(cuStreamDestroy(stream));
}

static void use_other_kinds(void) {
    CUdeviceptr managed, rows;
    void *pinned;
    size_t pitch, free_bytes, total_bytes;
    CUdeviceptr freed_late;
    if (ASK(cuMemAllocManaged(&managed, 1000, CU_MEM_ATTACH_GLOBAL)))
        if (!ASK(cuMemFree(managed)))
            ASK(cuMemFree(managed));
    if (ASK(cuMemHostAlloc(&pinned, 1000, 0)))
        if (!ASK(cuMemFreeHost(pinned)))
            ASK(cuMemFreeHost(pinned));
    if (ASK(cuMemAllocPitch(&rows, &pitch, 100, 10, 4)))
        if (!ASK(cuMemFree(rows)))
            ASK(cuMemFree(rows));
    if (ASK(cuMemAlloc(&freed_late, 1000)))
        if (!ASK(cuMemFreeAsync(freed_late, NULL)))
            ASK(cuMemFree(freed_late));
    ASK(cuMemGetInfo(&free_bytes, &total_bytes));
}

/* Ask for more than there is; held memory goes back first. */
static void ask_too_much(void) {
    CUdeviceptr address;
    bool is_had = cuMemAlloc(&address, (size_t)1 << 40) == CUDA_SUCCESS;
    printf(is_had ? "wrong: too much was had\n" : "");
    is_wrong = is_wrong || is_had;
}

/* A free that failed is tried again, so that a single failure leaves nothing over. */
static void run_sequence(void) {
    CUdeviceptr blocks[N_BLOCKS] = {0};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < n_blocks; i++) {
            if (!ASK(cuMemAlloc(&blocks[i], sizes[i])))
                blocks[i] = 0;
            else
                ASK(cuMemsetD8(blocks[i], (unsigned char)i, sizes[i] < 4096 ? sizes[i] : 4096));
        }
        if (blocks[1])
            use_streams(blocks[1]);
        use_other_kinds();
        for (int i = 0; i < n_blocks; i++) {
            if (blocks[i] && !ASK(cuMemFree(blocks[i])))
                ASK(cuMemFree(blocks[i]));
        }
        ask_too_much();
    }
}

static bool begin(CUcontext *context) {
    return cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(context, 0) == CUDA_SUCCESS &&
           cuCtxSetCurrent(*context) == CUDA_SUCCESS;
}

static void print_log(void) {
    const char *name;
    for (unsigned long i = 0; (name = sim_call_name(i)); i++)
        printf("call %s\n", name);
}

/* All memory is free again for the program, and was given back to the device. */
static void check_nothing_left(size_t free_before) {
    size_t free_bytes = 0, total_bytes = 0;
    CUdeviceptr address;
    cuCtxSynchronize();
    /* if the wait of a free failed, its block is back after the next free */
    if (cuMemAlloc(&address, 1) == CUDA_SUCCESS)
        cuMemFree(address);
    if (cuMemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS || free_bytes != free_before)
        printf("left: %zu of %zu bytes free\n", free_bytes, free_before);
    cuMemAlloc(&address, 2 * total_bytes); /* it cannot be had, so all that is held goes back */
    if (sim_live_bytes())
        printf("left: %zu bytes on the device\n", sim_live_bytes());
}

/* True: the n-th call was reached, and failed. */
static bool run_failing(unsigned long n, CUresult code) {
    CUcontext context;
    size_t free_before = 0, total_bytes = 0;
    if (!begin(&context) || cuMemGetInfo(&free_before, &total_bytes) != CUDA_SUCCESS)
        exit(2);
    sim_fail_at(n, code);
    allowed = code;
    run_sequence();
    bool has_failed = sim_has_failed();
    sim_fail_at(0, CUDA_SUCCESS);
    allowed = CUDA_SUCCESS;
    check_nothing_left(free_before);
    return has_failed;
}

static int fail_everywhere(CUresult code, unsigned long first, unsigned long step) {
    for (unsigned long n = first; n < MOST_RUNS; n += step) {
        int status;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            printf("n %lu\n", n);
            exit(run_failing(n, code) ? 0 : 4);
        }
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
            printf("ended by signal %d at n %lu\n", WTERMSIG(status), n);
            return 1;
        }
        if (WEXITSTATUS(status) == 4)
            return 0;
        if (WEXITSTATUS(status) != 0)
            return WEXITSTATUS(status);
    }
    return 1;
}

int main(int argc, char **argv) {
    CUcontext context;
    if (argc == 5 && strcmp(argv[1], "--fail-small") == 0)
        n_blocks = N_SMALL;
    if (argc == 5 && strncmp(argv[1], "--fail", 6) == 0)
        return fail_everywhere((CUresult)atoi(argv[2]), strtoul(argv[3], NULL, 10),
                               strtoul(argv[4], NULL, 10));
    prints = true;
    if (!begin(&context))
        return 2;
    run_sequence();
    if (argc == 2 && strcmp(argv[1], "--log") == 0)
        print_log();
    return is_wrong;
}
