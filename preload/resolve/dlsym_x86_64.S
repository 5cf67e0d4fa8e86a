/*
 * dlsym and dlvsym, x86-64.
 *
 * Save the arguments, ask the filter, put them back; then jump to the real function, which sees the
 * caller's own return address, or return the filter's value.  A function in C would have to call,
 * and then RTLD_NEXT would be searched from our object instead of the caller's (interposition.md
 * B1).
 *
 * At entry the stack is 8 off a multiple of 16: three words more and the call is aligned. The
 * filter returns a pair: rax the target or NULL, rdx the value.
 */
#ifdef __CET__
#include <cet.h>
#endif

    .text

    /* `caller` is the register of the filter's last argument, the return address. */
    .macro  STUB name, filter, caller
    .globl  \name
    .type   \name, @function
    .p2align 4
\name:
    .cfi_startproc
    endbr64
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    pushq   %rdx
    .cfi_adjust_cfa_offset 8
    movq    24(%rsp), \caller
    call    \filter
    movq    %rax, %r11
    movq    %rdx, %rax
    popq    %rdx
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    testq   %r11, %r11
    jz      1f
    jmp     *%r11
1:  ret
    .cfi_endproc
    .size   \name, . - \name
    .endm

    STUB    dlsym, cushim_filter_dlsym, %rdx        /* behind (handle, name) */
    STUB    dlvsym, cushim_filter_dlvsym, %rcx      /* behind (handle, name, version) */

    .section .note.GNU-stack, "", @progbits
