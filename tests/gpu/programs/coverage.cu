/*
 * What a free waits for, and whether a record of the owner's context covers the same.
 *
 * Each row queues 20 ms of work and something that touches memory of the owner's context behind it,
 * then frees that memory, or records the context and waits for the record.  The two must agree:
 * cushim's free is that record.  Each row is a process of its own, since some of the copies fault,
 * natively too.  Rows that need a second device say so where there is none.
 *
 *   coverage [more]
 *
 * With `more`, what else may stand for the wait as well: the free of another block, or of other
 * pinned memory, which is the barrier where nothing can be recorded; and a synchronise.
 */
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int answer_ = (int)(call);                                                                 \
        if (answer_) {                                                                             \
            printf("%s: %d\n", #call, answer_);                                                    \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

enum how { FREE, RECORD, FREE_ANOTHER, FREE_PINNED, SYNCHRONISE, N_HOWS };
enum kind { DEVICE, PINNED, MANAGED, N_KINDS };
enum where {
    OWN_STREAM,
    OTHER_DEVICE_KERNEL,
    OTHER_DEVICE_COPY,
    OTHER_DEVICE_GRAPH,
    PEER_COPY,
    OTHER_CONTEXT_KERNEL,
    OTHER_CONTEXT_COPY,
    GREEN_KERNEL,
    N_WHERES
};

static const char *const how_names[] = {"free", "record", "free of another", "free of other pinned",
                                        "synchronise"};
static const char *const kind_names[] = {"device", "pinned", "managed"};
static const char *const where_names[] = {
    "a kernel of its context",   "a kernel of another device",
    "a copy on another device",  "a graph with a copy on another device",
    "a copy with peer access",   "a kernel of another context of the device",
    "a copy in another context", "a kernel of a green context",
};
static const size_t n_bytes = 1 << 20;
static const long long work_ns = 20000000;

__global__ void spin(long long ns) {
    long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - start < ns);
}

static double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static bool needs_two_devices(enum where where) {
    return where >= OTHER_DEVICE_KERNEL && where <= PEER_COPY;
}

static bool is_copy(enum where where) {
    return where == OTHER_DEVICE_COPY || where == PEER_COPY || where == OTHER_CONTEXT_COPY;
}

/* The context that the work is queued in. */
static CUcontext make_other(enum where where, CUcontext owner) {
    CUcontext other = owner;
    CUdevice device;
    CHECK(cuDeviceGet(&device, 0));
    if (needs_two_devices(where)) {
        CHECK(cudaSetDevice(1));
        CHECK(cudaFree(NULL));
        CHECK(cuCtxGetCurrent(&other));
        if (where == PEER_COPY)
            CHECK(cudaDeviceEnablePeerAccess(0, 0));
    } else if (where == OTHER_CONTEXT_KERNEL || where == OTHER_CONTEXT_COPY) {
        CHECK(cuCtxCreate(&other, NULL, 0, device));
    } else if (where == GREEN_KERNEL) {
        CUdevResource all, part;
        CUdevResourceDesc description;
        CUgreenCtx green;
        unsigned n_parts = 1;
        CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
        CHECK(cuDevSmResourceSplitByCount(&part, &n_parts, &all, NULL, 0, 16));
        CHECK(cuDevResourceGenerateDesc(&description, &part, 1));
        CHECK(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
        CHECK(cuCtxFromGreenCtx(&other, green));
    }
    return other;
}

static void *allocate(enum kind kind) {
    void *memory;
    if (kind == DEVICE)
        CHECK(cudaMalloc(&memory, n_bytes));
    else if (kind == PINNED)
        CHECK(cudaHostAlloc(&memory, n_bytes, 0));
    else
        CHECK(cudaMallocManaged(&memory, n_bytes));
    if (kind == DEVICE)
        CHECK(cudaMemset(memory, 1, n_bytes));
    else
        memset(memory, 1, n_bytes);
    CHECK(cudaDeviceSynchronize());
    return memory;
}

/* 20 ms of work in the current context, and a use of the memory behind it. */
static void queue(enum where where, cudaStream_t stream, void *to, const void *from) {
    if (where != OTHER_DEVICE_GRAPH) {
        spin<<<1, 1, 0, stream>>>(work_ns);
        if (is_copy(where))
            CHECK(cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyDefault, stream));
        return;
    }
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    spin<<<1, 1, 0, stream>>>(work_ns);
    CHECK(cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyDefault, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphUpload(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphLaunch(executable, stream));
}

static void run_row(enum where where, enum kind kind, enum how how) {
    CUcontext owner;
    cudaStream_t stream;
    void *to, *another, *pinned;
    CUevent event;
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(NULL));
    CHECK(cuCtxGetCurrent(&owner));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    spin<<<1, 1>>>(1000);
    void *memory = allocate(kind);
    CHECK(cudaMalloc(&another, 1));
    CHECK(cudaMallocHost(&pinned, 1));
    CUcontext other = make_other(where, owner);
    CHECK(cuCtxSetCurrent(other));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cudaMalloc(&to, n_bytes));
    spin<<<1, 1, 0, stream>>>(1000);
    CHECK(cuCtxSynchronize());
    queue(where, stream, to, memory);
    CHECK(cuCtxSetCurrent(owner));
    double start_ms = now_ms();
    if (how == RECORD) {
        CHECK(cuCtxRecordEvent(owner, event));
        CHECK(cuEventSynchronize(event));
    } else if (how == SYNCHRONISE) {
        CHECK(cuCtxSynchronize());
    } else if (how == FREE_ANOTHER) {
        CHECK(cudaFree(another));
    } else if (how == FREE_PINNED) {
        CHECK(cudaFreeHost(pinned));
    } else {
        CHECK(kind == PINNED ? cudaFreeHost(memory) : cudaFree(memory));
    }
    printf("%-8s %-42s %s %s\n", kind_names[kind], where_names[where], how_names[how],
           now_ms() - start_ms > 10 ? "waits" : "does not wait");
}

int main(int argc, char **argv) {
    int n_hows = argc > 1 && strcmp(argv[1], "more") == 0 ? N_HOWS : RECORD + 1;
    int n_devices = 0, status, rc = 0;
    pid_t child = fork(); /* the parent stays without a driver, so that its children may use it */
    if (!child) {
        cudaGetDeviceCount(&n_devices);
        _exit(n_devices);
    }
    waitpid(child, &status, 0);
    n_devices = WEXITSTATUS(status);
    for (int i = 0; i < N_WHERES * N_KINDS * n_hows; i++) {
        enum where where = (enum where)(i / (N_KINDS * n_hows));
        if (needs_two_devices(where) && n_devices < 2) {
            if (i % (N_KINDS * n_hows) == 0)
                printf("%s: needs a second device\n", where_names[where]);
            continue;
        }
        fflush(stdout);
        child = fork();
        if (!child) {
            run_row(where, (enum kind)(i / n_hows % N_KINDS), (enum how)(i % n_hows));
            exit(0);
        }
        waitpid(child, &status, 0);
        rc |= status != 0;
    }
    return rc;
}
