/*
 * A program of many parts for the scripts of this folder: scenario NAME.  It uses only the runtime,
 * and is linked to it as a shared library and as a static archive.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRY(call) check((call), #call)

static void check(cudaError_t error, const char *what) {
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(error));
    _Exit(1);
}

static void *alloc(size_t n_bytes) {
    void *block = NULL;
    TRY(cudaMalloc(&block, n_bytes));
    return block;
}

/* Ten requests, two of which reach no pool; as many frees. */
static void count(void) {
    void *blocks[8], *nothing;
    for (int i = 0; i < 8; i++)
        blocks[i] = alloc(1000);
    TRY(cudaMalloc(&nothing, 0));
    cudaMalloc(NULL, 1000);
    for (int i = 0; i < 8; i++)
        TRY(cudaFree(blocks[i]));
    TRY(cudaFree(NULL));
    cudaFree(blocks[0]);
}

enum { AT_ONCE = 300, ROUNDS = 4, PAIRS = 10 };

static pthread_barrier_t everybody;

/* Memory that was live a second ago no longer counts at the next look, which a block that no cache
 * takes makes. */
static void pass_seconds(int n) {
    const struct timespec second = {1, 10000000};
    for (int i = 0; i < n; i++) {
        nanosleep(&second, NULL);
        TRY(cudaFree(alloc(3 << 20)));
    }
}

static void *count_in_thread(void *unused) {
    pthread_barrier_wait(&everybody); /* all live at the same time, and are more than there are
                                       * shards */
    for (int i = 0; i < PAIRS; i++)
        TRY(cudaFree(alloc(1000 + 500 * (size_t)i)));
    pthread_barrier_wait(&everybody);
    return unused;
}

/* 12000 requests and frees by 1200 threads, three by this one, whose first block lives on. */
static void count_threads(void) {
    pthread_t threads[AT_ONCE];
    alloc(700);
    pthread_barrier_init(&everybody, NULL, AT_ONCE);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < AT_ONCE; i++) {
            if (pthread_create(&threads[i], NULL, count_in_thread, NULL))
                _Exit(2);
        }
        for (int i = 0; i < AT_ONCE; i++)
            pthread_join(threads[i], NULL);
    }
    pass_seconds(3);
}

static void findings(void) {
    static char host[2000];
    char *block = alloc(1000), *freed = alloc(1000);
    int local;
    TRY(cudaFree(freed));
    cudaFree(freed);
    for (int i = 0; i < 2; i++)
        cudaFree(block + 512);
    for (int i = 0; i < 3; i++)
        cudaFree(&local);
    for (int i = 0; i < 4; i++)
        cudaMemcpy(block, host, 1001, cudaMemcpyHostToDevice);
    for (int i = 0; i < 5; i++)
        cudaMemset(freed, 0, 10);
    TRY(cudaFree(block));
}

/* 100 + 2000 + 30000 + 4000000 bytes live at the end, 5000 more at the peak. */
static void sums(void) {
    void *pinned, *managed;
    for (int i = 0; i < 50; i++)
        TRY(cudaFree(alloc((size_t)i * 3000 + 1)));
    alloc(100);
    alloc(2000);
    alloc(30000);
    alloc(4000000);
    TRY(cudaFree(alloc(5000)));
    TRY(cudaMallocHost(&pinned, 700));
    TRY(cudaMallocManaged(&managed, 800, cudaMemAttachGlobal));
}

/* Eleven of each; 5000 bytes live at the end. */
static void host_kinds(void) {
    void *pinned, *managed;
    for (int i = 0; i < 11; i++) {
        TRY(cudaMallocHost(&pinned, 5000));
        TRY(cudaMallocManaged(&managed, 5000, cudaMemAttachGlobal));
        if (i < 10) {
            TRY(cudaFreeHost(pinned));
            TRY(cudaFree(managed));
        }
    }
}

static void copies(void) {
    static char host[4096];
    void *pinned, *block = alloc(4096), *other = alloc(4096);
    TRY(cudaMallocHost(&pinned, 4096));
    for (int i = 0; i < 2; i++)
        TRY(cudaMemcpy(block, host, 100, cudaMemcpyHostToDevice));
    for (int i = 0; i < 3; i++)
        TRY(cudaMemcpy(block, pinned, 1000, cudaMemcpyHostToDevice));
    TRY(cudaMemcpy(host, block, 10, cudaMemcpyDeviceToHost));
    TRY(cudaMemcpyAsync(pinned, block, 20, cudaMemcpyDeviceToHost, NULL));
    TRY(cudaMemcpy(other, block, 4096, cudaMemcpyDeviceToDevice));
    TRY(cudaMemset(block, 1, 4000));
    TRY(cudaMemcpy(block, host, 5, cudaMemcpyDefault));
    TRY(cudaDeviceSynchronize());
}

/* Two copies up and a shorter one down, at once, by the driver's own name. */
static void copies_in_batches(void) {
    static char host[300];
    CUdeviceptr block = (CUdeviceptr)alloc(4096), at = (CUdeviceptr)host;
    CUdeviceptr to[] = {block, block + 100, at + 200}, from[] = {at, at + 100, block};
    size_t sizes[] = {100, 100, 90}, first = 0;
    CUmemcpyAttributes ordered = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    __typeof__(&cuMemcpyBatchAsync_v2) copy;
    *(void **)&copy = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpyBatchAsync_v2");
    cudaStream_t stream;
    TRY(cudaStreamCreate(&stream));
    if (!copy || copy(to, from, sizes, 3, &ordered, &first, 1, (CUstream)stream) != CUDA_SUCCESS)
        _Exit(2);
    TRY(cudaDeviceSynchronize());
}

static void forks(void) {
    int status;
    void *block = alloc(1000);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0)
            exit(cudaFree(block) == cudaSuccess ? 1 : 0);
        waitpid(child, &status, 0);
        if (status != 0)
            exit(2);
    }
    TRY(cudaFree(block));
}

static void call_in_child(void) {
    int status;
    void *block = alloc(1000);
    pid_t child = fork();
    if (child == 0) {
        bool is_refused = cudaMalloc(&block, 1000) != cudaSuccess;
        exit(is_refused && cudaMalloc(&block, 1000) != cudaSuccess ? 0 : 1);
    }
    waitpid(child, &status, 0);
    if (status != 0)
        exit(2);
    TRY(cudaFree(block));
}

static void reset_with_memory(void) {
    void *block = alloc(3 << 20);
    alloc(3 << 20);
    TRY(cudaDeviceReset());
    if (cudaFree(block) == cudaSuccess)
        exit(2);
    TRY(cudaFree(alloc(1000)));
    TRY(cudaDeviceReset()); /* which takes nothing */
}

static void look_at_another_device(void) {
    size_t n_bytes;
    TRY(cudaMemGetInfo(&n_bytes, &n_bytes));
    TRY(cudaSetDevice(1));
    TRY(cudaFree(alloc(1000)));
}

static void make_a_context_on_another_device(void) {
    CUcontext context;
    __typeof__(&cuCtxCreate_v4) make;
    *(void **)&make = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuCtxCreate_v4");
    TRY(cudaSetDevice(1));
    TRY(cudaFree(alloc(1000)));
    TRY((cudaError_t)make(&context, NULL, 0, 0));
}

/* Children that no fork handler sees. */
static void forks_rawly(void) {
    int status;
    void *block = alloc(1000);
    for (int i = 0; i < 3; i++) {
        pid_t child = _Fork();
        if (child == 0)
            exit(0);
        waitpid(child, &status, 0);
    }
    TRY(cudaFree(block));
}

static void *left;

static void free_left(void) {
    printf("late free: %s\n", cudaFree(left) == cudaSuccess ? "done" : "refused");
    fflush(stdout);
}

/* The handler was registered before CUDA, so it runs after CUDA's own. */
static void free_at_exit(void) {
    atexit(free_left);
    left = alloc(1000);
}

static int frees_in_destructor;

__attribute__((destructor)) static void free_in_destructor(void) {
    if (frees_in_destructor)
        free_left();
}

static void free_statically(void) {
    frees_in_destructor = 1;
    left = alloc(1000);
}

static void nothing(void) {
}

static void look_only(void) {
    int n;
    TRY(cudaGetDeviceCount(&n));
}

static void leave_quickly(void) {
    TRY(cudaFree(alloc(1000)));
    _exit(7);
}

/* Three blocks of the driver's own pool. */
static void in_stream_order(void) {
    void *block;
    for (int i = 0; i < 3; i++) {
        TRY(cudaMallocAsync(&block, 1 << 20, NULL));
        TRY(cudaFreeAsync(block, NULL));
    }
    TRY(cudaDeviceSynchronize());
}

/* Physical memory, as made by a framework that maps its memory itself. */
static void make_virtual(int n) {
    void *found;
    enum cudaDriverEntryPointQueryResult is_found;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    TRY(cudaSetDevice(0));
    TRY(cudaGetDriverEntryPointByVersion("cuMemCreate", &found, 12000, 0, &is_found));
    __typeof__(&cuMemCreate) create;
    memcpy(&create, &found, sizeof create);
    for (int i = 0; i < n; i++) {
        if (create(&handle, 8 << 20, &properties, 0) != CUDA_SUCCESS)
            _Exit(1);
    }
    TRY(cudaGetDriverEntryPointByVersion("cuMemRelease", &found, 12000, 0, &is_found));
    __typeof__(&cuMemRelease) release;
    memcpy(&release, &found, sizeof release);
    if (release(handle) != CUDA_SUCCESS) /* the last one */
        _Exit(1);
}

static void virtually(void) {
    make_virtual(1);
}

static void in_all_ways(void) {
    TRY(cudaFree(alloc(1000)));
    in_stream_order();
    make_virtual(2);
}

/* Threads that allocate memory of all kinds, and write what the host may write. */
static void *take_all_kinds(void *unused) {
    void *device, *pinned, *managed;
    cudaStream_t stream;
    for (size_t i = 1; i <= 10; i++) {
        device = alloc(1000 * i);
        TRY(cudaMallocHost(&pinned, 4000));
        TRY(cudaMallocManaged(&managed, 5000, cudaMemAttachGlobal));
        memset(pinned, (int)i, 1000);
        memset(managed, (int)i, 5000);
        TRY(cudaStreamCreate(&stream));
        TRY(cudaMemcpyAsync(device, pinned, 1000, cudaMemcpyHostToDevice, stream));
        TRY(cudaStreamSynchronize(stream));
        TRY(cudaStreamDestroy(stream));
        TRY(cudaFree(device));
        TRY(cudaFreeHost(pinned));
        TRY(cudaFree(managed));
    }
    return unused;
}

static void share_kinds(void) {
    pthread_t threads[3];
    TRY(cudaFree(alloc(100))); /* so that the start of the software device is over */
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, take_all_kinds, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

static void *fill_caches(void *unused) {
    void *blocks[64];
    for (int i = 0; i < 64; i++)
        blocks[i] = alloc(100000);
    for (int i = 0; i < 64; i++)
        TRY(cudaFree(blocks[i]));
    pthread_barrier_wait(&everybody); /* freed, and their threads still there */
    pthread_barrier_wait(&everybody);
    return unused;
}

/* From here on the process is killed if it calls membarrier(2); 77: this kernel has no filters. */
static void enter_sandbox(void) {
    struct sock_filter rows[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rows / sizeof *rows, rows};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(77);
}

/* In a sandbox the device's memory is out, so the caches of threads are emptied. */
static void empty_caches_in_a_sandbox(void) {
    pthread_t threads[4];
    void *block;
    pthread_barrier_init(&everybody, NULL, 5);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, fill_caches, NULL);
    pthread_barrier_wait(&everybody);
    enter_sandbox();
    while (cudaMalloc(&block, 50 << 20) == cudaSuccess) {
    }
    pthread_barrier_wait(&everybody);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void refused_often(void) {
    static char host[2000];
    void *block = alloc(1000);
    for (int i = 0; i < 100; i++)
        cudaMemcpy(block, host, sizeof host, cudaMemcpyHostToDevice);
}

/* Like programs that pass no environment on, and tests that hide it. */
static void clear_at_first(void) {
    clearenv();
    count();
}

static void clear_at_last(void) {
    count();
    clearenv();
}

/* The program changes to another folder than that of the process that started it. */
static void go_elsewhere(void) {
    if (chdir("/") != 0)
        _exit(1);
    count();
}

/*
 * Before the program uses CUDA, descriptor 2 becomes a file of its own.  A child does that and
 * ends; then the parent prints the file.
 */
static void take_over_errors(void) {
    char text[4096];
    FILE *own = tmpfile();
    pid_t child = own ? fork() : -1;
    if (child == 0) {
        if (dup2(fileno(own), STDERR_FILENO) != STDERR_FILENO ||
            write(STDERR_FILENO, "the program's own\n", 18) != 18)
            _exit(1);
        count();
        exit(0);
    }
    ssize_t n = child > 0 && wait(NULL) == child ? pread(fileno(own), text, sizeof text, 0) : -1;
    if (n < 0 || write(STDOUT_FILENO, text, (size_t)n) != n)
        _exit(1);
}

static void print_last(void) {
    TRY(cudaFree(alloc(1000)));
    puts("the program's line");
}

/* The files may be too small for any report.  The software device made its own files before. */
static void leave_with_small_files(void) {
    struct rlimit limit;
    TRY(cudaFree(alloc(1000)));
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0)
        _exit(1);
    limit.rlim_cur = 100;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        _exit(1);
    exit(9);
}

static void leave_with_code(void) {
    TRY(cudaFree(alloc(1000)));
    exit(9);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"count", count},
    {"count_threads", count_threads},
    {"findings", findings},
    {"refused_often", refused_often},
    {"sums", sums},
    {"host_kinds", host_kinds},
    {"copies", copies},
    {"copies_in_batches", copies_in_batches},
    {"forks", forks},
    {"call_in_child", call_in_child},
    {"reset_with_memory", reset_with_memory},
    {"look_at_another_device", look_at_another_device},
    {"make_a_context_on_another_device", make_a_context_on_another_device},
    {"forks_rawly", forks_rawly},
    {"free_at_exit", free_at_exit},
    {"free_statically", free_statically},
    {"nothing", nothing},
    {"look_only", look_only},
    {"leave_quickly", leave_quickly},
    {"in_stream_order", in_stream_order},
    {"virtually", virtually},
    {"in_all_ways", in_all_ways},
    {"share_kinds", share_kinds},
    {"empty_caches_in_a_sandbox", empty_caches_in_a_sandbox},
    {"go_elsewhere", go_elsewhere},
    {"clear_at_first", clear_at_first},
    {"clear_at_last", clear_at_last},
    {"take_over_errors", take_over_errors},
    {"print_last", print_last},
    {"leave_with_small_files", leave_with_small_files},
    {"leave_with_code", leave_with_code},
};

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        if (argc == 2 && strcmp(argv[1], scenarios[i].name) == 0) {
            scenarios[i].run();
            return 0;
        }
    }
    return 3;
}
