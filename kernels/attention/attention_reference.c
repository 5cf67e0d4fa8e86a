/*
 * Attention as plain loops: scores, exponentials and sums in double, one rounding at the store.
 *
 * No row of scores is kept: a first pass finds the largest, and each block of columns goes through
 * the keys once more.
 */
#include <math.h>

#include "cushim/kernels/attention.h"
#include "cushim/kernels_ref.h"

enum { COLUMNS = 64 };

/* One query with the keys and values that it sees, `stride` elements apart. */
struct row {
    const float *q, *k, *v;
    int64_t n_keys, stride, head_dim;
};

static double score_of(const struct row *row, int64_t key) {
    const float *k = row->k + key * row->stride;
    double sum = 0;
    for (int64_t d = 0; d < row->head_dim; d++)
        sum += (double)row->q[d] * k[d];
    return sum / sqrt((double)row->head_dim);
}

/* `n` columns from `first` on. */
static void attend_columns(const struct row *row, double most, int64_t first, int64_t n, float *o) {
    double whole = 0, sums[COLUMNS] = {0};
    for (int64_t key = 0; key < row->n_keys; key++) {
        double weight = exp(score_of(row, key) - most);
        whole += weight;
        for (int64_t d = 0; d < n; d++)
            sums[d] += weight * row->v[key * row->stride + first + d];
    }
    for (int64_t d = 0; d < n; d++)
        o[first + d] = (float)(sums[d] / whole);
}

static void attend(const struct row *row, float *o) {
    double most = -INFINITY;
    bool has_score = false; /* other than -infinity */
    for (int64_t key = 0; key < row->n_keys; key++) {
        double score = score_of(row, key);
        has_score = has_score || !isinf(score) || score > 0;
        if (score > most)
            most = score;
    }
    for (int64_t first = 0; first < row->head_dim; first += COLUMNS) {
        int64_t left = row->head_dim - first, n = left < COLUMNS ? left : COLUMNS;
        if (has_score)
            attend_columns(row, most, first, n, o);
        else
            for (int64_t d = first; d < first + n; d++)
                o[d] = 0;
    }
}

void cushim_attention_f32_ref(const float *q, const float *k, const float *v, float *o,
                              int64_t batch, int64_t heads, int64_t seq, int64_t head_dim,
                              bool causal) {
    for (int64_t head = 0; head_dim > 0 && head < batch * heads; head++) {
        int64_t begin = head * seq * head_dim;
        for (int64_t query = 0; query < seq; query++) {
            int64_t at = begin + query * head_dim;
            struct row row = {q + at,   k + begin, v + begin, causal ? query + 1 : seq,
                              head_dim, head_dim};
            attend(&row, o + at);
        }
    }
}

void cushim_attention_decode_f32_ref(const float *q, const float *k, const float *v,
                                     const int32_t *kv_len_ptr, float *o, int64_t batch,
                                     int64_t n_q_heads, int64_t n_kv_heads, int64_t head_dim,
                                     int64_t kv_len, int64_t max_kv_len,
                                     const struct cushim_kv_strides *kv) {
    int64_t length = kv_len_ptr ? *kv_len_ptr : kv_len;
    if (length < 0)
        length = 0;
    if (length > max_kv_len)
        length = max_kv_len;
    for (int64_t b = 0; head_dim > 0 && b < batch; b++) {
        for (int64_t head = 0; head < n_q_heads; head++) {
            int64_t at = (b * n_q_heads + head) * head_dim;
            int64_t begin = b * kv->batch + head / (n_q_heads / n_kv_heads) * kv->head;
            struct row row = {q + at, k, v, length, kv->position, head_dim};
            if (length > 0)
                row.k += begin, row.v += begin;
            attend(&row, o + at);
        }
    }
}
