/*
 * Conversions: arguments, the choice of a path, the launch.
 *
 * Wide kernels need both sides at multiples of 16.  A kernel's name says how e4m3 is decoded: by
 * the instruction of sm_89, by bits before that, or, for libkernels.so, without NaN.
 */
#include "cushim/kernels/bf16.h"
#include "cushim/kernels/convert.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"
#include "kernels/shared/each_tile.h"
#include "kernels/launch/variants.h"

/* A wide kernel follows its plain one. */
#define BOTH(NAME)    NAME, NAME##_WIDE
#define DECODED(NAME) BOTH(NAME##_BITS), BOTH(NAME##_HARDWARE), BOTH(NAME##_FINITE)
enum kernel {
    BOTH(NARROW),
    BOTH(WIDEN),
    BOTH(NARROW_BF16),
    BOTH(WIDEN_BF16),
    DECODED(DEQUANT),
    DECODED(ADD),
    DECODED(MUL)
};
enum { WIDE = NARROW_WIDE - NARROW, HARDWARE = DEQUANT_HARDWARE - DEQUANT_BITS };
enum { FINITE = DEQUANT_FINITE - DEQUANT_BITS };

#define ROWS(NAME, text) [NAME] = {.name = text}, [NAME##_WIDE] = {.name = text "_wide"}
#define DECODED_ROWS(NAME, text)                                                                   \
    ROWS(NAME##_BITS, text "_bits"), ROWS(NAME##_HARDWARE, text "_hardware"),                      \
        ROWS(NAME##_FINITE, text "_finite")
static const struct cushim_kernel kernels[] = {
    ROWS(NARROW, "convert_f32_f16"),
    ROWS(WIDEN, "convert_f16_f32"),
    ROWS(NARROW_BF16, "convert_f32_bf16"),
    ROWS(WIDEN_BF16, "convert_bf16_f32"),
    DECODED_ROWS(DEQUANT, "convert_dequant_e4m3"),
    DECODED_ROWS(ADD, "convert_add_e4m3"),
    DECODED_ROWS(MUL, "convert_mul_e4m3"),
};
CUSHIM_KERNEL_FAMILY(convert, kernels);

enum { SMALL_SIDE_BYTES = 8 }; /* of a wide piece */

static enum cushim_status launch(const struct cushim_kernel_call *call, unsigned kernel,
                                 bool is_wide, size_t narrow_bytes, int64_t n, void **params) {
    int64_t n_per_thread =
        is_wide ? EACH_PIECES * SMALL_SIDE_BYTES / (int64_t)narrow_bytes : EACH_ELEMENTS;
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(n, n_per_thread * EACH_THREADS, INT32_MAX)},
        .block = {EACH_THREADS}};
    return cushim_kernel_call_launch(call, kernel + (is_wide ? WIDE : 0), &shape, params);
}

/* The kernel that decodes as needed on this path. */
static unsigned decoding(const struct cushim_kernel_call *call, enum kernel bits, bool has_nan) {
    return bits + (!has_nan ? FINITE : call->arch >= 89 ? HARDWARE : 0);
}

/* ---- one input ---- */

struct unary {
    const void *src;
    void *dst;
    float scale; /* only of e4m3 */
    int64_t n;
};

static enum cushim_status check_unary(const char *what, const struct unary *args, size_t src_bytes,
                                      size_t dst_bytes, int64_t *n) {
    size_t most_bytes = src_bytes > dst_bytes ? src_bytes : dst_bytes;
    CUSHIM_TRY(cushim_check_size(what, "n", args->n));
    CUSHIM_TRY(cushim_check_count(what, "dst", &args->n, 1, most_bytes, n));
    if (*n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_pointer(what, "src", args->src, src_bytes));
    return cushim_check_pointer(what, "dst", args->dst, dst_bytes);
}

/* What a conversion reads and writes, and its kernel, which may depend on how e4m3 is decoded. */
struct conversion {
    enum kernel kernel;
    size_t src_bytes, dst_bytes; /* of an element */
    bool is_scaled, has_nan;     /* only of e4m3 */
    void (*reference)(const void *args);
};

static enum cushim_status run_unary(const char *what, const struct conversion *to,
                                    struct unary args, struct CUstream_st *stream) {
    size_t narrow_bytes = to->src_bytes < to->dst_bytes ? to->src_bytes : to->dst_bytes;
    struct cushim_kernel_call call;
    int64_t n;
    CUSHIM_TRY(check_unary(what, &args, to->src_bytes, to->dst_bytes, &n));
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_convert, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, to->reference, &args, sizeof args);
    void *plain[] = {&args.src, &args.dst, &args.n};
    void *scaled[] = {&args.src, &args.dst, &args.scale, &args.n};
    unsigned kernel = to->is_scaled ? decoding(&call, to->kernel, to->has_nan) : to->kernel;
    return launch(&call, kernel, cushim_is_aligned(16, args.src, args.dst, NULL, NULL),
                  narrow_bytes, n, to->is_scaled ? scaled : plain);
}

#define CONVERT(name, from, to, kernel_)                                                           \
    static void name##_reference(const void *args) {                                               \
        const struct unary *unary = args;                                                          \
        cushim_convert_##name##_ref(unary->src, unary->dst, unary->n);                             \
    }                                                                                              \
    enum cushim_status cushim_convert_##name(const from *src, to *dst, int64_t n,                  \
                                             struct CUstream_st *stream) {                         \
        static const struct conversion conversion = {.kernel = kernel_,                            \
                                                     .src_bytes = sizeof *src,                     \
                                                     .dst_bytes = sizeof *dst,                     \
                                                     .reference = name##_reference};               \
        return run_unary(__func__, &conversion, (struct unary){.src = src, .dst = dst, .n = n},    \
                         stream);                                                                  \
    }

CONVERT(f32_f16, float, uint16_t, NARROW)
CONVERT(f16_f32, uint16_t, float, WIDEN)
CONVERT(f32_bf16, float, uint16_t, NARROW_BF16)
CONVERT(bf16_f32, uint16_t, float, WIDEN_BF16)

#define DEQUANT_OF(function, nan)                                                                  \
    static void function##_reference(const void *args) {                                           \
        const struct unary *unary = args;                                                          \
        function##_ref(unary->src, unary->dst, unary->scale, unary->n);                            \
    }                                                                                              \
    enum cushim_status function(const uint8_t *src, uint16_t *dst, float scale, int64_t n,         \
                                struct CUstream_st *stream) {                                      \
        static const struct conversion to = {DEQUANT_BITS, sizeof *src, sizeof *dst,               \
                                             true,         nan,         function##_reference};     \
        return run_unary(__func__, &to, (struct unary){src, dst, scale, n}, stream);               \
    }

DEQUANT_OF(cushim_dequant_e4m3_f16, true)
DEQUANT_OF(cushim_variant_dequant_e4m3_f16, false)

/* ---- two inputs of e4m3 ---- */

struct scales {
    float a, b;
};

struct binary {
    const uint8_t *a, *b;
    uint16_t *c;
    struct scales scales;
    int64_t n;
};

static enum cushim_status run_binary(const char *what, enum kernel bits, bool has_nan,
                                     void (*reference)(const void *args), struct binary args,
                                     struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    int64_t n;
    CUSHIM_TRY(cushim_check_size(what, "n", args.n));
    CUSHIM_TRY(cushim_check_count(what, "c", &args.n, 1, sizeof(uint16_t), &n));
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_pointer(what, "a", args.a, sizeof(uint8_t)));
    CUSHIM_TRY(cushim_check_pointer(what, "b", args.b, sizeof(uint8_t)));
    CUSHIM_TRY(cushim_check_pointer(what, "c", args.c, sizeof(uint16_t)));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_convert, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, reference, &args, sizeof args);
    void *params[] = {&args.a, &args.b, &args.c, &args.scales, &args.n};
    return launch(&call, decoding(&call, bits, has_nan),
                  cushim_is_aligned(16, args.a, args.b, args.c, NULL), sizeof(uint8_t), n, params);
}

#define BINARY(function, bits, has_nan)                                                            \
    static void function##_reference(const void *args) {                                           \
        const struct binary *binary = args;                                                        \
        function##_ref(binary->a, binary->b, binary->c, binary->scales.a, binary->scales.b,        \
                       binary->n);                                                                 \
    }                                                                                              \
    enum cushim_status function(const uint8_t *a, const uint8_t *b, uint16_t *c, float scale_a,    \
                                float scale_b, int64_t n, struct CUstream_st *stream) {            \
        return run_binary(__func__, bits, has_nan, function##_reference,                           \
                          (struct binary){a, b, c, {scale_a, scale_b}, n}, stream);                \
    }

BINARY(cushim_add_e4m3_f16, ADD_BITS, true)
BINARY(cushim_mul_e4m3_f16, MUL_BITS, true)
BINARY(cushim_variant_add_e4m3_f16, ADD_BITS, false)
BINARY(cushim_variant_mul_e4m3_f16, MUL_BITS, false)
