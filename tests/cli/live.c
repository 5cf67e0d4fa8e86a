/*
 * A program that ends as it is told, and has counted in a file what it did: for the tests of live
 * pages.
 *
 *     live HOW [COUNTS [THREADS]]
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != CUDA_SUCCESS)                                                                \
            _exit(90);                                                                             \
    } while (0)

enum { MOST_THREADS = 256, N_KEPT = 3, BYTES = 1000 };

static CUcontext context;
static atomic_ulong *counts; /* pairs of each thread, a line of cache each */

static void open_device(void) {
    CUdevice device;
    TRY(cuInit(0));
    TRY(cuDeviceGet(&device, 0));
    TRY(cuDevicePrimaryCtxRetain(&context, device));
    TRY(cuCtxSetCurrent(context));
}

static void keep_some(void) {
    CUdeviceptr block;
    for (int i = 0; i < N_KEPT; i++)
        TRY(cuMemAlloc(&block, BYTES));
}

/* Obtain until the driver has no more.  A name that the loader knows, and a frame of its own. */
void run_out(void);
__attribute__((noinline, visibility("default"))) void run_out(void) {
    CUdeviceptr block;
    while (cuMemAlloc(&block, 10 << 20) == CUDA_SUCCESS) {
    }
}

/* Show another process a block, and free it, until no more is to be had beside what lives on. */
static void share_until_out(void) {
    CUdeviceptr shown, beside;
    CUipcMemHandle handle;
    while (cuMemAlloc(&shown, 1 << 20) == CUDA_SUCCESS) {
        TRY(cuIpcGetMemHandle(&handle, shown));
        if (cuMemAlloc(&beside, 700 << 10) != CUDA_SUCCESS)
            break;
        TRY(cuMemFree(shown));
    }
}

void free_twice(void);
__attribute__((noinline, visibility("default"))) void free_twice(void) {
    CUdeviceptr block;
    TRY(cuMemAlloc(&block, 10 * BYTES));  /* to_free */
    TRY(cuMemFree(block));                /* the first */
    if (cuMemFree(block) == CUDA_SUCCESS) /* again */
        _exit(94);
}

static void *make_pairs(void *number) {
    CUdeviceptr block;
    TRY(cuCtxSetCurrent(context));
    for (;;) {
        TRY(cuMemAlloc(&block, BYTES));
        TRY(cuMemFree(block));
        atomic_fetch_add(&counts[8 * (size_t)number], 1);
    }
    return NULL;
}

static void pair_until_killed(const char *file, unsigned n_threads) {
    pthread_t thread;
    int fd = open(file, O_RDWR);
    counts = mmap(NULL, MOST_THREADS * 64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counts == MAP_FAILED)
        _exit(91);
    for (size_t i = 0; i < n_threads; i++) {
        if (pthread_create(&thread, NULL, make_pairs, (void *)i) != 0)
            _exit(92);
    }
    puts("ready");
    fflush(stdout);
    pause();
}

/* A child of a process whose driver refused all that it was asked, since nobody initialised it. */
static void fork_fresh(void) {
    int status;
    cuMemFree(0);
    pid_t child = fork();
    if (child == 0) {
        open_device();
        keep_some();
        keep_some();
        raise(SIGKILL);
    }
    waitpid(child, &status, 0);
    open_device();
    keep_some();
}

/* No file may grow while the page is made; the software device has files of its own, later. */
static void begin_with_small_files(void) {
    struct rlimit limit, small;
    getrlimit(RLIMIT_FSIZE, &limit);
    small = limit;
    small.rlim_cur = 1000;
    if (setrlimit(RLIMIT_FSIZE, &small) != 0)
        _exit(93);
    cuMemFree(0);
    setrlimit(RLIMIT_FSIZE, &limit);
}

/* No file can be opened while the page is made. */
static void begin_without_files(void) {
    struct rlimit limit, none;
    getrlimit(RLIMIT_NOFILE, &limit);
    none = limit;
    none.rlim_cur = 0;
    if (setrlimit(RLIMIT_NOFILE, &none) != 0)
        _exit(93);
    cuMemFree(0);
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* As a sandbox does: these calls are refused from here on, for good. */
static void seal(void) {
#define REFUSE(call)                                                                               \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),                                               \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSE(SYS_openat),
        REFUSE(SYS_fallocate),
        REFUSE(SYS_mkdirat),
        REFUSE(SYS_membarrier),
        REFUSE(SYS_pwrite64),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(95); /* not here */
}

/* Becomes itself, `n` times. */
static void exec_again(char **argv, int n) {
    char how[32];
    snprintf(how, sizeof how, n > 1 ? "exec%d" : "signal9", n - 1);
    execl("/proc/self/exe", argv[0], how, (char *)NULL);
}

/* A child that can have no page of its own counts for nobody else, either. */
static void fork_without_page(void) {
    struct rlimit limit, small;
    int status;
    cuMemFree(0);
    getrlimit(RLIMIT_FSIZE, &limit);
    small = limit;
    small.rlim_cur = 1000;
    setrlimit(RLIMIT_FSIZE, &small);
    pid_t child = fork();
    setrlimit(RLIMIT_FSIZE, &limit);
    if (child == 0) {
        open_device();
        keep_some();
        _exit(0);
    }
    waitpid(child, &status, 0);
    open_device();
    keep_some();
    raise(SIGKILL);
}

/* A child of which no handler knows outlives its parent. */
static void leave_child(void) {
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        pause();
        _exit(0);
    }
    printf("%d\n", (int)child);
    fflush(stdout);
    raise(SIGKILL);
}

/* What the program maps after its page was made is its own, and is there in a child. */
static void fork_in_holes(void) {
    enum { N = 300, BYTES_EACH = 4096 };
    static char *maps[N];
    int status = 0;
    cuMemFree(0);
    for (int i = 0; i < N; i++) { /* not all may lie side by side */
        maps[i] = mmap(NULL, BYTES_EACH, PROT_READ | (i % 2 ? PROT_WRITE : 0),
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < N; i++)
            (void)*(volatile char *)maps[i];
        _exit(0);
    }
    waitpid(child, &status, 0);
    _exit(status == 0 ? 4 : 96);
}

enum { COPY_BYTES = 1 << 20 };

/* Up, down, and while a capture is open, when nobody asks what the host's memory is. */
static void copy_large(void) {
    static char host[COPY_BYTES];
    CUdeviceptr block;
    CUstream stream;
    CUgraph graph;
    TRY(cuMemAlloc(&block, COPY_BYTES));
    TRY(cuMemcpyHtoD(block, host, COPY_BYTES));
    TRY(cuMemcpyDtoH(host, block, COPY_BYTES));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    TRY(cuMemcpyHtoD(block, host, COPY_BYTES));
    TRY(cuStreamEndCapture(stream, &graph));
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "fork_fresh") == 0) {
        fork_fresh();
        return 0;
    }
    if (strcmp(how, "fork_without_page") == 0)
        fork_without_page();
    if (strcmp(how, "fork_in_holes") == 0)
        fork_in_holes();
    if (strcmp(how, "early") == 0)
        raise(SIGKILL);
    if (strcmp(how, "clear_at_first") == 0)
        clearenv();
    if (strcmp(how, "limited") == 0)
        begin_with_small_files();
    if (strcmp(how, "no_files") == 0)
        begin_without_files();
    if (strcmp(how, "sealed") == 0)
        seal();
    open_device();
    keep_some();
    if (argc > 3)
        pair_until_killed(argv[2], (unsigned)atoi(argv[3]));
    if (strcmp(how, "share_out") == 0)
        share_until_out();
    if (strncmp(how, "out", 3) == 0)
        run_out();
    if (strncmp(how, "again", 5) == 0)
        free_twice();
    if (strstr(how, "_signal9"))
        raise(SIGKILL);
    if (strncmp(how, "signal", 6) == 0)
        raise(atoi(how + 6));
    if (strcmp(how, "limited") == 0)
        raise(SIGKILL);
    if (strcmp(how, "_exit") == 0)
        _exit(5);
    if (strcmp(how, "quick_exit") == 0)
        quick_exit(6);
    if (strcmp(how, "exec") == 0)
        execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
    if (strncmp(how, "exec", 4) == 0 && atoi(how + 4) > 0)
        exec_again(argv, atoi(how + 4));
    if (strcmp(how, "orphan") == 0 && fork() == 0) {
        while (getppid() != 1)
            usleep(1000);
        _exit(0);
    }
    if (strcmp(how, "exec_again") == 0)
        execl("/proc/self/exe", argv[0], "signal9", (char *)NULL);
    if (strcmp(how, "fork") == 0 && fork() == 0)
        raise(SIGKILL); /* used nothing: the parent's counters are the parent's */
    if (strcmp(how, "print") == 0)
        puts("printed");
    if (strcmp(how, "clear_at_last") == 0)
        clearenv();
    if (strcmp(how, "copy") == 0)
        copy_large();
    if (strcmp(how, "leave_child") == 0)
        leave_child();
    if (strcmp(how, "closed") == 0) {
        for (int descriptor = 3; descriptor < 1024; descriptor++)
            close(descriptor);
    }
    if (strcmp(how, "pause") == 0 || strcmp(how, "closed") == 0 || strcmp(how, "copy") == 0) {
        puts("ready");
        fflush(stdout);
        pause();
    }
    if (strcmp(how, "orphan") != 0)
        wait(NULL);
    return 4;
}
