/*
 * A product with a quantised matrix, and the forms of it: which kernels compute it, for which
 * shapes and devices.
 */
#ifndef CUSHIM_KERNELS_GEMV_FORMS_H
#define CUSHIM_KERNELS_GEMV_FORMS_H

#include "kernels/gemv/gemv_kernels.h"
#include "kernels/launch/call.h"

struct gemv_product {
    enum quant_format format;
    struct quant_parts w; /* [m][k] */
    const float *b;       /* [k][n] */
    float *c;             /* [m][n] */
    int64_t m, k, n;
    void *scratch;
    size_t scratch_bytes;
    bool is_column; /* the function has no n, and calls b and c x and y */
};

/* Queue the first form that fits; there always is one. */
enum cushim_status cushim_gemv_launch(const struct cushim_kernel_call *call,
                                      struct gemv_product *product);

/* The name of that form. */
const char *cushim_gemv_form(const struct cushim_kernel_call *call,
                             const struct gemv_product *product);

/* Check, and queue; `what` is the public function. */
enum cushim_status cushim_gemv_multiply(const char *what, struct gemv_product product,
                                        struct CUstream_st *stream);

#endif
