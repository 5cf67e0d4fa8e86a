/* Columns for products of quantised matrices that are not ordinary. */
#include <math.h>

#include "kernels/tests/cases/cases_gemv.h"

/* One in fifty is an infinity or NaN; columns without one are ordinary. */
void make_seldom_finite(struct kernel_draw *draw, void *values, size_t n) {
    static const float odd[] = {INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] =
            draw_bits(draw) % 50 ? (float)draw_gauss(draw) : odd[draw_bits(draw) % 3];
}

/* Magnitudes 2^-60 to 2^60; two terms of binary16 represent no block of these. */
void make_wide_spread(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = (float)ldexp(draw_gauss(draw), (int)(draw_bits(draw) % 121) - 60);
}

/* Terms represent every block of a column, and blocks differ by 2^20 from one to the next. */
void make_wide_blocks(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = (float)ldexp(draw_gauss(draw), (int)(i / 512 % 3) * 20);
}

/* One of 256 is 2^29 times as large as the others, so only the last digits are left for them. */
void make_one_large(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)draw_bits(draw);
        double value = ldexp(1 + (bits >> 8) * 0x1p-24, i % 256 == 77 ? 29 : 0);
        ((float *)values)[i] = (float)(bits % 2 ? value : -value);
    }
}

void make_tiny(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = (float)ldexp(draw_gauss(draw), -120);
}

void make_below_normal(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = (float)ldexp(draw_gauss(draw), -132);
}

void make_huge(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((float *)values)[i] = (float)ldexp(draw_gauss(draw), 105);
}
