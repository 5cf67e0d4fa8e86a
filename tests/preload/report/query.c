/*
 * Questions of a program to the preload, by names that it looks up.  Without cushim it finds none.
 */
#include "tests/preload/fixture/fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cushim/preload.h"

static int (*active)(void);
static int (*stats)(int, int, struct cushim_preload_stats *);
static int (*reset_peak)(int);
static void (*mark)(const char *);
static int (*report)(const char *);
static size_t (*trim)(void);

/* All of them, or none without a preload. */
static void look_up(void) {
    const struct {
        const char *name;
        void *at;
    } all[] = {{"cushim_preload_active", &active},         {"cushim_preload_stats", &stats},
               {"cushim_preload_reset_peak", &reset_peak}, {"cushim_preload_mark", &mark},
               {"cushim_preload_report", &report},         {"cushim_preload_trim", &trim}};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        void *address = dlsym(RTLD_DEFAULT, all[i].name);
        ck_assert_int_eq(address != NULL, fixture_is_preloaded());
        memcpy(all[i].at, &address, sizeof address);
    }
}

static struct cushim_preload_stats now(int device, int kind) {
    struct cushim_preload_stats read = {.struct_size = sizeof read};
    ck_assert_int_eq(stats(device, kind, &read), 0);
    ck_assert_uint_eq(read.struct_size, sizeof read);
    ck_assert_uint_eq(read.held_bytes,
                      read.live_bytes + read.rounding_bytes + read.spare_bytes + read.idle_bytes);
    return read;
}

TEST_IF(fixture_is_preloaded(), a_trim_gives_all_idle_memory_back) {
    void *pinned;
    fixture_use_device(0);
    look_up();
    ck_assert_uint_eq(trim(), 0);
    CUdeviceptr live = fixture_alloc(1000);
    OK(cuMemFree(fixture_alloc(3 * MIB)));
    OK(cuMemHostAlloc(&pinned, MIB, 0));
    OK(cuMemFreeHost(pinned));
    ck_assert_uint_eq(trim(), 4 * MIB + 2 * MIB);
    ck_assert_uint_eq(now(-1, CUSHIM_PRELOAD_ALL).held_bytes, 2 * MIB);
    OK(cuMemFree(live));
    ck_assert_uint_eq(trim(), 2 * MIB);
}

static void synchronise(CUdeviceptr live) {
    (void)live;
    OK(cuCtxSynchronize());
}

static void copy(CUdeviceptr live) {
    char byte;
    OK(cuMemcpyDtoH(&byte, live, 1));
}

static void copy_rows(CUdeviceptr live) {
    char bytes[2];
    OK(cuMemcpy2D(&(CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                   .srcDevice = live,
                                   .srcPitch = 1,
                                   .dstMemoryType = CU_MEMORYTYPE_HOST,
                                   .dstHost = bytes,
                                   .dstPitch = 1,
                                   .WidthInBytes = 1,
                                   .Height = 2}));
}

static void ask_for_free(CUdeviceptr live) {
    size_t free_bytes, total_bytes;
    (void)live;
    OK(cuMemGetInfo(&free_bytes, &total_bytes));
}

static size_t held_bytes(void) {
    return now(0, CUSHIM_PRELOAD_DEVICE).held_bytes;
}

/* Repeat until freed memory is kept, which it is when it was asked for again soon enough. */
static void loop(void) {
    enum { N = 20, MOST_TURNS = 100 };
    CUdeviceptr blocks[N];
    for (int turn = 0; turn < MOST_TURNS && held_bytes() < 100 * MIB; turn++) {
        for (int i = 0; i < N; i++)
            blocks[i] = fixture_alloc(20 * MIB);
        for (int i = 0; i < N; i++)
            OK(cuMemFree(blocks[i]));
        OK(cuCtxSynchronize());
    }
    ck_assert_uint_ge(held_bytes(), 100 * MIB);
}

/* A loop has ended; more than a second later the program makes another call. */
TEST_IF(fixture_is_preloaded(), what_a_loop_left_goes_back_at_the_next_call) {
    static void (*const calls[])(CUdeviceptr) = {synchronise, copy, copy_rows, ask_for_free};
    fixture_use_device(0);
    look_up();
    CUdeviceptr live = fixture_alloc(1000);
    copy(live); /* because later copies take a shorter path */
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        loop();
        usleep(1100000);
        calls[i](live);
        ck_assert_msg(held_bytes() <= 34 * MIB, "call %u: %zu bytes held", i, held_bytes());
    }
}

/* Such a call does not wait for the device to give memory back; a call that finds it idle gives
 * back. */
TEST_IF(fixture_is_preloaded(), while_the_device_is_busy_what_a_loop_left_stays) {
    fixture_use_device(0);
    look_up();
    CUdeviceptr live = fixture_alloc(1000);
    CUstream stream = fixture_stream();
    atomic_uint *word;
    loop();
    OK(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    atomic_store(word, 0);
    OK(cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
    usleep(1100000);
    ask_for_free(live);
    copy(live);
    ck_assert_uint_ge(held_bytes(), 100 * MIB);
    atomic_store(word, 1);
    OK(cuStreamSynchronize(stream));
    usleep(20000); /* a tick of the coarse clock */
    ask_for_free(live);
    ck_assert_uint_le(held_bytes(), 34 * MIB);
}

TEST_IF(fixture_is_preloaded(), counters_are_those_of_the_program) {
    fixture_use_device(0);
    look_up();
    ck_assert_int_eq(active(), 1);
    ck_assert_uint_eq(now(-1, CUSHIM_PRELOAD_ALL).n_requests, 0);
    CUdeviceptr small = fixture_alloc(1000), large = fixture_alloc(3 * MIB);
    struct cushim_preload_stats read = now(0, CUSHIM_PRELOAD_DEVICE);
    ck_assert_uint_eq(read.live_bytes, 1000 + 3 * MIB);
    ck_assert_uint_eq(read.rounding_bytes, 24 + MIB);
    ck_assert_uint_eq(read.n_requests, 2);
    ck_assert_uint_eq(read.n_driver_calls, 2);
    OK(cuMemFree(small));
    OK(cuMemFree(large));
    read = now(0, CUSHIM_PRELOAD_DEVICE);
    ck_assert_uint_eq(read.live_bytes, 0);
    ck_assert_uint_eq(read.n_frees, 2);
    ck_assert_uint_eq(read.peak_live_bytes, 1000 + 3 * MIB);
    ck_assert_uint_eq(now(1, CUSHIM_PRELOAD_ALL).n_requests, 0);
    ck_assert_uint_eq(now(0, CUSHIM_PRELOAD_PINNED).n_requests, 0);
    ck_assert_uint_eq(now(-1, CUSHIM_PRELOAD_ALL).n_requests, 2);
    ck_assert_int_eq(cuMemFree(large), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(now(-1, CUSHIM_PRELOAD_ALL).n_findings, 1);
}

TEST_IF(fixture_is_preloaded(), a_recent_peak_begins_where_it_is_said) {
    fixture_use_device(0);
    look_up();
    CUdeviceptr kept = fixture_alloc(5000), passed = fixture_alloc(700000);
    OK(cuMemFree(passed));
    ck_assert_uint_eq(now(0, CUSHIM_PRELOAD_DEVICE).recent_peak_live_bytes, 705000);
    ck_assert_int_eq(reset_peak(0), 0);
    ck_assert_uint_eq(now(0, CUSHIM_PRELOAD_DEVICE).recent_peak_live_bytes, 5000);
    OK(cuMemFree(fixture_alloc(3000)));
    struct cushim_preload_stats read = now(0, CUSHIM_PRELOAD_DEVICE);
    ck_assert_uint_eq(read.recent_peak_live_bytes, 8000);
    ck_assert_uint_eq(read.peak_live_bytes, 705000);
    ck_assert_uint_eq(read.recent_peak_held_bytes, read.held_bytes);
    OK(cuMemFree(kept));
    ck_assert_int_eq(reset_peak(-1), 0);
    ck_assert_uint_eq(now(0, CUSHIM_PRELOAD_DEVICE).recent_peak_live_bytes, 0);
}

TEST_IF(fixture_is_preloaded(), what_is_no_device_and_no_struct_is_refused) {
    struct {
        struct cushim_preload_stats known;
        uint64_t newer, behind;
    } larger = {.known.struct_size = sizeof larger - 8, .newer = 7, .behind = 7};
    struct cushim_preload_stats read = {.struct_size = 8 + 8, .rounding_bytes = 7};
    fixture_use_device(0);
    look_up();
    fixture_alloc(1000);
    ck_assert_int_eq(stats(0, 0, &read), 0); /* a caller that knows fewer fields */
    ck_assert_uint_eq(read.live_bytes, 1000);
    ck_assert_uint_eq(read.rounding_bytes, 7);
    ck_assert_int_eq(stats(0, 0, &larger.known), 0); /* a caller that knows more fields */
    ck_assert_uint_eq(larger.newer, 0);
    ck_assert_uint_eq(larger.behind, 7);
    read.struct_size = 0;
    ck_assert_int_eq(stats(0, 0, &read), -1);
    ck_assert_int_eq(stats(0, 0, NULL), -1);
    read.struct_size = sizeof read;
    for (int i = 0; i < 4; i++) {
        static const int no_devices[] = {-2, 64, 1 << 20, INT32_MIN};
        ck_assert_int_eq(stats(no_devices[i], 0, &read), -1);
        ck_assert_int_eq(stats(0, no_devices[i], &read), -1);
        ck_assert_int_eq(reset_peak(no_devices[i]), -1);
    }
}

/* The contents of a file, with a 0 at the end. */
static const char *text_of(const char *path) {
    static char text[1 << 16];
    FILE *file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    unlink(path);
    return text;
}

TEST_IF(fixture_is_preloaded(), marks_stand_in_a_report_of_now) {
    char path[64];
    fixture_use_device(0);
    look_up();
    snprintf(path, sizeof path, "query-%ld.json", (long)getpid());
    mark(NULL);
    mark("before");
    fixture_alloc(1000);
    mark("a \"name\"\n, much longer than what a mark keeps of it, which is 63 bytes");
    ck_assert_int_eq(report(path), 0);
    const char *text = text_of(path);
    ck_assert_ptr_nonnull(strstr(text, "\"n_marks\": 2,"));
    const char *first = strstr(text, "{\"name\": \"before\"");
    const char *second =
        strstr(text, "{\"name\": \"a \\\"name\\\"?, much longer than what a mark keeps of it, "
                     "which is 6\"");
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_nonnull(second);
    ck_assert(first < second);
    ck_assert_ptr_nonnull(strstr(first, "\"live_bytes\": 0,"));
    ck_assert_ptr_nonnull(strstr(second, "\"live_bytes\": 1000,"));
    ck_assert_int_eq(report("no/such/folder.json"), ENOENT);
    ck_assert_int_eq(report(""), EINVAL);
    ck_assert_int_eq(report(NULL), EINVAL);
}

/* A forked child of a process that used CUDA has no preload: nothing is answered for its parent. */
TEST_IF(fixture_is_preloaded(), a_forked_child_is_not_served) {
    struct cushim_preload_stats read = {.struct_size = sizeof read};
    int status;
    fixture_use_device(0);
    fixture_alloc(1000);
    look_up();
    pid_t child = fork();
    if (child == 0) {
        mark("child");
        _exit(active() == 0 && stats(-1, -1, &read) == -1 && reset_peak(-1) == -1 &&
                      report("query-of-a-child.json") == ENODEV
                  ? 0
                  : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(active(), 1);
}

static void ask(struct fixture_thread *thread) {
    (void)thread;
    for (int i = 0; i < 200; i++) {
        struct cushim_preload_stats read = now(-1, CUSHIM_PRELOAD_ALL);
        ck_assert_uint_ge(read.n_requests, read.n_frees);
        mark("asked");
        ck_assert_int_eq(reset_peak(-1), 0);
    }
}

static void use_memory(struct fixture_thread *thread) {
    (void)thread;
    for (int i = 0; i < 3000; i++) {
        CUdeviceptr block = fixture_alloc(1 + (size_t)(i % 90) * 1000);
        OK(cuMemFree(block));
    }
}

TEST_IF(fixture_is_preloaded(), any_thread_may_ask_while_others_work) {
    struct fixture_thread threads[4] = {0};
    CUcontext context = fixture_use_device(0);
    look_up();
    for (int i = 0; i < 4; i++) {
        threads[i].context = context;
        fixture_start(&threads[i], i % 2 ? ask : use_memory);
    }
    for (int i = 0; i < 4; i++)
        fixture_join(&threads[i]);
    struct cushim_preload_stats read = now(0, CUSHIM_PRELOAD_DEVICE);
    ck_assert_uint_eq(read.n_requests, 6000);
    ck_assert_uint_eq(read.n_frees, 6000);
    ck_assert_uint_eq(read.live_bytes, 0);
}

TEST(they_are_there_where_the_preload_is) {
    look_up();
}

int main(void) {
    return fixture_run("query");
}
