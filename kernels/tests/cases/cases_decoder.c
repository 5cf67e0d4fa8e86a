/*
 * A decoder's layers for one token: all that goes from step to step, the products' early weights,
 * and weights of several formats.
 */
#include "kernels/tests/cases/cases_gemv.h"
#include "kernels/tests/cases/cases_q4k.h"

#include "kernels/shared/quant_parts.h"

enum { MAX_LEN = 70, MOST_LAYERS = 3 };
static const float EPS = 1e-5f;

enum { QKV, O, GATE_UP, DOWN, NORMS, CACHE, TABLES, PLACE, H, SCRATCH };
enum { LAYERS, HIDDEN, FF, Q_HEADS, KV_HEADS, DIM, MIX, N_SIZES };

static int64_t rows_of_qkv(const int64_t *s) {
    return (s[Q_HEADS] + 2 * s[KV_HEADS]) * s[DIM];
}

/* ---- weights: of q4k, as in a file of several formats, and all others with a bias ---- */

enum { ONE_FORMAT, MEDIUM, OTHERS };

static const struct mix {
    int n_qkv, n_gate_up; /* matrices */
    enum cushim_format qkv[3], o, gate_up[2], down;
} mixes[] = {
    [ONE_FORMAT] =
        {1, 1, {CUSHIM_FORMAT_Q4K}, CUSHIM_FORMAT_Q4K, {CUSHIM_FORMAT_Q4K}, CUSHIM_FORMAT_Q4K},
    [MEDIUM] = {3,
                2,
                {CUSHIM_FORMAT_Q4K, CUSHIM_FORMAT_Q4K, CUSHIM_FORMAT_Q6K},
                CUSHIM_FORMAT_Q4K,
                {CUSHIM_FORMAT_Q4K, CUSHIM_FORMAT_Q4K},
                CUSHIM_FORMAT_Q6K},
    [OTHERS] =
        {1, 1, {CUSHIM_FORMAT_Q5K}, CUSHIM_FORMAT_Q8_0, {CUSHIM_FORMAT_Q5_0}, CUSHIM_FORMAT_Q4_0},
};

/* Of q4_0 with the scales, which are behind all nibbles. */
static size_t bytes_of_block(enum cushim_format format) {
    return (size_t)cushim_quant_layout((enum quant_format)format).bytes +
           (format == CUSHIM_FORMAT_Q4_0 ? 2 : 0);
}

static size_t bytes_of_rows(enum cushim_format format, int64_t m, int64_t k) {
    return (size_t)(m * k / cushim_quant_layout((enum quant_format)format).values) *
           bytes_of_block(format);
}

/* Any bytes, with scales that give values of about 1 / 16. */
static void make_blocks(struct kernel_draw *draw, uint8_t *blocks, size_t n,
                        enum cushim_format format) {
    static const double scales[] = {[CUSHIM_FORMAT_Q4_0] = 0x1p-6, [CUSHIM_FORMAT_Q8_0] = 0x1p-10,
                                    [CUSHIM_FORMAT_Q4K] = 0x1p-12, [CUSHIM_FORMAT_Q5_0] = 0x1p-7,
                                    [CUSHIM_FORMAT_Q5K] = 0x1p-13, [CUSHIM_FORMAT_Q6K] = 0x1p-14};
    size_t n_bytes = bytes_of_block(format), n_blocks = n / n_bytes;
    make_bits_u8(draw, blocks, n);
    for (size_t i = 0; i < n_blocks; i++) {
        uint8_t *block = blocks + i * n_bytes;
        if (format == CUSHIM_FORMAT_Q4_0)
            block = blocks + 16 * n_blocks + 2 * i;
        if (format == CUSHIM_FORMAT_Q6K)
            block += 208;
        value_set(TYPE_F16, block, 0, scales[format]);
        if (format == CUSHIM_FORMAT_Q4K || format == CUSHIM_FORMAT_Q5K)
            value_set(TYPE_F16, block, 1,
                      scales[format] * (format == CUSHIM_FORMAT_Q4K ? 7.5 : 15.5));
    }
}

#define MAKE(name, format)                                                                         \
    static void make_##name(struct kernel_draw *draw, void *values, size_t n) {                    \
        make_blocks(draw, values, n, CUSHIM_FORMAT_##format);                                      \
    }
MAKE(only_q4k, Q4K)
MAKE(only_q4_0, Q4_0)
MAKE(only_q5_0, Q5_0)
MAKE(only_q5k, Q5K)
MAKE(only_q6k, Q6K)
MAKE(only_q8_0, Q8_0)

/* Queries and keys of q4k, values of q6k; there are four heads of queries, one of each other. */
static void make_medium_qkv(struct kernel_draw *draw, void *values, size_t n) {
    size_t first = n / (5 * 144 + 210) * 5 * 144;
    make_blocks(draw, values, first, CUSHIM_FORMAT_Q4K);
    make_blocks(draw, (uint8_t *)values + first, n - first, CUSHIM_FORMAT_Q6K);
}

static kernel_make *const makers[][4] = {
    [ONE_FORMAT] = {make_q4k, make_q4k, make_q4k, make_q4k},
    [MEDIUM] = {make_medium_qkv, make_only_q4k, make_only_q4k, make_only_q6k},
    [OTHERS] = {make_only_q5k, make_only_q8_0, make_only_q5_0, make_only_q4_0},
};

/* The rows of the matrices of an operand of a layer; returns how many there are. */
static int rows_of(const int64_t *s, int operand, int64_t rows[3]) {
    const struct mix *mix = &mixes[s[MIX]];
    int64_t kv = s[KV_HEADS] * s[DIM];
    rows[0] = operand == QKV ? s[Q_HEADS] * s[DIM] : operand == GATE_UP ? s[FF] : s[HIDDEN];
    rows[1] = operand == QKV ? kv : operand == GATE_UP ? s[FF] : 0;
    rows[2] = operand == QKV ? kv : 0;
    int n = operand == QKV ? mix->n_qkv : operand == GATE_UP ? mix->n_gate_up : 1;
    if (n == 1)
        rows[0] += rows[1] + rows[2];
    return n;
}

static int64_t columns_of(const int64_t *s, int operand) {
    return operand == O ? s[Q_HEADS] * s[DIM] : operand == DOWN ? s[FF] : s[HIDDEN];
}

static const enum cushim_format *formats_of(const struct mix *mix, int operand) {
    return operand == QKV       ? mix->qkv
           : operand == O       ? &mix->o
           : operand == GATE_UP ? mix->gate_up
                                : &mix->down;
}

static size_t layer_bytes(const int64_t *s, int operand) {
    int64_t rows[3], k = columns_of(s, operand);
    size_t n_bytes = 0;
    int n = rows_of(s, operand, rows);
    for (int i = 0; i < n; i++)
        n_bytes += bytes_of_rows(formats_of(&mixes[s[MIX]], operand)[i], rows[i], k);
    return n_bytes;
}

/* Everything but addresses. */
static struct cushim_decoder shape_of(const struct kernel_case *c) {
    const int64_t *s = c->sizes;
    return (struct cushim_decoder){.n_layers = s[LAYERS],
                                   .hidden = s[HIDDEN],
                                   .ff = s[FF],
                                   .n_q_heads = s[Q_HEADS],
                                   .n_kv_heads = s[KV_HEADS],
                                   .head_dim = s[DIM],
                                   .max_len = MAX_LEN,
                                   .position_stride = 2 * s[KV_HEADS] * s[DIM],
                                   .head_stride = s[DIM],
                                   .eps = EPS};
}

/* A place of the cache, and the number of places up to it. */
static void make_place(struct kernel_draw *draw, void *values, size_t n) {
    int32_t *place = values;
    (void)n;
    place[0] = (int32_t)(draw_bits(draw) % MAX_LEN);
    place[1] = place[0] + 1;
}

static void lay_out(struct kernel_case *c) {
    const int64_t *s = c->sizes;
    struct cushim_decoder decoder = shape_of(c);
    int64_t layers = s[LAYERS];
    static const char *const names[] = {"qkv", "o", "gate_up", "down"};
    for (int i = QKV; i <= DOWN; i++)
        case_operand(c, names[i], TYPE_U8, ROLE_IN, (size_t)layers * layer_bytes(s, i))->make =
            makers[s[MIX]][i];
    case_operand(c, "norms", TYPE_F32, ROLE_IN,
                 (size_t)(layers ? 2 * layers * s[HIDDEN] + rows_of_qkv(s) : 0)); /* and a bias */
    case_operand(c, "cache", TYPE_F32, ROLE_BOTH,
                 (size_t)(layers * MAX_LEN * decoder.position_stride));
    case_operand(c, "tables", TYPE_F32, ROLE_IN, (size_t)(MAX_LEN * s[DIM]));
    case_operand(c, "place", TYPE_I32, ROLE_IN, 2)->make = make_place;
    case_operand(c, "h", TYPE_F32, ROLE_BOTH, (size_t)s[HIDDEN])->make = make_gauss_f32;
    case_operand(c, "scratch", TYPE_F32, ROLE_SCRATCH,
                 cushim_decoder_f32_scratch(&decoder) / sizeof(float));
}

/* The address at this many bytes of an array; an empty one has no address. */
static void *part(void *array, size_t n_bytes) {
    return array ? (char *)array + n_bytes : NULL;
}

/* The matrices of an operand of a layer. */
static void place_weights(const struct kernel_case *c, void *const *at, int operand, int64_t layer,
                          struct cushim_weights *w) {
    const int64_t *s = c->sizes;
    int64_t rows[3], k = columns_of(s, operand);
    size_t from = (size_t)layer * layer_bytes(s, operand);
    int n = rows_of(s, operand, rows);
    for (int i = 0; i < n; i++) {
        w[i].format = formats_of(&mixes[s[MIX]], operand)[i];
        w[i].w = part(at[operand], from);
        if (w[i].format == CUSHIM_FORMAT_Q4_0)
            w[i].scales = part(at[operand], from + (size_t)(rows[i] * k / 2));
        from += bytes_of_rows(w[i].format, rows[i], k);
    }
}

/* Layers with the addresses of one side, host or device. */
static struct cushim_decoder place(const struct kernel_case *c, void *const *at,
                                   struct cushim_decoder_layer layers[MOST_LAYERS]) {
    const int64_t *s = c->sizes;
    struct cushim_decoder decoder = shape_of(c);
    for (int64_t i = 0; i < s[LAYERS]; i++) {
        size_t n = (size_t)i;
        size_t norm_bytes = (size_t)s[HIDDEN] * sizeof(float);
        size_t row_bytes = (size_t)(s[KV_HEADS] * s[DIM]) * sizeof(float); /* of keys, or values */
        layers[i] = (struct cushim_decoder_layer){
            .attention_norm = part(at[NORMS], 2 * n * norm_bytes),
            .ff_norm = part(at[NORMS], (2 * n + 1) * norm_bytes),
            .keys = part(at[CACHE], n * MAX_LEN * 2 * row_bytes),
            .values = part(at[CACHE], (n * MAX_LEN * 2 + 1) * row_bytes)};
        place_weights(c, at, QKV, i, layers[i].qkv);
        place_weights(c, at, O, i, &layers[i].o);
        place_weights(c, at, GATE_UP, i, layers[i].gate_up);
        place_weights(c, at, DOWN, i, &layers[i].down);
        if (s[MIX] == OTHERS)
            layers[i].qkv_bias = part(at[NORMS], 2 * (size_t)s[LAYERS] * norm_bytes);
    }
    decoder.layers = layers;
    decoder.cos_table = at[TABLES];
    decoder.sin_table = (const float *)at[TABLES] + MAX_LEN * (s[DIM] / 2);
    return decoder;
}

static enum cushim_status run(const struct kernel_case *c, struct CUstream_st *stream) {
    struct cushim_decoder_layer layers[MOST_LAYERS];
    struct cushim_decoder decoder = place(c, c->device, layers);
    return cushim_decoder_f32(&decoder, c->device[PLACE], (const int32_t *)c->device[PLACE] + 1,
                              c->device[H], c->device[SCRATCH],
                              cushim_decoder_f32_scratch(&decoder), stream);
}

static void ref(const struct kernel_case *c) {
    struct cushim_decoder_layer layers[MOST_LAYERS];
    struct cushim_decoder decoder = place(c, c->host, layers);
    cushim_decoder_f32_ref(&decoder, c->host[PLACE], (const int32_t *)c->host[PLACE] + 1,
                           c->host[H]);
}

/* The errors of a layer go through all layers behind it. */
static const struct kernel_subject decoder = {.name = "decoder_f32",
                                              .n_sizes = N_SIZES,
                                              .lay_out = lay_out,
                                              .run = run,
                                              .ref = ref,
                                              .tolerance = {.nmse = 1e-10}};

static struct kernel_case *add(struct kernel_table *table, const char *note, int64_t layers,
                               int64_t hidden, int64_t ff, int64_t n_q, int64_t n_kv, int64_t dim) {
    return table_add(table, &decoder, note,
                     (int64_t[]){layers, hidden, ff, n_q, n_kv, dim, ONE_FORMAT}, NULL);
}

void add_decoder(struct kernel_table *table) {
    add(table, NULL, 0, 256, 256, 4, 1, 64);
    add(table, NULL, 1, 0, 256, 4, 1, 64);
    add(table, NULL, 1, 256, 256, 4, 1, 64);
    add(table, NULL, 3, 512, 768, 4, 2, 64);
    add(table, "heads of their own", 2, 256, 512, 4, 4, 64);
    add(table, "half a head has 24 values", 1, 256, 256, 16, 4, 48);
    add(table, "blocks have two tiles", 1, 256, 2304, 36, 4, 64);
    table_add(table, &decoder, "formats of a file", (int64_t[]){1, 256, 512, 4, 1, 64, MEDIUM},
              NULL);
    add(table, "weights off 16", 2, 256, 256, 4, 1, 64)->operands[QKV].offset = 2;
    add(table, "cache off 16", 1, 256, 256, 4, 1, 64)->operands[CACHE].offset = 4;
    add(table, "h off 16", 1, 256, 256, 4, 1, 64)->operands[H].offset = 4;
    add(table, "norms off 16", 1, 256, 256, 4, 1, 64)->operands[NORMS].offset = 8;
    table_add(table, &decoder, "other formats, a bias", (int64_t[]){2, 256, 512, 4, 2, 64, OTHERS},
              NULL);
    table_add(table, &decoder, "blocks of 32 values", (int64_t[]){1, 256, 32, 2, 1, 16, OTHERS},
              NULL);
}
