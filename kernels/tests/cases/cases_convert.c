/*
 * Conversions at every edge: all codes of e4m3, alone and in all pairs, all numbers of binary16,
 * and floats at and beside the middle between two of those.
 */
#include <math.h>
#include <string.h>

#include "kernels/tests/cases/cases_bf16.h"
#include "kernels/tests/frame/case.h"

enum { SRC, DST };
enum { A, B, C };

/* ---- makers ---- */

static void make_all_codes(struct kernel_draw *draw, void *values, size_t n) {
    uint8_t *codes = values;
    uint64_t first = draw_bits(draw);
    for (size_t i = 0; i < n; i++)
        codes[i] = (uint8_t)(first + i);
}

/* With make_all_codes: all pairs within 65536. */
static void make_slow_codes(struct kernel_draw *draw, void *values, size_t n) {
    uint8_t *codes = values;
    uint64_t first = draw_bits(draw);
    for (size_t i = 0; i < n; i++)
        codes[i] = (uint8_t)(first + i / 256);
}

static void make_all_f16(struct kernel_draw *draw, void *values, size_t n) {
    uint16_t *bits = values;
    uint64_t first = draw_bits(draw);
    for (size_t i = 0; i < n; i++)
        bits[i] = (uint16_t)(first + i);
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A float by its exponent: below the least half, subnormal there, normal, around the largest. */
static float draw_near_f16(struct kernel_draw *draw) {
    uint64_t bits = draw_bits(draw);
    uint32_t exponent = 127 - 28 + (uint32_t)(bits % 46);
    uint32_t middle = (uint32_t)(bits >> 8 & 0x3FF) << 13 | 1 << 12; /* between two normal halves */
    uint32_t beside = (uint32_t)(bits >> 20 & 3);                    /* 1 is the middle itself */
    uint32_t fraction = bits >> 24 & 1 ? (middle - 1 + beside) & 0x7FFFFF : bits >> 25 & 0x7FFFFF;
    return float_of((uint32_t)(bits >> 63) << 31 | exponent << 23 | fraction);
}

static void make_near_f16(struct kernel_draw *draw, void *values, size_t n) {
    static const float edges[] = {0.f,      -0.f,      65504.f,   65519.996f, 65520.f,
                                  -65520.f, 0x1p-24f,  0x1p-25f,  0x1.8p-25f, 0x1.000002p-25f,
                                  0x1p-14f, 0x1p-149f, -0x1p127f, INFINITY,   -INFINITY,
                                  NAN};
    float *floats = values;
    for (size_t i = 0; i < n; i++) {
        uint64_t which = draw_bits(draw);
        floats[i] =
            which % 8 ? draw_near_f16(draw) : edges[which / 8 % (sizeof edges / sizeof *edges)];
    }
}

/* ---- subjects ---- */

static void lay_out_narrow(struct kernel_case *c) {
    size_t n = (size_t)c->sizes[0];
    case_operand(c, "src", TYPE_F32, ROLE_IN, n)->make = make_near_f16;
    case_operand(c, "dst", TYPE_F16, ROLE_OUT, n);
}

static enum cushim_status run_narrow(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_convert_f32_f16(c->device[SRC], c->device[DST], c->sizes[0], stream);
}

static void ref_narrow(const struct kernel_case *c) {
    cushim_convert_f32_f16_ref(c->host[SRC], c->host[DST], c->sizes[0]);
}

static void lay_out_widen(struct kernel_case *c) {
    size_t n = (size_t)c->sizes[0];
    case_operand(c, "src", TYPE_F16, ROLE_IN, n)->make = make_all_f16;
    case_operand(c, "dst", TYPE_F32, ROLE_OUT, n);
}

static enum cushim_status run_widen(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_convert_f16_f32(c->device[SRC], c->device[DST], c->sizes[0], stream);
}

static void ref_widen(const struct kernel_case *c) {
    cushim_convert_f16_f32_ref(c->host[SRC], c->host[DST], c->sizes[0]);
}

static void lay_out_dequant(struct kernel_case *c) {
    size_t n = (size_t)c->sizes[0];
    case_operand(c, "src", TYPE_E4M3, ROLE_IN, n)->make = make_all_codes;
    case_operand(c, "dst", TYPE_F16, ROLE_OUT, n);
}

static enum cushim_status run_dequant(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_dequant_e4m3_f16(c->device[SRC], c->device[DST], (float)c->scalars[0],
                                   c->sizes[0], stream);
}

static void ref_dequant(const struct kernel_case *c) {
    cushim_dequant_e4m3_f16_ref(c->host[SRC], c->host[DST], (float)c->scalars[0], c->sizes[0]);
}

static void lay_out_of_two(struct kernel_case *c) {
    size_t n = (size_t)c->sizes[0];
    case_operand(c, "a", TYPE_E4M3, ROLE_IN, n)->make = make_all_codes;
    case_operand(c, "b", TYPE_E4M3, ROLE_IN, n)->make = make_slow_codes;
    case_operand(c, "c", TYPE_F16, ROLE_OUT, n);
}

#define OF_TWO(op)                                                                                 \
    static enum cushim_status run_##op(const struct kernel_case *c, struct CUstream_st *stream) {  \
        return cushim_##op##_e4m3_f16(c->device[A], c->device[B], c->device[C],                    \
                                      (float)c->scalars[0], (float)c->scalars[1], c->sizes[0],     \
                                      stream);                                                     \
    }                                                                                              \
    static void ref_##op(const struct kernel_case *c) {                                            \
        cushim_##op##_e4m3_f16_ref(c->host[A], c->host[B], c->host[C], (float)c->scalars[0],       \
                                   (float)c->scalars[1], c->sizes[0]);                             \
    }

OF_TWO(add)
OF_TWO(mul)

static const struct kernel_subject subjects[] = {
    {.name = "convert_f32_f16",
     .n_sizes = 1,
     .lay_out = lay_out_narrow,
     .run = run_narrow,
     .ref = ref_narrow},
    {.name = "convert_f16_f32",
     .n_sizes = 1,
     .lay_out = lay_out_widen,
     .run = run_widen,
     .ref = ref_widen},
    {.name = "dequant_e4m3_f16",
     .n_sizes = 1,
     .n_scalars = 1,
     .lay_out = lay_out_dequant,
     .run = run_dequant,
     .ref = ref_dequant},
    {.name = "add_e4m3_f16",
     .n_sizes = 1,
     .n_scalars = 2,
     .lay_out = lay_out_of_two,
     .run = run_add,
     .ref = ref_add},
    {.name = "mul_e4m3_f16",
     .n_sizes = 1,
     .n_scalars = 2,
     .lay_out = lay_out_of_two,
     .run = run_mul,
     .ref = ref_mul},
};

/* ---- cases ---- */

/* With the second pair many products of e4m3 lie at the middle between two halves. */
static const double scales[][2] = {{1, 1},          {0x1.01p-1, 0x1.01p0}, {0, -1}, {-3.7, 0.013},
                                   {1e-40, 1e-38f}, {1e30, 1e-30},         {NAN, 1}};

void cases_convert(struct kernel_table *table) {
    /* around a warp's chunk, and the chunks of all warps of a block, with remainders of every
     * length */
    static const int64_t sizes[] = {511, 512, 513, 8191, 8192, 8193, 65536 + 7};
    for (unsigned s = 0; s < sizeof subjects / sizeof *subjects; s++) {
        const struct kernel_subject *subject = &subjects[s];
        const double *one = subject->n_scalars ? scales[0] : NULL;
        const double *other = subject->n_scalars ? scales[1] : NULL;
        for (int i = 0; i < n_edge_sizes; i++)
            table_add(table, subject, NULL, &edge_sizes[i], one);
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
            table_add(table, subject, NULL, &sizes[i], other);
        table_add_offsets(table, table_add(table, subject, NULL, (int64_t[]){2000}, one));
        for (unsigned i = 1; subject->n_scalars && i < sizeof scales / sizeof *scales; i++) {
            table_add(table, subject, "all codes", (int64_t[]){65536}, scales[i]);
            table_add(table, subject, "all codes, few", (int64_t[]){300}, scales[i]);
        }
    }
    cases_bf16_convert(table);
}
