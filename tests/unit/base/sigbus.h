/* Tests of files that are cut: a process survives that only if our handler may be there. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline bool has_sigbus_handler(void) {
    struct sigaction now;
    sigaction(SIGBUS, NULL, &now);
    return now.sa_flags & SA_SIGINFO || now.sa_handler != SIG_DFL;
}

/* A sanitizer has a handler of its own, which ours leaves alone.  After a handler valgrind goes on
 * with the registers of some earlier instruction. */
static inline bool may_survive_a_cut(void) {
    const char *preload = getenv("LD_PRELOAD");
    bool is_valgrind = preload && strstr(preload, "vgpreload");
    if (geteuid() == 0 && !has_sigbus_handler() && !is_valgrind)
        return true;
    puts("# not run: a cut file is survived only by root, without a sanitizer and valgrind");
    return false;
}
