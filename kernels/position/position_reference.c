/* Counters, and rows at a position, as plain loops. */
#include "cushim/kernels_ref.h"

#include <string.h>

#include "kernels/reference/half.h"

/* Wraps in unsigned, for which that is defined. */
void cushim_counter_add_i32_ref(int32_t *counter, int32_t delta) {
    uint32_t sum = (uint32_t)*counter + (uint32_t)delta;
    memcpy(counter, &sum, sizeof sum);
}

void cushim_counter_set_i32_ref(int32_t *counter, int32_t value) {
    *counter = value;
}

void cushim_offset_memcpy_f32_ref(const float *src, const int32_t *position, float *dst,
                                  int64_t dim, int64_t max_len) {
    int64_t p = *position;
    if (p < 0 || p >= max_len)
        return;
    for (int64_t i = 0; i < dim; i++)
        memcpy(&dst[p * dim + i], &src[i], sizeof *src);
}

void cushim_offset_memcpy_f32_f16_ref(const float *src, const int32_t *position, uint16_t *dst,
                                      int64_t dim, int64_t max_len) {
    int64_t p = *position;
    if (p < 0 || p >= max_len)
        return;
    for (int64_t i = 0; i < dim; i++)
        dst[p * dim + i] = cushim_f16_of(src[i]);
}

void cushim_rope_select_f32_ref(const float *cos_table, const float *sin_table,
                                const int32_t *position, float *cosines, float *sines, int64_t rows,
                                int64_t half_rotary) {
    int64_t p = *position;
    if (p < 0 || p >= rows)
        return;
    for (int64_t i = 0; i < half_rotary; i++) {
        memcpy(&cosines[i], &cos_table[p * half_rotary + i], sizeof(float));
        memcpy(&sines[i], &sin_table[p * half_rotary + i], sizeof(float));
    }
}
