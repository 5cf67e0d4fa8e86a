/*
 * Driver functions that may be patched.
 *
 * A library that follows a program's allocations (UCX) overwrites the first instructions of a
 * driver function with a jump, 12 bytes on x86-64 and 16 on aarch64, and keeps a copy of them to
 * call the function.  It can copy only a few kinds of instructions, and gives up all of its hooks
 * at the first function that begins otherwise.
 *
 * So each function begins with moves to a register that is free there, and its body is elsewhere.
 * If jump targets are guarded (BTI) a landing pad has to be first, which UCX cannot copy.
 */
#pragma once

#include <stdatomic.h>

#if defined(__x86_64__)
#define CUSHIM_PATCHABLE_MOVE  "movl $0, %eax\n"
#define CUSHIM_PATCHABLE_MOVES CUSHIM_PATCHABLE_MOVE CUSHIM_PATCHABLE_MOVE CUSHIM_PATCHABLE_MOVE
#define CUSHIM_PATCHABLE_JUMP  "jmp "
#define CUSHIM_PATCHABLE_FIRST 0x000000b8u /* of the first move */
#elif defined(__aarch64__)
#define CUSHIM_PATCHABLE_MOVE "movz w16, #0\n"
#ifdef __ARM_FEATURE_BTI_DEFAULT
#define CUSHIM_PATCHABLE_PAD   "hint #34\n" /* bti c */
#define CUSHIM_PATCHABLE_FIRST 0xd503245fu
#else
#define CUSHIM_PATCHABLE_PAD   ""
#define CUSHIM_PATCHABLE_FIRST 0x52800010u
#endif
#define CUSHIM_PATCHABLE_MOVES                                                                     \
    CUSHIM_PATCHABLE_PAD CUSHIM_PATCHABLE_MOVE CUSHIM_PATCHABLE_MOVE CUSHIM_PATCHABLE_MOVE         \
        CUSHIM_PATCHABLE_MOVE
#define CUSHIM_PATCHABLE_JUMP "b "
#endif

/* A function `name` that is `bind` (.globl or .weak) and goes on at `body`. */
#define CUSHIM_PATCHABLE_TO(name, bind, body)                                                      \
    __asm__(".pushsection .text\n"                                                                 \
            ".p2align 4\n" bind " " name "\n"                                                      \
            ".type " name ", %function\n" name ":\n"                                               \
            ".cfi_startproc\n" CUSHIM_PATCHABLE_MOVES CUSHIM_PATCHABLE_JUMP body "\n"              \
            ".cfi_endproc\n"                                                                       \
            ".size " name ", . - " name "\n"                                                       \
            ".popsection");

/* Before the definition of `abi`: what is defined becomes the body. */
#define CUSHIM_PATCHABLE(abi)                                                                      \
    CUSHIM_PATCHABLE_TO(#abi, ".globl", "cushim_body_" #abi)                                       \
    __asm__(".globl cushim_first_" #abi "\n.hidden cushim_first_" #abi "\n.set cushim_first_" #abi \
            ", " #abi);                                                                            \
    extern __typeof__(abi) abi __asm__("cushim_body_" #abi) __attribute__((used));

/* Elsewhere in the library: declare its first word, which is CUSHIM_PATCHABLE_FIRST unless it was
 * patched. */
#define CUSHIM_PATCHABLE_ELSEWHERE(abi)                                                            \
    extern const atomic_uint cushim_first_##abi __attribute__((visibility("hidden")));
