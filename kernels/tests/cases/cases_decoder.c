/*
 * A decoder's layers for one token: all that goes from step to step, and the products' early
 * weights.
 */
#include "kernels/tests/cases/cases_gemv.h"
#include "kernels/tests/cases/cases_q4k.h"

enum { MAX_LEN = 70, MOST_LAYERS = 3 };
static const float EPS = 1e-5f;

enum { QKV, O, GATE_UP, DOWN, NORMS, CACHE, TABLES, PLACE, H, SCRATCH };
enum { LAYERS, HIDDEN, FF, Q_HEADS, KV_HEADS, DIM };

static int64_t rows_of_qkv(const int64_t *s) {
    return (s[Q_HEADS] + 2 * s[KV_HEADS]) * s[DIM];
}

static size_t q4k_bytes(int64_t m, int64_t k) {
    return (size_t)(m * (k / Q4K_VALUES) * Q4K_BYTES);
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
    int64_t n_q = s[Q_HEADS] * s[DIM], layers = s[LAYERS];
    struct {
        const char *name;
        int64_t m, k;
    } matrices[] = {{"qkv", rows_of_qkv(s), s[HIDDEN]},
                    {"o", s[HIDDEN], n_q},
                    {"gate_up", 2 * s[FF], s[HIDDEN]},
                    {"down", s[HIDDEN], s[FF]}};
    for (int i = 0; i < 4; i++)
        case_operand(c, matrices[i].name, TYPE_U8, ROLE_IN,
                     (size_t)layers * q4k_bytes(matrices[i].m, matrices[i].k))
            ->make = make_q4k;
    case_operand(c, "norms", TYPE_F32, ROLE_IN, (size_t)(2 * layers * s[HIDDEN]));
    case_operand(c, "cache", TYPE_F32, ROLE_BOTH,
                 (size_t)(layers * MAX_LEN * decoder.position_stride));
    case_operand(c, "tables", TYPE_F32, ROLE_IN, (size_t)(MAX_LEN * s[DIM]));
    case_operand(c, "place", TYPE_I32, ROLE_IN, 2)->make = make_place;
    case_operand(c, "h", TYPE_F32, ROLE_BOTH, (size_t)s[HIDDEN])->make = make_gauss_f32;
    case_operand(c, "scratch", TYPE_F32, ROLE_SCRATCH,
                 cushim_decoder_q4k_f32_scratch(&decoder) / sizeof(float));
}

/* The address at this many bytes of an array; an empty one has no address. */
static void *part(void *array, size_t n_bytes) {
    return array ? (char *)array + n_bytes : NULL;
}

/* Layers with the addresses of one side, host or device. */
static struct cushim_decoder place(const struct kernel_case *c, void *const *at,
                                   struct cushim_decoder_layer layers[MOST_LAYERS]) {
    const int64_t *s = c->sizes;
    struct cushim_decoder decoder = shape_of(c);
    int64_t n_q = s[Q_HEADS] * s[DIM];
    for (int64_t i = 0; i < s[LAYERS]; i++) {
        size_t n = (size_t)i;
        size_t norm_bytes = (size_t)s[HIDDEN] * sizeof(float);
        size_t row_bytes = (size_t)(s[KV_HEADS] * s[DIM]) * sizeof(float); /* of keys, or values */
        layers[i] = (struct cushim_decoder_layer){
            .qkv = part(at[QKV], n * q4k_bytes(rows_of_qkv(s), s[HIDDEN])),
            .o = part(at[O], n * q4k_bytes(s[HIDDEN], n_q)),
            .gate_up = part(at[GATE_UP], n * q4k_bytes(2 * s[FF], s[HIDDEN])),
            .down = part(at[DOWN], n * q4k_bytes(s[HIDDEN], s[FF])),
            .attention_norm = part(at[NORMS], 2 * n * norm_bytes),
            .ff_norm = part(at[NORMS], (2 * n + 1) * norm_bytes),
            .keys = part(at[CACHE], n * MAX_LEN * 2 * row_bytes),
            .values = part(at[CACHE], (n * MAX_LEN * 2 + 1) * row_bytes)};
    }
    decoder.layers = layers;
    decoder.cos_table = at[TABLES];
    decoder.sin_table = (const float *)at[TABLES] + MAX_LEN * (s[DIM] / 2);
    return decoder;
}

static enum cushim_status run(const struct kernel_case *c, struct CUstream_st *stream) {
    struct cushim_decoder_layer layers[MOST_LAYERS];
    struct cushim_decoder decoder = place(c, c->device, layers);
    return cushim_decoder_q4k_f32(&decoder, c->device[PLACE], (const int32_t *)c->device[PLACE] + 1,
                                  c->device[H], c->device[SCRATCH],
                                  cushim_decoder_q4k_f32_scratch(&decoder), stream);
}

static void ref(const struct kernel_case *c) {
    struct cushim_decoder_layer layers[MOST_LAYERS];
    struct cushim_decoder decoder = place(c, c->host, layers);
    cushim_decoder_q4k_f32_ref(&decoder, c->host[PLACE], (const int32_t *)c->host[PLACE] + 1,
                               c->host[H]);
}

/* The errors of a layer go through all layers behind it. */
static const struct kernel_subject decoder = {.name = "decoder_q4k_f32",
                                              .n_sizes = 6,
                                              .lay_out = lay_out,
                                              .run = run,
                                              .ref = ref,
                                              .tolerance = {.nmse = 1e-10}};

static struct kernel_case *add(struct kernel_table *table, const char *note, int64_t layers,
                               int64_t hidden, int64_t ff, int64_t n_q, int64_t n_kv, int64_t dim) {
    return table_add(table, &decoder, note, (int64_t[]){layers, hidden, ff, n_q, n_kv, dim}, NULL);
}

void add_decoder(struct kernel_table *table) {
    add(table, NULL, 0, 256, 256, 4, 1, 64);
    add(table, NULL, 1, 0, 256, 4, 1, 64);
    add(table, NULL, 1, 256, 256, 4, 1, 64);
    add(table, NULL, 3, 512, 768, 4, 2, 64);
    add(table, "heads of their own", 2, 256, 512, 4, 4, 64);
    add(table, "half a head has 24 values", 1, 256, 256, 16, 4, 48);
    add(table, "blocks have two tiles", 1, 256, 2304, 36, 4, 64);
    add(table, "weights off 16", 2, 256, 256, 4, 1, 64)->operands[QKV].offset = 2;
    add(table, "cache off 16", 1, 256, 256, 4, 1, 64)->operands[CACHE].offset = 4;
    add(table, "h off 16", 1, 256, 256, 4, 1, 64)->operands[H].offset = 4;
    add(table, "norms off 16", 1, 256, 256, 4, 1, 64)->operands[NORMS].offset = 8;
}
