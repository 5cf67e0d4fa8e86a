/*
 * Several processes on one device: events and memory that one exports to the others.  A child is
 * forked before CUDA is used, and the processes synchronise through pipes.
 */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct shown {
    CUipcEventHandle event;
    CUipcMemHandle memory;
};

static int to_child[2], to_parent[2];

static void say(int to, const void *bytes, size_t n) {
    ck_assert_int_eq(write(to, bytes, n), (ssize_t)n);
}

static void hear(int from, void *bytes, size_t n) {
    ck_assert_int_eq(read(from, bytes, n), (ssize_t)n);
}

static void hear_word(int from) {
    char word;
    hear(from, &word, 1);
}

/* The body of a child; returns 0 on success, otherwise a line of this file. */
#define WELL(condition)                                                                            \
    if (!(condition))                                                                              \
    return __LINE__ % 251 + 1

static pid_t start(int (*body)(void)) {
    ck_assert(pipe(to_child) == 0 && pipe(to_parent) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(to_child[1]); /* so that the child notices the parent's end */
        _exit(body());
    }
    close(to_child[0]); /* and the parent notices the child's */
    close(to_parent[1]);
    return pid;
}

static void check_end(pid_t pid) {
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: line %d",
                  WEXITSTATUS(status) - 1);
}

static CUevent shared_event(void) {
    CUevent event;
    ck_cuda(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    return event;
}

static CUresult open_memory(CUdeviceptr *address, CUipcMemHandle handle) {
    return cuIpcOpenMemHandle(address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

/* ---- recorded in the parent, waited for in the child ---- */

static int wait_for_the_parent(void) {
    struct shown shown = {0};
    CUevent event;
    CUdeviceptr memory;
    hear(to_child[0], &shown, sizeof shown);
    fixture_context();
    CUdeviceptr copy = fixture_alloc(sizeof(int));
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    WELL(cuIpcOpenEventHandle(&event, shown.event) == CUDA_SUCCESS);
    WELL(open_memory(&memory, shown.memory) == CUDA_SUCCESS);
    WELL(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
    WELL(cuStreamWaitEvent(stream, event, 0) == CUDA_SUCCESS);
    WELL(cuMemcpyDtoDAsync(copy, memory, sizeof(int), stream) == CUDA_SUCCESS);
    WELL(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    WELL(write(to_parent[1], "", 1) == 1);
    WELL(cuEventSynchronize(event) == CUDA_SUCCESS);
    WELL(cuEventQuery(event) == CUDA_SUCCESS);
    WELL(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    WELL(*(int *)(uintptr_t)copy == 77);
    WELL(cuEventDestroy(event) == CUDA_SUCCESS && cuIpcCloseMemHandle(memory) == CUDA_SUCCESS);
    return 0;
}

TEST(a_stream_waits_for_the_record_of_another_process) {
    struct shown shown = {0};
    pid_t pid = start(wait_for_the_parent);
    fixture_context();
    CUevent event = shared_event();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr memory = fixture_alloc(4096);
    ck_cuda(cuMemsetD32(memory, 1, 1));
    ck_cuda(cuCtxSynchronize());
    ck_cuda(cuIpcGetMemHandle(&shown.memory, memory));
    ck_cuda(cuIpcGetEventHandle(&shown.event, event));
    sim_hold();
    fixture_store(stream, (int *)(uintptr_t)memory, 77);
    ck_cuda(cuEventRecord(event, stream));
    say(to_child[1], &shown, sizeof shown);
    hear_word(to_parent[0]);
    sim_release_hold();
    check_end(pid);
    ck_cuda(cuEventSynchronize(event));
}

/* ---- recorded in the child, waited for in the parent ---- */

static int record_for_the_parent(void) {
    struct shown shown = {0};
    CUevent event;
    char word;
    hear(to_child[0], &shown, sizeof shown);
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    WELL(cuIpcOpenEventHandle(&event, shown.event) == CUDA_SUCCESS);
    sim_hold();
    WELL(cuEventRecord(event, stream) == CUDA_SUCCESS);
    WELL(write(to_parent[1], "", 1) == 1);
    WELL(read(to_child[0], &word, 1) == 1);
    sim_release_hold();
    WELL(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    WELL(read(to_child[0], &word, 1) == 1); /* the child lives until the parent has seen it */
    return 0;
}

TEST(the_creator_waits_for_a_record_of_the_opener) {
    struct shown shown = {0};
    int target = 0;
    pid_t pid = start(record_for_the_parent);
    fixture_context();
    CUevent event = shared_event();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuEventRecord(event, stream)); /* an older record, which is done */
    ck_cuda(cuEventSynchronize(event));
    ck_cuda(cuIpcGetEventHandle(&shown.event, event));
    say(to_child[1], &shown, sizeof shown);
    hear_word(to_parent[0]);
    ck_cuda_is(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    ck_cuda(cuStreamWaitEvent(stream, event, 0));
    fixture_store(stream, &target, 5);
    ck_cuda_is(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    say(to_child[1], "", 1);
    ck_cuda(cuStreamSynchronize(stream));
    ck_assert_int_eq(target, 5);
    ck_cuda(cuEventSynchronize(event));
    say(to_child[1], "", 1);
    check_end(pid);
}

/* ---- a process that ends ---- */

static int record_and_hang(void) {
    struct shown shown = {0};
    fixture_context();
    CUevent event = shared_event();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    WELL(cuIpcGetMemHandle(&shown.memory, fixture_alloc(100)) == CUDA_SUCCESS);
    WELL(cuIpcGetEventHandle(&shown.event, event) == CUDA_SUCCESS);
    sim_hold();
    WELL(cuEventRecord(event, stream) == CUDA_SUCCESS);
    WELL(write(to_parent[1], &shown, sizeof shown) == sizeof shown);
    pause();
    return 1;
}

TEST(a_wait_for_a_killed_process_ends) {
    struct shown shown = {0};
    CUevent event, again;
    CUdeviceptr memory, other;
    pid_t pid = start(record_and_hang);
    hear(to_parent[0], &shown, sizeof shown);
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuIpcOpenEventHandle(&event, shown.event));
    ck_cuda(open_memory(&memory, shown.memory));
    ck_cuda(cuStreamWaitEvent(stream, event, 0));
    ck_cuda_is(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_cuda(cuStreamSynchronize(stream));
    ck_cuda(cuEventSynchronize(event));
    ck_cuda(cuMemsetD8(memory, 3, 100)); /* open memory stays */
    ck_cuda(cuCtxSynchronize());         /* a close waits for nothing */
    ck_cuda_is(cuIpcOpenEventHandle(&again, shown.event), CUDA_ERROR_MAP_FAILED);
    ck_cuda(cuIpcCloseMemHandle(memory));
    ck_cuda_is(open_memory(&other, shown.memory), CUDA_ERROR_INVALID_VALUE);
}

static int hold_until_killed(void) {
    struct shown shown = {0};
    CUdeviceptr memory;
    char byte = 0;
    hear(to_child[0], &shown, sizeof shown);
    fixture_context();
    WELL(open_memory(&memory, shown.memory) == CUDA_SUCCESS);
    WELL(write(to_parent[1], "", 1) == 1);
    WELL(read(to_child[0], &byte, 1) == 1); /* the block is freed, and other memory is written */
    WELL(cuMemcpyDtoH(&byte, memory, 1) == CUDA_SUCCESS);
    WELL(byte == 5);
    WELL(write(to_parent[1], "", 1) == 1);
    pause();
    return 1;
}

static void free_what_is_open(size_t n_bytes) {
    struct shown shown = {0};
    pid_t pid = start(hold_until_killed);
    fixture_context();
    size_t before_bytes = sim_live_bytes();
    CUdeviceptr memory = fixture_alloc(n_bytes);
    ck_cuda(cuMemsetD8(memory, 5, n_bytes));
    ck_cuda(cuCtxSynchronize());
    ck_cuda(cuIpcGetMemHandle(&shown.memory, memory));
    say(to_child[1], &shown, sizeof shown);
    hear_word(to_parent[0]);
    ck_cuda(cuMemFree(memory));
    ck_cuda_is(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuMemsetD8(memory, 6, 1), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(sim_live_bytes(), before_bytes);
    CUdeviceptr other = fixture_alloc(n_bytes);
    ck_assert_uint_ne(other, memory);
    ck_cuda(cuMemsetD8(other, 6, n_bytes));
    ck_cuda(cuCtxSynchronize());
    say(to_child[1], "", 1);
    hear_word(to_parent[0]);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_uint_eq(fixture_alloc(n_bytes), memory);
}

TEST(a_small_block_that_is_open_stays_until_its_opener_is_gone) {
    free_what_is_open(1000);
}

TEST(a_large_block_that_is_open_stays_until_its_opener_is_gone) {
    free_what_is_open(1 << 22);
}

/* ---- handles of dead objects ---- */

static int open_in_vain(void) {
    struct shown shown = {0};
    CUevent event;
    CUdeviceptr memory;
    hear(to_child[0], &shown, sizeof shown);
    fixture_context();
    for (;;) {
        WELL(cuIpcOpenEventHandle(&event, shown.event) == CUDA_ERROR_MAP_FAILED);
        WELL(open_memory(&memory, shown.memory) == CUDA_ERROR_INVALID_VALUE);
        WELL(write(to_parent[1], "", 1) == 1);
        if (read(to_child[0], &shown, sizeof shown) != sizeof shown)
            return 0;
    }
}

TEST(a_handle_does_not_open_a_later_object) {
    struct shown shown = {0}, newer = {0};
    pid_t pid = start(open_in_vain);
    fixture_context();
    CUevent event = shared_event();
    CUdeviceptr memory = fixture_alloc(1 << 22);
    ck_cuda(cuIpcGetEventHandle(&shown.event, event));
    ck_cuda(cuIpcGetMemHandle(&shown.memory, memory));
    ck_cuda(cuEventDestroy(event));
    ck_cuda(cuMemFree(memory));
    say(to_child[1], &shown, sizeof shown);
    hear_word(to_parent[0]);
    event = shared_event(); /* at the same addresses */
    ck_assert_uint_eq(fixture_alloc(1 << 22), memory);
    ck_cuda(cuIpcGetEventHandle(&newer.event, event));
    ck_cuda(cuIpcGetMemHandle(&newer.memory, memory));
    ck_assert_mem_ne(&newer, &shown, sizeof newer);
    say(to_child[1], &shown, sizeof shown);
    hear_word(to_parent[0]);
    for (int fd = 200; fd < 256; fd++) /* as daemons do */
        close(fd);
    say(to_child[1], &newer, sizeof newer);
    hear_word(to_parent[0]);
    ck_cuda_is(cuIpcGetEventHandle(&newer.event, event), CUDA_ERROR_MAP_FAILED);
    ck_cuda_is(cuIpcGetMemHandle(&newer.memory, memory), CUDA_ERROR_OPERATING_SYSTEM);
    ck_cuda(cuMemsetD8(memory, 1, 100));
    ck_cuda(cuEventRecord(event, NULL));
    ck_cuda(cuEventSynchronize(event));
    close(to_child[1]);
    check_end(pid);
}

/* A block that was exported, freed in stream order and is open nowhere stays until the stream
 * reaches the free. */
TEST(a_free_in_stream_order_waits_even_if_another_block_is_kept) {
    struct shown shown = {0};
    CUipcMemHandle unused;
    pid_t pid = start(hold_until_killed);
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr open = fixture_alloc(1 << 22), pending = fixture_alloc(1 << 22);
    ck_cuda(cuIpcGetMemHandle(&shown.memory, open));
    ck_cuda(cuIpcGetMemHandle(&unused, pending));
    say(to_child[1], &shown, sizeof shown);
    hear_word(to_parent[0]);
    ck_cuda(cuMemFree(open));
    sim_hold();
    ck_cuda(cuMemFreeAsync(pending, stream));
    ck_assert_uint_ne(fixture_alloc(1 << 22), pending);
    sim_release_hold();
    ck_cuda(cuStreamSynchronize(stream));
    ck_assert_uint_eq(fixture_alloc(1 << 22), pending);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

TEST(invalid_calls_are_refused) {
    CUipcEventHandle handle;
    CUevent event, plain, opened;
    fixture_context();
    ck_cuda_is(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    ck_cuda_is(cuIpcGetEventHandle(&handle, plain), CUDA_ERROR_INVALID_HANDLE);
    event = shared_event();
    ck_cuda_is(cuIpcGetEventHandle(NULL, event), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuIpcGetEventHandle(&handle, event));
    ck_cuda_is(cuIpcOpenEventHandle(&opened, handle), CUDA_ERROR_INVALID_CONTEXT);
    memset(&handle, 7, sizeof handle);
    ck_cuda_is(cuIpcOpenEventHandle(&opened, handle), CUDA_ERROR_INVALID_VALUE);
}

/* Each of many processes opens the memory of all others and reads the bytes of each. */
enum { N_PROCESSES = 8 };

struct message {
    int from, is_done; /* with all others, because a fast process may be done before a slow one
                          exports anything */
    CUipcMemHandle handle;
};

static int meet_all(int i, int in, const int *outs) {
    struct message own = {.from = i}, heard;
    CUipcMemHandle handles[N_PROCESSES];
    int n_shown = 0, n_done = 0;
    CUdeviceptr memory[N_PROCESSES];
    fixture_context();
    CUdeviceptr block = fixture_alloc(1000);
    WELL(cuMemsetD8(block, (unsigned char)(i + 1), 1000) == CUDA_SUCCESS);
    WELL(cuCtxSynchronize() == CUDA_SUCCESS);
    WELL(cuIpcGetMemHandle(&own.handle, block) == CUDA_SUCCESS);
    for (int k = 0; k < N_PROCESSES; k++)
        WELL(write(outs[k], &own, sizeof own) == sizeof own);
    while (n_shown < N_PROCESSES) {
        WELL(read(in, &heard, sizeof heard) == sizeof heard);
        handles[heard.from] = heard.handle;
        n_shown += !heard.is_done;
        n_done += heard.is_done;
    }
    for (int k = 0; k < N_PROCESSES; k++) {
        char byte = 0;
        if (k == i)
            continue;
        WELL(open_memory(&memory[k], handles[k]) == CUDA_SUCCESS);
        WELL(cuMemcpyDtoH(&byte, memory[k] + 999, 1) == CUDA_SUCCESS);
        WELL(byte == k + 1);
        WELL(cuMemcpyDtoH(&byte, memory[k] + 1000, 1) != CUDA_SUCCESS);
        WELL(cuIpcCloseMemHandle(memory[k]) == CUDA_SUCCESS);
    }
    own.is_done = 1; /* no process ends before all are done */
    for (int k = 0; k < N_PROCESSES; k++)
        WELL(write(outs[k], &own, sizeof own) == sizeof own);
    for (; n_done < N_PROCESSES; n_done++)
        WELL(read(in, &heard, sizeof heard) == sizeof heard);
    return 0;
}

TEST(each_of_many_processes_sees_the_bytes_of_all) {
    int ins[N_PROCESSES], outs[N_PROCESSES];
    pid_t pids[N_PROCESSES];
    for (int i = 0; i < N_PROCESSES; i++) {
        int ends[2];
        ck_assert_int_eq(pipe(ends), 0);
        ins[i] = ends[0];
        outs[i] = ends[1];
    }
    for (int i = 0; i < N_PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(meet_all(i, ins[i], outs));
    }
    for (int i = 0; i < N_PROCESSES; i++)
        check_end(pids[i]);
}

SUITE() {
    return tests_run("sim ipc");
}
