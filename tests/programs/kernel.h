/*
 * Kernels for programs that nvcc compiles for a GPU and gcc for the software device.
 *
 *   KERNEL(scale, float *, data, float, factor, size_t, n) {
 *       if (i < n)
 *           data[i] *= factor;
 *   }
 *   ... LAUNCH(scale, n_blocks, n_threads, stream, data, 2.0f, n) == cudaSuccess
 *
 * A kernel has one dimension, and its body is written for one thread, number `i`. nvcc makes it a
 * __global__ function. The body is always a host function too, which a loop in sim_kernel_<name>
 * runs; programs of gcc register it with the runtime as nvcc's start-up code does. A kernel has up
 * to 6 parameters.
 */
#pragma once

#include <cuda_runtime_api.h>
#include <stddef.h>

#include "tools/sim/sim.h"

#ifdef __CUDACC__
#define KERNEL_BODY static __host__ __device__
#define KERNEL_C    extern "C"
#else
#define KERNEL_BODY KERNEL_UNWATCHED static
#define KERNEL_C
#endif

/* The software device runs all kernels in one thread under its lock, so TSan finds nothing there
 * and would need twice the time. */
#ifdef __SANITIZE_THREAD__
#define KERNEL_UNWATCHED __attribute__((no_sanitize("thread")))
#else
#define KERNEL_UNWATCHED
#endif

/* Count one more, from any thread of a kernel. */
#ifdef __CUDA_ARCH__
#define COUNT(address) atomicAdd((address), 1u)
#else
#define COUNT(address) (++*(address))
#endif

#define LAUNCH(name, ...)    name##_launch(__VA_ARGS__)
#define BLOCKS(n, n_threads) ((unsigned)(((n) + (n_threads)-1) / (n_threads)))

#define KERNEL(...)                                                   KERNEL_PICK(__VA_ARGS__, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0)(__VA_ARGS__)
#define KERNEL_PICK(name, a, b, c, d, e, f, g, h, i, j, k, l, n, ...) KERNEL_PASTE(KERNEL_, n)
#define KERNEL_PASTE(a, b)                                            KERNEL_PASTED(a, b)
#define KERNEL_PASTED(a, b)                                           a##b

/* parameters as declared; their names; their types; the arguments of a launch of the software
 * device */
#define KERNEL_1(name, ta, a) KERNEL_MAKE(name, (ta a), (a), (ta), (KERNEL_ARG(ta, 0)), (&a))
#define KERNEL_2(name, ta, a, tb, b)                                                               \
    KERNEL_MAKE(name, (ta a, tb b), (a, b), (ta, tb), (KERNEL_ARG(ta, 0), KERNEL_ARG(tb, 1)),      \
                (&a, &b))
#define KERNEL_3(name, ta, a, tb, b, tc, c)                                                        \
    KERNEL_MAKE(name, (ta a, tb b, tc c), (a, b, c), (ta, tb, tc),                                 \
                (KERNEL_ARG(ta, 0), KERNEL_ARG(tb, 1), KERNEL_ARG(tc, 2)), (&a, &b, &c))
#define KERNEL_4(name, ta, a, tb, b, tc, c, td, d)                                                 \
    KERNEL_MAKE(name, (ta a, tb b, tc c, td d), (a, b, c, d), (ta, tb, tc, td),                    \
                (KERNEL_ARG(ta, 0), KERNEL_ARG(tb, 1), KERNEL_ARG(tc, 2), KERNEL_ARG(td, 3)),      \
                (&a, &b, &c, &d))
#define KERNEL_5(name, ta, a, tb, b, tc, c, td, d, te, e)                                          \
    KERNEL_MAKE(name, (ta a, tb b, tc c, td d, te e), (a, b, c, d, e), (ta, tb, tc, td, te),       \
                (KERNEL_ARG(ta, 0), KERNEL_ARG(tb, 1), KERNEL_ARG(tc, 2), KERNEL_ARG(td, 3),       \
                 KERNEL_ARG(te, 4)),                                                               \
                (&a, &b, &c, &d, &e))
#define KERNEL_6(name, ta, a, tb, b, tc, c, td, d, te, e, tf, f)                                   \
    KERNEL_MAKE(name, (ta a, tb b, tc c, td d, te e, tf f), (a, b, c, d, e, f),                    \
                (ta, tb, tc, td, te, tf),                                                          \
                (KERNEL_ARG(ta, 0), KERNEL_ARG(tb, 1), KERNEL_ARG(tc, 2), KERNEL_ARG(td, 3),       \
                 KERNEL_ARG(te, 4), KERNEL_ARG(tf, 5)),                                            \
                (&a, &b, &c, &d, &e, &f))

#define KERNEL_ARG(type, i) *(type *)args[i]
#define KERNEL_LIST(...)    __VA_ARGS__

/* The per-thread function comes last, because the braces after KERNEL(...) are its body. */
#define KERNEL_MAKE(name, params, names, types, args_of_sim, addresses)                            \
    KERNEL_BODY void name##_thread(size_t i, KERNEL_LIST params);                                  \
    KERNEL_UNWATCHED KERNEL_C void sim_kernel_##name(const struct sim_launch *launch,              \
                                                     void **args);                                 \
    SIM_KERNEL(name, KERNEL_LIST types) {                                                          \
        size_t n = (size_t)launch->grid[0] * launch->block[0];                                     \
        for (size_t i = 0; i < n; i++)                                                             \
            name##_thread(i, KERNEL_LIST args_of_sim);                                             \
    }                                                                                              \
    KERNEL_LAUNCHER(name, params, names, addresses)                                                \
    KERNEL_BODY void name##_thread(size_t i, KERNEL_LIST params)

#ifdef __CUDACC__

#define KERNEL_LAUNCHER(name, params, names, addresses)                                            \
    extern "C" __global__ void name(KERNEL_LIST params) {                                          \
        name##_thread((size_t)blockIdx.x *blockDim.x + threadIdx.x, KERNEL_LIST names);            \
    }                                                                                              \
    static inline cudaError_t name##_launch(unsigned n_blocks_, unsigned n_threads_,               \
                                            cudaStream_t stream_, KERNEL_LIST params) {            \
        name<<<n_blocks_, n_threads_, 0, stream_>>>(KERNEL_LIST names);                            \
        return cudaGetLastError();                                                                 \
    }

#else

void **__cudaRegisterFatBinary(void *fat_binary);
void __cudaRegisterFatBinaryEnd(void **binary);
void __cudaUnregisterFatBinary(void **binary);
void __cudaRegisterFunction(void **binary, const char *stub, char *device_stub, const char *name,
                            int thread_limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid,
                            int *warp_size);

static inline void **kernel_register(const char *stub, char *device_stub, const char *name) {
    void **binary = __cudaRegisterFatBinary(NULL);
    __cudaRegisterFunction(binary, stub, device_stub, name, -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(binary);
    return binary;
}

static inline cudaError_t kernel_launch(const char *stub, unsigned n_blocks, unsigned n_threads,
                                        cudaStream_t stream, void **args) {
    dim3 grid = {n_blocks, 1, 1}, block = {n_threads, 1, 1};
    return cudaLaunchKernel(stub, grid, block, args, 0, stream);
}

#define KERNEL_LAUNCHER(name, params, names, addresses)                                            \
    static char name##_stub[1];                                                                    \
    static void **name##_binary;                                                                   \
    __attribute__((constructor)) static void name##_register(void) {                               \
        name##_binary = kernel_register(name##_stub, name##_stub, #name);                          \
    }                                                                                              \
    __attribute__((destructor)) static void name##_unregister(void) {                              \
        __cudaUnregisterFatBinary(name##_binary);                                                  \
    }                                                                                              \
    static inline cudaError_t name##_launch(unsigned n_blocks_, unsigned n_threads_,               \
                                            cudaStream_t stream_, KERNEL_LIST params) {            \
        void *args_[] = {KERNEL_LIST addresses};                                                   \
        return kernel_launch(name##_stub, n_blocks_, n_threads_, stream_, args_);                  \
    }

#endif
