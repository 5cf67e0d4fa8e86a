/* Activations with a factor: around 0, at saturation, and at the ends of float. */
#include "kernels/tests/frame/case.h"

#include <math.h>

enum { A, B, C };

static const struct { double relative, of_factor; } allowed[] = {{1e-6, 1e-37}, {1.6e-6, 4e-37}};

/*
 * In units of the factor if the slope or gate is about the least normal number, plus a step of
 * subnormal results.
 */
static double bound_of(const struct kernel_case *c, int function, size_t i) {
    double factor = value_of(TYPE_F32, c->host[B], i), value = value_of(TYPE_F32, c->host[C], i);
    return allowed[function].relative * fabs(value) + allowed[function].of_factor * fabs(factor) +
           0x1p-149;
}

static double bound_of_tanh_prime(const struct kernel_case *c, int operand, size_t i) {
    (void)operand;
    return bound_of(c, 0, i);
}

static double bound_of_swiglu(const struct kernel_case *c, int operand, size_t i) {
    (void)operand;
    return bound_of(c, 1, i);
}

/* [-110, 110): past every threshold of exp, with zeros and infinities. */
static void make_steep(struct kernel_draw *draw, void *values, size_t n) {
    make_special_f32(draw, values, n);
    for (size_t i = 0; i < n; i++) {
        if (draw_bits(draw) % 8)
            value_set(TYPE_F32, values, i, 110 * draw_uniform(draw));
    }
}

static void lay_out(struct kernel_case *c) {
    size_t n = (size_t)c->sizes[0];
    case_operand(c, "a", TYPE_F32, ROLE_IN, n)->make = make_gauss_f32;
    case_operand(c, "b", TYPE_F32, ROLE_IN, n)->make = make_gauss_f32;
    case_operand(c, "c", TYPE_F32, ROLE_OUT, n);
}

#define ACTIVATION(word)                                                                           \
    static enum cushim_status run_##word(const struct kernel_case *c,                              \
                                         struct CUstream_st *stream) {                             \
        return cushim_##word##_f32(c->device[A], c->device[B], c->device[C], c->sizes[0], stream); \
    }                                                                                              \
    static void ref_##word(const struct kernel_case *c) {                                          \
        cushim_##word##_f32_ref(c->host[A], c->host[B], c->host[C], c->sizes[0]);                  \
    }                                                                                              \
    static const struct kernel_subject word##_f32 = {.name = #word "_f32",                         \
                                                     .n_sizes = 1,                                 \
                                                     .lay_out = lay_out,                           \
                                                     .run = run_##word,                            \
                                                     .ref = ref_##word,                            \
                                                     .tolerance = {.bound = bound_of_##word}};

ACTIVATION(tanh_prime)
ACTIVATION(swiglu)

/*
 * The bound is taken from inputs that are overwritten in place, so these are moderate and of the
 * size of the result.
 */
static void add_in_place(struct kernel_table *table, const struct kernel_subject *subject,
                         int input) {
    table_add(table, subject, "in place", (int64_t[]){4099}, NULL)->operands[C].in_place_of =
        1 + input;
}

void cases_activation(struct kernel_table *table) {
    const struct kernel_subject *subjects[] = {&tanh_prime_f32, &swiglu_f32};
    const int64_t many = 20000;
    for (unsigned s = 0; s < sizeof subjects / sizeof *subjects; s++) {
        for (int i = 0; i < n_edge_sizes; i++) {
            if (edge_sizes[i] <= 1025 || subjects[s] == &swiglu_f32)
                table_add(table, subjects[s], NULL, &edge_sizes[i], NULL);
        }
        table_add_offsets(table, table_add(table, subjects[s], NULL, (int64_t[]){1000}, NULL));
        add_in_place(table, subjects[s], A);
        add_in_place(table, subjects[s], B);
        table_add(table, subjects[s], "many steps per thread", (int64_t[]){1200001}, NULL);
        struct kernel_case *c = table_add(table, subjects[s], "special", &many, NULL);
        c->operands[A].make = c->operands[B].make = make_special_f32;
        c = table_add(table, subjects[s], "steep", &many, NULL);
        c->operands[A].make = make_steep;
    }
}
