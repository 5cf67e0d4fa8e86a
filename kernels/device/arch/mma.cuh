/*
 * Products of small matrices by a warp, D += A * B, and the loads of their parts.
 *
 * All 32 lanes take part.  With g = lane / 4 and t = lane % 4, a lane holds of
 *   D  16 x 8   d[0], d[1]: row g, columns 2t, 2t + 1;  d[2], d[3]: row g + 8
 *   A  16 x 16  a[0]: row g, columns 2t, 2t + 1;  a[1]: row g + 8;  a[2], a[3]: columns 8 further
 *   B  16 x 8   b[0]: rows 2t, 2t + 1 of column g;  b[1]: rows 8 further
 * A register has two values of 16 bits, the first in its low half.  A product of k = 8 has the
 * first half of these.  Products are exact; their sum with D is truncated to float, not rounded.
 * Source: PTX ISA, warp level matrix instructions.
 */
#ifndef CUSHIM_KERNELS_MMA_CUH
#define CUSHIM_KERNELS_MMA_CUH

#include "kernels/device/device.cuh"

/* f16, k = 16; sm_80 and later. */
DEVICE void mma_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef CUSHIM_EMULATED
    emulated::multiply_f16(d, a, b, 16);
#elif __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* f16, k = 8; sm_75 and later. */
DEVICE void mma_f16_k8(float (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1]) {
#ifdef CUSHIM_EMULATED
    emulated::multiply_f16(d, a, b, 8);
#else
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#endif
}

/* bfloat16, k = 16; sm_80 and later. */
DEVICE void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef CUSHIM_EMULATED
    emulated::multiply_bf16(d, a, b);
#elif __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/*
 * Bytes, k = 32, exact; sm_80 and later.  A register has four neighbours instead of two: a[0] is
 * row g, columns 4t .. 4t + 3, a[2] columns 16 further.  B is signed, A may be.
 */
template <bool IS_A_SIGNED>
DEVICE void mma_bytes(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef CUSHIM_EMULATED
    emulated::multiply_bytes(d, a, b, IS_A_SIGNED);
#elif __CUDA_ARCH__ >= 800
    if (IS_A_SIGNED)
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* The same of signed bytes with k = 16, which are the first half of these. */
DEVICE void mma_bytes_k16(int (&d)[4], const uint32_t (&a)[2], uint32_t b) {
#ifdef CUSHIM_EMULATED
    const uint32_t a_and_0[4] = {a[0], a[1], 0, 0}, b_and_0[2] = {b, 0};
    emulated::multiply_bytes(d, a_and_0, b_and_0, true);
#elif __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
#endif
}

/*
 * tf32, k = 8; sm_80 and later.  A register has one value, the bits of a float whose last 13 are
 * ignored.  A: a[0] row g, column t; a[1] row g + 8; a[2], a[3] column t + 4.  B: b[0] row t of
 * column g, b[1] row t + 4.
 */
DEVICE void mma_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef CUSHIM_EMULATED
    emulated::multiply_tf32(d, a, b);
#elif __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/*
 * Four matrices of 8 x 8 values of 16 bits.  Lane 8 i + r gives the address of row r of matrix i,
 * in shared memory and a multiple of 16; r[i] is row g, columns 2t and 2t + 1 of matrix i.
 */
DEVICE void load_matrix_x4(uint32_t (&r)[4], const void *shared_row) {
#ifdef CUSHIM_EMULATED
    emulated::load_matrices(r, shared_row, false);
#else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(shared_row))
                 : "memory");
#endif
}

/* The same of the transposed matrices: r[i] is column g, rows 2t and 2t + 1 of matrix i. */
DEVICE void load_matrix_x4_transposed(uint32_t (&r)[4], const void *shared_row) {
#ifdef CUSHIM_EMULATED
    emulated::load_matrices(r, shared_row, true);
#else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(shared_row))
                 : "memory");
#endif
}

#endif
