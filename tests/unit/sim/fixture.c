#include "fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

SIM_KERNEL(store, int *, int) {
    (void)launch;
    *SIM_ARG(int *, 0) = SIM_ARG(int, 1);
}

SIM_KERNEL(spin, atomic_int *) {
    launch->turn->again = atomic_load(SIM_ARG(atomic_int *, 0)) == 0;
}

SIM_KERNEL(fault) {
    (void)args;
    launch->turn->fault = CUDA_ERROR_ILLEGAL_ADDRESS;
}

SIM_KERNEL(count, int *) {
    (void)launch;
    ++*SIM_ARG(int *, 0);
}

CUcontext fixture_context(void) {
    CUcontext context;
    ck_cuda(cuInit(0));
    ck_cuda(cuDevicePrimaryCtxRetain(&context, 0));
    ck_cuda(cuCtxSetCurrent(context));
    return context;
}

CUstream fixture_stream(unsigned flags) {
    CUstream stream;
    ck_cuda(cuStreamCreate(&stream, flags));
    return stream;
}

CUdeviceptr fixture_alloc(size_t n_bytes) {
    CUdeviceptr address = 0;
    ck_cuda(cuMemAlloc(&address, n_bytes));
    return address;
}

CUfunction fixture_kernel(const char *name) {
    CUfunction function;
    ck_cuda(sim_function_by_name(&function, name));
    return function;
}

void fixture_store(CUstream stream, int *target, int value) {
    void *params[] = {&target, &value};
    ck_cuda(cuLaunchKernel(fixture_kernel("store"), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

void fixture_spin(CUstream stream, atomic_int *flag) {
    void *params[] = {&flag};
    ck_cuda(cuLaunchKernel(fixture_kernel("spin"), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

struct fixture_thread {
    pthread_t thread;
    CUresult (*call)(void *);
    void *argument;
    CUcontext context;
    CUresult result;
    atomic_bool is_done;
};

static void *run(void *self) {
    struct fixture_thread *thread = self;
    cuCtxSetCurrent(thread->context);
    thread->result = thread->call(thread->argument);
    atomic_store(&thread->is_done, true);
    return NULL;
}

struct fixture_thread *fixture_run(CUresult (*call)(void *), void *argument) {
    struct fixture_thread *thread = calloc(1, sizeof *thread);
    ck_assert_ptr_nonnull(thread);
    thread->call = call;
    thread->argument = argument;
    ck_cuda(cuCtxGetCurrent(&thread->context));
    ck_assert_int_eq(pthread_create(&thread->thread, NULL, run, thread), 0);
    return thread;
}

CUresult fixture_join(struct fixture_thread *thread) {
    pthread_join(thread->thread, NULL);
    CUresult result = thread->result;
    free(thread);
    return result;
}

bool fixture_is_waiting(struct fixture_thread *thread) {
    usleep(30000);
    return !atomic_load(&thread->is_done);
}
