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

    .globl  dlsym
    .type   dlsym, @function
    .p2align 4
dlsym:
    .cfi_startproc
    endbr64
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    subq    $8, %rsp
    .cfi_adjust_cfa_offset 8
    movq    24(%rsp), %rdx              /* (handle, name, return address) */
    call    cushim_filter_dlsym
    movq    %rax, %r11
    movq    %rdx, %rax
    addq    $8, %rsp
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
    .size   dlsym, . - dlsym

    .globl  dlvsym
    .type   dlvsym, @function
    .p2align 4
dlvsym:
    .cfi_startproc
    endbr64
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    pushq   %rdx
    .cfi_adjust_cfa_offset 8
    movq    24(%rsp), %rcx              /* (handle, name, version, return address) */
    call    cushim_filter_dlvsym
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
    .size   dlvsym, . - dlvsym

    .section .note.GNU-stack, "", @progbits
