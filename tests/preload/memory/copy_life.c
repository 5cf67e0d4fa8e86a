/*
 * Staged copies (docs/internals/interposition.md, C15) and what happens meanwhile: processes fork,
 * contexts go, driver calls fail, memory is protected, machines have many processors.  Which copies
 * are staged is in copy_stage.c and copy_place.c.
 */
#include "tests/preload/fixture/fixture.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEAST = 64 * KIB, N_BYTES = 4 * MIB, FEW_BYTES = 768 * KIB, PAGE = 4096 };

static unsigned long n_staged_waits(void) {
    return sim_calls("cuEventSynchronize");
}

/* ---- processors: this program answers for the kernel, in front of libc ---- */

/* A sanitizer calls these before it is ready, so they must not be instrumented. */
#define IN_FRONT __attribute__((no_sanitize("address", "thread", "undefined"))) SIM_EXPORT

static int n_processors; /* 0: the kernel's own answer; below 0: the set is too small for it */

IN_FRONT int sched_getaffinity(pid_t thread, size_t n_bytes, cpu_set_t *set) {
    if (!n_processors) {
        long n = syscall(SYS_sched_getaffinity, thread, n_bytes, set);
        if (n < 0)
            return -1;
        for (volatile char *at = (char *)set + n; at < (char *)set + n_bytes; at++)
            *at = 0; /* no call of memset, which belongs to the sanitizer */
        return 0;
    }
    if (n_processors < 0) {
        errno = EINVAL;
        return -1;
    }
    CPU_ZERO_S(n_bytes, set);
    for (int i = 0; i < n_processors; i++)
        CPU_SET_S((size_t)i, n_bytes, set);
    return 0;
}

static unsigned long n_streams(void) {
    return sim_calls("cuStreamCreate");
}

/* A ring has a stream for the caller and one for each thread that may help. */
TEST(helpers_are_as_many_as_are_asked_for_where_processors_are_more, .n = 4) {
    static const int machines[] = {2, 64, 65, 1024};
    n_processors = machines[_i];
    setenv("CUSHIM_COPY_THREADS", "63", 1);
    setenv("CUSHIM_COPY_RING", "4M", 1);
    fixture_use_device(0);
    CUdeviceptr device = fixture_alloc(N_BYTES);
    char *host = malloc(N_BYTES);
    memset(host, 5, N_BYTES);
    unsigned long n = n_streams(), n_waits = n_staged_waits();
    OK(cuMemcpyHtoD(device, host, N_BYTES));
    if (fixture_is_preloaded()) {
        ck_assert_uint_gt(n_staged_waits(), n_waits);
        ck_assert_uint_eq(n_streams() - n, (unsigned long)(n_processors < 64 ? n_processors : 64));
    }
    ck_assert(fixture_is_filled(device, 5, N_BYTES));
    free(host);
}

TEST(more_processors_than_a_set_holds_are_those_online) {
    n_processors = -1;
    fixture_use_device(0);
    CUdeviceptr device = fixture_alloc(N_BYTES);
    char *host = calloc(1, N_BYTES);
    unsigned long n = n_staged_waits();
    OK(cuMemcpyHtoD(device, host, N_BYTES));
    bool may_be = fixture_is_preloaded() && sysconf(_SC_NPROCESSORS_ONLN) > 1;
    ck_assert(may_be == (n_staged_waits() > n));
    free(host);
}

/* ---- memory that changes between the look at it and the copy ---- */

static struct {
    pthread_t caller;
    char *page; /* loses its rights after the look */
    sem_t is_helped;
    atomic_int is_armed, n_mended;
} change;

/* It is in front of libc's.  The caller's look waits for a helper's, and then the page is
 * closed. */
IN_FRONT int madvise(void *start, size_t n_bytes, int advice) {
    long answer = syscall(SYS_madvise, start, n_bytes, advice);
    if (advice != 22 /* MADV_POPULATE_READ */ || !atomic_load(&change.is_armed))
        return (int)answer;
    if (pthread_equal(pthread_self(), change.caller)) {
        while (sem_wait(&change.is_helped) != 0) {
        }
        sem_post(&change.is_helped);
    } else if (atomic_exchange(&change.is_armed, 0)) {
        change.page = start;
        mprotect(start, PAGE, PROT_NONE);
        sem_post(&change.is_helped);
    }
    return (int)answer;
}

static void open_page(int signal) {
    (void)signal;
    if (!change.page || mprotect(change.page, PAGE, PROT_READ | PROT_WRITE) != 0)
        _exit(1);
    atomic_fetch_add(&change.n_mended, 1);
}

/* As without cushim, if the driver touches the memory in the calling thread.  Threads of the
 * software device take no signal. */
TEST_IF(fixture_is_preloaded(), a_fault_meanwhile_is_for_the_handler_of_the_program) {
    n_processors = 2;
    fixture_use_device(0);
    CUdeviceptr device = fixture_alloc(N_BYTES);
    char *host = mmap(NULL, N_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(host, 6, N_BYTES);
    OK(cuMemcpyHtoD(device, host, N_BYTES)); /* start our threads, and let the kernel be asked what
                                              * it can do */
    fixture_fill(device, 0, N_BYTES);
    signal(SIGSEGV, open_page);
    change.caller = pthread_self();
    sem_init(&change.is_helped, 0, 0);
    atomic_store(&change.is_armed, 1);
    OK(cuMemcpyHtoD(device, host, N_BYTES));
    ck_assert_int_eq(atomic_load(&change.n_mended), 1);
    ck_assert(fixture_is_filled(device, 6, N_BYTES));
    munmap(host, N_BYTES);
}

/* ---- calls that fail ---- */

static bool copy_with_failure(unsigned long n, CUdeviceptr device, char *host) {
    memset(host, (int)(n % 250), FEW_BYTES);
    sim_fail_at(n, CUDA_ERROR_UNKNOWN);
    CUresult answer = cuMemcpyHtoD(device, host, FEW_BYTES);
    bool has_failed = sim_has_failed();
    sim_fail_at(0, CUDA_SUCCESS);
    if (answer != CUDA_SUCCESS) { /* the failure of the driver's own call, or of one before it */
        ck_assert(has_failed);
        ANSWERS(answer, CUDA_ERROR_UNKNOWN);
        OK(cuMemcpyHtoD(device, host, FEW_BYTES));
    }
    ck_assert(fixture_is_filled(device, (unsigned char)(n % 250), FEW_BYTES));
    return has_failed;
}

/* In every other round the ring is made again. */
TEST(a_copy_is_whole_whichever_driver_call_fails, .n = 4) {
    static const char *const threads[] = {"0", "1"};
    char *host = malloc(FEW_BYTES);
    n_processors = 2;
    setenv("CUSHIM_COPY_THREADS", threads[_i % 2], 1);
    bool is_anew = _i / 2 % 2, has_failed = true;
    fixture_use_device(0);
    CUdeviceptr device = fixture_alloc(FEW_BYTES);
    for (unsigned long n = 1; has_failed; n++) {
        if (is_anew) {
            OK(cuDevicePrimaryCtxReset(0));
            fixture_use_device(0);
            device = fixture_alloc(FEW_BYTES);
        }
        has_failed = copy_with_failure(n, device, host);
    }
    free(host);
}

/* ---- the life of a context, and of a process ---- */

TEST(a_ring_goes_with_its_context) {
    char *host = calloc(1, N_BYTES);
    for (int i = 0; i < 3; i++) {
        CUcontext context;
        CUdevice device_0;
        OK(cuInit(0));
        OK(cuDeviceGet(&device_0, 0));
        OK(cuCtxCreate(&context, NULL, 0, device_0));
        CUdeviceptr device = fixture_alloc(N_BYTES);
        OK(cuMemcpyHtoD(device, host, N_BYTES));
        unsigned long n = sim_calls("cuStreamDestroy_v2");
        OK(cuCtxDestroy(context));
        ck_assert(!fixture_is_preloaded() || sim_calls("cuStreamDestroy_v2") > n);
    }
    free(host);
}

static void copy_for_ever(struct fixture_thread *thread) {
    char *host = calloc(1, N_BYTES);
    while (atomic_load(&thread->is_done) != 2) {
        OK(cuMemcpyHtoD(thread->address, host, N_BYTES));
        int nothing = 0;
        atomic_compare_exchange_strong(&thread->is_done, &nothing, 1);
    }
    free(host);
}

TEST(a_child_of_a_fork_in_the_middle_of_copies_ends) {
    n_processors = 4;
    struct fixture_thread thread = {.context = fixture_use_device(0)};
    CUdeviceptr device = fixture_alloc(N_BYTES);
    char *host = calloc(1, N_BYTES);
    thread.address = fixture_alloc(N_BYTES);
    fixture_start(&thread, copy_for_ever);
    while (!atomic_load(&thread.is_done))
        usleep(100);
    for (int i = 0; i < 20; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            alarm(30); /* only an answer matters, whatever it is */
            cuMemcpyHtoD(device, host, N_BYTES);
            cuMemcpyDtoH(host, device, N_BYTES);
            cuDevicePrimaryCtxReset(0);
            _exit(0);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    atomic_store(&thread.is_done, 2);
    fixture_join(&thread);
    free(host);
}

int main(void) {
    setenv("CUSHIM_COPY_STAGE", "on", 0);
    setenv("CUSHIM_COPY_STAGE_MIN", "64K", 0);
    setenv("CUSHIM_COPY_RING", "1M", 0);
    return fixture_run("memory/copy_life");
}
