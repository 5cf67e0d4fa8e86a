/* Processes that share one set of devices: CUSHIM_SIM_SHARED. */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[64];

static void share(void) {
    snprintf(path, sizeof path, "/tmp/cushim-unit-share-%d", (int)getpid());
    ck_assert_int_eq(setenv("CUSHIM_SIM_SHARED", path, 1), 0);
    ck_assert_int_eq(setenv("CUSHIM_SIM_MEMORY", "64M", 1), 0);
}

/* A process that allocates n MiB and ends on request. */
struct other {
    pid_t pid;
    int to, from;
};

static struct other start_with(unsigned n_mib, bool forks) {
    int to[2], from[2];
    ck_assert(pipe(to) == 0 && pipe(from) == 0);
    struct other other = {fork(), to[1], from[0]};
    if (other.pid == 0) {
        CUcontext context;
        CUdeviceptr block;
        char word = 0;
        close(to[1]);
        CUresult result = cuInit(0);
        result = result ? result : cuDevicePrimaryCtxRetain(&context, 0);
        result = result ? result : cuCtxSetCurrent(context);
        result = result ? result : n_mib ? cuMemAlloc(&block, (size_t)n_mib * MIB) : CUDA_SUCCESS;
        if (write(from[1], &result, sizeof result) != sizeof result)
            _exit(1);
        if (forks && fork() == 0) { /* it may query, but holds no memory */
            struct sim_device_look look;
            result = sim_device_look(0, &look) && look.used_bytes == (size_t)n_mib * MIB
                         ? CUDA_SUCCESS
                         : CUDA_ERROR_UNKNOWN;
            if (write(from[1], &result, sizeof result) != sizeof result)
                _exit(1);
        }
        _exit(read(to[0], &word, 1) < 0);
    }
    close(to[0]);
    close(from[1]);
    return other;
}

static struct other start(unsigned n_mib) {
    return start_with(n_mib, false);
}

static CUresult hear(const struct other *other) {
    CUresult result;
    ck_assert_int_eq(read(other->from, &result, sizeof result), sizeof result);
    return result;
}

static void end(const struct other *other, int how) {
    int status;
    if (how)
        kill(other->pid, how);
    close(other->to);
    ck_assert_int_eq(waitpid(other->pid, &status, 0), other->pid);
    ck_assert(how ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(other->from);
}

TEST(memory_is_shared_by_all_and_comes_back_when_a_process_ends) {
    size_t n_free, n_total;
    CUdeviceptr more;
    share();
    struct other one = start(20), other = start(10);
    ck_assert(hear(&one) == CUDA_SUCCESS && hear(&other) == CUDA_SUCCESS);
    fixture_context();
    fixture_alloc(10 * MIB);
    ck_cuda(cuMemGetInfo(&n_free, &n_total));
    ck_assert(n_total == 64 * MIB && n_free == 24 * MIB);
    ck_cuda_is(cuMemAlloc(&more, 26 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    ck_cuda(cuMemAlloc(&more, 24 * MIB));
    ck_cuda(cuMemFree(more));
    end(&one, SIGKILL);
    ck_cuda(cuMemAlloc(&more, 44 * MIB)); /* noticed when memory runs out */
    ck_cuda(cuMemFree(more));
    end(&other, 0);
    ck_cuda(cuMemGetInfo(&n_free, &n_total)); /* noticed by a query */
    ck_assert_uint_eq(n_free, 54 * MIB);
    ck_assert_int_eq(unlink(path), 0);
}

TEST(nvml_lists_processes_and_their_memory_even_without_a_context) {
    struct sim_device_look look;
    struct sim_process processes[4];
    share();
    struct other one = start(20), other = start(0);
    ck_assert(hear(&one) == CUDA_SUCCESS && hear(&other) == CUDA_SUCCESS);
    ck_assert_int_eq(sim_device_look(0, &look), 1);
    ck_assert(look.total_bytes == 64 * MIB && look.used_bytes == 20 * MIB);
    ck_assert_uint_eq(sim_device_processes(0, processes, 4), 2);
    for (int i = 0; i < 2; i++)
        ck_assert(processes[i].pid == one.pid
                      ? processes[i].used_bytes == 20 * MIB
                      : processes[i].pid == other.pid && processes[i].used_bytes == 0);
    ck_assert_uint_eq(sim_device_processes(1, processes, 4), 0);
    end(&one, SIGKILL);
    ck_assert_uint_eq(sim_device_processes(0, processes, 4), 1);
    ck_assert_int_eq(processes[0].pid, other.pid);
    end(&other, 0);
    ck_assert_uint_eq(sim_device_processes(0, processes, 4), 0);
    ck_assert_int_eq(unlink(path), 0);
}

TEST(a_child_of_a_fork_holds_nothing_of_its_parent) {
    struct sim_device_look look;
    share();
    struct other parent = start_with(20, true);
    ck_assert_int_eq(hear(&parent), CUDA_SUCCESS);
    ck_assert_int_eq(hear(&parent), CUDA_SUCCESS); /* the child, which runs until it is stopped */
    int to_child = dup(parent.to);
    end(&parent, SIGKILL);
    ck_assert_int_eq(sim_device_look(0, &look), 1);
    ck_assert_uint_eq(look.used_bytes, 0);
    close(to_child);
    ck_assert_int_eq(unlink(path), 0);
}

/* Allocates and frees at random; the total never exceeds the device. */
static int take_and_give(uint64_t seed) {
    CUcontext context;
    CUdeviceptr blocks[8] = {0};
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 1;
    for (unsigned i = 0; i < suite_steps(2000); i++) {
        CUdeviceptr *block = &blocks[suite_random(&seed) % 8];
        size_t n_bytes = (1 + suite_random(&seed) % 12) * 2 * MIB;
        bool is_free = *block != 0;
        CUresult result = is_free ? cuMemFree(*block) : cuMemAlloc(block, n_bytes);
        if (result != CUDA_SUCCESS && (is_free || result != CUDA_ERROR_OUT_OF_MEMORY))
            return 2;
        if (is_free || result != CUDA_SUCCESS)
            *block = 0;
    }
    return 0;
}

TEST(a_refused_request_loses_no_memory) {
    size_t n_free, n_total;
    enum { N = 6 };
    pid_t pids[N];
    share();
    for (int i = 0; i < N; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(take_and_give(77 + (uint64_t)i));
    }
    for (int i = 0; i < N; i++) {
        int status;
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %d: %d", i, status);
    }
    fixture_context();
    ck_cuda(cuMemGetInfo(&n_free, &n_total));
    ck_assert_uint_eq(n_free, n_total);
    ck_assert_int_eq(unlink(path), 0);
}

TEST(an_unrelated_file_is_left_alone) {
    struct stat status;
    share();
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    ck_assert_int_eq(write(fd, "mine", 4), 4);
    ck_cuda_is(cuInit(0), CUDA_ERROR_OPERATING_SYSTEM);
    ck_cuda_is(cuInit(0), CUDA_ERROR_OPERATING_SYSTEM);
    ck_assert(fstat(fd, &status) == 0 && status.st_size == 4);
    ck_assert_int_eq(unlink(path), 0);
}

TEST(a_missing_folder_is_reported) {
    ck_assert_int_eq(setenv("CUSHIM_SIM_SHARED", "/nowhere/at-all", 1), 0);
    ck_cuda_is(cuInit(0), CUDA_ERROR_OPERATING_SYSTEM);
    ck_assert_uint_eq(sim_used_bytes(0), 0);
}

SUITE() {
    return tests_run("share");
}
