#include "tests/unit/copy/copy_kernel.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>

struct copy_fixture_kernel copy_fixture_kernel;

static long set_policy(long policy, const unsigned long *nodes) {
    if (copy_fixture_kernel.refused) {
        errno = copy_fixture_kernel.refused;
        return -1;
    }
    copy_fixture_kernel.policy = policy;
    copy_fixture_kernel.n_set++;
    memset(copy_fixture_kernel.nodes, 0, sizeof copy_fixture_kernel.nodes);
    if (nodes)
        memcpy(copy_fixture_kernel.nodes, nodes, sizeof copy_fixture_kernel.nodes);
    return 0;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* The numbers that the code under test passes. */
static int count_words(long number) {
    switch (number) {
    case SYS_set_mempolicy:
    case SYS_membarrier:
        return 3;
    case SYS_get_mempolicy:
        return 5;
    default: /* a futex */
        return 6;
    }
}

long __wrap_syscall(long number, ...) {
    long words[6] = {0};
    va_list list;
    va_start(list, number);
    for (int i = 0; i < count_words(number); i++)
        words[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_get_mempolicy) {
        *(int *)words[0] = (int)copy_fixture_kernel.policy;
        return 0;
    }
    if (number == SYS_set_mempolicy)
        return set_policy((int)words[0], (const unsigned long *)words[1]);
    return __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
