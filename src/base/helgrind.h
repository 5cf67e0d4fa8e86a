/*
 * Requests to helgrind: do not check our own memory.
 *
 * Our threads synchronise by atomic words and by membarrier(2).  Helgrind takes most of these for
 * plain loads and stores, and would report races in programs that have none.  It checks the
 * program's own memory as usual.  The request is valgrind's client request: instructions without
 * effect elsewhere.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* HG_ARANGE_MAKE_UNTRACKED of valgrind's helgrind.h: 'H', 'G', and its place in the list. */
#define CUSHIM_HELGRIND_UNTRACK (((uint64_t)'H' << 24) + ((uint64_t)'G' << 16) + 256 + 39)

/* Races in these bytes are not reported until they are unmapped. */
static inline void cushim_helgrind_ignore(const void *memory, size_t n_bytes) {
    const volatile uint64_t request[6] = {CUSHIM_HELGRIND_UNTRACK, (uintptr_t)memory, n_bytes};
#if defined __x86_64__
    uint64_t answer = 0;
    __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(request)
                     : "cc", "memory");
#elif defined __aarch64__
    register uint64_t answer __asm__("x3") = 0;
    register const volatile uint64_t *at __asm__("x4") = request;
    __asm__ volatile("ror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\t"
                     "ror x12, x12, #61\n\torr x10, x10, x10"
                     : "+r"(answer)
                     : "r"(at)
                     : "cc", "memory");
#endif
    (void)request;
}
