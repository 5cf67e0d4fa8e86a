/*
 * A decode step of a language model, captured once: each replay reads a token and writes the next
 * one.
 *
 *   cc -o decode decode.c $(pkg-config --cflags --libs cushim) -lcushim-kernels -lm
 *   ./decode           a small model, whose every token is compared with the references
 *   ./decode 8B        the shape of Llama 3 8B, 1,000 positions in: microseconds of a replay
 *
 * The weights are random.  The token, its position and the length of the cache change from token to
 * token, so they are in device memory and the step itself updates them: one graph serves all
 * tokens.  Each kernel in it starts while the previous one ends.  Without an argument it prints:
 *
 *   4 tokens of 2 layers as the references have them
 */
#include <cushim/cushim.h>
#include <cushim/kernels.h>
#include <cushim/kernels_ref.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "try.h"

/* Every k of a product is a multiple of 256. */
struct shape {
    int64_t layers, hidden, ff, q_heads, kv_heads, head_dim, vocabulary, positions;
};
static const struct shape small = {2, 512, 768, 8, 2, 64, 1000, 32};
static const struct shape like_8b = {32, 4096, 14336, 32, 8, 128, 128256, 2048};

static const float EPS = 1e-5f;

enum { MOST_LAYERS = 32, Q4K_VALUES = 256, Q4K_BYTES = 144, FIRST_TOKEN = 7 };

/* All on the device, or all on the host for the references. */
struct model {
    struct shape shape;
    struct CUstream_st *stream; /* NULL: use the references */
    float *embedding, *norm, *cosines, *sines;
    uint8_t *head;
    /* a layer's cache, [position][keys, values][head][head_dim]; each token is one row */
    struct cushim_decoder_layer layers[MOST_LAYERS];
    /* the state of the loop: the token, its position, the number of tokens with it */
    int64_t *token;
    int32_t *position, *length;
    /* activations */
    float *h, *x, *logits;
    void *scratch;
    size_t scratch_bytes;
};

static int64_t rows_of_qkv(const struct shape *s) {
    return (s->q_heads + 2 * s->kv_heads) * s->head_dim;
}

/* ---- a step ---- */

#define RUN(name, ...)                                                                             \
    do {                                                                                           \
        if (m->stream)                                                                             \
            TRY(cushim_##name(__VA_ARGS__, m->stream));                                            \
        else                                                                                       \
            cushim_##name##_ref(__VA_ARGS__);                                                      \
    } while (0)

/* The same for functions that use scratch. */
#define RUN_IN_SCRATCH(name, ...)                                                                  \
    do {                                                                                           \
        if (m->stream)                                                                             \
            TRY(cushim_##name(__VA_ARGS__, m->scratch, m->scratch_bytes, m->stream));              \
        else                                                                                       \
            cushim_##name##_ref(__VA_ARGS__);                                                      \
    } while (0)

static struct cushim_decoder decoder_of(const struct shape *s) {
    int64_t n_kv = s->kv_heads * s->head_dim;
    return (struct cushim_decoder){.n_layers = s->layers,
                                   .hidden = s->hidden,
                                   .ff = s->ff,
                                   .n_q_heads = s->q_heads,
                                   .n_kv_heads = s->kv_heads,
                                   .head_dim = s->head_dim,
                                   .max_len = s->positions,
                                   .position_stride = 2 * n_kv,
                                   .head_stride = s->head_dim,
                                   .eps = EPS};
}

static void step(const struct model *m) {
    const struct shape *s = &m->shape;
    struct cushim_decoder decoder = decoder_of(s);
    decoder.layers = m->layers;
    decoder.cos_table = m->cosines;
    decoder.sin_table = m->sines;
    RUN(gather_f32_i64, m->embedding, m->token, m->h, 1, s->hidden, s->vocabulary);
    RUN_IN_SCRATCH(decoder_f32, &decoder, m->position, m->length, m->h);
    RUN(rms_norm_f32, m->h, m->norm, m->x, NULL, EPS, 1, s->hidden);
    RUN(gemv_q4k_f32, m->head, m->x, m->logits, s->vocabulary, s->hidden);
    RUN_IN_SCRATCH(argmax_f32, m->logits, m->token, s->vocabulary);
    RUN(counter_add_i32, m->position, 1);
    RUN(counter_add_i32, m->length, 1);
}

/* ---- a model ---- */

/* The address of each buffer of a model, and its initial content, which depends only on the
 * seed. */
struct maker {
    bool is_device;
    uint64_t seed;
};

static uint64_t next(struct maker *maker) { /* xorshift64 */
    maker->seed ^= maker->seed << 13;
    maker->seed ^= maker->seed >> 7;
    return maker->seed ^= maker->seed << 17;
}

/* Takes ownership of the host's `bytes`. */
static void *placed(const struct maker *maker, void *host, size_t bytes) {
    cushim_devptr p;
    if (!maker->is_device)
        return host;
    TRY(cushim_memory_alloc(NULL, bytes, &p));
    TRY(cushim_memory_h2d(p, host, bytes));
    free(host);
    return (void *)(uintptr_t)p;
}

static void *allocated(size_t bytes) {
    void *host = calloc(1, bytes);
    CHECK(host);
    return host;
}

static void *zeros(struct maker *maker, size_t bytes) {
    return placed(maker, allocated(bytes), bytes);
}

static float *floats(struct maker *maker, int64_t n, float least, float most) {
    float *host = allocated((size_t)n * sizeof *host);
    for (int64_t i = 0; i < n; i++)
        host[i] = least + (most - least) * (float)(next(maker) >> 40) * 0x1p-24f;
    return placed(maker, host, (size_t)n * sizeof *host);
}

/* Random super-blocks: scales d = 2^e and minima 7.5 d give values with mean 0 and size near 1 /
 * sqrt(k). */
static void *q4k(struct maker *maker, int64_t m, int64_t k) {
    int64_t n_blocks = m * (k / Q4K_VALUES);
    uint8_t *host = allocated((size_t)n_blocks * Q4K_BYTES);
    int e = (int)lrint(-8 - log2(sqrt((double)k)));
    uint16_t head[2] = {(uint16_t)((e + 15) << 10), (uint16_t)((e + 2 + 15) << 10 | 0x380)};
    for (int64_t i = 0; i < n_blocks; i++) {
        uint64_t words[Q4K_BYTES / 8];
        for (int j = 0; j < Q4K_BYTES / 8; j++)
            words[j] = next(maker);
        memcpy(words, head, sizeof head);
        memcpy(host + i * Q4K_BYTES, words, sizeof words);
    }
    return placed(maker, host, (size_t)n_blocks * Q4K_BYTES);
}

static void *one_number(const struct maker *maker, int64_t value, size_t bytes) {
    void *host = allocated(bytes);
    memcpy(host, &value, bytes); /* little-endian, like the device */
    return placed(maker, host, bytes);
}

/* The angles of all positions. */
static float *angles(const struct maker *maker, const struct shape *s, double (*of)(double)) {
    int64_t half = s->head_dim / 2;
    float *host = allocated((size_t)(s->positions * half) * sizeof *host);
    for (int64_t i = 0; i < s->positions * half; i++)
        host[i] = (float)of((double)(i / half) * pow(500000, -(double)(i % half) / (double)half));
    return placed(maker, host, (size_t)(s->positions * half) * sizeof *host);
}

static struct cushim_weights weights(struct maker *maker, int64_t m, int64_t k) {
    return (struct cushim_weights){.format = CUSHIM_FORMAT_Q4K, .w = q4k(maker, m, k)};
}

static void make_layer(struct cushim_decoder_layer *layer, const struct shape *s,
                       struct maker *maker) {
    int64_t n_cache = s->positions * 2 * s->kv_heads * s->head_dim;
    layer->qkv[0] = weights(maker, rows_of_qkv(s), s->hidden);
    layer->o = weights(maker, s->hidden, s->q_heads * s->head_dim);
    layer->gate_up[0] = weights(maker, 2 * s->ff, s->hidden);
    layer->down = weights(maker, s->hidden, s->ff);
    layer->attention_norm = floats(maker, s->hidden, 0.5f, 1.5f);
    layer->ff_norm = floats(maker, s->hidden, 0.5f, 1.5f);
    layer->keys = floats(maker, n_cache, -1, 1); /* as if earlier tokens had filled it */
    layer->values = layer->keys + s->kv_heads * s->head_dim;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* The most scratch that any function needs. */
static size_t scratch_of(const struct shape *s) {
    struct cushim_decoder decoder = decoder_of(s);
    return larger(cushim_argmax_f32_scratch(s->vocabulary), cushim_decoder_f32_scratch(&decoder));
}

static struct model *make_model(const struct shape *s, int64_t position,
                                struct CUstream_st *stream) {
    struct maker maker = {stream != NULL, 88172645463325252u};
    struct model *m = allocated(sizeof *m);
    size_t size = sizeof(float);
    m->shape = *s;
    m->stream = stream;
    m->embedding = floats(&maker, s->vocabulary * s->hidden, -1, 1);
    m->norm = floats(&maker, s->hidden, 0.5f, 1.5f);
    m->head = q4k(&maker, s->vocabulary, s->hidden);
    for (int64_t i = 0; i < s->layers; i++)
        make_layer(&m->layers[i], s, &maker);
    m->cosines = angles(&maker, s, cos);
    m->sines = angles(&maker, s, sin);
    m->token = one_number(&maker, FIRST_TOKEN, sizeof *m->token);
    m->position = one_number(&maker, position, sizeof *m->position);
    m->length = one_number(&maker, position + 1, sizeof *m->length);
    m->h = zeros(&maker, (size_t)s->hidden * size);
    m->x = zeros(&maker, (size_t)s->hidden * size);
    m->logits = zeros(&maker, (size_t)s->vocabulary * size);
    m->scratch_bytes = scratch_of(s);
    m->scratch = m->scratch_bytes ? zeros(&maker, m->scratch_bytes) : NULL;
    return m;
}

/* ---- a graph ---- */

static int capture(struct cushim_stream *stream, void *cookie) {
    (void)stream;
    step(cookie);
    return 0;
}

/* Compare the logits of both, and the tokens they chose. */
static void compare(const struct model *device, const struct model *host) {
    int64_t n = device->shape.vocabulary, token;
    float *found = allocated((size_t)n * sizeof *found);
    double error = 0, power = 0;
    TRY(cushim_memory_d2h(found, (cushim_devptr)(uintptr_t)device->logits,
                          (size_t)n * sizeof *found));
    TRY(cushim_memory_d2h(&token, (cushim_devptr)(uintptr_t)device->token, sizeof token));
    for (int64_t i = 0; i < n; i++) {
        error += pow(found[i] - (double)host->logits[i], 2);
        power += pow(host->logits[i], 2);
    }
    CHECK(error <= 1e-10 * power && power > 0);
    CHECK(token == *host->token);
    free(found);
}

static void check(const struct model *device, struct cushim_graphexec *exec,
                  struct cushim_stream *stream) {
    enum { TOKENS = 4 };
    struct model *host = make_model(&device->shape, 3, NULL);
    for (int i = 0; i < TOKENS; i++) {
        TRY(cushim_graphexec_launch(exec, stream));
        TRY(cushim_stream_synchronize(stream));
        step(host);
        compare(device, host);
    }
    printf("%d tokens of %d layers as the references have them\n", TOKENS,
           (int)device->shape.layers);
}

static void measure(struct cushim_graphexec *exec, struct cushim_stream *stream) {
    enum { WARM = 5, ROUNDS = 50 };
    struct cushim_event *begin, *end;
    float ms;
    TRY(cushim_event_create(NULL, 0, &begin));
    TRY(cushim_event_create(NULL, 0, &end));
    for (int i = 0; i < WARM + ROUNDS; i++) {
        if (i == WARM)
            TRY(cushim_event_record(begin, stream));
        TRY(cushim_graphexec_launch(exec, stream));
    }
    TRY(cushim_event_record(end, stream));
    TRY(cushim_event_synchronize(end));
    TRY(cushim_event_elapsed(begin, end, &ms));
    printf("%.1f us a token\n", (double)ms * 1e3 / ROUNDS);
    TRY(cushim_event_destroy(begin));
    TRY(cushim_event_destroy(end));
}

int main(int argc, char **argv) {
    bool is_8b = argc > 1 && strcmp(argv[1], "8B") == 0;
    struct cushim_stream *stream;
    struct CUstream_st *handle;
    struct cushim_graph *graph;
    struct cushim_graphexec *exec;
    int result;
    TRY(cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &stream));
    TRY(cushim_stream_handle(stream, &handle));
    TRY(cushim_kernels_load());
    struct model *model = make_model(is_8b ? &like_8b : &small, is_8b ? 1000 : 3, handle);
    TRY(cushim_graph_capture(stream, NULL, capture, model, &result, &graph, &exec));
    if (is_8b)
        measure(exec, stream);
    else
        check(model, exec, stream);
    TRY(cushim_graphexec_destroy(exec));
    TRY(cushim_graph_destroy(graph));
    TRY(cushim_stream_destroy(stream));
    return 0;
}
