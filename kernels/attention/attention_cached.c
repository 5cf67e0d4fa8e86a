/* Attention of many sequences with caches: arguments, tiles or chunks, the launch of tiles. */
#include "cushim/kernels/attention.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/launch/arguments.h"
#include "kernels/launch/call.h"

enum { BLOCKS_PER_SM = 4, ROW_BLOCKS_PER_SM = 16, ANY_TYPE = -1 };

struct tiles {
    int type, dim, rows, n_threads, per_sm; /* per_sm: blocks of a multiprocessor */
    enum attention_kernel kernel;
};

/* In the order in which they are chosen. */
#define CACHED_WGMMA(name, type, dim)                                                              \
    {ATTENTION_##type,                                                                             \
     dim,                                                                                          \
     2 * ATTENTION_WGMMA_ROWS,                                                                     \
     ATTENTION_CACHED_WGMMA_THREADS(ATTENTION_##type),                                             \
     1,                                                                                            \
     ATTENTION_CACHED_WGMMA_##name##_##dim},
#define CACHED(dim, rows, keys, lanes)                                                             \
    {ANY_TYPE, dim, rows, (rows) / 4 * (lanes), BLOCKS_PER_SM, ATTENTION_CACHED_##dim},
static const struct tiles tiles[] = {ATTENTION_CACHED_WGMMA_VARIANTS(CACHED_WGMMA)
                                         ATTENTION_CACHED_VARIANTS(CACHED)};

/* The first tiles that hold head_dim and that the device has, or NULL. */
static const struct tiles *choose(const struct cushim_kernel_call *call,
                                  const struct attention_cached_args *args) {
    bool may_be_wgmma = call->has_wgmma && args->max_kv_len <= ATTENTION_WGMMA_MOST_SEQ;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        const struct tiles *t = &tiles[i];
        if (t->dim >= args->head_dim &&
            (t->type == ANY_TYPE || (may_be_wgmma && t->type == args->type)) &&
            cushim_kernel_call_holds(call, t->kernel))
            return t;
    }
    return NULL;
}

/* Blocks take turns at the tiles of all sequences, whose lengths may be less. */
static enum cushim_status launch_tiles(const struct cushim_kernel_call *call,
                                       struct attention_cached_args *args) {
    const struct tiles *chosen = choose(call, args);
    int64_t rows = chosen ? chosen->rows : 1;
    int64_t most = (int64_t)call->n_sms * (chosen ? chosen->per_sm : ROW_BLOCKS_PER_SM);
    int64_t n_of_head, n_blocks;
    if (__builtin_mul_overflow(args->max_q_len, args->group, &n_of_head) ||
        __builtin_mul_overflow((n_of_head - 1) / rows + 1, args->batch * args->n_kv_heads,
                               &n_blocks))
        n_blocks = most;
    struct cushim_kernel_shape shape = {.grid = {cushim_n_blocks(n_blocks, 1, most)},
                                        .block = {ATTENTION_ROW_THREADS}};
    enum attention_kernel kernel = chosen ? chosen->kernel : ATTENTION_CACHED_ROWS;
    if (chosen) {
        shape.block[0] = (unsigned)chosen->n_threads;
        shape.shared_bytes = call->family->kernels[kernel].shared_bytes;
    }
    void *params[] = {args};
    return cushim_kernel_call_launch(call, kernel, &shape, params);
}

/*
 * Whether slices are faster than tiles.  On an H200 a key of f16 costs a wave of tiles 32 ns, and a
 * slice 0.1 ns of all multiprocessors; one of f32 costs 67 ns and 0.22 ns.  Slices start no later.
 */
static bool is_for_slices(const struct cushim_kernel_call *call,
                          const struct attention_cached_args *args) {
    return args->head_dim <= ATTENTION_MOST_DIM &&
           attention_n_slices(args->max_q_len, args->group, args->batch * args->n_kv_heads,
                              2 * (int64_t)call->n_sms) > 0;
}

enum cushim_status attention_check_groups(const char *what, int64_t n_q_heads, int64_t n_kv_heads) {
    if (n_kv_heads)
        return cushim_check_multiple(what, "n_q_heads", n_q_heads, n_kv_heads);
    return n_q_heads == 0 ? CUSHIM_OK
                          : cushim_fail(what, CUSHIM_INVALID, "n_kv_heads=0 with n_q_heads=%lld",
                                        (long long)n_q_heads);
}

enum cushim_status attention_cached_launch(const struct cushim_kernel_call *call,
                                           struct attention_cached_args *args, void *scratch,
                                           size_t scratch_bytes) {
    args->scale = attention_scale(args->head_dim);
    args->is_wide = args->head_dim % 4 == 0 && cushim_is_aligned(16, args->q, args->o, NULL, NULL);
    return is_for_slices(call, args) ? attention_decode_launch(call, args, scratch, scratch_bytes)
                                     : launch_tiles(call, args);
}

/* ---- the call ---- */

/* What the reference and the checks get. */
struct cached {
    const float *q;
    struct cushim_kv_cache cache;
    const int32_t *q_begin, *q_len;
    float *o;
    int64_t batch, n_q_heads, n_kv_heads, head_dim, max_q_len;
    bool causal;
    void *scratch;
};

static void reference(const void *of) {
    const struct cached *c = of;
    cushim_attention_cached_f32_ref(c->q, &c->cache, c->q_begin, c->q_len, c->o, c->batch,
                                    c->n_q_heads, c->n_kv_heads, c->head_dim, c->max_q_len,
                                    c->causal);
}

static size_t elem_bytes(const struct cushim_kv_cache *cache) {
    return cache->type == CUSHIM_KV_F32 ? sizeof(float) : sizeof(uint16_t);
}

static enum cushim_status check_cache(const char *what, const struct cushim_kv_cache *cache) {
    const struct cushim_kv_strides *strides = &cache->strides;
    int64_t n;
    CUSHIM_TRY(cushim_check_size(what, "strides.batch", strides->batch));
    CUSHIM_TRY(cushim_check_size(what, "strides.head", strides->head));
    CUSHIM_TRY(cushim_check_size(what, "strides.position", strides->position));
    CUSHIM_TRY(cushim_check_size(what, "max_kv_len", cache->max_kv_len));
    if (cache->type != CUSHIM_KV_F32 && cache->type != CUSHIM_KV_F16 &&
        cache->type != CUSHIM_KV_BF16)
        return cushim_fail(what, CUSHIM_INVALID, "type=%d", (int)cache->type);
    if (cache->blocks) {
        CUSHIM_TRY(cushim_check_size(what, "blocks_per_sequence", cache->blocks_per_sequence));
        if (cache->block_len < 1 || cache->block_len > INT32_MAX || cache->max_kv_len > INT32_MAX ||
            (cache->max_kv_len > 0 &&
             (cache->max_kv_len - 1) / cache->block_len >= cache->blocks_per_sequence))
            return cushim_fail(what, CUSHIM_INVALID, "block_len=%lld for max_kv_len=%lld",
                               (long long)cache->block_len, (long long)cache->max_kv_len);
    } else if (cache->is_of_pointers) {
        return cushim_fail(what, CUSHIM_INVALID, "blocks=NULL with is_of_pointers");
    }
    return cushim_check_count(what, "k", (int64_t[]){cache->max_kv_len, strides->position}, 2,
                              elem_bytes(cache), &n);
}

static enum cushim_status check_pointers(const char *what, const struct cached *args) {
    const struct cushim_kv_cache *cache = &args->cache;
    size_t n_bytes = cache->is_of_pointers ? sizeof(void *) : elem_bytes(cache);
    const struct {
        const char *name;
        const void *array;
    } arrays[] = {{"q_begin", args->q_begin},
                  {"q_len", args->q_len},
                  {"kv_begin", cache->kv_begin},
                  {"kv_len", cache->kv_len},
                  {"blocks", cache->blocks}};
    CUSHIM_TRY(cushim_check_pointer(what, "q", args->q, sizeof(float)));
    if (cache->max_kv_len > 0) {
        CUSHIM_TRY(cushim_check_pointer(what, "k", cache->k, n_bytes));
        CUSHIM_TRY(cushim_check_pointer(what, "v", cache->v, n_bytes));
    }
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        if (arrays[i].array)
            CUSHIM_TRY(
                cushim_check_pointer(what, arrays[i].name, arrays[i].array, sizeof(int32_t)));
    }
    if (args->scratch)
        CUSHIM_TRY(cushim_check_pointer(what, "scratch", args->scratch, sizeof(float)));
    return cushim_check_pointer(what, "o", args->o, sizeof(float));
}

enum cushim_status cushim_attention_cached_f32(const float *q, const struct cushim_kv_cache *cache,
                                               const int32_t *q_begin, const int32_t *q_len,
                                               float *o, int64_t batch, int64_t n_q_heads,
                                               int64_t n_kv_heads, int64_t head_dim,
                                               int64_t max_q_len, bool causal, void *scratch,
                                               size_t scratch_bytes, struct CUstream_st *stream) {
    const char *what = __func__;
    struct cushim_kernel_call call;
    int64_t n;
    CUSHIM_TRY(cushim_check_host(what, "cache", cache));
    CUSHIM_TRY(cushim_check_size(what, "batch", batch));
    CUSHIM_TRY(cushim_check_size(what, "n_q_heads", n_q_heads));
    CUSHIM_TRY(cushim_check_size(what, "n_kv_heads", n_kv_heads));
    CUSHIM_TRY(cushim_check_size(what, "head_dim", head_dim));
    CUSHIM_TRY(cushim_check_size(what, "max_q_len", max_q_len));
    CUSHIM_TRY(attention_check_groups(what, n_q_heads, n_kv_heads));
    CUSHIM_TRY(check_cache(what, cache));
    CUSHIM_TRY(cushim_check_count(what, "o", (int64_t[]){batch, n_q_heads, head_dim}, 3,
                                  sizeof(float), &n));
    if (n == 0 || max_q_len == 0)
        return CUSHIM_OK;
    struct cached cached = {q,         *cache,     q_begin,  q_len,     o,      batch,
                            n_q_heads, n_kv_heads, head_dim, max_q_len, causal, scratch};
    CUSHIM_TRY(check_pointers(what, &cached));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_attention, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, reference, &cached, sizeof cached);
    _Static_assert((int)CUSHIM_KV_F16 == (int)ATTENTION_F16 &&
                       (int)CUSHIM_KV_BF16 == (int)ATTENTION_BF16,
                   "types of caches");
    struct attention_cached_args args = {
        .q = q,
        .q_begin = q_begin,
        .q_len = q_len,
        .o = o,
        .k = cache->k,
        .v = cache->v,
        .kv_begin = cache->kv_begin,
        .kv_len = cache->kv_len,
        .blocks = cache->blocks,
        .batch_stride = cache->strides.batch,
        .head_stride = cache->strides.head,
        .position_stride = cache->strides.position,
        .batch = batch,
        .n_kv_heads = n_kv_heads,
        .group = n_q_heads / n_kv_heads,
        .head_dim = head_dim,
        .max_q_len = max_q_len,
        .max_kv_len = cache->max_kv_len,
        .blocks_per_sequence = cache->blocks_per_sequence,
        .of_block = cushim_divider_of(cache->blocks ? cache->block_len : 1),
        .type = (int)cache->type,
        .is_of_pointers = cache->is_of_pointers,
        .is_causal = causal,
    };
    return attention_cached_launch(&call, &args, scratch, scratch_bytes);
}
