/* Gathering rows as plain loops. */
#include <string.h>

#include "cushim/kernels_ref.h"

static void copy_row(const float *table, int64_t row, float *out, int64_t i, int64_t d) {
    memcpy(out + i * d, table + row * d, (size_t)d * sizeof *out);
}

void cushim_gather_f32_i64_ref(const float *table, const int64_t *idx, float *out, int64_t n,
                               int64_t d, int64_t v) {
    for (int64_t i = 0; d && i < n; i++)
        copy_row(table, idx[i] < 0 ? 0 : idx[i] >= v ? v - 1 : idx[i], out, i, d);
}

void cushim_gather_f32_i32_ref(const float *table, const int32_t *idx, float *out, int64_t n,
                               int64_t d, int64_t v) {
    for (int64_t i = 0; d && i < n; i++)
        copy_row(table, idx[i] < 0 ? 0 : idx[i] >= v ? v - 1 : idx[i], out, i, d);
}
