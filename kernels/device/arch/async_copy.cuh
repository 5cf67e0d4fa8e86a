/*
 * Copies from global to shared memory that go on while the thread computes (sm_80 and later).
 *
 * A thread sees its own copies after wait_copies(); others see them after a barrier behind that.
 * On an older device a copy is done when it is asked for.
 */
#ifndef CUSHIM_KERNELS_ASYNC_COPY_CUH
#define CUSHIM_KERNELS_ASYNC_COPY_CUH

#include "kernels/device/device.cuh"

/* `how` says which caches keep the bytes. */
#define ASYNC_COPY(how, n_bytes, shared, global)                                                   \
    asm volatile("cp.async." how " [%0], [%1], " n_bytes                                           \
                 ";" ::"r"((unsigned)__cvta_generic_to_shared(shared)),                            \
                 "l"(global)                                                                       \
                 : "memory")

/* 16 bytes between addresses that are multiples of 16; not kept in L1. */
DEVICE void copy_async_16(void *shared, const void *global) {
#ifdef CUSHIM_EMULATED
    emulated::copy_later(shared, global, 16, 16);
#elif __CUDA_ARCH__ >= 800
    ASYNC_COPY("cg.shared.global", "16", shared, global);
#else
    *reinterpret_cast<uint4 *>(shared) = __ldg(reinterpret_cast<const uint4 *>(global));
#endif
}

/*
 * The same, and L2 gets the whole line of 128 bytes.  This is for rows that begin and end within
 * lines, because other blocks copy the rest of the line.
 */
DEVICE void copy_async_16_of_line(void *shared, const void *global) {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 800
    ASYNC_COPY("cg.shared.global.L2::128B", "16", shared, global);
#else
    copy_async_16(shared, global);
#endif
}

/* As copy_async_16_of_line(), and L1 keeps the line, for rows whose rest the same block copies. */
DEVICE void copy_async_16_of_kept_line(void *shared, const void *global) {
#if !defined(CUSHIM_EMULATED) && __CUDA_ARCH__ >= 800
    ASYNC_COPY("ca.shared.global.L2::128B", "16", shared, global);
#else
    copy_async_16(shared, global);
#endif
}

/*
 * As copy_async_16(), but only n_bytes (0 .. 16) are read and the others become 0.  With n_bytes =
 * 0 nothing is read, but the address must be readable.
 */
DEVICE void copy_async_16(void *shared, const void *global, unsigned n_bytes) {
#ifdef CUSHIM_EMULATED
    emulated::copy_later(shared, global, 16, n_bytes);
#elif __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(shared)),
                 "l"(global), "r"(n_bytes)
                 : "memory");
#else
    const unsigned char *from = reinterpret_cast<const unsigned char *>(global);
    unsigned char *to = reinterpret_cast<unsigned char *>(shared);
    for (unsigned i = 0; i < 16; i++)
        to[i] = i < n_bytes ? from[i] : 0;
#endif
}

/* 4 bytes between addresses that are multiples of 4. */
DEVICE void copy_async_4(void *shared, const void *global) {
#ifdef CUSHIM_EMULATED
    emulated::copy_later(shared, global, 4, 4);
#elif __CUDA_ARCH__ >= 800
    ASYNC_COPY("ca.shared.global", "4", shared, global);
#else
    *reinterpret_cast<uint32_t *>(shared) = __ldg(reinterpret_cast<const uint32_t *>(global));
#endif
}

/* Make a group of the copies since the last call; it may be empty. */
DEVICE void commit_copies() {
#ifdef CUSHIM_EMULATED
    emulated::end_copy_group();
#elif __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Wait for all of the thread's groups except the newest N. */
template <int N> DEVICE void wait_copies() {
#ifdef CUSHIM_EMULATED
    emulated::wait_for_copies(N);
#elif __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

#endif
