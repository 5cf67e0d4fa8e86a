/* The weights of a decoder as its products take them. */
#ifndef CUSHIM_KERNELS_GEMV_DECODER_H
#define CUSHIM_KERNELS_GEMV_DECODER_H

#include "cushim/kernels/decoder.h"
#include "kernels/gemv/gemv_ends.h"

_Static_assert((int)CUSHIM_FORMAT_Q6K == (int)QUANT_Q6K && QUANT_Q6K + 1 == QUANT_N_FORMATS,
               "the formats have the same numbers");

/* One matrix, or `most` if the second has an address. */
static inline int cushim_decoder_n_matrices(const struct cushim_weights *w, int most) {
    return most > 1 && w[1].w ? most : 1;
}

static inline struct gemv_rows cushim_decoder_rows(const struct cushim_weights *w, int most) {
    struct gemv_rows rows = {.n = cushim_decoder_n_matrices(w, most)};
    for (int i = 0; i < rows.n; i++) {
        rows.of[i].format = (enum quant_format)w[i].format;
        rows.of[i].w = cushim_quant_parts(
            rows.of[i].format, rows.of[i].format == QUANT_Q4_0 ? w[i].scales : w[i].w, w[i].w);
    }
    return rows;
}

#endif
