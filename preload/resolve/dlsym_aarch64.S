/*
 * dlsym and dlvsym, aarch64; dlsym_x86_64.S says why they are not written in C.
 *
 * The filter returns a pair: x0 the target or NULL, x1 the value.  The jump goes through x16,
 * because a landing pad `bti c` may be entered from it.
 */
    .text

    /* `caller` is the register of the filter's last argument, the return address. */
    .macro  STUB name, filter, caller
    .globl  \name
    .type   \name, %function
    .p2align 4
\name:
    .cfi_startproc
    hint    #34                         /* bti c */
    stp     x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset x29, -48
    .cfi_offset x30, -40
    mov     x29, sp
    stp     x0, x1, [sp, #16]
    str     x2, [sp, #32]
    mov     \caller, x30
    bl      \filter
    mov     x16, x0
    mov     x17, x1
    ldr     x2, [sp, #32]
    ldp     x0, x1, [sp, #16]
    ldp     x29, x30, [sp], #48
    .cfi_restore x30
    .cfi_restore x29
    .cfi_def_cfa_offset 0
    cbz     x16, 1f
    br      x16
1:  mov     x0, x17
    ret
    .cfi_endproc
    .size   \name, . - \name
    .endm

    STUB    dlsym, cushim_filter_dlsym, x2          /* behind (handle, name) */
    STUB    dlvsym, cushim_filter_dlvsym, x3        /* behind (handle, name, version) */

#ifdef __ARM_FEATURE_BTI_DEFAULT
    /* A linker marks the whole object as guarded only if every part says so. */
    .section .note.gnu.property, "a"
    .p2align 3
    .word   4, 16, 5
    .asciz  "GNU"
    .word   0xc0000000, 4, 1, 0
#endif
    .section .note.GNU-stack, "", %progbits
