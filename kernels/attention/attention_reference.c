/*
 * Attention as plain loops: scores, exponentials and sums in double, one rounding at the store.
 *
 * No row of scores is kept: a first pass finds the largest, and each block of columns goes through
 * the keys once more.
 */
#include <math.h>

#include "cushim/kernels/attention.h"
#include "cushim/kernels_ref.h"
#include "kernels/reference/half.h"

enum { COLUMNS = 64 };

/*
 * One query with the keys and values that it sees: `stride` elements apart, or those of a head of a
 * sequence in a cache.
 */
struct row {
    const float *q, *k, *v;
    int64_t n_keys, stride, head_dim;
    const struct cushim_kv_cache *cache; /* or NULL */
    int64_t sequence, head;
};

static double element_of_cache(const struct row *row, const void *base, int64_t key, int64_t d) {
    const struct cushim_kv_cache *cache = row->cache;
    int64_t at = row->head * cache->strides.head + d, b = row->sequence;
    if (cache->blocks) {
        int64_t block = cache->blocks[b * cache->blocks_per_sequence + key / cache->block_len];
        at += key % cache->block_len * cache->strides.position;
        if (cache->is_of_pointers)
            base = ((const void *const *)base)[block];
        else
            at += block * cache->strides.batch;
    } else {
        key += cache->kv_begin ? cache->kv_begin[b] : 0;
        at += b * cache->strides.batch + key * cache->strides.position;
    }
    return cache->type == CUSHIM_KV_F32   ? ((const float *)base)[at]
           : cache->type == CUSHIM_KV_F16 ? cushim_f32_of_f16(((const uint16_t *)base)[at])
                                          : cushim_f32_of_bf16(((const uint16_t *)base)[at]);
}

static double key_of(const struct row *row, int64_t key, int64_t d) {
    return row->cache ? element_of_cache(row, row->cache->k, key, d)
                      : row->k[key * row->stride + d];
}

static double value_of(const struct row *row, int64_t key, int64_t d) {
    return row->cache ? element_of_cache(row, row->cache->v, key, d)
                      : row->v[key * row->stride + d];
}

static double score_of(const struct row *row, int64_t key) {
    double sum = 0;
    for (int64_t d = 0; d < row->head_dim; d++)
        sum += row->q[d] * key_of(row, key, d);
    return sum / sqrt((double)row->head_dim);
}

/* `n` columns from `first` on. */
static void attend_columns(const struct row *row, double most, int64_t first, int64_t n, float *o) {
    double whole = 0, sums[COLUMNS] = {0};
    for (int64_t key = 0; key < row->n_keys; key++) {
        double weight = exp(score_of(row, key) - most);
        whole += weight;
        for (int64_t d = 0; d < n; d++)
            sums[d] += weight * value_of(row, key, first + d);
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
            struct row row = {.q = q + at,
                              .k = k + begin,
                              .v = v + begin,
                              .n_keys = causal ? query + 1 : seq,
                              .stride = head_dim,
                              .head_dim = head_dim};
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
            struct row row = {q + at, k, v, length, kv->position, head_dim, NULL, 0, 0};
            if (length > 0)
                row.k += begin, row.v += begin;
            attend(&row, o + at);
        }
    }
}

static int64_t clamped(const int32_t *lengths, int64_t i, int64_t most) {
    int64_t n = lengths ? lengths[i] : most;
    return n < 0 ? 0 : n < most ? n : most;
}

void cushim_attention_cached_f32_ref(const float *q, const struct cushim_kv_cache *cache,
                                     const int32_t *q_begin, const int32_t *q_len, float *o,
                                     int64_t batch, int64_t n_q_heads, int64_t n_kv_heads,
                                     int64_t head_dim, int64_t max_q_len, bool causal) {
    for (int64_t b = 0; n_q_heads > 0 && head_dim > 0 && b < batch; b++) {
        int64_t n = clamped(q_len, b, max_q_len);
        int64_t kv_len = clamped(cache->kv_len, b, cache->max_kv_len);
        for (int64_t i = 0; i < n * n_q_heads; i++) {
            int64_t query = i / n_q_heads, first = q_begin ? q_begin[b] : b * max_q_len;
            int64_t at = (first * n_q_heads + i) * head_dim;
            struct row row = {.q = q + at,
                              .n_keys = causal ? kv_len - n + query + 1 : kv_len,
                              .head_dim = head_dim,
                              .cache = cache,
                              .sequence = b,
                              .head = i % n_q_heads / (n_q_heads / n_kv_heads)};
            attend(&row, o + at);
        }
    }
}
