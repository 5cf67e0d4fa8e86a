/*
 * Reads a model from a GGUF file, takes it through a prompt and prints the tokens that follow.
 *
 *   cc -o gguf_step gguf_step.c $(pkg-config --cflags --libs cushim) -lcushim-kernels -lm
 *   ./gguf_step MODEL.gguf NEXT TOKEN...
 *
 * It takes the architectures llama and qwen2, and weights in Q4_K, Q5_0, Q5_K, Q6_K and Q8_0, each
 * tensor in its own.  Tokens are numbers, because a tokeniser is another program.  Each step has
 * one token; a long prompt would go through cushim_gemm_*_f32, which take many columns.
 *
 * cushim_decoder_f32 turns pairs of the halves of a head.  A llama has its pairs side by side, so
 * the rows of its queries and keys are put in the order of halves as they are read.  Both change
 * alike, so scores stay the same.
 *
 * For the model of kernels/tests/example/gguf_step.py, four more tokens after 5, 17 and 60, it
 * prints:
 *
 *   25 87 88 43
 */
#include <cushim/cushim.h>
#include <cushim/kernels.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "try.h"

static _Noreturn void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void refuse(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("gguf_step: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

/* ---- the file ---- */

/* Text of the file, which ends without a zero. */
struct text {
    uint64_t n;
    const char *at;
};

/* A number or a text; arrays are passed over. */
struct entry {
    struct text key, text;
    double number;
};

/* A tensor with one axis is one row. */
struct tensor {
    struct text name;
    uint64_t rows, columns, offset;
    uint32_t type;
};

struct file {
    const uint8_t *data, *at, *end;
    struct entry *entries;
    struct tensor *tensors;
    uint64_t n_entries, n_tensors;
};

static const uint8_t *take(struct file *file, uint64_t n_bytes) {
    const uint8_t *at = file->at;
    if (n_bytes > (uint64_t)(file->end - at))
        refuse("the file ends too early");
    file->at += n_bytes;
    return at;
}

static uint64_t take_number(struct file *file, size_t n_bytes) {
    uint64_t number = 0;
    memcpy(&number, take(file, n_bytes), n_bytes); /* little-endian, like this program's machine */
    return number;
}

static struct text take_text(struct file *file) {
    struct text text = {.n = take_number(file, 8)};
    text.at = (const char *)take(file, text.n);
    return text;
}

static bool is_text(struct text text, const char *wanted) {
    return text.n == strlen(wanted) && memcmp(text.at, wanted, text.n) == 0;
}

enum { TYPE_F32 = 6, TYPE_STRING = 8, TYPE_ARRAY = 9, TYPE_F64 = 12 };

static void take_value(struct file *file, uint32_t type, struct entry *entry) {
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == TYPE_STRING) {
        entry->text = take_text(file);
    } else if (type == TYPE_ARRAY) {
        uint32_t of = (uint32_t)take_number(file, 4);
        uint64_t n = take_number(file, 8);
        struct entry element;
        if (of == TYPE_ARRAY)
            refuse("arrays of arrays are not taken");
        for (uint64_t i = 0; i < n; i++)
            take_value(file, of, &element);
    } else if (type < sizeof bytes) {
        uint64_t bits = take_number(file, bytes[type]);
        float single;
        memcpy(&single, &bits, sizeof single);
        memcpy(&entry->number, &bits, sizeof entry->number);
        if (type == TYPE_F32)
            entry->number = (double)single;
        else if (type != TYPE_F64)
            entry->number = (double)bits; /* sizes, which are positive */
    } else {
        refuse("%u is no type of a value", type);
    }
}

/* As many as the file says, if it has at least `least` bytes for each. */
static void *many(const struct file *file, uint64_t n, uint64_t least, size_t size) {
    if (n > (uint64_t)(file->end - file->at) / least)
        refuse("the file ends too early");
    void *all = calloc(n ? n : 1, size);
    CHECK(all);
    return all;
}

static const struct entry *entry_of(const struct file *file, const char *key) {
    for (uint64_t i = 0; i < file->n_entries; i++) {
        if (is_text(file->entries[i].key, key))
            return &file->entries[i];
    }
    return NULL;
}

static void parse(struct file *file) {
    if (memcmp(take(file, 4), "GGUF", 4) != 0)
        refuse("this is no GGUF file");
    uint64_t version = take_number(file, 4);
    if (version != 2 && version != 3)
        refuse("GGUF of version %d is not taken", (int)version);
    file->n_tensors = take_number(file, 8);
    file->n_entries = take_number(file, 8);
    file->entries = many(file, file->n_entries, 13, sizeof *file->entries);
    for (uint64_t i = 0; i < file->n_entries; i++) {
        file->entries[i].key = take_text(file);
        take_value(file, (uint32_t)take_number(file, 4), &file->entries[i]);
    }
    file->tensors = many(file, file->n_tensors, 32, sizeof *file->tensors);
    for (uint64_t i = 0; i < file->n_tensors; i++) {
        struct tensor *tensor = &file->tensors[i];
        tensor->name = take_text(file);
        uint64_t n_axes = take_number(file, 4);
        if (n_axes != 1 && n_axes != 2)
            refuse("a tensor has %d axes", (int)n_axes);
        tensor->columns = take_number(file, 8);
        tensor->rows = n_axes == 2 ? take_number(file, 8) : 1;
        tensor->type = (uint32_t)take_number(file, 4);
        tensor->offset = take_number(file, 8);
    }
    const struct entry *aligned = entry_of(file, "general.alignment");
    uint64_t alignment = aligned ? (uint64_t)aligned->number : 32;
    if (alignment == 0)
        refuse("the alignment is 0");
    take(file, -(uint64_t)(file->at - file->data) % alignment);
}

/* ---- weights ---- */

static enum cushim_status gemv_q8_0(const void *w, const float *x, float *y, int64_t m, int64_t k,
                                    struct CUstream_st *stream) {
    return cushim_gemm_q8_0_f32(w, x, y, m, k, 1, NULL, 0, stream);
}

/* The number of a format in the file and in the library, its block, its product with a column, its
 * values.  F32 is for vectors. */
struct format {
    uint32_t type;
    enum cushim_format format;
    uint32_t values, bytes;
    enum cushim_status (*multiply)(const void *w, const float *x, float *y, int64_t m, int64_t k,
                                   struct CUstream_st *stream);
    enum cushim_status (*dequantise)(const void *w, float *y, int64_t rows, int64_t k,
                                     struct CUstream_st *stream);
};
static const struct format formats[] = {
    {.type = 0, .values = 1, .bytes = 4},
    {6, CUSHIM_FORMAT_Q5_0, 32, 22, cushim_gemv_q5_0_f32, cushim_dequant_q5_0_f32},
    {8, CUSHIM_FORMAT_Q8_0, 32, 34, gemv_q8_0, NULL},
    {12, CUSHIM_FORMAT_Q4K, 256, 144, cushim_gemv_q4k_f32, cushim_dequant_q4k_f32},
    {13, CUSHIM_FORMAT_Q5K, 256, 176, cushim_gemv_q5k_f32, cushim_dequant_q5k_f32},
    {14, CUSHIM_FORMAT_Q6K, 256, 210, cushim_gemv_q6k_f32, cushim_dequant_q6k_f32},
};

struct matrix {
    const struct format *format;
    uint8_t *device; /* NULL: the file has no such tensor */
};

static void *on_device(const void *host, size_t n_bytes) {
    cushim_devptr p;
    TRY(cushim_memory_alloc(NULL, n_bytes, &p));
    if (host)
        TRY(cushim_memory_h2d(p, host, n_bytes));
    return (void *)(uintptr_t)p;
}

static const struct tensor *tensor_of(const struct file *file, const char *name) {
    for (uint64_t i = 0; i < file->n_tensors; i++) {
        if (is_text(file->tensors[i].name, name))
            return &file->tensors[i];
    }
    return NULL;
}

/* Rows 2 i and 2 i + 1 of each head become i and i + head_dim / 2. */
static uint8_t *in_halves(const uint8_t *rows, int64_t n_rows, size_t row_bytes, int64_t head_dim) {
    uint8_t *ordered = calloc((size_t)n_rows, row_bytes);
    CHECK(ordered);
    for (int64_t row = 0; row < n_rows; row++) {
        int64_t i = row % head_dim;
        int64_t to = row - i + i / 2 + i % 2 * (head_dim / 2);
        memcpy(ordered + (size_t)to * row_bytes, rows + (size_t)row * row_bytes, row_bytes);
    }
    return ordered;
}

/* head_dim is that of rows which come in neighbours, else 0. */
static struct matrix load(const struct file *file, const char *name, int64_t rows, int64_t columns,
                          int64_t head_dim) {
    const struct tensor *tensor = tensor_of(file, name);
    struct matrix matrix = {0};
    if (!tensor)
        return matrix;
    if (tensor->rows != (uint64_t)rows || tensor->columns != (uint64_t)columns)
        refuse("%s has %lld rows of %lld", name, (long long)tensor->rows,
               (long long)tensor->columns);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (formats[i].type == tensor->type)
            matrix.format = &formats[i];
    }
    if (!matrix.format || columns % matrix.format->values)
        refuse("%s has a format that is not taken (%u)", name, tensor->type);
    size_t row_bytes = (size_t)(columns / matrix.format->values) * matrix.format->bytes;
    uint64_t there = (uint64_t)(file->end - file->at);
    if (tensor->offset > there || (uint64_t)rows > (there - tensor->offset) / row_bytes)
        refuse("%s is beyond the end of the file", name);
    const uint8_t *host = file->at + tensor->offset;
    uint8_t *ordered = head_dim ? in_halves(host, rows, row_bytes, head_dim) : NULL;
    matrix.device = on_device(ordered ? ordered : host, (size_t)rows * row_bytes);
    free(ordered);
    return matrix;
}

/* ---- a model ---- */

struct model {
    struct cushim_decoder decoder;
    int64_t vocabulary;
    struct matrix embedding, head;
    float *norm, *h, *x, *logits;
    int64_t *token;
    int32_t *place; /* the position, and the length of the caches with it */
    void *scratch;
    size_t scratch_bytes;
    struct CUstream_st *stream;
};

/* Of the architecture's entries; eps is far below 1. */
static double number(const struct file *file, const char *architecture, const char *name,
                     double least, double otherwise) {
    char key[128];
    snprintf(key, sizeof key, "%s.%s", architecture, name);
    const struct entry *entry = entry_of(file, key);
    double value = entry ? entry->number : otherwise;
    if (!(value >= least && value < 1e9))
        refuse("%s is missing or wrong", key);
    return value;
}

static struct matrix wanted(const struct file *file, const char *name, int64_t rows,
                            int64_t columns, int64_t head_dim) {
    struct matrix matrix = load(file, name, rows, columns, head_dim);
    if (!matrix.device)
        refuse("%s is missing", name);
    if (!matrix.format->multiply)
        refuse("%s has a format that is not taken (0)", name);
    return matrix;
}

static struct cushim_weights weights(const struct file *file, const char *name, int64_t rows,
                                     int64_t columns, int64_t head_dim) {
    struct matrix matrix = wanted(file, name, rows, columns, head_dim);
    return (struct cushim_weights){.format = matrix.format->format, .w = matrix.device};
}

/* Weights of a norm or a bias are floats. */
static float *vector(const struct file *file, const char *name, int64_t n, bool is_wanted) {
    struct matrix matrix = load(file, name, 1, n, 0);
    if (matrix.device ? matrix.format->type != 0 : is_wanted)
        refuse("%s is missing or not in floats", name);
    return (float *)matrix.device;
}

static float *floats(int64_t n) {
    return on_device(NULL, (size_t)n * sizeof(float));
}

/* The biases of queries, keys and values behind each other, or none. */
static float *biases(const struct file *file, int64_t layer, int64_t n_q, int64_t n_kv) {
    static const char *const names[] = {"q", "k", "v"};
    float *all = floats(n_q + 2 * n_kv), *to = all;
    for (int i = 0; i < 3; i++) {
        char name[64];
        int64_t n = i ? n_kv : n_q;
        snprintf(name, sizeof name, "blk.%d.attn_%s.bias", (int)layer, names[i]);
        const float *bias = vector(file, name, n, to != all);
        if (!bias)
            return NULL;
        TRY(cushim_memory_d2d((cushim_devptr)(uintptr_t)to, (cushim_devptr)(uintptr_t)bias,
                              (size_t)n * sizeof *to));
        to += n;
    }
    return all;
}

static struct cushim_decoder_layer
load_layer(const struct cushim_decoder *d, const struct file *file, int64_t i, int64_t neighbours) {
    int64_t n_q = d->n_q_heads * d->head_dim, n_kv = d->n_kv_heads * d->head_dim;
    struct cushim_decoder_layer layer = {.qkv_bias = biases(file, i, n_q, n_kv)};
    char name[64];
#define NAME(part) (snprintf(name, sizeof name, "blk.%d." part, (int)i), name)
    if (neighbours && layer.qkv_bias)
        refuse("a llama with biases is not taken");
    layer.attention_norm = vector(file, NAME("attn_norm.weight"), d->hidden, true);
    layer.qkv[0] = weights(file, NAME("attn_q.weight"), n_q, d->hidden, neighbours);
    layer.qkv[1] = weights(file, NAME("attn_k.weight"), n_kv, d->hidden, neighbours);
    layer.qkv[2] = weights(file, NAME("attn_v.weight"), n_kv, d->hidden, 0);
    layer.o = weights(file, NAME("attn_output.weight"), d->hidden, n_q, 0);
    layer.ff_norm = vector(file, NAME("ffn_norm.weight"), d->hidden, true);
    layer.gate_up[0] = weights(file, NAME("ffn_gate.weight"), d->ff, d->hidden, 0);
    layer.gate_up[1] = weights(file, NAME("ffn_up.weight"), d->ff, d->hidden, 0);
    layer.down = weights(file, NAME("ffn_down.weight"), d->hidden, d->ff, 0);
    layer.keys = floats(d->max_len * n_kv); /* [position][KV head][head_dim] */
    layer.values = floats(d->max_len * n_kv);
    return layer;
}

static void make_angles(struct cushim_decoder *d, double base) {
    int64_t half = d->head_dim / 2, n = d->max_len * half;
    float *host = calloc((size_t)n, 2 * sizeof *host);
    CHECK(host);
    for (int64_t i = 0; i < n; i++) {
        double angle = (double)(i / half) * pow(base, -(double)(i % half) / (double)half);
        host[i] = (float)cos(angle);
        host[n + i] = (float)sin(angle);
    }
    d->cos_table = on_device(host, 2 * (size_t)n * sizeof *host);
    d->sin_table = d->cos_table + n;
    free(host);
}

static struct model load_model(const struct file *file, int64_t positions,
                               struct CUstream_st *stream) {
    const struct entry *name = entry_of(file, "general.architecture");
    const char *architecture = !name                          ? NULL
                               : is_text(name->text, "llama") ? "llama"
                               : is_text(name->text, "qwen2") ? "qwen2"
                                                              : NULL;
    if (!architecture)
        refuse("the architecture is neither llama nor qwen2");
#define SIZE(name, otherwise) (int64_t) number(file, architecture, name, 1, (double)(otherwise))
    struct model m = {.stream = stream};
    struct cushim_decoder *d = &m.decoder;
    d->max_len = positions;
    d->n_layers = SIZE("block_count", 0);
    d->hidden = SIZE("embedding_length", 0);
    d->ff = SIZE("feed_forward_length", 0);
    d->n_q_heads = SIZE("attention.head_count", 0);
    d->n_kv_heads = SIZE("attention.head_count_kv", d->n_q_heads);
    d->head_dim = SIZE("attention.key_length", d->hidden / d->n_q_heads);
    d->position_stride = d->n_kv_heads * d->head_dim;
    d->head_stride = d->head_dim;
    d->eps = (float)number(file, architecture, "attention.layer_norm_rms_epsilon", 1e-12, 0);
    if (d->head_dim % 2 || d->n_q_heads % d->n_kv_heads ||
        SIZE("rope.dimension_count", d->head_dim) != d->head_dim)
        refuse("its heads are not taken");
    char key[64];
    snprintf(key, sizeof key, "%s.rope.scaling.type", architecture);
    const struct entry *scaling = entry_of(file, key);
    if (tensor_of(file, "rope_freqs.weight") || (scaling && !is_text(scaling->text, "none")))
        refuse("scaled angles are not taken");
    const struct tensor *embedding = tensor_of(file, "token_embd.weight");
    if (!embedding || embedding->rows > INT32_MAX)
        refuse("token_embd.weight is missing or wrong");
    m.vocabulary = (int64_t)embedding->rows;
    m.embedding = wanted(file, "token_embd.weight", m.vocabulary, d->hidden, 0);
    if (!m.embedding.format->dequantise)
        refuse("embeddings in Q8_0 are not taken");
    m.norm = vector(file, "output_norm.weight", d->hidden, true);
    m.head = m.embedding;
    if (tensor_of(file, "output.weight"))
        m.head = wanted(file, "output.weight", m.vocabulary, d->hidden, 0);
    struct cushim_decoder_layer *layers = calloc((size_t)d->n_layers, sizeof *layers);
    CHECK(layers);
    d->layers = layers;
    for (int64_t i = 0; i < d->n_layers; i++)
        layers[i] = load_layer(d, file, i, strcmp(architecture, "llama") == 0 ? d->head_dim : 0);
    make_angles(d, number(file, architecture, "rope.freq_base", 1, 10000));
    m.h = floats(d->hidden);
    m.x = floats(d->hidden);
    m.logits = floats(m.vocabulary);
    m.token = on_device(NULL, sizeof *m.token);
    m.place = on_device(NULL, 2 * sizeof *m.place);
    m.scratch_bytes = cushim_decoder_f32_scratch(d);
    m.scratch = on_device(NULL, m.scratch_bytes);
    return m;
}

/* ---- a step ---- */

static int64_t step(const struct model *m, int64_t token, int64_t position) {
    const struct cushim_decoder *d = &m->decoder;
    const struct format *format = m->embedding.format;
    int64_t row_bytes = d->hidden / format->values * format->bytes, next;
    int32_t place[] = {(int32_t)position, (int32_t)position + 1};
    TRY(cushim_memory_h2d((cushim_devptr)(uintptr_t)m->place, place, sizeof place));
    TRY(format->dequantise(m->embedding.device + token * row_bytes, m->h, 1, d->hidden, m->stream));
    TRY(cushim_decoder_f32(d, m->place, m->place + 1, m->h, m->scratch, m->scratch_bytes,
                           m->stream));
    TRY(cushim_rms_norm_f32(m->h, m->norm, m->x, NULL, d->eps, 1, d->hidden, m->stream));
    TRY(m->head.format->multiply(m->head.device, m->x, m->logits, m->vocabulary, d->hidden,
                                 m->stream));
    TRY(cushim_argmax_f32(m->logits, m->token, m->vocabulary, NULL, 0, m->stream));
    TRY(cushim_memory_d2h(&next, (cushim_devptr)(uintptr_t)m->token, sizeof next));
    return next;
}

static struct file read_file(const char *path) {
    FILE *stream = fopen(path, "rb");
    long n = -1;
    if (!stream || fseek(stream, 0, SEEK_END) != 0 || (n = ftell(stream)) < 0)
        refuse("%s cannot be read", path);
    rewind(stream);
    uint8_t *data = calloc((size_t)n + 1, 1);
    CHECK(data);
    if (fread(data, 1, (size_t)n, stream) != (size_t)n)
        refuse("%s cannot be read", path);
    fclose(stream);
    return (struct file){.data = data, .at = data, .end = data + n};
}

int main(int argc, char **argv) {
    if (argc < 4)
        refuse("gguf_step MODEL.gguf NEXT TOKEN...");
    int64_t n_next = strtol(argv[2], NULL, 10), n_prompt = argc - 3, token = 0;
    struct file file = read_file(argv[1]);
    struct cushim_stream *stream;
    struct CUstream_st *handle;
    if (n_next < 1 || n_next > 1 << 20)
        refuse("%s is no number of tokens", argv[2]);
    parse(&file);
    TRY(cushim_stream_create(NULL, 0, 0, &stream)); /* the copy of a token waits for it */
    TRY(cushim_stream_handle(stream, &handle));
    struct model model = load_model(&file, n_prompt + n_next, handle);
    for (int64_t i = 0; i < n_prompt + n_next - 1; i++) {
        if (i < n_prompt)
            token = strtol(argv[3 + i], NULL, 10);
        if (token < 0 || token >= model.vocabulary)
            refuse("%lld is no token of this model", (long long)token);
        token = step(&model, token, i);
        if (i >= n_prompt - 1)
            printf("%lld%c", (long long)token, i == n_prompt + n_next - 2 ? '\n' : ' ');
    }
    TRY(cushim_stream_destroy(stream));
    return 0;
}
