#include "kernels/launch/each.h"

#include "companion/shared.h"
#include "kernels/launch/arguments.h"
#include "kernels/shared/each_tile.h"

enum { WIDE_BYTES = 16 };

enum cushim_status cushim_each_begin(struct cushim_each *each, const char *what,
                                     struct cushim_kernel_family *family,
                                     void (*reference)(const void *args), const void *args,
                                     size_t n_bytes, struct CUstream_st *stream) {
    const struct cushim_each_operand *operands = each->operands;
    int64_t n;
    int n_operands = 0;
    while (n_operands < CUSHIM_EACH_MOST_OPERANDS && operands[n_operands].name)
        n_operands++;
    CUSHIM_TRY(cushim_check_size(what, "n", each->n));
    for (int i = 0; i < n_operands; i++)
        CUSHIM_TRY(
            cushim_check_count(what, operands[i].name, &each->n, 1, operands[i].elem_bytes, &n));
    each->is_done = each->n == 0;
    if (each->is_done)
        return CUSHIM_OK;
    each->is_wide = true;
    for (int i = 0; i < n_operands; i++) {
        CUSHIM_TRY(cushim_check_pointer(what, operands[i].name, operands[i].pointer,
                                        operands[i].elem_bytes));
        each->is_wide &= cushim_is_aligned(WIDE_BYTES, operands[i].pointer, NULL, NULL, NULL);
    }
    CUSHIM_TRY(cushim_kernel_call_begin(&each->call, what, family, stream));
    each->is_done = each->call.is_cpu;
    return each->is_done ? cushim_kernel_call_reference(&each->call, reference, args, n_bytes)
                         : CUSHIM_OK;
}

/* One block per tile; a tensor that needs too many does not fit into memory. */
enum cushim_status cushim_each_launch(const struct cushim_each *each, unsigned plain_kernel,
                                      void **params) {
    int64_t n_pieces = each->is_long ? EACH_LONG_PIECES : EACH_PIECES,
            n_per_thread = each->is_wide
                               ? n_pieces * WIDE_BYTES / (int64_t)each->operands[0].elem_bytes
                               : EACH_ELEMENTS;
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(each->n, n_per_thread * EACH_THREADS, INT32_MAX)},
        .block = {EACH_THREADS},
        .is_dependent = each->is_dependent};
    return cushim_kernel_call_launch(&each->call, plain_kernel + each->is_wide, &shape, params);
}
