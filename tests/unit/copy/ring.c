#include "copy/ring.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copy_fixture.h"
#include "copy_kernel.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20, N_COPIERS = 16 };

static struct cushim_cuda cuda;

static struct cushim_copy_ring_setup setup_of(unsigned n_threads) {
    return (struct cushim_copy_ring_setup){&cuda, copy_fixture_context(), 4 * MIB, n_threads};
}

static enum cushim_copy_outcome move(unsigned n_threads, void *host, void *device, size_t n_bytes,
                                     bool is_to_device) {
    struct cushim_copy_ring_setup setup = setup_of(n_threads);
    struct cushim_copy_ring *ring = cushim_copy_ring_obtain(&setup);
    struct cushim_copy_box box = copy_fixture_line(host, device, n_bytes, is_to_device);
    CUcontext context;
    cuda.cuCtxPushCurrent_v2(copy_fixture_context());
    enum cushim_copy_outcome outcome = cushim_copy_ring_move(ring, &box);
    cuda.cuCtxPopCurrent_v2(&context);
    cushim_copy_ring_release(ring);
    return outcome;
}

static void *copy_by_turns(void *cookie) {
    uint64_t state = 1 + (uint64_t)(uintptr_t)cookie * 77777;
    unsigned char *host = malloc(6 * MIB), *device = malloc(6 * MIB);
    for (int i = 0; i < 12; i++) {
        size_t n_bytes = 1 + suite_random(&state) % (6 * MIB - 1);
        int value = 1 + i;
        bool is_to_device = suite_random(&state) % 2;
        memset(is_to_device ? host : device, value, n_bytes);
        ck_assert_int_eq(move(3, host, device, n_bytes, is_to_device), CUSHIM_COPY_DONE);
        ck_assert_int_eq(memcmp(host, device, n_bytes), 0);
        ck_assert_int_eq(host[n_bytes - 1], value);
    }
    free(host);
    free(device);
    return NULL;
}

TEST(many_threads_share_fewer_channels) {
    pthread_t threads[N_COPIERS];
    copy_fixture_reset(&cuda);
    for (uintptr_t i = 0; i < N_COPIERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, copy_by_turns, (void *)i), 0);
    for (int i = 0; i < N_COPIERS; i++)
        pthread_join(threads[i], NULL);
    cushim_copy_ring_leave(copy_fixture_context());
    ck_assert_uint_eq(copy_fixture_n_out(), 0);
    ck_assert_uint_eq(copy_fixture_n_faults(), 0);
}

/* Counts threads by this name, because a sanitizer may have its own threads. */
static unsigned n_helpers(void) {
    unsigned n = 0;
    char name[300];
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *task; (task = readdir(tasks));) {
        snprintf(name, sizeof name, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(name, "r");
        if (file && fgets(name, sizeof name, file))
            n += !strcmp(name, "cushim-copy\n");
        if (file)
            fclose(file);
    }
    closedir(tasks);
    return n;
}

TEST(helpers_start_with_a_copy_and_end_with_the_context) {
    static char host[4 * MIB], device[4 * MIB];
    copy_fixture_reset(&cuda);
    ck_assert_int_eq(move(0, host, device, sizeof host, true), CUSHIM_COPY_DONE);
    ck_assert_uint_eq(n_helpers(), 0);
    cushim_copy_ring_leave(copy_fixture_context());
    ck_assert_int_eq(move(2, host, device, 1, true), CUSHIM_COPY_DONE);
    ck_assert_uint_eq(n_helpers(), 0); /* one piece needs no help */
    ck_assert_int_eq(move(2, host, device, sizeof host, true), CUSHIM_COPY_DONE);
    ck_assert_uint_gt(n_helpers(), 0);
    cushim_copy_ring_leave(copy_fixture_context());
    while (n_helpers()) /* a thread that ended is listed for a moment longer */
        usleep(100);
}

TEST(a_refused_call_leaves_nothing_behind) {
    static char host[2 * MIB], device[2 * MIB];
    for (unsigned n = 1;; n++) {
        copy_fixture_reset(&cuda);
        memset(host, (int)n, sizeof host);
        copy_fixture_fail_at(n);
        enum cushim_copy_outcome outcome = move(0, host, device, sizeof host, true);
        bool has_failed = copy_fixture_has_failed();
        copy_fixture_fail_at(0);
        if (outcome == CUSHIM_COPY_DONE)
            ck_assert_int_eq(memcmp(host, device, sizeof host), 0);
        else
            ck_assert(has_failed);
        cushim_copy_ring_leave(copy_fixture_context());
        ck_assert_uint_eq(copy_fixture_n_out(), 0);
        ck_assert_uint_eq(copy_fixture_n_faults(), 0);
        if (!has_failed)
            break;
    }
}

TEST(unused_channels_can_be_released_and_created_again) {
    static char host[2 * MIB], device[2 * MIB];
    copy_fixture_reset(&cuda);
    ck_assert_uint_eq(cushim_copy_rings_give_back(), 0);
    ck_assert_int_eq(move(1, host, device, sizeof host, true), CUSHIM_COPY_DONE);
    ck_assert_uint_eq(cushim_copy_rings_give_back(), 4 * MIB);
    ck_assert_uint_eq(copy_fixture_n_out(), 0);
    memset(host, 9, sizeof host);
    ck_assert_int_eq(move(1, host, device, sizeof host, true), CUSHIM_COPY_DONE);
    ck_assert_int_eq(memcmp(host, device, sizeof host), 0);
    cushim_copy_rings_forget(); /* the driver is gone: it gets no call */
    ck_assert_uint_ne(copy_fixture_n_out(), 0);
}

static atomic_int is_seen;

static void on_signal(int signal) {
    (void)signal;
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    atomic_store(&is_seen, strcmp(name, "cushim-copy") ? 1 : 2);
}

TEST(helpers_take_no_signal_of_the_process) {
    static char host[4 * MIB], device[4 * MIB];
    sigset_t one, before;
    copy_fixture_reset(&cuda);
    signal(SIGUSR1, on_signal);
    ck_assert_int_eq(move(3, host, device, sizeof host, true), CUSHIM_COPY_DONE);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &one, &before); /* only a helper could take it now */
    kill(getpid(), SIGUSR1);
    ck_assert_int_eq(move(3, host, device, sizeof host, true), CUSHIM_COPY_DONE);
    ck_assert_int_eq(atomic_load(&is_seen), 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    ck_assert_int_eq(atomic_load(&is_seen), 1);
    cushim_copy_ring_leave(copy_fixture_context());
}

TEST(there_are_never_more_helpers_than_channels) {
    static char host[4 * MIB], device[4 * MIB];
    copy_fixture_reset(&cuda);
    memset(host, 3, sizeof host);
    ck_assert_int_eq(move(2 * CUSHIM_COPY_MAX_CHANNELS, host, device, sizeof host, true),
                     CUSHIM_COPY_DONE);
    ck_assert_int_eq(memcmp(host, device, sizeof host), 0);
    ck_assert_uint_eq(copy_fixture_n_out(), 1 + 3 * CUSHIM_COPY_MAX_CHANNELS);
    cushim_copy_ring_leave(copy_fixture_context());
    ck_assert_uint_eq(copy_fixture_n_out(), 0);
}

/* Another device, whose transfers end when the gate opens. */
static struct cushim_cuda slow;
static char slow_context;
static sem_t has_begun, gate;

static CUresult slow_event_synchronize(CUevent event) {
    sem_post(&has_begun);
    while (sem_wait(&gate) != 0) {
    }
    sem_post(&gate);
    return cuda.cuEventSynchronize(event);
}

static CUresult slow_get_current(CUcontext *context) {
    *context = (CUcontext)(void *)&slow_context;
    return CUDA_SUCCESS;
}

static void *copy_slowly(void *cookie) {
    static char host[MIB], device[MIB];
    struct cushim_copy_ring_setup setup = {&slow, (CUcontext)(void *)&slow_context, MIB, 0};
    struct cushim_copy_ring *ring = cushim_copy_ring_obtain(&setup);
    struct cushim_copy_box box = {.host = {(uint64_t)(uintptr_t)host, MIB, MIB},
                                  .device = {(uint64_t)(uintptr_t)device, MIB, MIB},
                                  .width_bytes = MIB,
                                  .height = 1,
                                  .depth = 1,
                                  .is_to_device = true};
    *(enum cushim_copy_outcome *)cookie = cushim_copy_ring_move(ring, &box);
    cushim_copy_ring_release(ring);
    return NULL;
}

TEST(a_copy_does_not_wait_for_another_context) {
    static char host[4 * MIB], device[4 * MIB];
    enum cushim_copy_outcome outcome = CUSHIM_COPY_NO_RING;
    pthread_t thread;
    copy_fixture_reset(&cuda);
    slow = cuda;
    slow.cuEventSynchronize = slow_event_synchronize;
    slow.cuCtxGetCurrent = slow_get_current;
    sem_init(&has_begun, 0, 0);
    sem_init(&gate, 0, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, copy_slowly, &outcome), 0);
    sem_wait(&has_begun);
    ck_assert_int_eq(move(1, host, device, sizeof host, true), CUSHIM_COPY_DONE);
    /* and the other context keeps its helpers */
    ck_assert_uint_eq(cushim_copy_rings_give_back(), 4 * MIB);
    cushim_copy_ring_leave(copy_fixture_context());
    sem_post(&gate);
    pthread_join(thread, NULL);
    ck_assert_int_eq(outcome, CUSHIM_COPY_DONE);
    cushim_copy_ring_leave((CUcontext)(void *)&slow_context);
    ck_assert_uint_eq(copy_fixture_n_out(), 0);
}

/* All threads share one channel; the target of a piece shows which thread moves it. */
enum { N_IN_LINE = 4, PIECE = 512 << 10, N_PIECES = 4, N_LOGGED = N_PIECES * N_IN_LINE };

static struct in_line {
    pthread_t thread;
    enum cushim_copy_outcome outcome;
    char host[N_PIECES * PIECE], device[N_PIECES * PIECE];
} line[N_IN_LINE];
static int logged[N_LOGGED];
static sem_t is_in_line;
static atomic_int n_logged;

static int (*wait_of_libc)(pthread_cond_t *, pthread_mutex_t *);

static void find_wait(void) {
    void *symbol = dlsym(RTLD_NEXT, "pthread_cond_wait");
    memcpy(&wait_of_libc, &symbol, sizeof symbol);
}

/*
 * Replaces libc's function: a thread that is about to wait has its place in the line and holds the
 * ring's lock, which only the wait releases.
 */
int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock) {
    static pthread_once_t is_found = PTHREAD_ONCE_INIT;
    pthread_once(&is_found, find_wait);
    sem_post(&is_in_line);
    return wait_of_libc(condition, lock);
}

static void *copy_in_line(void *cookie) {
    struct in_line *self = cookie;
    struct cushim_copy_ring_setup setup = {&cuda, copy_fixture_context(), 2 * PIECE, 0};
    struct cushim_copy_ring *ring = cushim_copy_ring_obtain(&setup);
    struct cushim_copy_box box =
        copy_fixture_line(self->host, self->device, sizeof self->host, true);
    memset(self->host, 1 + (int)(self - line), sizeof self->host);
    self->outcome = cushim_copy_ring_move(ring, &box);
    cushim_copy_ring_release(ring);
    return NULL;
}

static __typeof__(&cuMemcpyHtoDAsync_v2) copy_up_at_once;

/* The other threads join the line one by one while the first piece of the first thread moves. */
static CUresult copy_up_logged(CUdeviceptr to, const void *from, size_t n_bytes, CUstream stream) {
    int at = atomic_fetch_add(&n_logged, 1);
    ck_assert_int_lt(at, N_LOGGED);
    for (int i = 0; i < N_IN_LINE; i++) {
        if (to >= (uint64_t)(uintptr_t)line[i].device &&
            to < (uint64_t)(uintptr_t)line[i].device + sizeof line[i].device)
            logged[at] = i;
    }
    for (int i = 1; at == 0 && i < N_IN_LINE; i++) {
        ck_assert_int_eq(pthread_create(&line[i].thread, NULL, copy_in_line, &line[i]), 0);
        sem_wait(&is_in_line);
    }
    return copy_up_at_once(to, from, n_bytes, stream);
}

TEST(waiting_threads_get_the_channel_in_turn_for_one_piece_each) {
    copy_fixture_reset(&cuda);
    copy_up_at_once = cuda.cuMemcpyHtoDAsync_v2;
    sem_init(&is_in_line, 0, 0);
    cuda.cuMemcpyHtoDAsync_v2 = copy_up_logged;
    ck_assert_int_eq(pthread_create(&line[0].thread, NULL, copy_in_line, &line[0]), 0);
    pthread_join(line[0].thread, NULL);
    for (int i = 1; i < N_IN_LINE; i++)
        pthread_join(line[i].thread, NULL);
    ck_assert_int_eq(atomic_load(&n_logged), N_LOGGED);
    for (int at = 0; at < N_LOGGED; at++)
        ck_assert_msg(logged[at] == at % N_IN_LINE, "piece %d is of thread %d", at, logged[at]);
    for (int i = 0; i < N_IN_LINE; i++) {
        ck_assert_int_eq(line[i].outcome, CUSHIM_COPY_DONE);
        ck_assert_int_eq(memcmp(line[i].host, line[i].device, sizeof line[i].host), 0);
    }
    cushim_copy_ring_leave(copy_fixture_context());
    ck_assert_uint_eq(copy_fixture_n_out(), 0);
}

/* ---- the node of a ring ---- */

/* ---- helpers between jobs ---- */

enum { FIRST_PIECES = 5, LATER_PIECES = 6 };

static struct shared {
    size_t n_pieces;
    pthread_t thread;
    sem_t gate;
    atomic_int n_inside; /* threads that are about to transfer one of its pieces */
    enum cushim_copy_outcome outcome;
    char host[LATER_PIECES * PIECE], device[LATER_PIECES * PIECE];
} shared[3];
static sem_t is_inside;

static void *copy_shared(void *cookie) {
    struct shared *self = cookie;
    struct cushim_copy_ring_setup setup = {&cuda, copy_fixture_context(), 10 * PIECE, 4};
    struct cushim_copy_ring *ring = cushim_copy_ring_obtain(&setup);
    struct cushim_copy_box box =
        copy_fixture_line(self->host, self->device, self->n_pieces * PIECE, true);
    CUcontext context;
    cuda.cuCtxPushCurrent_v2(copy_fixture_context());
    self->outcome = cushim_copy_ring_move(ring, &box);
    cuda.cuCtxPopCurrent_v2(&context);
    cushim_copy_ring_release(ring);
    return NULL;
}

static CUresult copy_up_gated(CUdeviceptr to, const void *from, size_t n_bytes, CUstream stream) {
    struct shared *one = shared;
    while (to < (uint64_t)(uintptr_t)one->device ||
           to >= (uint64_t)(uintptr_t)one->device + sizeof one->device)
        one++;
    atomic_fetch_add(&one->n_inside, 1);
    sem_post(&is_inside);
    sem_wait(&one->gate);
    return copy_up_at_once(to, from, n_bytes, stream);
}

/* All five channels serve the first copy; when it ends, two others wait and get one each. */
TEST(helpers_divide_themselves_among_copies) {
    copy_fixture_reset(&cuda);
    copy_up_at_once = cuda.cuMemcpyHtoDAsync_v2;
    cuda.cuMemcpyHtoDAsync_v2 = copy_up_gated;
    sem_init(&is_in_line, 0, 0);
    sem_init(&is_inside, 0, 0);
    for (int i = 0; i < 3; i++) {
        sem_init(&shared[i].gate, 0, 0);
        shared[i].n_pieces = i ? LATER_PIECES : FIRST_PIECES;
        memset(shared[i].host, 1 + i, sizeof shared[i].host);
        ck_assert_int_eq(pthread_create(&shared[i].thread, NULL, copy_shared, &shared[i]), 0);
        for (int n = 0; i == 0 && n < FIRST_PIECES; n++)
            sem_wait(&is_inside);
        if (i)
            sem_wait(&is_in_line);
    }
    for (int n = 0; n < FIRST_PIECES; n++)
        sem_post(&shared[0].gate);
    for (int n = 0; n < 5; n++)
        sem_wait(&is_inside);
    int n_one = atomic_load(&shared[1].n_inside), n_other = atomic_load(&shared[2].n_inside);
    for (int i = 1; i < 3; i++) {
        for (int n = 0; n < LATER_PIECES; n++)
            sem_post(&shared[i].gate);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(shared[i].thread, NULL);
        ck_assert_int_eq(shared[i].outcome, CUSHIM_COPY_DONE);
        ck_assert_int_eq(memcmp(shared[i].host, shared[i].device, shared[i].n_pieces * PIECE), 0);
    }
    ck_assert_msg(n_one >= 2 && n_other >= 2, "%d and %d", n_one, n_other);
    cushim_copy_ring_leave(copy_fixture_context());
    ck_assert_uint_eq(copy_fixture_n_out(), 0);
}

static struct {
    int node; /* of the device */
    CUresult answer;
    struct copy_fixture_kernel seen; /* when pinned memory was allocated */
} near;

static CUresult get_device(CUdevice *device) {
    *device = 3;
    return CUDA_SUCCESS;
}

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    if (attribute != CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID || device != 3)
        return CUDA_ERROR_INVALID_VALUE;
    *value = near.node;
    return near.answer;
}

static __typeof__(&cuMemHostAlloc) alloc_plainly;

static CUresult alloc_and_look(void **memory, size_t n_bytes, unsigned flags) {
    near.seen = copy_fixture_kernel;
    return alloc_plainly(memory, n_bytes, flags);
}

/* A copy creates a ring and restores the thread's policy. */
static void copy_near(int node, CUresult answer, bool is_out_of_memory) {
    static char host[MIB], device[MIB];
    memset(&copy_fixture_kernel, 0, sizeof copy_fixture_kernel);
    near.node = node;
    near.answer = answer;
    copy_fixture_reset(&cuda);
    alloc_plainly = cuda.cuMemHostAlloc;
    cuda.cuMemHostAlloc = alloc_and_look;
    cuda.cuCtxGetDevice = get_device;
    cuda.cuDeviceGetAttribute = get_attribute;
    copy_fixture_fail_at(is_out_of_memory);
    ck_assert_int_eq(move(0, host, device, MIB, true),
                     is_out_of_memory ? CUSHIM_COPY_NO_RING : CUSHIM_COPY_DONE);
    ck_assert_int_eq(copy_fixture_kernel.policy, 0);
    cushim_copy_ring_leave(copy_fixture_context());
}

TEST(a_ring_lies_on_the_node_of_its_device) {
    copy_near(5, CUDA_SUCCESS, false);
    ck_assert_int_eq(near.seen.policy, 1);
    ck_assert_uint_eq(near.seen.nodes[0], 1 << 5);
    copy_near(5, CUDA_SUCCESS, true);
    copy_near(-1, CUDA_SUCCESS, false); /* a driver that knows no node */
    ck_assert_int_eq(near.seen.policy, 0);
    copy_near(5, CUDA_ERROR_INVALID_VALUE, false);
    ck_assert_int_eq(near.seen.policy, 0);
}

SUITE() {
    return tests_run("copy/ring");
}
