/*
 * Attention of one query per head against a cache, or of a few: arguments, how rows are cut, the
 * launches.
 *
 * A slice is the rows of a block, up to 8 that share a KV head.  Its cache is cut into chunks
 * until the device is busy.  The chunks of a short row are a cluster.  Those of a long row go to
 * scratch and a second kernel joins them, because clusters do not spread evenly: the groups of
 * multiprocessors on a device differ in size, so some multiprocessors get two blocks and others
 * none.  That costs a long row more than the second kernel does.  Without scratch all rows are
 * clusters.  The number of chunks depends on sizes, never on a length that only the device knows.
 */
#include "kernels/shared/attention_decode.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"

enum {
    MOST_SLICES = 65535,       /* in a grid; blocks loop over more */
    MOST_SCRATCH_BLOCKS = 512, /* of all heads; limits the scratch that is asked for */
    TRIED_CHUNKS = 8,          /* numbers of chunks, from about a block for each slot on */
    SHORT_ROW = 1024,          /* positions; a row this short is a cluster, even if there is
                                  scratch */
    START = 256                /* positions that a block attends to while another starts, or while
                                  chunks are joined (H200) */
};

/* ---- which kernel ---- */

struct variant {
    enum attention_kernel kernel;
    int type, dim, group;
};

#define DECODE(name, type, dim, group) {ATTENTION_DECODE_##name, ATTENTION_##type, dim, group},
static const struct variant variants[] = {ATTENTION_DECODE_VARIANTS(DECODE)};

static bool is_even(const struct attention_cached_args *args) {
    return args->type == ATTENTION_F32 && args->max_q_len == 1 && !args->blocks &&
           args->head_dim % 4 == 0 && args->batch_stride % 4 == 0 && args->head_stride % 4 == 0 &&
           args->position_stride % 4 == 0 && cushim_is_aligned(16, args->q, args->k, args->v, NULL);
}

/* From 8.0 on caches of 16 bits go through matrix units. */
static bool is_on_units(const struct cushim_kernel_call *call, const struct variant *variant) {
    return ATTENTION_IS_OF_16(variant->type) && call->facts->capability >= 80;
}

/* Shared memory of a block. */
static unsigned bytes_of(const struct cushim_kernel_call *call, const struct variant *variant) {
    return ATTENTION_DECODE_BYTES((unsigned)variant->type, (unsigned)variant->dim,
                                  (unsigned)variant->group, is_on_units(call, variant));
}

/*
 * The first variant that holds head_dim and the rows of a KV head, or as many of them as any for
 * whose shared memory the device has room.
 */
static const struct variant *choose(const struct cushim_kernel_call *call,
                                    const struct attention_cached_args *args) {
    const struct variant *found = NULL;
    int type = is_even(args) ? ATTENTION_EVEN : args->type;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        const struct variant *v = &variants[i];
        if (v->type != type || v->dim < args->head_dim || (found && found->dim != v->dim) ||
            bytes_of(call, v) > call->facts->shared_bytes)
            continue;
        if (!found || found->group < args->max_q_len * args->group)
            found = v;
    }
    return found;
}

/* ---- how many chunks ---- */

static int64_t quotient_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The most chunks of a row of this many positions, of which a block takes a turn at a time. */
static int64_t most_chunks(int64_t n_positions, int64_t turn) {
    int64_t n = quotient_up(n_positions, turn);
    return n < 1 ? 1 : least(n, ATTENTION_MOST_CHUNKS);
}

/* Every sequence counts with max_q_len queries. */
static int64_t n_rows(const struct attention_cached_args *args) {
    return args->batch * args->max_q_len * args->n_kv_heads * args->group;
}

/* A chunk of a row: output, maximum, sum. */
static size_t chunk_bytes(int64_t head_dim) {
    return ((size_t)ATTENTION_PART_COLUMNS(head_dim) + 2) * sizeof(float);
}

size_t cushim_attention_cached_f32_scratch(int64_t batch, int64_t n_q_heads, int64_t n_kv_heads,
                                           int64_t head_dim, int64_t max_q_len,
                                           int64_t max_kv_len) {
    int64_t n_heads, n_bytes;
    if (batch <= 0 || n_q_heads <= 0 || n_kv_heads <= 0 || max_kv_len <= 0 || head_dim <= 0 ||
        head_dim > ATTENTION_MOST_DIM || n_q_heads % n_kv_heads)
        return 0;
    if (__builtin_mul_overflow(batch, n_kv_heads, &n_heads))
        return 0;
    int64_t n_slices =
        attention_n_slices(max_q_len, n_q_heads / n_kv_heads, n_heads, MOST_SCRATCH_BLOCKS);
    if (n_slices == 0)
        return 0;
    int64_t n_chunks = least(most_chunks(max_kv_len, ATTENTION_LEAST_TURN),
                             quotient_up(MOST_SCRATCH_BLOCKS, n_heads));
    n_chunks = least(n_chunks, MOST_SCRATCH_BLOCKS / n_heads / n_slices + TRIED_CHUNKS);
    if (n_chunks == 1 || __builtin_mul_overflow(batch * n_chunks, n_q_heads, &n_bytes) ||
        __builtin_mul_overflow(n_bytes, max_q_len * (int64_t)chunk_bytes(head_dim), &n_bytes))
        return 0;
    return (size_t)n_bytes;
}

size_t cushim_attention_decode_f32_scratch(int64_t batch, int64_t n_q_heads, int64_t n_kv_heads,
                                           int64_t head_dim, int64_t max_kv_len) {
    return cushim_attention_cached_f32_scratch(batch, n_q_heads, n_kv_heads, head_dim, 1,
                                               max_kv_len);
}

/* The blocks that run together: as many of a multiprocessor as are worth it and have room. */
static int64_t slots_of(const struct cushim_kernel_call *call, const struct variant *variant) {
    unsigned n = ATTENTION_DECODE_SLOTS(variant->type, variant->dim);
    while (n > 1 && cushim_kernel_call_share(call, n) < bytes_of(call, variant))
        n--;
    return (int64_t)call->n_sms * n;
}

/* What n_chunks of each row cost, in positions that a block attends to one after another. */
static double cost_of(const struct attention_cached_args *args, int64_t n_slices, int64_t n_slots,
                      int64_t n_chunks) {
    int64_t n_rounds = quotient_up(n_slices * n_chunks, n_slots);
    double n_positions = (double)args->max_kv_len / (double)n_chunks;
    return (double)n_rounds * (n_positions + START) + (n_chunks > 1 ? START : 0);
}

/*
 * The chunks per row that cost least: one, or about a block for each slot, up to `most` and as many
 * as fit into what scratch has beyond its lead.
 */
static int64_t scratch_chunks(const struct cushim_kernel_call *call,
                              const struct attention_cached_args *args,
                              const struct variant *variant, int64_t n_slices, int64_t most,
                              size_t n_bytes) {
    size_t one = (size_t)n_rows(args) * chunk_bytes(args->head_dim);
    int64_t n_slots = slots_of(call, variant), first, best = 1;
    double least_cost = cost_of(args, n_slices, n_slots, 1);
    most = least(most, (int64_t)(n_bytes / one));
    first = least(n_slots / n_slices, most);
    for (int64_t n = first < 2 ? 2 : first; n <= most && n < first + TRIED_CHUNKS; n++) {
        double cost = cost_of(args, n_slices, n_slots, n);
        if (cost < least_cost) {
            best = n;
            least_cost = cost;
        }
    }
    return best;
}

static struct cushim_kernel_shape shape_of(const struct cushim_kernel_call *call,
                                           const struct variant *variant, int64_t n_chunks) {
    unsigned n_warps = ATTENTION_DECODE_WARPS(variant->type, variant->dim);
    return (struct cushim_kernel_shape){.grid = {(unsigned)n_chunks},
                                        .block = {32 * n_warps},
                                        .shared_bytes = bytes_of(call, variant)};
}

/*
 * The blocks of a cluster that keep the device busy: a power of 2, or 1 if there are no clusters.
 * They fill half of the slots, because clusters do not spread evenly.
 */
static enum cushim_status cluster_blocks(const struct cushim_kernel_call *call,
                                         const struct variant *variant, int64_t n_slices,
                                         int64_t most, int64_t *n_blocks) {
    int64_t n = 1;
    bool has;
    _Static_assert((int)CUSHIM_MOST_CLUSTER <= (int)ATTENTION_MOST_CLUSTER,
                   "blocks that a kernel joins");
    if (call->has_clusters) {
        most = least(most, variant->dim * variant->group / 4); /* a block joins four outputs */
        while (n < CUSHIM_MOST_CLUSTER && n < most && 4 * n_slices * n <= slots_of(call, variant))
            n *= 2;
    }
    if (n > CUSHIM_PORTABLE_CLUSTER) {
        struct cushim_kernel_shape shape = shape_of(call, variant, n);
        shape.cluster = (unsigned)n;
        CUSHIM_TRY(cushim_kernel_call_has_clusters(call, (unsigned)variant->kernel, &shape, &has));
        if (!has)
            n = CUSHIM_PORTABLE_CLUSTER;
    }
    *n_blocks = n;
    return CUSHIM_OK;
}

/*
 * Halve the warps of blocks on matrix units if there are more blocks than multiprocessors, so that
 * one starts while others attend.  Two of a multiprocessor have enough of K and V in flight.  If
 * three or more fit but would leave much idle at the end, they ask for so much shared memory that
 * one fewer does.
 */
static void halve_blocks(const struct cushim_kernel_call *call, const struct variant *variant,
                         int64_t n_blocks, struct cushim_kernel_shape *shape) {
    unsigned n = 2;
    if (!is_on_units(call, variant) || n_blocks <= (int64_t)call->n_sms ||
        cushim_kernel_call_share(call, n) < shape->shared_bytes)
        return;
    while (cushim_kernel_call_share(call, n + 1) >= shape->shared_bytes)
        n++;
    int64_t n_slots = (int64_t)call->n_sms * n;
    int64_t n_idle = quotient_up(n_blocks, n_slots) * n_slots - n_blocks;
    if (n > 2 && 4 * n_idle > n_blocks)
        shape->shared_bytes =
            (unsigned)least(cushim_kernel_call_share(call, n - 1), ATTENTION_DECODE_UNIT_BYTES);
    shape->block[0] /= 2;
}

/* ---- launches ---- */

/* Rows with chunks are few, so they are blocks of one grid. */
static enum cushim_status launch_merge(const struct cushim_kernel_call *call,
                                       struct attention_cached_args *args) {
    struct cushim_kernel_shape shape = {
        .grid = {(unsigned)n_rows(args),
                 (unsigned)quotient_up(args->head_dim, ATTENTION_MERGE_COLUMNS)},
        .block = {ATTENTION_MERGE_THREADS},
        .is_dependent = true};
    void *params[] = {args};
    return cushim_kernel_call_launch(call, ATTENTION_DECODE_MERGE, &shape, params);
}

enum cushim_status attention_decode_launch(const struct cushim_kernel_call *call,
                                           struct attention_cached_args *args, void *scratch,
                                           size_t scratch_bytes) {
    const struct variant *variant = choose(call, args);
    args->n_slices = quotient_up(args->max_q_len * args->group, variant->group);
    args->of_slice = cushim_divider_of(args->n_slices);
    args->of_head = cushim_divider_of(args->n_kv_heads);
    int64_t n_slices = args->batch * args->n_kv_heads * args->n_slices, n_clustered;
    int64_t most =
        most_chunks(args->max_kv_len, ATTENTION_DECODE_TURN(variant->type, variant->dim));
    size_t lead = -(uintptr_t)scratch % 16; /* chunks lie at multiples of it */
    size_t n_bytes = scratch && scratch_bytes > lead ? scratch_bytes - lead : 0;
    int64_t n_chunks = scratch_chunks(call, args, variant, n_slices, most, n_bytes);
    CUSHIM_TRY(cluster_blocks(call, variant, n_slices, most, &n_clustered));
    args->is_clustered =
        n_clustered > 1 && (n_clustered > n_chunks || args->max_kv_len <= SHORT_ROW);
    args->n_chunks = (int)(args->is_clustered ? n_clustered : n_chunks);
    if (!args->is_clustered && n_chunks > 1) {
        args->parts = (float *)((char *)scratch + lead);
        args->stats =
            args->parts + n_chunks * n_rows(args) * ATTENTION_PART_COLUMNS(args->head_dim);
    }
    struct cushim_kernel_shape shape = shape_of(call, variant, args->n_chunks);
    if (!args->is_clustered)
        halve_blocks(call, variant, n_slices * args->n_chunks, &shape);
    shape.grid[1] = cushim_n_blocks(n_slices, 1, MOST_SLICES);
    shape.cluster = args->is_clustered ? (unsigned)args->n_chunks : 0;
    shape.is_dependent = true;
    void *params[] = {args};
    CUSHIM_TRY(cushim_kernel_call_launch(call, (unsigned)variant->kernel, &shape, params));
    return args->stats ? launch_merge(call, args) : CUSHIM_OK;
}

/* ---- the call ---- */

struct decode {
    const float *q, *k, *v;
    const int32_t *kv_len_ptr;
    float *o;
    int64_t batch, n_q_heads, n_kv_heads, head_dim, kv_len, max_kv_len;
    struct cushim_kv_strides kv;
    void *scratch;
};

static void reference(const void *args) {
    const struct decode *d = args;
    cushim_attention_decode_f32_ref(d->q, d->k, d->v, d->kv_len_ptr, d->o, d->batch, d->n_q_heads,
                                    d->n_kv_heads, d->head_dim, d->kv_len, d->max_kv_len, &d->kv);
}

/* The offset in bytes of the last element of K and V must not overflow. */
static enum cushim_status check_span(const char *what, const struct decode *d) {
    int64_t batch, head, position, n;
    if (__builtin_mul_overflow(d->batch - 1, d->kv.batch, &batch) ||
        __builtin_mul_overflow(d->n_kv_heads - 1, d->kv.head, &head) ||
        __builtin_mul_overflow(d->max_kv_len - 1, d->kv.position, &position) ||
        __builtin_add_overflow(batch, head, &n) || __builtin_add_overflow(n, position, &n) ||
        __builtin_add_overflow(n, d->head_dim, &n) ||
        __builtin_mul_overflow(n, (int64_t)sizeof(float), &n))
        return cushim_fail(what, CUSHIM_INVALID, "kv reaches more bytes than can be counted");
    return CUSHIM_OK;
}

static enum cushim_status check_sizes(const char *what, const struct decode *d, int64_t *n) {
    int64_t sizes[] = {d->batch, d->n_q_heads, d->head_dim};
    CUSHIM_TRY(cushim_check_size(what, "batch", d->batch));
    CUSHIM_TRY(cushim_check_size(what, "n_q_heads", d->n_q_heads));
    CUSHIM_TRY(cushim_check_size(what, "n_kv_heads", d->n_kv_heads));
    CUSHIM_TRY(cushim_check_size(what, "head_dim", d->head_dim));
    CUSHIM_TRY(cushim_check_size(what, "kv_len", d->kv_len));
    CUSHIM_TRY(cushim_check_size(what, "max_kv_len", d->max_kv_len));
    CUSHIM_TRY(cushim_check_size(what, "kv->batch", d->kv.batch));
    CUSHIM_TRY(cushim_check_size(what, "kv->head", d->kv.head));
    CUSHIM_TRY(cushim_check_size(what, "kv->position", d->kv.position));
    CUSHIM_TRY(attention_check_groups(what, d->n_q_heads, d->n_kv_heads));
    CUSHIM_TRY(cushim_check_count(what, "o", sizes, 3, sizeof(float), n));
    return *n && d->max_kv_len ? check_span(what, d) : CUSHIM_OK;
}

static enum cushim_status check_pointers(const char *what, const struct decode *d) {
    CUSHIM_TRY(cushim_check_pointer(what, "q", d->q, sizeof(float)));
    if (d->max_kv_len) {
        CUSHIM_TRY(cushim_check_pointer(what, "k", d->k, sizeof(float)));
        CUSHIM_TRY(cushim_check_pointer(what, "v", d->v, sizeof(float)));
    }
    if (d->kv_len_ptr)
        CUSHIM_TRY(cushim_check_pointer(what, "kv_len_ptr", d->kv_len_ptr, sizeof(int32_t)));
    CUSHIM_TRY(cushim_check_pointer(what, "o", d->o, sizeof(float)));
    return d->scratch ? cushim_check_pointer(what, "scratch", d->scratch, sizeof(float))
                      : CUSHIM_OK;
}

enum cushim_status cushim_attention_decode(struct attention_how how, const float *q, const float *k,
                                           const float *v, const int32_t *kv_len_ptr, float *o,
                                           int64_t batch, int64_t n_q_heads, int64_t n_kv_heads,
                                           int64_t head_dim, int64_t kv_len, int64_t max_kv_len,
                                           const struct cushim_kv_strides *kv, void *scratch,
                                           size_t scratch_bytes, struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    int64_t n;
    CUSHIM_TRY(cushim_check_host(how.what, "kv", kv));
    struct decode d = {q,          k,        v,      kv_len_ptr, o,   batch,  n_q_heads,
                       n_kv_heads, head_dim, kv_len, max_kv_len, *kv, scratch};
    CUSHIM_TRY(check_sizes(how.what, &d, &n));
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(check_pointers(how.what, &d));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, how.what, &cushim_family_attention, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, reference, &d, sizeof d);
    struct attention_cached_args args = {
        .q = q,
        .k = k,
        .v = v,
        .kv_len = kv_len_ptr,
        .is_one_len = true,
        .is_early = how.is_early,
        .o = o,
        .batch = batch,
        .n_kv_heads = n_kv_heads,
        .group = n_q_heads / n_kv_heads,
        .head_dim = head_dim,
        .max_q_len = 1,
        .max_kv_len = kv_len_ptr ? max_kv_len : least(kv_len, max_kv_len),
        .batch_stride = kv->batch,
        .head_stride = kv->head,
        .position_stride = kv->position,
    };
    return attention_cached_launch(&call, &args, scratch, scratch_bytes);
}

enum cushim_status cushim_attention_decode_f32(const float *q, const float *k, const float *v,
                                               const int32_t *kv_len_ptr, float *o, int64_t batch,
                                               int64_t n_q_heads, int64_t n_kv_heads,
                                               int64_t head_dim, int64_t kv_len, int64_t max_kv_len,
                                               const struct cushim_kv_strides *kv, void *scratch,
                                               size_t scratch_bytes, struct CUstream_st *stream) {
    return cushim_attention_decode((struct attention_how){__func__, false}, q, k, v, kv_len_ptr, o,
                                   batch, n_q_heads, n_kv_heads, head_dim, kv_len, max_kv_len, kv,
                                   scratch, scratch_bytes, stream);
}
