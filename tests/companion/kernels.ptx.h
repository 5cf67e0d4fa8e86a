/*
 * The kernels of the behaviour cases, for a GPU: PTX that any driver since CUDA 10.2 compiles, for
 * sm_75 and up.  fixture_kernels.c has the same for the software device; the names and parameters
 * agree.
 *
 * %ri is the number of the thread in a one-dimensional grid, and a kernel with n leaves above it.
 */
#pragma once

#define FIXTURE_PTX_HEAD ".version 6.4\n.target sm_75\n.address_size 64\n"

#define FIXTURE_PTX_REGS                                                                           \
    ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<10>; .reg .b64 %d<10>; .reg .f32 %f<4>;\n"

/* %d0 = number of the thread; leaves if it is not below %d9 */
#define FIXTURE_PTX_NUMBER                                                                         \
    "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;\n"                          \
    "mad.wide.u32 %d0, %r0, %r1, 0; cvt.u64.u32 %d1, %r2; add.u64 %d0, %d0, %d1;\n"
#define FIXTURE_PTX_BOUND "setp.ge.u64 %p0, %d0, %d9; @%p0 ret;\n"

/* Several texts to be joined, because one would be longer than C compilers must accept. */
static const char *const fixture_ptx[] = {
    FIXTURE_PTX_HEAD ".visible .const .align 4 .b8 table[128];\n"
                     ".visible .global .align 8 .u64 counted;\n",

    /* empty(struct of 12 bytes): reads nothing */
    ".visible .entry empty(.param .align 4 .b8 value[12]) { ret; }\n"
    ".visible .entry nothing() { ret; }\n",

    /* spin(u64 ns, u64 unused) */
    ".visible .entry spin(.param .u64 ns, .param .u64 unused) {\n" FIXTURE_PTX_REGS
    "ld.param.u64 %d2, [ns]; mov.u64 %d3, %globaltimer;\n"
    "again: mov.u64 %d4, %globaltimer; sub.u64 %d4, %d4, %d3;\n"
    "setp.lt.u64 %p1, %d4, %d2; @%p1 bra again; ret; }\n",

    /* spin_fill(u32 *dst, u32 value, u64 n, u64 ns, u64 unused): one thread, writes all the time */
    ".visible .entry spin_fill(.param .u64 dst, .param .u32 value, .param .u64 n, .param .u64 ns,\n"
    ".param .u64 unused) {\n" FIXTURE_PTX_REGS
    "ld.param.u64 %d2, [dst]; ld.param.u32 %r3, [value]; ld.param.u64 %d9, [n];\n"
    "ld.param.u64 %d5, [ns]; mov.u64 %d3, %globaltimer; setp.eq.u64 %p2, %d9, 0; @%p2 ret;\n"
    "again: mov.u64 %d6, 0;\n"
    "word: shl.b64 %d7, %d6, 2; add.u64 %d7, %d2, %d7; st.volatile.global.u32 [%d7], %r3;\n"
    "add.u64 %d6, %d6, 1; setp.lt.u64 %p0, %d6, %d9; @%p0 bra word;\n"
    "mov.u64 %d4, %globaltimer; sub.u64 %d4, %d4, %d3; setp.lt.u64 %p1, %d4, %d5;\n"
    "@%p1 bra again; ret; }\n",

    /* fill(u32 *dst, u32 value, u64 n) */
    ".visible .entry fill(.param .u64 dst, .param .u32 value, .param .u64 n) {\n" FIXTURE_PTX_REGS
    "ld.param.u64 %d2, [dst]; ld.param.u32 %r3, [value]; ld.param.u64 %d9, "
    "[n];\n" FIXTURE_PTX_NUMBER FIXTURE_PTX_BOUND
    "shl.b64 %d3, %d0, 2; add.u64 %d2, %d2, %d3; st.global.u32 [%d2], %r3; ret; }\n",

    /* copy(u32 *dst, const u32 *src, u64 n) */
    ".visible .entry copy(.param .u64 dst, .param .u64 src, .param .u64 n) {\n" FIXTURE_PTX_REGS
    "ld.param.u64 %d2, [dst]; ld.param.u64 %d3, [src]; ld.param.u64 %d9, [n];\n" FIXTURE_PTX_NUMBER
        FIXTURE_PTX_BOUND "shl.b64 %d4, %d0, 2; add.u64 %d2, %d2, %d4; add.u64 %d3, %d3, %d4;\n"
    "ld.global.u32 %r3, [%d3]; st.global.u32 [%d2], %r3; ret; }\n",

    /* check(const u32 *words, u32 value, u64 n, u32 *n_other): counts the words that differ */
    ".visible .entry check(.param .u64 words, .param .u32 value, .param .u64 n,\n"
    ".param .u64 n_other) {\n" FIXTURE_PTX_REGS
    "ld.param.u64 %d2, [words]; ld.param.u32 %r3, [value]; ld.param.u64 %d9, [n];\n"
    "ld.param.u64 %d5, [n_other];\n" FIXTURE_PTX_NUMBER FIXTURE_PTX_BOUND
    "shl.b64 %d4, %d0, 2; add.u64 %d2, %d2, %d4; ld.global.u32 %r4, [%d2];\n"
    "setp.eq.u32 %p1, %r3, %r4; @%p1 ret; red.global.add.u32 [%d5], 1; ret; }\n",

    /* add(f32 *sum, const f32 *a, const f32 *b, u64 n) */
    ".visible .entry add(.param .u64 sum, .param .u64 a, .param .u64 b, .param .u64 n) "
    "{\n" FIXTURE_PTX_REGS
    "ld.param.u64 %d2, [sum]; ld.param.u64 %d3, [a]; ld.param.u64 %d4, [b];\n"
    "ld.param.u64 %d9, [n];\n" FIXTURE_PTX_NUMBER FIXTURE_PTX_BOUND
    "shl.b64 %d5, %d0, 2; add.u64 %d2, %d2, %d5; add.u64 %d3, %d3, %d5; add.u64 %d4, %d4, %d5;\n"
    "ld.global.f32 %f0, [%d3]; ld.global.f32 %f1, [%d4]; add.rn.f32 %f2, %f0, %f1;\n"
    "st.global.f32 [%d2], %f2; ret; }\n",

    /* multiply(f32 *product, const f32 *a, const f32 *b): one element a thread of the grid */
    ".visible .entry multiply(.param .u64 product, .param .u64 a, .param .u64 b) "
    "{\n" FIXTURE_PTX_REGS "ld.param.u64 %d2, [product]; ld.param.u64 %d3, [a]; ld.param.u64 %d4, "
    "[b];\n" FIXTURE_PTX_NUMBER
    "shl.b64 %d5, %d0, 2; add.u64 %d2, %d2, %d5; add.u64 %d3, %d3, %d5; add.u64 %d4, %d4, %d5;\n"
    "ld.global.f32 %f0, [%d3]; ld.global.f32 %f1, [%d4]; mul.rn.f32 %f2, %f0, %f1;\n"
    "st.global.f32 [%d2], %f2; ret; }\n",

    /* twice(f32 *data): one element a thread of a block of two dimensions */
    ".visible .entry twice(.param .u64 data) {\n" FIXTURE_PTX_REGS
    "ld.param.u64 %d2, [data]; mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %ntid.x;\n"
    "mad.lo.u32 %r3, %r1, %r2, %r0; mul.wide.u32 %d3, %r3, 4; add.u64 %d2, %d2, %d3;\n"
    "ld.global.f32 %f0, [%d2]; add.rn.f32 %f1, %f0, %f0; st.global.f32 [%d2], %f1; ret; }\n",

    /* twice_bytes(u8 *bytes, u64 n) */
    ".visible .entry twice_bytes(.param .u64 bytes, .param .u64 n) {\n" FIXTURE_PTX_REGS
    "ld.param.u64 %d2, [bytes]; ld.param.u64 %d9, [n];\n" FIXTURE_PTX_NUMBER FIXTURE_PTX_BOUND
    "add.u64 %d2, %d2, %d0; ld.global.u8 %h0, [%d2]; shl.b16 %h1, %h0, 1;\n"
    "st.global.u8 [%d2], %h1; ret; }\n",

    /* store3(f32 *dst, struct of three f32): dst[3 i ..] = value */
    ".visible .entry store3(.param .u64 dst, .param .align 4 .b8 value[12]) {\n" FIXTURE_PTX_REGS
    "ld.param.u64 %d2, [dst]; ld.param.f32 %f0, [value]; ld.param.f32 %f1, [value+4];\n"
    "ld.param.f32 %f2, [value+8];\n" FIXTURE_PTX_NUMBER
    "mul.lo.u64 %d3, %d0, 12; add.u64 %d2, %d2, %d3; st.global.f32 [%d2], %f0;\n"
    "st.global.f32 [%d2+4], %f1; st.global.f32 [%d2+8], %f2; ret; }\n",

    /* mixed(u64 *dst, u8 a, u16 b, struct { u32 c; u64 d; }, u32 e): stores a, b, c, d, e */
    ".visible .entry mixed(.param .u64 dst, .param .u8 a, .param .u16 b,\n"
    ".param .align 8 .b8 s[16], .param .u32 e) {\n" FIXTURE_PTX_REGS
    "ld.param.u64 %d2, [dst]; ld.param.u8 %h0, [a]; ld.param.u16 %h1, [b];\n"
    "ld.param.u32 %r3, [s]; ld.param.u64 %d6, [s+8]; ld.param.u32 %r4, [e];\n"
    "cvt.u64.u16 %d3, %h0; cvt.u64.u16 %d4, %h1; cvt.u64.u32 %d5, %r3; cvt.u64.u32 %d7, %r4;\n"
    "st.global.u64 [%d2], %d3; st.global.u64 [%d2+8], %d4; st.global.u64 [%d2+16], %d5;\n"
    "st.global.u64 [%d2+24], %d6; st.global.u64 [%d2+32], %d7; ret; }\n",

    /* count(u32 *n): every thread adds 1 */
    ".visible .entry count(.param .u64 n) {\n" FIXTURE_PTX_REGS
    "ld.param.u64 %d2, [n]; red.global.add.u32 [%d2], 1; ret; }\n",

    /* constants(f32 *dst): copies the 32 of `table`, a thread each */
    ".visible .entry constants(.param .u64 dst) {\n" FIXTURE_PTX_REGS
    "ld.param.u64 %d2, [dst]; mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, 4;\n"
    "add.u64 %d2, %d2, %d3; mov.u64 %d4, table; add.u64 %d4, %d4, %d3;\n"
    "ld.const.f32 %f0, [%d4]; st.global.f32 [%d2], %f0; ret; }\n",

    /* mirror(u32 *dst): 4000 shared words, four a thread of 1000; dst[i] = word of thread 999 - i
     */
    ".visible .entry mirror(.param .u64 dst) {\n" FIXTURE_PTX_REGS
    ".shared .align 4 .b8 words[16000];\n"
    "ld.param.u64 %d2, [dst]; mov.u32 %r0, %tid.x; mov.u32 %r5, words;\n"
    "mad.lo.u32 %r1, %r0, 16, %r5; mul.lo.u32 %r2, %r0, 4;\n"
    "st.shared.u32 [%r1], %r2; add.u32 %r3, %r2, 1; st.shared.u32 [%r1+4], %r3;\n"
    "add.u32 %r3, %r2, 2; st.shared.u32 [%r1+8], %r3; add.u32 %r3, %r2, 3;\n"
    "st.shared.u32 [%r1+12], %r3; bar.sync 0;\n"
    "sub.u32 %r4, 999, %r0; mad.lo.u32 %r6, %r4, 16, %r5;\n"
    "mul.wide.u32 %d3, %r0, 16; add.u64 %d2, %d2, %d3;\n"
    "ld.shared.u32 %r7, [%r6]; st.global.u32 [%d2], %r7;\n"
    "ld.shared.u32 %r7, [%r6+4]; st.global.u32 [%d2+4], %r7;\n"
    "ld.shared.u32 %r7, [%r6+8]; st.global.u32 [%d2+8], %r7;\n"
    "ld.shared.u32 %r7, [%r6+12]; st.global.u32 [%d2+12], %r7; ret; }\n",
    NULL};

/* Two texts to link: caller(u32 *dst) stores the result of answer() in the other one. */
static const char fixture_ptx_caller[] = FIXTURE_PTX_HEAD
    ".extern .func (.param .b32 result) answer();\n"
    ".visible .entry caller(.param .u64 dst) {\n" FIXTURE_PTX_REGS "ld.param.u64 %d2, [dst];\n"
    "{ .param .b32 got; call.uni (got), answer, (); ld.param.b32 %r0, [got]; }\n"
    "st.global.u32 [%d2], %r0; ret; }\n";

static const char fixture_ptx_callee[] =
    FIXTURE_PTX_HEAD ".visible .func (.param .b32 result) answer() {\n" FIXTURE_PTX_REGS
                     "mov.u32 %r0, 4711; st.param.b32 [result], %r0; ret; }\n";

/* A text with an error in its line 5. */
static const char fixture_ptx_wrong[] = FIXTURE_PTX_HEAD ".visible .entry wrong() {\n"
                                                         "mov.u23 %r0, 1;\n"
                                                         "ret; }\n";
