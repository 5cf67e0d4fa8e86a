/* Elementwise kernels: functions of one operand, on ordinary numbers and on any bits. */
#include "kernels/tests/cases/cases_elementwise.h"

static void lay_out(struct kernel_case *c) {
    size_t n = (size_t)c->sizes[0];
    case_operand(c, "a", TYPE_F32, ROLE_IN, n)->make = make_special_f32;
    case_operand(c, "c", TYPE_F32, ROLE_OUT, n);
}

#define UNARY(name_, ...)                                                                          \
    static enum cushim_status run_##name_(const struct kernel_case *c,                             \
                                          struct CUstream_st *stream) {                            \
        return cushim_##name_(c->device[0], c->device[1], c->sizes[0], stream);                    \
    }                                                                                              \
    static void ref_##name_(const struct kernel_case *c) {                                         \
        cushim_##name_##_ref(c->host[0], c->host[1], c->sizes[0]);                                 \
    }                                                                                              \
    static const struct kernel_subject name_ = {.name = #name_,                                    \
                                                .n_sizes = 1,                                      \
                                                .lay_out = lay_out,                                \
                                                .run = run_##name_,                                \
                                                .ref = ref_##name_,                                \
                                                .tolerance = {__VA_ARGS__}};

UNARY(exp_f32, .ulps = 2)
UNARY(log_f32, .ulps = 1)
UNARY(sqrt_f32, 0)
UNARY(rsqrt_f32, .ulps = 2)
UNARY(sin_f32, .ulps = 2)
UNARY(cos_f32, .ulps = 2)
UNARY(tanh_f32, .ulps = 2)

/* Any 32 bits: all magnitudes alike, NaN among them. */
static void make_any(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((uint32_t *)values)[i] = (uint32_t)(draw_bits(draw) >> 16);
}

/* [-100, 100), in which exp overflows, tanh saturates, and angles take some turns. */
static void make_hundred(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        value_set(TYPE_F32, values, i, 100 * draw_uniform(draw));
}

/* Around 105615, where sin and cos change their algorithm, and far beyond. */
static void make_large_angles(struct kernel_draw *draw, void *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double near = 105615 + (double)(int)(draw_bits(draw) % 65 - 32) / 128;
        value_set(TYPE_F32, values, i,
                  i % 2 ? near : 1e9 * draw_gauss(draw) * (draw_bits(draw) % 3 ? 1 : 1e20));
    }
}

void cases_elementwise_unary(struct kernel_table *table) {
    const struct kernel_subject *subjects[] = {&exp_f32, &log_f32, &sqrt_f32, &rsqrt_f32,
                                               &sin_f32, &cos_f32, &tanh_f32};
    for (unsigned s = 0; s < sizeof subjects / sizeof *subjects; s++) {
        add_sizes(table, subjects[s], subjects[s] == &exp_f32 ? INT64_MAX : ORDINARY_MOST, NULL);
        add_in_place(table, subjects[s], 1, 0, NULL);
        const int64_t n = 20000;
        table_add(table, subjects[s], "any bits", &n, NULL)->operands[0].make = make_any;
        table_add(table, subjects[s], "up to 100", &n, NULL)->operands[0].make = make_hundred;
    }
    add_steps(table, &exp_f32, NULL); /* the loop of short operations, and that of long ones */
    add_steps(table, &sin_f32, NULL);
    for (unsigned s = 4; s < 6; s++)
        table_add(table, subjects[s], "large angles", (int64_t[]){5003}, NULL)->operands[0].make =
            make_large_angles;
}
