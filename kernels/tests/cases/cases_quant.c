/* Dequantisation: real blocks and blocks at every edge, compared bit by bit. */
#include <string.h>

#include "kernels/tests/frame/case.h"
#include "kernels/tests/cases/cases_q4k.h"

enum { W, Y };
enum { SIZE_ROWS, SIZE_K };

static void lay_out(struct kernel_case *c) {
    size_t n = (size_t)(c->sizes[SIZE_ROWS] * c->sizes[SIZE_K]);
    case_operand(c, "w", TYPE_U8, ROLE_IN, n / Q4K_VALUES * Q4K_BYTES)->make = make_q4k;
    case_operand(c, "y", TYPE_F32, ROLE_OUT, n);
}

static enum cushim_status run(const struct kernel_case *c, struct CUstream_st *stream) {
    return cushim_dequant_q4k_f32(c->device[W], c->device[Y], c->sizes[SIZE_ROWS], c->sizes[SIZE_K],
                                  stream);
}

static void ref(const struct kernel_case *c) {
    cushim_dequant_q4k_f32_ref(c->host[W], c->host[Y], c->sizes[SIZE_ROWS], c->sizes[SIZE_K]);
}

static const struct kernel_subject dequant_q4k = {
    .name = "dequant_q4k_f32", .n_sizes = 2, .lay_out = lay_out, .run = run, .ref = ref};

static struct kernel_case *add(struct kernel_table *table, const char *note, int64_t rows,
                               int64_t k, kernel_make *make) {
    struct kernel_case *c = table_add(table, &dequant_q4k, note, (int64_t[]){rows, k}, NULL);
    c->operands[W].make = make;
    return c;
}

void cases_quant(struct kernel_table *table) {
    static const int64_t sizes[][2] = {{0, 256},  {1, 0},    {1, 256},  {1, 512},  {3, 256},
                                       {1, 4096}, {17, 768}, {31, 256}, {33, 512}, {3, 28672}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        add(table, NULL, sizes[i][0], sizes[i][1], make_q4k);
    add(table, "many blocks", 2500, 256, make_q4k);
    add(table, "any bytes", 9, 1024, make_q4k_bits);
    add(table, "scales at their edges", 40, 256, make_q4k_edges);
    add(table, "no minimum", 5, 512, make_q4k_without_dmin);
    for (size_t offset = 2; offset < 16; offset += 2)
        add(table, "w off 16", 3, 512, make_q4k)->operands[W].offset = offset;
    for (size_t offset = 4; offset < 16; offset += 4)
        add(table, "y off 16", 3, 512, make_q4k)->operands[Y].offset = offset;
    struct kernel_case *c = add(table, "both off 16", 2, 512, make_q4k);
    c->operands[W].offset = 2;
    c->operands[Y].offset = 4;
}
