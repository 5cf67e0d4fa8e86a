/* Broadcasting as nested loops over the output's index. */
#include "cushim/kernels_ref.h"

#define BROADCAST2D(name, op)                                                                      \
    void cushim_##name##_broadcast2d_f32_ref(const float *a, const float *b, float *c,             \
                                             int64_t sa_row, int64_t sa_col, int64_t sb_row,       \
                                             int64_t sb_col, int64_t rows, int64_t cols) {         \
        for (int64_t r = 0; r < rows; r++)                                                         \
            for (int64_t q = 0; q < cols; q++)                                                     \
                c[r * cols + q] = a[r * sa_row + q * sa_col] op b[r * sb_row + q * sb_col];        \
    }

BROADCAST2D(add, +)
BROADCAST2D(sub, -)
BROADCAST2D(mul, *)
BROADCAST2D(div, /)

static int64_t place(const int64_t index[4], const int64_t *strides) {
    int64_t sum = 0;
    for (int d = 0; d < 4; d++)
        sum += index[d] * strides[d];
    return sum;
}

#define BROADCAST4D(name, op)                                                                      \
    void cushim_##name##_broadcast4d_f32_ref(const float *a, const float *b, float *c,             \
                                             const int64_t *dims, const int64_t *sa,               \
                                             const int64_t *sb) {                                  \
        int64_t i[4], n = 0;                                                                       \
        for (i[0] = 0; i[0] < dims[0]; i[0]++)                                                     \
            for (i[1] = 0; i[1] < dims[1]; i[1]++)                                                 \
                for (i[2] = 0; i[2] < dims[2]; i[2]++)                                             \
                    for (i[3] = 0; i[3] < dims[3]; i[3]++)                                         \
                        c[n++] = a[place(i, sa)] op b[place(i, sb)];                               \
    }

BROADCAST4D(add, +)
BROADCAST4D(sub, -)
BROADCAST4D(mul, *)
BROADCAST4D(div, /)
