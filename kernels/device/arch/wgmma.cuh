/*
 * Products of matrices by a warpgroup, four warps side by side, D = A * B + D (sm_90a alone).
 *
 * D is 64 x N, a warp's 16 rows as in mma.cuh: d[4 j ..] are those of columns 8 j .. 8 j + 7.  A is
 * 64 x 16 from registers, a warp's rows as in mma.cuh.  B is 16 x N in shared memory, a tile of
 * 32 N bytes: column n has its rows 0 .. 7 in the 16 bytes at 16 n, and rows 8 .. 15 in those at
 * 16 (N + n).  What threads stored there is seen after fence_tiles() in each of them and a barrier.
 *
 * begin_products(), products, end_products(): from there on they run, and neither A nor D may be
 * touched until wait_products().  Products are exact; their sum with D is cut, not rounded.
 * Source: PTX ISA, asynchronous warpgroup level matrix instructions.
 */
#ifndef CUSHIM_KERNELS_WGMMA_CUH
#define CUSHIM_KERNELS_WGMMA_CUH

#include "kernels/device/arch/mma.cuh"

/* Whether this compilation has them; that for the host reads kernels as well. */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(CUSHIM_EMULATED) || !defined(__CUDA_ARCH__)
#define CUSHIM_HAS_WGMMA
#endif

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define CUSHIM_WGMMA_ASM(...) asm volatile(__VA_ARGS__)
#else
#define CUSHIM_WGMMA_ASM(...)
#endif

#ifndef CUSHIM_EMULATED
/*
 * A barrier of N threads, whole warps, that come to it from different places of the code: the form
 * that is not aligned, since bar.sync promises one place.  Numbers are 1 to 15.
 * Source: PTX ISA, bar and barrier; compute-sanitizer's synccheck holds one to that promise.
 */
template <int N> DEVICE void meet_some(unsigned number) {
    CUSHIM_WGMMA_ASM("barrier.sync %0, %1;" ::"r"(number), "n"(N) : "memory");
}
#endif

DEVICE void fence_tiles() {
    CUSHIM_WGMMA_ASM("fence.proxy.async.shared::cta;" ::: "memory");
}

DEVICE void begin_products() {
    CUSHIM_WGMMA_ASM("wgmma.fence.sync.aligned;" ::: "memory");
}

DEVICE void end_products() {
    CUSHIM_WGMMA_ASM("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* What a tile of N columns is to the unit: its address, and the steps to the next 8 rows and the
 * next 8 columns, in units of 16 bytes. */
template <int N> DEVICE uint64_t tile_descriptor(const void *tile) {
#ifdef CUSHIM_EMULATED
    return (uint64_t)(uintptr_t)tile;
#else
    /* in a cluster, the bits above the address in the block are the block's rank */
    uint32_t address = (uint32_t)__cvta_generic_to_shared(tile) & 0x3FFFF;
    return address >> 4 | (uint64_t)N << 16 | (uint64_t)8 << 32;
#endif
}

#ifdef CUSHIM_EMULATED
template <int N>
DEVICE void multiply_emulated(float (&d)[N / 2], const uint32_t (&a)[4], const void *tile,
                              bool has_sum) {
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    for (int j = 0; j < N / 8; j++) {
        const uint32_t *words = (const uint32_t *)tile + (8 * j + g) * 4 + t;
        const uint32_t b[2] = {words[0], words[4 * N]};
        float part[4] = {};
        for (int e = 0; has_sum && e < 4; e++)
            part[e] = d[4 * j + e];
        mma_f16(part, a, b);
        for (int e = 0; e < 4; e++)
            d[4 * j + e] = part[e];
    }
}
#endif

template <bool HAS_SUM>
DEVICE void multiply_tile(float (&d)[16], const uint32_t (&a)[4], uint64_t tile) {
#ifdef CUSHIM_EMULATED
    multiply_emulated<32>(d, a, (const void *)(uintptr_t)tile, HAS_SUM);
#else
    CUSHIM_WGMMA_ASM("{.reg .pred has_sum; setp.ne.b32 has_sum, %21, 0; "
                     "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
                     "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
                     "}, {%16, %17, %18, %19}, %20, has_sum, 1, 1, 0;}"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                       "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                       "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(tile), "n"(HAS_SUM));
#endif
}

DEVICE void wait_products(float (&d)[16]) {
    (void)d;
    CUSHIM_WGMMA_ASM("wgmma.wait_group.sync.aligned 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                       "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                       "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])::"memory");
}

template <bool HAS_SUM>
DEVICE void multiply_tile(float (&d)[32], const uint32_t (&a)[4], uint64_t tile) {
#ifdef CUSHIM_EMULATED
    multiply_emulated<64>(d, a, (const void *)(uintptr_t)tile, HAS_SUM);
#else
    CUSHIM_WGMMA_ASM(
        "{.reg .pred has_sum; setp.ne.b32 has_sum, %37, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, {%32, %33, %34, %35}, %36, has_sum, 1, 1, 0;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(tile), "n"(HAS_SUM));
#endif
}

DEVICE void wait_products(float (&d)[32]) {
    (void)d;
    CUSHIM_WGMMA_ASM("wgmma.wait_group.sync.aligned 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                       "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                       "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                       "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                       "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                       "+f"(d[30]), "+f"(d[31])::"memory");
}

#endif
