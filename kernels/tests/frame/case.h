/*
 * One case of a kernel: a function, its sizes, its operands.  Tests, benchmarks and sanitizer runs
 * go through cases.
 *
 * A family's file (cases_<family>.c) describes each of its functions once (struct kernel_subject)
 * and adds cases with sizes.  For each case the frame (frame.c)
 * - lays out the operands, makes the inputs from a key that it prints if the case fails, and
 *   surrounds every device buffer with guard zones;
 * - fills outputs with a NaN pattern first, to find elements that nothing wrote;
 * - runs the function on a stream and the reference on the host, and compares;
 * - does so again and expects the same bits; then it captures the function, and replays it on other
 *   inputs and on the first ones again;
 * - checks after each run that guards and inputs have not changed.
 */
#ifndef CUSHIM_KERNELS_TESTS_CASE_H
#define CUSHIM_KERNELS_TESTS_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cushim/kernels.h"
#include "cushim/kernels_ref.h"

enum { MOST_OPERANDS = 10, MOST_SIZES = 12, MOST_SCALARS = 8 };

enum kernel_type {
    TYPE_F32,
    TYPE_F64,
    TYPE_F16,
    TYPE_BF16,
    TYPE_E4M3,
    TYPE_U8,
    TYPE_U16,
    TYPE_I32,
    TYPE_I64
};

enum kernel_role {
    ROLE_IN,
    ROLE_OUT,
    ROLE_BOTH,   /* read and written: made like an input, compared like an output */
    ROLE_SCRATCH /* neither made nor compared */
};

/* A source of inputs: the same key gives the same values. */
struct kernel_draw {
    uint64_t state;
};

uint64_t draw_bits(struct kernel_draw *draw);
double draw_uniform(struct kernel_draw *draw); /* [-1, 1) */
double draw_gauss(struct kernel_draw *draw);   /* mean 0, deviation 1 */

/* Fill n elements of an operand's type. */
typedef void kernel_make(struct kernel_draw *draw, void *values, size_t n);

/* Makers of the frame, for every type: floats are drawn as floats and rounded to the type. */
kernel_make make_uniform_f32, make_gauss_f32, make_outliers_f32; /* 1 % are 20 times as large */
kernel_make make_uniform_f16, make_gauss_f16;
kernel_make make_uniform_bf16, make_gauss_bf16;
kernel_make make_codes_e4m3; /* all finite codes */
kernel_make
    make_special_f32; /* zeros of both signs, subnormals, infinities, NaN, largest, ordinary */
kernel_make make_special_f16, make_special_bf16;
kernel_make make_positive_f32; /* (0, 2) */
kernel_make make_bits_u16, make_bits_u8;
kernel_make make_zero;

struct kernel_operand {
    const char *name; /* of the parameter */
    enum kernel_type type;
    enum kernel_role role;
    size_t n;          /* elements; if 0, the pointer is NULL */
    kernel_make *make; /* if NULL, make_uniform_f32 or its counterpart for the type */
    int in_place_of;   /* 1 + the index of the operand whose memory it uses; 0 means its own
                          memory */
    size_t offset;     /* bytes of the address beyond a multiple of 256 */
};

struct kernel_case;

/*
 * How an output may differ from the reference's.  A rule of 0 allows nothing, and all 0 means the
 * same bits.  NaN equals NaN, and NaN and infinities must always be at the places of the
 * reference's.  An element is right if one of ulps, absolute + relative and bound allows it; if
 * there are only ulps, zeros must also have the reference's sign.
 */
struct kernel_tolerance {
    double ulps; /* steps of the output's type, from the reference's value */
    double relative, absolute;
    /* sum(error^2) / sum(reference^2) of an operand of at least 256 elements; elements are then
     * checked only against the bound, if there is one.  Below 256 elements the other rules hold;
     * without any, the error of each is at most 16 sqrt(nmse) of the root of the reference's
     * mean square. */
    double nmse;
    /* |error| allowed at an element: T_mat, sums; NULL means no rule */
    double (*bound)(const struct kernel_case *c, int operand, size_t i);
};

struct kernel_subject {
    const char *name;       /* "add_f32" */
    int n_sizes, n_scalars; /* of a case: how many table_add gets */
    /* declare the operands from c->sizes and c->scalars with case_operand() */
    void (*lay_out)(struct kernel_case *c);
    /* the public function on c->device[..] */
    enum cushim_status (*run)(const struct kernel_case *c, struct CUstream_st *stream);
    /* the reference on c->host[..] */
    void (*ref)(const struct kernel_case *c);
    struct kernel_tolerance tolerance;
    /* a further check of the outputs in c->host (the reference's) and c->got; returns a text, or
     * NULL */
    const char *(*check)(const struct kernel_case *c);
    double (*flops)(const struct kernel_case *c); /* NULL if only bytes count */
};

struct kernel_case {
    const struct kernel_subject *subject;
    const char *note; /* what is special about it, or NULL */
    int64_t sizes[MOST_SIZES];
    double scalars[MOST_SCALARS];
    struct kernel_operand operands[MOST_OPERANDS];
    int n_operands;
    /* one per operand; in place: the same pointer */
    void *host[MOST_OPERANDS];   /* inputs, then the reference's outputs */
    void *got[MOST_OPERANDS];    /* on the host: what the function wrote */
    void *device[MOST_OPERANDS]; /* addresses to pass to the function */
};

/* In lay_out: the next operand; returns it, so that make, in_place_of and offset can be set. */
struct kernel_operand *case_operand(struct kernel_case *c, const char *name, enum kernel_type type,
                                    enum kernel_role role, size_t n);

/* The elements of an operand as numbers; NaN for a code of e4m3 that is not one. */
double value_of(enum kernel_type type, const void *values, size_t i);

/* The other way, for makers: rounded to the type, to nearest even. */
void value_set(enum kernel_type type, void *values, size_t i, double value);

size_t bytes_of(enum kernel_type type);

/* ---- the table ---- */

struct kernel_table;

/*
 * A case with these sizes and scalars, as many as the subject says; note may be NULL.  Valid until
 * the next.
 */
struct kernel_case *table_add(struct kernel_table *table, const struct kernel_subject *subject,
                              const char *note, const int64_t *sizes, const double *scalars);

/*
 * Further cases around one: each of its pointers alone 4, 8 and 12 bytes beyond 16 (f16: 2 and 6,
 * bytes: 1).
 */
void table_add_offsets(struct kernel_table *table, const struct kernel_case *c);

/* Sizes at the edges of blocks and vectors: 0, 1, 2, 3, 5, 7, 31 .. 1025, 2^20 - 1 .. 2^20 + 1. */
extern const int64_t edge_sizes[];
extern const int n_edge_sizes;

/* One per family. */
#define FAMILY(name) void cases_##name(struct kernel_table *table);
#include "kernels/launch/families.def"
#undef FAMILY

#endif
