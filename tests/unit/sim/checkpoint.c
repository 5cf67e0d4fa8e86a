/* Processes that are suspended and resumed: cuCheckpointProcess*. */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[64];

static void share(void) {
    snprintf(path, sizeof path, "/tmp/cushim-unit-checkpoint-%d", (int)getpid());
    ck_assert_int_eq(setenv("CUSHIM_SIM_SHARED", path, 1), 0);
    ck_assert_int_eq(setenv("CUSHIM_SIM_MEMORY", "64M", 1), 0);
}

/* A process that fills n MiB, and looks at them again when it is told to. */
struct other {
    pid_t pid;
    int to, from;
};

static void be_other(size_t n_bytes, int to, int from) {
    static unsigned char bytes[64 * MIB];
    CUcontext context;
    CUdeviceptr block = 0;
    char word = 0;
    CUresult result = cuInit(0);
    result = result ? result : cuDevicePrimaryCtxRetain(&context, 0);
    result = result ? result : cuCtxSetCurrent(context);
    result = result ? result : cuMemAlloc(&block, n_bytes);
    result = result ? result : cuMemsetD8(block, 77, n_bytes);
    while (write(from, &result, sizeof result) == sizeof result && read(to, &word, 1) == 1) {
        result = cuMemcpyDtoH(bytes, block, n_bytes);
        for (size_t i = 0; i < n_bytes && !result; i++)
            result = bytes[i] == 77 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
    }
    _exit(0);
}

static CUresult hear(const struct other *other) {
    CUresult result;
    ck_assert_int_eq(read(other->from, &result, sizeof result), sizeof result);
    return result;
}

static struct other start(unsigned n_mib) {
    int to[2], from[2];
    ck_assert(pipe(to) == 0 && pipe(from) == 0);
    struct other other = {fork(), to[1], from[0]};
    if (other.pid == 0)
        be_other((size_t)n_mib * MIB, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    ck_cuda(hear(&other));
    return other;
}

static void look(const struct other *other) {
    ck_assert_int_eq(write(other->to, "", 1), 1);
}

static void end(const struct other *other) {
    kill(other->pid, SIGKILL);
    ck_assert_int_eq(waitpid(other->pid, NULL, 0), other->pid);
}

static CUprocessState state_of(pid_t pid) {
    CUprocessState state = CU_PROCESS_STATE_FAILED;
    ck_cuda(cuCheckpointProcessGetState(pid, &state));
    return state;
}

static size_t free_bytes(void) {
    size_t n_free, n_total;
    ck_cuda(cuMemGetInfo(&n_free, &n_total));
    return n_free;
}

TEST(a_suspended_process_leaves_its_memory_to_others_and_has_it_again) {
    int tid = 0;
    share();
    struct other other = start(40);
    ck_assert(state_of(other.pid) == CU_PROCESS_STATE_RUNNING); /* without cuInit, too */
    fixture_context();
    ck_cuda(cuCheckpointProcessGetRestoreThreadId(other.pid, &tid));
    ck_assert(tid != 0 && tid != other.pid);
    ck_assert_uint_eq(free_bytes(), 24 * MIB);
    ck_cuda(cuCheckpointProcessLock(other.pid, NULL));
    ck_assert(state_of(other.pid) == CU_PROCESS_STATE_LOCKED);
    ck_assert_uint_eq(free_bytes(), 24 * MIB);
    ck_cuda(cuCheckpointProcessCheckpoint(other.pid, NULL));
    ck_assert(state_of(other.pid) == CU_PROCESS_STATE_CHECKPOINTED);
    ck_assert_uint_eq(free_bytes(), 64 * MIB);
    struct sim_process processes[4];
    ck_assert_uint_eq(sim_device_processes(0, processes, 4), 1); /* this one */
    CUdeviceptr mine = fixture_alloc(50 * MIB);
    look(&other); /* it waits */
    ck_cuda_is(cuCheckpointProcessRestore(other.pid, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert(state_of(other.pid) == CU_PROCESS_STATE_CHECKPOINTED);
    ck_assert_uint_eq(free_bytes(), 14 * MIB);
    ck_cuda(cuMemFree(mine));
    ck_cuda(cuCheckpointProcessRestore(other.pid, NULL));
    ck_assert(state_of(other.pid) == CU_PROCESS_STATE_LOCKED);
    ck_assert_uint_eq(free_bytes(), 24 * MIB);
    ck_cuda(cuCheckpointProcessUnlock(other.pid, NULL));
    ck_cuda(hear(&other));
    end(&other);
    ck_assert_uint_eq(free_bytes(), 64 * MIB);
    ck_assert_int_eq(unlink(path), 0);
}

/* A thread in a call; the fixture's own would ask for the context, which waits, too. */
struct caller {
    pthread_t thread;
    CUresult (*call)(void);
    atomic_bool is_done;
    CUresult result;
};

static void *call(void *own) {
    struct caller *caller = own;
    caller->result = caller->call();
    atomic_store(&caller->is_done, true);
    return NULL;
}

static void begin(struct caller *caller, CUresult (*what)(void)) {
    *caller = (struct caller){.call = what};
    ck_assert_int_eq(pthread_create(&caller->thread, NULL, call, caller), 0);
}

static bool is_waiting(const struct caller *caller) {
    for (int i = 0; i < 50 && !atomic_load(&caller->is_done); i++)
        usleep(1000);
    return !atomic_load(&caller->is_done);
}

static CUresult finish(struct caller *caller) {
    ck_assert_int_eq(pthread_join(caller->thread, NULL), 0);
    return caller->result;
}

static CUresult ask_device(void) {
    int n;
    return cuDeviceGetCount(&n);
}

TEST(the_calls_of_a_locked_process_wait_also_if_it_locked_itself) {
    struct caller caller;
    share();
    fixture_context();
    ck_cuda(cuCheckpointProcessLock(getpid(), NULL));
    begin(&caller, ask_device);
    ck_assert(is_waiting(&caller));
    ck_cuda(cuCheckpointProcessCheckpoint(getpid(), NULL));
    ck_cuda(cuCheckpointProcessRestore(getpid(), NULL));
    ck_assert(is_waiting(&caller));
    ck_cuda(cuCheckpointProcessUnlock(getpid(), NULL));
    ck_cuda(finish(&caller));
    ck_assert_int_eq(unlink(path), 0);
}

TEST(a_lock_waits_for_submitted_work_as_long_as_it_may) {
    static atomic_int flag;
    CUcheckpointLockArgs args = {.timeoutMs = 20};
    share();
    fixture_context();
    fixture_spin(fixture_stream(CU_STREAM_NON_BLOCKING), &flag);
    ck_cuda_is(cuCheckpointProcessLock(getpid(), &args), CUDA_ERROR_NOT_READY);
    ck_assert(state_of(getpid()) == CU_PROCESS_STATE_RUNNING);
    fixture_alloc(MIB); /* its calls go on */
    atomic_store(&flag, 1);
    ck_cuda(cuCheckpointProcessLock(getpid(), NULL));
    ck_cuda(cuCheckpointProcessUnlock(getpid(), NULL));
    ck_assert_int_eq(unlink(path), 0);
}

TEST(managed_and_shared_memory_cannot_be_suspended_and_the_process_goes_on) {
    CUdeviceptr block;
    CUipcMemHandle handle;
    share();
    fixture_context();
    ck_cuda(cuMemAllocManaged(&block, MIB, CU_MEM_ATTACH_GLOBAL));
    ck_cuda(cuCheckpointProcessLock(getpid(), NULL));
    ck_cuda_is(cuCheckpointProcessCheckpoint(getpid(), NULL), CUDA_ERROR_NOT_SUPPORTED);
    ck_assert(state_of(getpid()) == CU_PROCESS_STATE_LOCKED);
    ck_cuda(cuCheckpointProcessUnlock(getpid(), NULL));
    ck_cuda(cuMemFree(block));
    ck_cuda(cuIpcGetMemHandle(&handle, fixture_alloc(2 * MIB)));
    ck_cuda(cuCheckpointProcessLock(getpid(), NULL));
    ck_cuda_is(cuCheckpointProcessCheckpoint(getpid(), NULL), CUDA_ERROR_NOT_SUPPORTED);
    ck_cuda(cuCheckpointProcessUnlock(getpid(), NULL));
    ck_assert_int_eq(unlink(path), 0);
}

TEST(a_damaged_context_fails_and_its_calls_say_so) {
    size_t n_free, n_total;
    share();
    fixture_context();
    sim_fault(CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_cuda(cuCheckpointProcessLock(getpid(), NULL));
    ck_cuda_is(cuCheckpointProcessCheckpoint(getpid(), NULL), CUDA_ERROR_UNKNOWN);
    ck_assert(state_of(getpid()) == CU_PROCESS_STATE_FAILED);
    ck_cuda_is(cuCheckpointProcessUnlock(getpid(), NULL), CUDA_ERROR_ILLEGAL_STATE);
    ck_cuda_is(cuMemGetInfo(&n_free, &n_total), CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(unlink(path), 0);
}

TEST(wrong_states_and_processes_are_refused) {
    CUcheckpointGpuPair pair = {0};
    CUcheckpointRestoreArgs args = {.gpuPairs = &pair, .gpuPairsCount = 1};
    CUprocessState state;
    pid_t pid = getpid(), none = fork();
    if (none == 0)
        _exit(0);
    ck_assert_int_eq(waitpid(none, NULL, 0), none);
    share();
    ck_cuda_is(cuCheckpointProcessGetState(pid, &state), CUDA_ERROR_NOT_INITIALIZED);
    fixture_context();
    ck_cuda_is(cuCheckpointProcessGetState(none, &state), CUDA_ERROR_OPERATING_SYSTEM);
    ck_cuda_is(cuCheckpointProcessLock(0, NULL), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuCheckpointProcessGetState(pid, NULL), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuCheckpointProcessUnlock(pid, NULL), CUDA_ERROR_ILLEGAL_STATE);
    ck_cuda_is(cuCheckpointProcessCheckpoint(pid, NULL), CUDA_ERROR_ILLEGAL_STATE);
    ck_cuda_is(cuCheckpointProcessRestore(pid, NULL), CUDA_ERROR_ILLEGAL_STATE);
    ck_cuda_is(cuCheckpointProcessRestore(pid, &args), CUDA_ERROR_NOT_SUPPORTED);
    ck_cuda(cuCheckpointProcessLock(pid, NULL));
    ck_cuda_is(cuCheckpointProcessLock(pid, NULL), CUDA_ERROR_ILLEGAL_STATE);
    ck_cuda(cuCheckpointProcessUnlock(pid, NULL));
    ck_assert_int_eq(unlink(path), 0);
}

static pid_t locked;

static CUresult lock_it(void) {
    return cuCheckpointProcessLock(locked, NULL);
}

TEST(a_request_survives_the_process_that_asked_and_ends_with_the_one_asked) {
    static atomic_int flag;
    share();
    struct other other = start(4);
    fixture_context();
    fixture_spin(fixture_stream(CU_STREAM_NON_BLOCKING), &flag);
    pid_t pid = getpid(), asker = fork();
    if (asker == 0)
        _exit(cuCheckpointProcessLock(pid, NULL) != CUDA_SUCCESS);
    struct caller caller;
    do { /* until it has asked, so that calls wait */
        begin(&caller, ask_device);
    } while (!is_waiting(&caller) && !finish(&caller));
    kill(asker, SIGKILL);
    ck_assert_int_eq(waitpid(asker, NULL, 0), asker);
    atomic_store(&flag, 1);
    ck_assert(state_of(pid) == CU_PROCESS_STATE_LOCKED);
    ck_cuda(cuCheckpointProcessUnlock(pid, NULL));
    ck_cuda(finish(&caller));

    locked = other.pid;
    kill(other.pid, SIGSTOP);
    begin(&caller, lock_it);
    ck_assert(is_waiting(&caller));
    end(&other);
    ck_cuda_is(finish(&caller), CUDA_ERROR_OPERATING_SYSTEM);
    ck_assert_int_eq(unlink(path), 0);
}

SUITE() {
    return tests_run("checkpoint");
}
