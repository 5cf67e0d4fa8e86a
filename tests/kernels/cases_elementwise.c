/* Elementwise kernels: the four operations on float at every edge. */
#include "tests/kernels/case.h"

enum { A, B, C };

static void lay_out_binary(struct kernel_case *c) {
    size_t n = (size_t)c->sizes[0];
    case_operand(c, "a", TYPE_F32, ROLE_IN, n)->make = make_special_f32;
    case_operand(c, "b", TYPE_F32, ROLE_IN, n)->make = make_special_f32;
    case_operand(c, "c", TYPE_F32, ROLE_OUT, n);
}

#define BINARY(op)                                                                                 \
    static enum cushim_status run_##op(const struct kernel_case *c, struct CUstream_st *stream) {  \
        return cushim_##op##_f32(c->device[A], c->device[B], c->device[C], c->sizes[0], stream);   \
    }                                                                                              \
    static void ref_##op(const struct kernel_case *c) {                                            \
        cushim_##op##_f32_ref(c->host[A], c->host[B], c->host[C], c->sizes[0]);                    \
    }                                                                                              \
    static const struct kernel_subject op##_f32 = {                                                \
        .name = #op "_f32", .lay_out = lay_out_binary, .run = run_##op, .ref = ref_##op};

BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)

void cases_elementwise(struct kernel_table *table) {
    const struct kernel_subject *subjects[] = {&add_f32, &sub_f32, &mul_f32, &div_f32};
    for (unsigned s = 0; s < sizeof subjects / sizeof *subjects; s++) {
        for (int i = 0; i < n_edge_sizes; i++)
            table_add(table, subjects[s], NULL, &edge_sizes[i], NULL);
        table_add_offsets(table, table_add(table, subjects[s], NULL, (int64_t[]){1000}, NULL));
        struct kernel_case *c =
            table_add(table, subjects[s], "in place of a", (int64_t[]){4099}, NULL);
        c->operands[C].in_place_of = 1 + A;
        c = table_add(table, subjects[s], "in place of b", (int64_t[]){4099}, NULL);
        c->operands[C].in_place_of = 1 + B;
    }
}
