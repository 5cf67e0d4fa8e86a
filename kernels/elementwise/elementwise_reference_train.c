/*
 * Dropout and AdamW as plain loops.
 *
 * Dropout's words are those of Philox4x32-10: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw,
 * "Parallel Random Numbers: As Easy as 1, 2, 3", SC '11.
 */
#include "cushim/kernels_ref.h"

#include <math.h>
#include <string.h>

#include "kernels/reference/half.h"

static uint32_t high_word(uint64_t value) {
    return (uint32_t)(value >> 32);
}

/* Ten rounds on the counter; the key takes a step between them. */
static void philox(uint32_t counter[4], uint64_t key) {
    uint32_t key0 = (uint32_t)key, key1 = high_word(key);
    for (int round = 0; round < 10; round++) {
        uint64_t a = UINT64_C(0xD2511F53) * counter[0], b = UINT64_C(0xCD9E8D57) * counter[2];
        uint32_t next[4] = {high_word(b) ^ counter[1] ^ key0, (uint32_t)b,
                            high_word(a) ^ counter[3] ^ key1, (uint32_t)a};
        memcpy(counter, next, sizeof next);
        key0 += 0x9E3779B9;
        key1 += 0xBB67AE85;
    }
}

void cushim_dropout_f32_ref(const float *in, float *out, float p, float keep_scale, uint64_t key,
                            int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t words[4] = {(uint32_t)i, high_word((uint64_t)i), 0, 0};
        philox(words, key);
        float u = (float)words[0] * 0x1p-32f;
        if (p == 0)
            memmove(&out[i], &in[i], sizeof *in); /* every bit, even of a NaN */
        else
            out[i] = u >= p ? in[i] * keep_scale : 0.0f;
    }
}

static double adamw_step(double p, float *m, double *v, double g, double beta1, double beta2,
                         double one_minus_beta1, double one_minus_beta2, double eps, double alpha,
                         double lr_wd) {
    double m_next = beta1 * *m + one_minus_beta1 * g;
    *v = beta2 * *v + one_minus_beta2 * g * g;
    *m = (float)m_next;
    return p - alpha * m_next / (sqrt(*v) + eps) - lr_wd * p;
}

void cushim_adamw_f32_ref(float *param, float *m, double *v, float *grad, double beta1,
                          double beta2, double one_minus_beta1, double one_minus_beta2, double eps,
                          double alpha, double lr_wd, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        param[i] = (float)adamw_step(param[i], &m[i], &v[i], grad[i], beta1, beta2, one_minus_beta1,
                                     one_minus_beta2, eps, alpha, lr_wd);
        grad[i] = 0.0f;
    }
}

void cushim_adamw_bf16_ref(uint16_t *param, float *m, double *v, uint16_t *grad, double beta1,
                           double beta2, double one_minus_beta1, double one_minus_beta2, double eps,
                           double alpha, double lr_wd, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        param[i] = cushim_bf16_of(adamw_step(cushim_f32_of_bf16(param[i]), &m[i], &v[i],
                                             cushim_f32_of_bf16(grad[i]), beta1, beta2,
                                             one_minus_beta1, one_minus_beta2, eps, alpha, lr_wd));
        grad[i] = 0;
    }
}
