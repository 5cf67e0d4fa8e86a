/*
 * The frame around cases: what its files share (table.c holds cases, compare.c judges outputs,
 * frame.c runs one case, main.c all of them).
 */
#ifndef CUSHIM_KERNELS_TESTS_FRAME_H
#define CUSHIM_KERNELS_TESTS_FRAME_H

#include "kernels/tests/frame/case.h"

/* ---- table.c ---- */

struct kernel_entry {
    const char *family;
    struct kernel_case c;
};

struct kernel_table {
    const char *family; /* whose cases are being added */
    struct kernel_entry *entries;
    size_t n, cap;
};

/* "add_f32 sizes=1000 scalars=0.5 (in place of a)" */
void case_describe(const struct kernel_case *c, char *text, size_t cap_bytes);

/* Elements of all operands. */
size_t case_elements(const struct kernel_case *c);

/* The operand whose memory an operand uses: itself, unless it is in place. */
int case_root(const struct kernel_case *c, int operand);

/* ---- makers.c ---- */

/* The maker of an operand that names none. */
kernel_make *ordinary_make(enum kernel_type type);

/* ---- compare.c ---- */

/* Compare c->got with c->host; if false, the text has the first fault. */
bool compare_outputs(const struct kernel_case *c, char *text, size_t cap_bytes);

/* One element of an output: "c[17] = 1.5 (0x3fc00000)" */
void describe_element(const struct kernel_operand *operand, const void *values, size_t i,
                      char *text, size_t cap_bytes);

/* ---- frame.c ---- */

struct cushim_stream;

struct frame {
    struct cushim_stream *stream;
    /* for compute-sanitizer: no guard zones, so that it sees the true ends of buffers, and what
     * the function is to write stays uninitialised */
    bool is_bare;
};

/* Run one case; if false, the text has the first fault.  Afterwards the case is as before. */
bool frame_run(const struct frame *frame, struct kernel_case *c, uint64_t key, char *text,
               size_t cap_bytes);

#endif
