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

/* A block has a float scale and 32 signed bytes. */
void cushim_gather_q8f_f32_i32_ref(const void *table, const int32_t *idx, float *out, int64_t n,
                                   int64_t d, int64_t v) {
    for (int64_t i = 0; i < n * d; i++) {
        int64_t row = idx[i / d] < 0 ? 0 : idx[i / d] >= v ? v - 1 : idx[i / d];
        const uint8_t *block = (const uint8_t *)table + (row * d + i % d) / 32 * 36;
        float scale;
        memcpy(&scale, block, sizeof scale);
        out[i] = scale * (float)(int8_t)block[4 + i % 32];
    }
}
