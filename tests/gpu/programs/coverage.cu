/*
 * The work for which a free waits, and whether a record of the owner's context covers the same.
 *
 * Each row queues 20 ms of work and then a use of memory of the owner's context. It frees that
 * memory, or records the context and waits for the record. Both must agree, because cushim's free
 * is that record. The rows of one kind of work share a process, because contexts take seconds if
 * many programs create them. Some of the copies fault, also without cushim: later rows get a new
 * process. Rows that need a second device say so if there is none.
 *
 *   coverage [more]
 *
 * `more` also tries other waits: the free of another block or of other pinned memory, which is the
 * barrier if no record is possible, and a synchronise.
 */
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int answer_ = (int)(call);                                                                 \
        if (answer_) {                                                                             \
            printf("%s: %d\n", #call, answer_);                                                    \
            fflush(stdout);                                                                        \
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

/* The context of the work. */
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

/* Queue 20 ms of work in the current context, and then a use of the memory. */
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

/* The objects that the rows of one kind of work share. */
struct scene {
    enum where where;
    CUcontext owner, other; /* contexts of the memory and of the work */
    CUevent event;
    cudaStream_t stream;
};

static struct scene set_scene(enum where where) {
    struct scene scene = {where};
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(NULL));
    CHECK(cuCtxGetCurrent(&scene.owner));
    CHECK(cuEventCreate(&scene.event, CU_EVENT_DISABLE_TIMING));
    spin<<<1, 1>>>(1000);
    scene.other = make_other(where, scene.owner);
    CHECK(cuCtxSetCurrent(scene.other));
    CHECK(cuStreamCreate(&scene.stream, CU_STREAM_NON_BLOCKING));
    return scene;
}

static void free_of(enum kind kind, void *memory) {
    CHECK(kind == PINNED ? cudaFreeHost(memory) : cudaFree(memory));
}

/* Whether the work of a row ended without a fault, so that the next row may use the same
 * contexts. */
static bool is_whole(const struct scene *scene) {
    CUresult answer = cuCtxSetCurrent(scene->other);
    answer = answer ? answer : cuCtxSynchronize();
    answer = answer ? answer : cuCtxSetCurrent(scene->owner);
    return (answer ? answer : cuCtxSynchronize()) == CUDA_SUCCESS;
}

static bool run_row(const struct scene *scene, enum kind kind, enum how how) {
    void *to, *another, *pinned;
    CHECK(cuCtxSetCurrent(scene->owner));
    void *memory = allocate(kind);
    CHECK(cudaMalloc(&another, 1));
    CHECK(cudaMallocHost(&pinned, 1));
    CHECK(cuCtxSetCurrent(scene->other));
    CHECK(cudaMalloc(&to, n_bytes));
    spin<<<1, 1, 0, scene->stream>>>(1000);
    CHECK(cuCtxSynchronize());
    queue(scene->where, scene->stream, to, memory);
    CHECK(cuCtxSetCurrent(scene->owner));
    double start_ms = now_ms();
    if (how == RECORD) {
        CHECK(cuCtxRecordEvent(scene->owner, scene->event));
        CHECK(cuEventSynchronize(scene->event));
    } else if (how == SYNCHRONISE) {
        CHECK(cuCtxSynchronize());
    } else if (how == FREE_ANOTHER) {
        CHECK(cudaFree(another));
    } else if (how == FREE_PINNED) {
        CHECK(cudaFreeHost(pinned));
    } else {
        free_of(kind, memory);
    }
    printf("%-8s %-42s %s %s\n", kind_names[kind], where_names[scene->where], how_names[how],
           now_ms() - start_ms > 10 ? "waits" : "does not wait");
    fflush(stdout);
    if (!is_whole(scene))
        return false;
    if (how != FREE)
        free_of(kind, memory);
    if (how != FREE_ANOTHER)
        CHECK(cudaFree(another));
    if (how != FREE_PINNED)
        CHECK(cudaFreeHost(pinned));
    CHECK(cuCtxSetCurrent(scene->other));
    CHECK(cudaFree(to));
    return true;
}

/* The rows of one kind of work from *row, as long as the contexts are usable. */
static void run_rows(enum where where, int n_hows, int *row) {
    struct scene scene = set_scene(where);
    bool is_good = true;
    while (is_good && *row < N_KINDS * n_hows) {
        int i = (*row)++; /* first, because a row that ends the process is not repeated */
        is_good = run_row(&scene, (enum kind)(i / n_hows), (enum how)(i % n_hows));
    }
}

/* Runs the rows in processes; returns 0, or the exit status of a failed one. */
static int run_where(enum where where, int n_hows, int *row) {
    int status, rc = 0;
    for (*row = 0; *row < N_KINDS * n_hows;) {
        int before = *row;
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            run_rows(where, n_hows, row);
            exit(0);
        }
        waitpid(child, &status, 0);
        rc |= status;
        if (*row == before) /* the set-up failed */
            break;
    }
    return rc;
}

int main(int argc, char **argv) {
    int n_hows = argc > 1 && strcmp(argv[1], "more") == 0 ? N_HOWS : RECORD + 1;
    int n_devices = 0, status, rc = 0;
    pid_t child = fork(); /* the parent does not use the driver, so that its children may */
    if (!child) {
        cudaGetDeviceCount(&n_devices);
        _exit(n_devices);
    }
    waitpid(child, &status, 0);
    n_devices = WEXITSTATUS(status);
    int *row =
        (int *)mmap(NULL, sizeof *row, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (row == MAP_FAILED)
        return 1;
    for (int i = 0; i < N_WHERES; i++) {
        enum where where = (enum where)i;
        if (needs_two_devices(where) && n_devices < 2)
            printf("%s: needs a second device\n", where_names[where]);
        else
            rc |= run_where(where, n_hows, row);
    }
    return rc != 0;
}
