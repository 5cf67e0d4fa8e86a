/* Strided copies: views with every kind of stride, of elements of every size. */
#include <string.h>

#include "kernels/tests/cases/cases_layout.h"

enum { SRC, DST };

/* sizes[0] is the number of a view, sizes[1] the bytes of an element. */
static const struct view {
    const char *note;
    int ndim;
    int64_t shape[8], strides[8];
} views[] = {
    {"no axis", 0, {0}, {0}},
    {"one axis", 1, {1000}, {1}},
    {"nothing", 2, {3, 0}, {1, 1}},
    {"backwards", 1, {333}, {-1}},
    {"every third", 1, {200}, {3}},
    {"one for all", 1, {129}, {0}},
    {"lone axes of wild strides", 3, {1, 50, 1}, {1 << 30, 1, -7}},
    {"part of rows", 2, {20, 33}, {40, 1}},
    {"part of rows, wide", 2, {20, 32}, {48, 1}},
    {"rows one for all", 2, {9, 40}, {0, 1}},
    {"columns one for all", 2, {40, 9}, {1, 0}},
    {"transposed", 2, {70, 66}, {1, 70}},
    {"transposed, wide", 2, {128, 72}, {1, 128}},
    {"transposed, rows backwards", 2, {64, 80}, {1, -64}},
    {"transposed, columns backwards", 2, {64, 80}, {-1, 64}},
    {"both backwards", 2, {30, 40}, {-40, -1}},
    {"transposed part", 3, {3, 40, 36}, {40 * 50, 1, 50}},
    {"windows", 2, {50, 70}, {1, 1}},
    {"inner axis kept", 3, {7, 5, 16}, {16, 7 * 16, 1}},
    {"chain", 4, {9, 8, 4, 5}, {1, 9, 9 * 8 * 5, 9 * 8}},
    {"tile of broken axes", 4, {6, 8, 7, 11}, {1, 6, 48 * 11 + 5, 48}},
    {"eight with ones", 8, {2, 1, 3, 1, 4, 1, 5, 1}, {1, 9, 2, 9, 6, 9, 24, 9}},
    {"eight", 8, {2, 2, 3, 2, 2, 2, 3, 2}, {1, -2, 4, 12, 24, 0, 48, 144}},
};

static void find_reach(const struct view *view, int64_t *below, int64_t *above) {
    *below = *above = 0;
    for (int d = 0; d < view->ndim; d++) {
        if (view->shape[d] > 1)
            *(view->strides[d] < 0 ? below : above) += (view->shape[d] - 1) * view->strides[d];
    }
}

static int64_t n_of(const struct view *view) {
    int64_t n = 1;
    for (int d = 0; d < view->ndim; d++)
        n *= view->shape[d];
    return n;
}

static void lay_out(struct kernel_case *c) {
    const struct view *view = &views[c->sizes[0]];
    int64_t below, above, n = n_of(view);
    find_reach(view, &below, &above);
    case_operand(c, "src", TYPE_U8, ROLE_IN, n ? (size_t)((above - below + 1) * c->sizes[1]) : 0);
    case_operand(c, "dst", TYPE_U8, ROLE_OUT, (size_t)(n * c->sizes[1]));
}

/* The element at index 0 of every axis. */
static void *first_of(const struct kernel_case *c, void *src) {
    int64_t below, above;
    find_reach(&views[c->sizes[0]], &below, &above);
    return src ? (unsigned char *)src - below * c->sizes[1] : NULL;
}

static enum cushim_status run(const struct kernel_case *c, struct CUstream_st *stream) {
    struct view view = views[c->sizes[0]]; /* gone when the call has returned */
    enum cushim_status status =
        cushim_strided_copy(first_of(c, c->device[SRC]), c->device[DST], view.shape, view.strides,
                            view.ndim, (size_t)c->sizes[1], stream);
    memset(&view, -1, sizeof view);
    return status;
}

static void ref(const struct kernel_case *c) {
    const struct view *view = &views[c->sizes[0]];
    cushim_strided_copy_ref(first_of(c, c->host[SRC]), c->host[DST], view->shape, view->strides,
                            view->ndim, (size_t)c->sizes[1]);
}

static const struct kernel_subject strided_copy = {
    .name = "strided_copy", .n_sizes = 2, .lay_out = lay_out, .run = run, .ref = ref};

void cases_strided_copy(struct kernel_table *table) {
    static const int64_t elem_bytes[] = {1, 2, 4, 8, 16, 3, 5, 12, 24};
    for (size_t v = 0; v < sizeof views / sizeof *views; v++) {
        for (size_t e = 0; e < sizeof elem_bytes / sizeof *elem_bytes; e++)
            table_add(table, &strided_copy, views[v].note, (int64_t[]){(int64_t)v, elem_bytes[e]},
                      NULL);
    }
    /* addresses that are multiples of less than the element, each alone and both */
    static const size_t offsets[] = {1, 2, 4, 8, 12};
    for (size_t o = 0; o < sizeof offsets / sizeof *offsets; o++) {
        for (int which = 1; which < 4; which++) {
            struct kernel_case *c =
                table_add(table, &strided_copy, "transposed, off", (int64_t[]){12, 4}, NULL);
            for (int i = 0; i < 2; i++)
                c->operands[i].offset = which >> i & 1 ? offsets[o] : 0;
            c = table_add(table, &strided_copy, "rows, off", (int64_t[]){8, 16}, NULL);
            for (int i = 0; i < 2; i++)
                c->operands[i].offset = which >> i & 1 ? offsets[o] : 0;
        }
    }
}
