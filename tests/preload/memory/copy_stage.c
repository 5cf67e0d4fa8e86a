/*
 * Staged copies as programs see them (docs/internals/interposition.md, C15): which ones are staged,
 * and that each answers, waits and moves bytes as without cushim.
 */
#include "tests/preload/fixture/fixture.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEAST = 64 * KIB, N_BYTES = 3 * LEAST, GAP = 64, N_ROWS = 6, N_SLICES = 3, PAGE = 4096 };
enum { SPAN = N_SLICES * (N_ROWS + 1) * (N_BYTES / N_ROWS / N_SLICES + GAP) };

/* Only a staged copy waits for events, so if this did not grow, the driver's own call copied. */
static unsigned long n_staged_waits(void) {
    return sim_calls("cuEventSynchronize");
}

/* With only one processor nothing is staged. */
static bool is_staging(void) {
    cpu_set_t set;
    return fixture_is_preloaded() && sched_getaffinity(0, sizeof set, &set) == 0 &&
           CPU_COUNT(&set) > 1;
}

/* ---- forms ---- */

struct sides {
    CUdeviceptr device;
    unsigned char *host;
    CUstream stream;
    bool is_to_device;
};

static CUdeviceptr at(const struct sides *sides) {
    return (CUdeviceptr)(uintptr_t)sides->host;
}

static CUresult line(struct sides *s) {
    return s->is_to_device ? cuMemcpyHtoD(s->device, s->host, N_BYTES)
                           : cuMemcpyDtoH(s->host, s->device, N_BYTES);
}

static CUresult line_async(struct sides *s) {
    return s->is_to_device ? cuMemcpyHtoDAsync(s->device, s->host, N_BYTES, s->stream)
                           : cuMemcpyDtoHAsync(s->host, s->device, N_BYTES, s->stream);
}

static CUresult by_address(struct sides *s) {
    return s->is_to_device ? cuMemcpy(s->device, at(s), N_BYTES)
                           : cuMemcpy(at(s), s->device, N_BYTES);
}

static CUresult by_address_async(struct sides *s) {
    return s->is_to_device ? cuMemcpyAsync(s->device, at(s), N_BYTES, s->stream)
                           : cuMemcpyAsync(at(s), s->device, N_BYTES, s->stream);
}

enum { WIDTH = N_BYTES / N_ROWS, BOX_WIDTH = N_BYTES / N_ROWS / N_SLICES };

static CUDA_MEMCPY2D rows_of(const struct sides *s) {
    CUDA_MEMCPY2D rows = {.WidthInBytes = WIDTH, .Height = N_ROWS};
    rows.srcMemoryType = s->is_to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    rows.dstMemoryType = s->is_to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    rows.srcHost = rows.dstHost = s->host;
    rows.srcDevice = rows.dstDevice = s->device;
    rows.srcPitch = rows.dstPitch = WIDTH + GAP;
    return rows;
}

static CUresult rows(struct sides *s) {
    CUDA_MEMCPY2D shape = rows_of(s);
    return cuMemcpy2D(&shape);
}

static CUresult rows_unaligned(struct sides *s) {
    CUDA_MEMCPY2D shape = rows_of(s);
    return cuMemcpy2DUnaligned(&shape);
}

static CUresult rows_async(struct sides *s) {
    CUDA_MEMCPY2D shape = rows_of(s);
    return cuMemcpy2DAsync(&shape, s->stream);
}

static CUDA_MEMCPY3D box_of(const struct sides *s) {
    CUDA_MEMCPY3D box = {.WidthInBytes = BOX_WIDTH, .Height = N_ROWS, .Depth = N_SLICES};
    box.srcMemoryType = s->is_to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    box.dstMemoryType = s->is_to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    box.srcHost = box.dstHost = s->host;
    box.srcDevice = box.dstDevice = s->device;
    box.srcPitch = box.dstPitch = BOX_WIDTH + GAP;
    box.srcHeight = box.dstHeight = N_ROWS + 1;
    return box;
}

static CUresult box(struct sides *s) {
    CUDA_MEMCPY3D shape = box_of(s);
    return cuMemcpy3D(&shape);
}

static CUresult box_async(struct sides *s) {
    CUDA_MEMCPY3D shape = box_of(s);
    return cuMemcpy3DAsync(&shape, s->stream);
}

/* The bytes that a form moves: slices of rows, with the same distances at both ends. */
static const struct form {
    CUresult (*copy)(struct sides *);
    size_t width, height, depth, row_bytes, slice_bytes;
} forms[] = {
    {line, N_BYTES, 1, 1, 0, 0},
    {line_async, N_BYTES, 1, 1, 0, 0},
    {by_address, N_BYTES, 1, 1, 0, 0},
    {by_address_async, N_BYTES, 1, 1, 0, 0},
    {rows, WIDTH, N_ROWS, 1, WIDTH + GAP, 0},
    {rows_unaligned, WIDTH, N_ROWS, 1, WIDTH + GAP, 0},
    {rows_async, WIDTH, N_ROWS, 1, WIDTH + GAP, 0},
    {box, BOX_WIDTH, N_ROWS, N_SLICES, BOX_WIDTH + GAP, (N_ROWS + 1) * (BOX_WIDTH + GAP)},
    {box_async, BOX_WIDTH, N_ROWS, N_SLICES, BOX_WIDTH + GAP, (N_ROWS + 1) * (BOX_WIDTH + GAP)},
};
enum { N_FORMS = sizeof forms / sizeof *forms };

static unsigned char value_at(size_t i) {
    return (unsigned char)(i * 131 + i / 251 + 1);
}

static void move_plainly(const struct form *form, unsigned char *to, const unsigned char *from) {
    for (size_t z = 0; z < form->depth; z++) {
        for (size_t y = 0; y < form->height; y++) {
            size_t start = z * form->slice_bytes + y * form->row_bytes;
            memcpy(to + start, from + start, form->width);
        }
    }
}

TEST(each_form_is_staged_and_moves_what_it_says, .n = 4 * N_FORMS) {
    const struct form *form = &forms[_i % N_FORMS];
    static unsigned char expected[SPAN], seen[SPAN];
    struct sides sides = {.is_to_device = _i / N_FORMS % 2, .host = malloc(SPAN)};
    fixture_use_device(0);
    sides.device = fixture_alloc(SPAN);
    sides.stream = _i / N_FORMS / 2 ? fixture_stream() : NULL;
    for (size_t i = 0; i < SPAN; i++) {
        seen[i] = value_at(i);
        expected[i] = 7;
    }
    memcpy(sides.host, sides.is_to_device ? seen : expected, SPAN);
    for (size_t i = 0; i < SPAN; i += LEAST / 2) /* in small copies, which are not staged */
        OK(cuMemcpyHtoD(sides.device + i, (sides.is_to_device ? expected : seen) + i,
                        SPAN - i < LEAST / 2 ? SPAN - i : LEAST / 2));
    unsigned long n_before = n_staged_waits();
    OK(form->copy(&sides));
    ck_assert(!is_staging() || n_staged_waits() > n_before);
    move_plainly(form, expected, seen);
    OK(cuCtxSynchronize());
    for (size_t i = 0; i < SPAN; i += LEAST / 2)
        OK(cuMemcpyDtoH(seen + i, sides.device + i, SPAN - i < LEAST / 2 ? SPAN - i : LEAST / 2));
    ck_assert_int_eq(memcmp(sides.is_to_device ? seen : sides.host, expected, SPAN), 0);
    free(sides.host);
}

/* ---- copies that the driver makes (for the places of ends see copy_place.c) ---- */

static void expect_native(CUresult answer, unsigned long n_before) {
    OK(answer);
    ck_assert_uint_eq(n_staged_waits(), n_before);
}

/* Its one processor would move every byte twice.  Each test is a process of its own. */
TEST(a_thread_that_may_run_on_one_processor_alone_stages_nothing) {
    fixture_use_device(0);
    CUdeviceptr device = fixture_alloc(N_BYTES);
    char *host = calloc(1, N_BYTES);
    cpu_set_t all, one;
    int core = 0;
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(core, &all))
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    unsigned long n = n_staged_waits();
    expect_native(cuMemcpyHtoD(device, host, N_BYTES), n);
    expect_native(cuMemcpyDtoH(host, device, N_BYTES), n);
    ck_assert_int_eq(sched_setaffinity(0, sizeof all, &all), 0);
    OK(cuMemcpyHtoD(device, host, N_BYTES));
    ck_assert(!is_staging() || n_staged_waits() > n);
    free(host);
}

static void capture_here(struct fixture_thread *thread) {
    CUgraph graph;
    OK(cuStreamBeginCapture(thread->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    atomic_store(&thread->is_done, 1);
    while (atomic_load(&thread->is_done) != 2)
        usleep(100);
    OK(cuStreamEndCapture(thread->stream, &graph));
    OK(cuGraphDestroy(graph));
}

TEST(while_a_capture_is_open_the_driver_copies) {
    fixture_use_device(0);
    CUdeviceptr device = fixture_alloc(N_BYTES);
    CUstream stream = fixture_stream(), other = fixture_stream();
    char *host = calloc(1, N_BYTES);
    CUgraph graph;
    unsigned long n = n_staged_waits();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    expect_native(cuMemcpyHtoDAsync(device, host, N_BYTES, other), n);
    OK(cuStreamEndCapture(stream, &graph));
    struct fixture_thread thread = {.stream = stream};
    OK(cuCtxGetCurrent(&thread.context));
    fixture_start(&thread, capture_here);
    while (!atomic_load(&thread.is_done))
        usleep(100);
    expect_native(cuMemcpyHtoDAsync(device, host, N_BYTES, other), n);
    atomic_store(&thread.is_done, 2);
    fixture_join(&thread);
    OK(cuCtxSynchronize()); /* a copy is staged only on an idle stream */
    OK(cuMemcpyHtoDAsync(device, host, N_BYTES, other));
    ck_assert(!is_staging() || n_staged_waits() > n);
    OK(cuCtxSynchronize());
    free(host);
}

/* ---- order ---- */

static void copy_down(struct fixture_thread *thread) {
    thread->answer = cuMemcpyDtoH((void *)(uintptr_t)thread->other, thread->address, N_BYTES);
}

static void copy_down_async(struct fixture_thread *thread) {
    thread->answer = cuMemcpyDtoHAsync((void *)(uintptr_t)thread->other, thread->address, N_BYTES,
                                       thread->stream);
}

static void copy_up(struct fixture_thread *thread) {
    thread->answer = cuMemcpyHtoD(thread->address, (void *)(uintptr_t)thread->other, N_BYTES);
}

/* The names of this build's calls: it is built twice. */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define PTDS "_ptds"
#define PTSZ "_ptsz"
#else
#define PTDS ""
#define PTSZ ""
#endif

/* A copy sees the work before it, and no later work overtakes a copy. */
static void expect_a_wait(void (*work)(struct fixture_thread *), CUstream stream, bool is_up) {
    static unsigned host[N_BYTES / sizeof(unsigned)];
    CUdeviceptr device = fixture_alloc(N_BYTES);
    struct fixture_thread thread = {.address = device, .stream = stream};
    memset(host, 5, sizeof host);
    thread.other = (CUdeviceptr)(uintptr_t)host;
    OK(cuCtxGetCurrent(&thread.context));
    sim_hold();
    fixture_launch_write(device, 77, stream);
    const char *native = is_up    ? "cuMemcpyHtoD_v2" PTDS
                         : stream ? "cuMemcpyDtoHAsync_v2" PTSZ
                                  : "cuMemcpyDtoH_v2" PTDS;
    const char *call = is_staging() ? "cuStreamSynchronize" : native;
    unsigned long n = sim_calls(call);
    fixture_start(&thread, work);
    ck_assert(fixture_is_asleep(&thread, call, n));
    sim_release_hold();
    fixture_join(&thread);
    OK(thread.answer);
    if (is_up)
        ck_assert_uint_eq(fixture_read(device), 0x05050505);
    else
        ck_assert_uint_eq(host[0], 77);
}

TEST(a_copy_waits_for_what_its_stream_has_before_it) {
    CUstream blocking;
    fixture_use_device(0);
    expect_a_wait(copy_down, NULL, false);
    expect_a_wait(copy_up, NULL, true);
    expect_a_wait(copy_down_async, fixture_stream(), false);
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    expect_a_wait(copy_down_async, blocking, false);
}

TEST(a_queued_copy_to_the_device_waits_for_nobody) {
    fixture_use_device(0);
    CUdeviceptr device = fixture_alloc(N_BYTES);
    CUstream stream = fixture_stream();
    unsigned char *host = malloc(N_BYTES);
    memset(host, 3, N_BYTES);
    sim_hold();
    fixture_launch_write(device, 77, stream);
    unsigned long n = n_staged_waits();
    expect_native(cuMemcpyHtoDAsync(device, host, N_BYTES, stream), n);
    memset(host, 4, N_BYTES); /* the driver has read the source when it returns */
    sim_release_hold();
    OK(cuStreamSynchronize(stream));
    ck_assert(fixture_is_filled(device, 3, N_BYTES));
    free(host);
}

/* ---- answers ---- */

TEST(an_error_of_earlier_work_is_told_by_the_copy) {
    fixture_use_device(0);
    CUdeviceptr device = fixture_alloc(N_BYTES);
    char *host = calloc(1, N_BYTES);
    OK(cuMemcpyHtoD(device, host, N_BYTES));
    fixture_launch_fault(CUDA_ERROR_ILLEGAL_ADDRESS, NULL);
    ANSWERS(cuMemcpyDtoH(host, device, N_BYTES), CUDA_ERROR_ILLEGAL_ADDRESS);
    ANSWERS(cuMemcpyHtoD(device, host, N_BYTES), CUDA_ERROR_ILLEGAL_ADDRESS);
    free(host);
}

/* ---- host memory that is not there ---- */

enum { COPIED, REFUSED, FAULT_OF_THE_DRIVER, FAULT_OF_OURS };

/* The software device copies on a thread that takes no signal; without helpers we copy on the
 * caller's. */
static void on_fault(int signal) {
    (void)signal;
    _exit(FAULT_OF_OURS);
}

static int end_of_copy(unsigned char *host, bool is_to_device) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        setenv("CUSHIM_COPY_THREADS", "0", 1);
        fixture_use_device(0);
        CUdeviceptr device = fixture_alloc(N_BYTES);
        signal(SIGSEGV, on_fault);
        signal(SIGBUS, on_fault);
        CUresult answer = is_to_device ? cuMemcpyHtoD(device, host, N_BYTES)
                                       : cuMemcpyDtoH(host, device, N_BYTES);
        _exit(answer == CUDA_SUCCESS ? COPIED : REFUSED);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? FAULT_OF_THE_DRIVER : WEXITSTATUS(status);
}

TEST(host_memory_that_is_not_there_is_the_drivers_to_answer) {
    unsigned char *pages =
        mmap(NULL, N_BYTES + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    ck_assert_int_eq(end_of_copy(pages, true), COPIED);
    ck_assert_int_eq(end_of_copy(pages, false), COPIED);
    ck_assert_int_eq(mprotect(pages + N_BYTES, PAGE, PROT_NONE), 0);
    ck_assert_int_eq(end_of_copy(pages, true), COPIED); /* up to its edge */
    ck_assert_int_eq(end_of_copy(pages, false), COPIED);
    ck_assert_int_eq(end_of_copy(pages + 1, true), FAULT_OF_THE_DRIVER); /* one byte beyond */
    ck_assert_int_eq(end_of_copy(pages + 1, false), FAULT_OF_THE_DRIVER);
    ck_assert_int_eq(mprotect(pages, N_BYTES, PROT_READ), 0);
    ck_assert_int_eq(end_of_copy(pages, true), COPIED);
    ck_assert_int_eq(end_of_copy(pages, false), FAULT_OF_THE_DRIVER);
    /* A hole in the middle.  It stays mapped without rights, because the child's mappings would
     * fill a hole that munmap left.
     */
    ck_assert_int_eq(mprotect(pages, N_BYTES, PROT_READ | PROT_WRITE), 0);
    ck_assert_int_eq(mprotect(pages + LEAST, PAGE, PROT_NONE), 0);
    ck_assert_int_eq(end_of_copy(pages, true), FAULT_OF_THE_DRIVER);
    ck_assert_int_eq(end_of_copy(pages, false), FAULT_OF_THE_DRIVER);
    munmap(pages, N_BYTES + PAGE);
}

/* ---- the process ---- */

TEST(a_child_has_no_helpers_and_ends) {
    fixture_use_device(0);
    CUdeviceptr device = fixture_alloc(4 * MIB);
    char *host = calloc(1, 4 * MIB);
    for (int i = 0; i < 20; i++) {
        int status;
        OK(cuMemcpyHtoD(device, host, 4 * MIB));
        pid_t child = fork();
        if (child == 0) {
            cuMemcpyHtoD(device, host, 4 * MIB); /* only an answer matters, whatever it is */
            exit(0);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    free(host);
}

static void copy_for_ever(struct fixture_thread *thread) {
    char *host = calloc(1, 4 * MIB);
    while (cuMemcpyHtoD(thread->address, host, 4 * MIB) ==
           CUDA_SUCCESS) /* up to the driver's end */
        atomic_store(&thread->is_done, 1);
    for (;;)
        pause();
}

TEST(exit_in_the_middle_of_copies_ends_the_process) {
    for (int i = 0; i < 20; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            struct fixture_thread thread = {.context = fixture_use_device(0)};
            thread.address = fixture_alloc(4 * MIB);
            fixture_start(&thread, copy_for_ever);
            while (!atomic_load(&thread.is_done))
                usleep(100);
            usleep((useconds_t)i * 50);
            exit(0);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

int main(void) {
    char least[16];
    snprintf(least, sizeof least, "%d", LEAST);
    setenv("CUSHIM_COPY_STAGE", "on", 0);
    setenv("CUSHIM_COPY_STAGE_MIN", least, 0);
    setenv("CUSHIM_COPY_RING", "1M", 0);
    return fixture_run("memory/copy_stage");
}
