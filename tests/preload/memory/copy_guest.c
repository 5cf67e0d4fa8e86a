/*
 * Staged copies (docs/internals/interposition.md, C15) as guests of a thread: what they leave
 * unchanged, when nothing is staged, and what happens if host memory goes meanwhile.  This program
 * answers the look at host memory (MADV_POPULATE_READ and _WRITE) in front of libc.
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

enum { LEAST = 64 * KIB, N_BYTES = 4 * MIB, PAGE = 4096, LOOK_TO_READ = 22, LOOK_TO_WRITE = 23 };

static unsigned long n_staged_waits(void) {
    return sim_calls("cuEventSynchronize");
}

static bool is_staging(void) {
    cpu_set_t set;
    return fixture_is_preloaded() && sched_getaffinity(0, sizeof set, &set) == 0 &&
           CPU_COUNT(&set) > 1;
}

/* ---- events after the first look of a thread of ours, or of the caller ---- */

static struct {
    atomic_int is_armed;
    bool is_helpers; /* the caller's look waits for it */
    pthread_t caller;
    sem_t is_done;
    void (*act)(void *page);
    int error; /* of every look, if not 0 */
} look;

static void arm(void (*act)(void *page), bool is_helpers) {
    look.act = act;
    look.is_helpers = is_helpers;
    look.caller = pthread_self();
    sem_init(&look.is_done, 0, 0);
    atomic_store(&look.is_armed, 1);
}

/* A sanitizer calls this before it is ready, so it must not be instrumented. */
__attribute__((no_sanitize("address", "thread", "undefined"))) SIM_EXPORT int
madvise(void *start, size_t n_bytes, int advice) {
    bool is_look = advice == LOOK_TO_READ || advice == LOOK_TO_WRITE;
    if (is_look && look.error) {
        errno = look.error;
        return -1;
    }
    long answer = syscall(SYS_madvise, start, n_bytes, advice);
    if (!is_look || !atomic_load(&look.is_armed))
        return (int)answer;
    bool is_callers = pthread_equal(pthread_self(), look.caller) != 0;
    if (is_callers == look.is_helpers) {
        while (sem_wait(&look.is_done) != 0) {
        }
        sem_post(&look.is_done);
    } else if (atomic_exchange(&look.is_armed, 0)) {
        look.act(start);
        sem_post(&look.is_done);
    }
    return (int)answer;
}

/* Far from the addresses that the kernel chooses, so that a page that goes leaves a hole which
 * stays. */
static char *map(void) {
#ifdef __SANITIZE_THREAD__
    void *far = (void *)0x1000000000;
#else
    void *far = (void *)0x200000000000;
#endif
    char *host = mmap(far, N_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(host, MAP_FAILED);
    memset(host, 6, N_BYTES);
    return host;
}

static CUresult copy(CUdeviceptr device, void *host, bool is_to_device) {
    return is_to_device ? cuMemcpyHtoD(device, host, N_BYTES) : cuMemcpyDtoH(host, device, N_BYTES);
}

/* ---- what stays as it was ---- */

/* Start our threads, and let the kernel be asked what it can do. */
static CUdeviceptr prepare(char *host) {
    CUdeviceptr device = fixture_alloc(N_BYTES);
    OK(cuMemcpyHtoD(device, host, N_BYTES));
    return device;
}

static void set_errno(void *page) {
    (void)page;
    errno = EPROTO;
}

TEST(errno_is_as_it_was, .n = 4) {
    bool is_to_device = _i % 2;
    setenv("CUSHIM_COPY_THREADS", "0", 1);
    fixture_use_device(0);
    char *host = map();
    CUdeviceptr device = prepare(host);
    arm(set_errno, false);
    errno = EDOM;
    CUresult answer = copy(device, host, is_to_device);
    int error = errno;
    OK(answer);
    ck_assert(!is_staging() || (!atomic_load(&look.is_armed) && error == EDOM));
    look.error = EFAULT; /* and also if the copy went to the driver after all */
    errno = EDOM;
    answer = copy(device, host, is_to_device);
    error = errno;
    OK(answer);
    ck_assert(!is_staging() || error == EDOM);
}

/* A capture that begins and ends in one thread. */
static struct {
    CUcontext context;
    CUstream stream;
    pthread_t thread;
    sem_t is_begun, is_over;
    CUresult answer;
} captured;

static void *capture(void *unused) {
    CUgraph graph;
    OK(cuCtxSetCurrent(captured.context));
    OK(cuStreamBeginCapture(captured.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    sem_post(&captured.is_begun);
    while (sem_wait(&captured.is_over) != 0) {
    }
    captured.answer = cuStreamEndCapture(captured.stream, &graph);
    return unused;
}

static void capture_in_another(void *page) {
    (void)page;
    ck_assert_int_eq(pthread_create(&captured.thread, NULL, capture, NULL), 0);
    while (sem_wait(&captured.is_begun) != 0) {
    }
}

/* A capture forbids the calls of its waits to threads whose mode is not RELAXED. */
TEST_IF(is_staging(), a_capture_that_begins_meanwhile_stays_valid, .n = 4) {
    sem_init(&captured.is_begun, 0, 0);
    sem_init(&captured.is_over, 0, 0);
    captured.context = fixture_use_device(0);
    captured.stream = fixture_stream();
    char *host = map();
    CUdeviceptr device = prepare(host);
    arm(capture_in_another, _i / 2 != 0);
    OK(copy(device, host, _i % 2));
    ck_assert(!atomic_load(&look.is_armed));
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL); /* the old mode again, in this thread */
    sem_post(&captured.is_over);
    ck_assert_int_eq(pthread_join(captured.thread, NULL), 0);
    OK(captured.answer);
}

static void copy_cancelled(struct fixture_thread *thread) {
    char *host = map();
    pthread_cancel(pthread_self());
    thread->answer = cuMemcpyHtoD(thread->address, host, N_BYTES);
    atomic_store(&thread->is_done, 2);
    pthread_testcancel();
    atomic_store(&thread->is_done, 3);
}

TEST_IF(is_staging(), a_copy_is_no_cancellation_point) {
    void *end;
    struct fixture_thread thread = {.context = fixture_use_device(0)};
    thread.address = fixture_alloc(N_BYTES);
    unsigned long n = n_staged_waits();
    fixture_start(&thread, copy_cancelled);
    ck_assert_int_eq(pthread_join(thread.thread, &end), 0);
    ck_assert_ptr_eq(end, PTHREAD_CANCELED);
    ck_assert_int_eq(atomic_load(&thread.is_done), 2);
    OK(thread.answer);
    ck_assert_uint_gt(n_staged_waits(), n);
}

/* ---- when nothing is staged ---- */

struct tried {
    CUdeviceptr device;
    char *host;
    unsigned long n_asked;
    atomic_int is_done;
};

static unsigned long n_asked(void) {
    return sim_calls("cuPointerGetAttributes") + sim_calls("cuThreadExchangeStreamCaptureMode") +
           sim_calls("cuStreamQuery") + sim_calls("cuStreamSynchronize");
}

static void copy_in_host_function(void *data) {
    struct tried *tried = data;
    unsigned long n = n_asked();
    cuMemcpyHtoD(tried->device, tried->host, N_BYTES); /* the driver refuses it */
    tried->n_asked = n_asked() - n;
    atomic_store(&tried->is_done, 1);
}

TEST(inside_a_host_function_the_driver_alone_is_asked) {
    fixture_use_device(0);
    struct tried tried = {fixture_alloc(N_BYTES), map(), 77, 0};
    CUstream stream = fixture_stream();
    OK(cuLaunchHostFunc(stream, copy_in_host_function, &tried));
    while (!atomic_load(&tried.is_done)) /* because other calls would be counted */
        sched_yield();
    ck_assert_uint_eq(tried.n_asked, 0);
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyHtoD(tried.device, tried.host, N_BYTES));
}

TEST(a_green_context_stages_nothing, .n = 4) {
    CUdevResource all, part;
    CUdevResourceDesc descriptor;
    CUcontext green_context, primary = fixture_use_device(0);
    CUgreenCtx green;
    unsigned n_parts = 1;
    CUdeviceptr device = fixture_alloc(N_BYTES);
    char *host = map();
    OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevSmResourceSplitByCount(&part, &n_parts, &all, NULL, 0, 8));
    OK(cuDevResourceGenerateDesc(&descriptor, &part, 1));
    OK(cuGreenCtxCreate(&green, descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    OK(cuCtxFromGreenCtx(&green_context, green));
    OK(cuCtxSetCurrent(green_context));
    unsigned long n = n_staged_waits();
    OK(copy(device, host, _i % 2));
    ck_assert_uint_eq(n_staged_waits(), n);
    OK(cuCtxSetCurrent(primary));
    OK(copy(device, host, _i % 2));
    ck_assert(!is_staging() || n_staged_waits() > n);
    OK(cuGreenCtxDestroy(green));
}

/* ---- a kernel that cannot look ---- */

/* Linux before 5.14 does not know the advice. */
TEST_IF(is_staging(), on_an_old_kernel_the_driver_copies_and_the_report_says_so, .n = 4) {
    int status;
    char folder[] = "/tmp/copy-guest-XXXXXX", path[64], text[8192] = {0};
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/report.txt", folder);
    pid_t child = fork();
    if (child == 0) {
        setenv("CUSHIM_STATS", path, 1);
        look.error = EINVAL;
        fixture_use_device(0);
        CUdeviceptr device = fixture_alloc(N_BYTES);
        char *host = map();
        unsigned long n_streams = sim_calls("cuStreamCreate"), n = n_staged_waits();
        for (int i = 0; i < 3; i++)
            OK(copy(device, host, _i % 2));
        ck_assert_uint_eq(n_staged_waits(), n);
        ck_assert_uint_eq(sim_calls("cuStreamCreate"), n_streams); /* and makes no ring */
        look.error = 0;
        ck_assert(fixture_is_filled(device, _i % 2 ? 6 : 0, N_BYTES));
        exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_gt(fread(text, 1, sizeof text - 1, file), 0);
    fclose(file);
    unlink(path);
    rmdir(folder);
    ck_assert_ptr_nonnull(strstr(text, "older than Linux 5.14"));
}

/* ---- memory that goes between the look at it and the copy ---- */

static char *gone;

static void unmap_page(void *page) {
    gone = page;
    if (munmap(page, PAGE) != 0)
        _exit(1);
}

/* As without cushim the fault ends the program. */
TEST(memory_that_is_unmapped_meanwhile_ends_the_program_as_natively, .n = 4) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        fixture_use_device(0);
        char *host = map();
        CUdeviceptr device = prepare(host);
        if (!is_staging())
            munmap(host, PAGE);
        arm(unmap_page, _i / 2 != 0);
        signal(SIGSEGV, SIG_DFL); /* a sanitizer has its own */
        signal(SIGALRM, SIG_DFL);
        alarm(30);
        copy(device, host, _i % 2);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void map_again(int signal) {
    (void)signal;
    if (!gone || mmap(gone, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                      -1, 0) == MAP_FAILED)
        _exit(1);
}

/* As without cushim, if the driver touches the memory in the calling thread.  Threads of the
 * software device take no signal. */
TEST_IF(is_staging(), a_handler_may_map_what_was_unmapped_and_the_copy_goes_on, .n = 4) {
    fixture_use_device(0);
    char *host = map();
    CUdeviceptr device = prepare(host);
    fixture_fill(device, 3, N_BYTES);
    OK(cuCtxSynchronize());
    signal(SIGSEGV, map_again);
    arm(unmap_page, _i / 2 != 0);
    OK(copy(device, host, _i % 2));
    ck_assert_ptr_nonnull(gone);
    size_t at = (size_t)(gone - host);
    if (_i % 2) { /* memory that was mapped again is empty */
        ck_assert(fixture_is_filled(device, 6, at));
        ck_assert(fixture_is_filled(device + at, 0, PAGE));
        ck_assert(fixture_is_filled(device + at + PAGE, 6, N_BYTES - at - PAGE));
    } else {
        ck_assert(host[0] == 3 && memcmp(host, host + 1, N_BYTES - 1) == 0);
    }
}

int main(void) {
    setenv("CUSHIM_COPY_STAGE", "on", 0);
    setenv("CUSHIM_COPY_STAGE_MIN", "64K", 0);
    setenv("CUSHIM_COPY_RING", "1M", 0);
    return fixture_run("memory/copy_guest");
}
