/*
 * Inputs, made from a key: the same key gives the same values on every machine.
 *
 * Floats of every type are drawn as doubles and rounded once to the type.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/tests/frame/frame.h"

/* ---- draws ---- */

/* splitmix64: any state is good, even 0. */
uint64_t draw_bits(struct kernel_draw *draw) {
    uint64_t z = draw->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

double draw_uniform(struct kernel_draw *draw) {
    return (double)(int64_t)(draw_bits(draw) >> 11) * 0x1p-52 - 1;
}

double draw_gauss(struct kernel_draw *draw) {
    double u = ((double)(draw_bits(draw) >> 11) + 1) * 0x1p-53; /* (0, 1] */
    double v = (double)(draw_bits(draw) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(2 * acos(-1) * v);
}

/* ---- floats ---- */

static void fill(enum kernel_type type, double of(struct kernel_draw *draw),
                 struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        value_set(type, values, i, of(draw));
}

static double draw_outlier(struct kernel_draw *draw) {
    double ordinary = draw_gauss(draw);
    return draw_bits(draw) % 100 ? ordinary : 20 * ordinary;
}

static double draw_positive(struct kernel_draw *draw) {
    return fabs(draw_uniform(draw)) * 2 + 0x1p-60;
}

#define MAKE(name, type, draw_one)                                                                 \
    void make_##name(struct kernel_draw *draw, void *values, size_t n) {                           \
        fill(type, draw_one, draw, values, n);                                                     \
    }

MAKE(uniform_f32, TYPE_F32, draw_uniform)
MAKE(gauss_f32, TYPE_F32, draw_gauss)
MAKE(outliers_f32, TYPE_F32, draw_outlier)
MAKE(positive_f32, TYPE_F32, draw_positive)
MAKE(uniform_f16, TYPE_F16, draw_uniform)
MAKE(gauss_f16, TYPE_F16, draw_gauss)
MAKE(uniform_bf16, TYPE_BF16, draw_uniform)
MAKE(gauss_bf16, TYPE_BF16, draw_gauss)

static void make_uniform_f64(struct kernel_draw *draw, void *values, size_t n) {
    fill(TYPE_F64, draw_uniform, draw, values, n);
}

/* ---- values at the edges ---- */

static const uint32_t special_f32[] = {
    0,          0x80000000,             /* zeros */
    1,          0x80000001, 0x007FFFFF, /* subnormals */
    0x80312345, 0x00800000, 0x80800000, /* and the least normal number */
    0x7F800000, 0xFF800000,             /* infinities */
    0x7FC00000, 0xFFC12345, 0x7FA00001, /* quiet NaN, with a payload, signalling NaN */
    0x7F7FFFFF, 0xFF7FFFFF,             /* largest */
    0x3F800000, 0xBF800000, 0x3F7FFFFF, /* one */
};
static const uint16_t special_f16[] = {
    0,      0x8000, 1,      0x8001, 0x03FF, 0x8155, 0x0400, 0x8400, 0x7C00,
    0xFC00, 0x7E00, 0xFE12, 0x7D01, 0x7BFF, 0xFBFF, 0x3C00, 0xBC00, 0x3BFF,
};

/* Half of them are ordinary, a quarter of any magnitude. */
void make_special_f32(struct kernel_draw *draw, void *values, size_t n) {
    enum { N = sizeof special_f32 / sizeof *special_f32 };
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = draw_bits(draw);
        if (bits % 4 == 0)
            memcpy((float *)values + i, &special_f32[(bits >> 8) % N], sizeof(float));
        else
            value_set(TYPE_F32, values, i,
                      ldexp(draw_gauss(draw), bits % 4 == 1 ? (int)(bits >> 8 & 0xFF) - 128 : 0));
    }
}

void make_special_f16(struct kernel_draw *draw, void *values, size_t n) {
    enum { N = sizeof special_f16 / sizeof *special_f16 };
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = draw_bits(draw);
        if (bits % 4 == 0)
            ((uint16_t *)values)[i] = special_f16[(bits >> 8) % N];
        else
            value_set(TYPE_F16, values, i,
                      ldexp(draw_gauss(draw), bits % 4 == 1 ? (int)(bits >> 8 & 31) - 16 : 0));
    }
}

/* The upper halves of special floats; a NaN keeps a bit. */
void make_special_bf16(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float value;
        make_special_f32(draw, &value, 1);
        value_set(TYPE_BF16, values, i, value);
    }
}

/* ---- codes, bits ---- */

void make_codes_e4m3(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned code = (unsigned)(draw_bits(draw) % 254); /* without 0x7F and 0xFF */
        ((uint8_t *)values)[i] = (uint8_t)(code + (code >= 0x7F));
    }
}

static void make_bits(struct kernel_draw *draw, void *values, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes; i += sizeof(uint64_t)) {
        uint64_t bits = draw_bits(draw);
        size_t n = n_bytes - i < sizeof bits ? n_bytes - i : sizeof bits;
        memcpy((unsigned char *)values + i, &bits, n);
    }
}

void make_bits_u8(struct kernel_draw *draw, void *values, size_t n) {
    make_bits(draw, values, n);
}

void make_bits_u16(struct kernel_draw *draw, void *values, size_t n) {
    make_bits(draw, values, n * sizeof(uint16_t));
}

static void make_bits_i32(struct kernel_draw *draw, void *values, size_t n) {
    make_bits(draw, values, n * sizeof(int32_t));
}

static void make_bits_i64(struct kernel_draw *draw, void *values, size_t n) {
    make_bits(draw, values, n * sizeof(int64_t));
}

/* For every type, because the frame hands out memory of zeros. */
void make_zero(struct kernel_draw *draw, void *values, size_t n) {
    (void)draw;
    (void)values;
    (void)n;
}

kernel_make *ordinary_make(enum kernel_type type) {
    static kernel_make *const ordinary[] = {
        [TYPE_F32] = make_uniform_f32, [TYPE_F64] = make_uniform_f64,
        [TYPE_F16] = make_uniform_f16, [TYPE_BF16] = make_uniform_bf16,
        [TYPE_E4M3] = make_codes_e4m3, [TYPE_U8] = make_bits_u8,
        [TYPE_U16] = make_bits_u16,    [TYPE_I32] = make_bits_i32,
        [TYPE_I64] = make_bits_i64,
    };
    return ordinary[type];
}
