#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "copy/node.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Policies as set_mempolicy(2) numbers them.  Linux reads one bit less than the number of nodes
 * that it is given. */
enum { POLICY_DEFAULT = 0, POLICY_PREFERRED = 1, MAX_NODES = 1024 };
enum { BITS = 8 * sizeof(unsigned long) };

static bool is_free_to_choose(void) {
    int policy = -1;
    return syscall(SYS_get_mempolicy, &policy, NULL, 0, NULL, 0) == 0 && policy == POLICY_DEFAULT;
}

bool cushim_copy_node_prefer(int node) {
    unsigned long nodes[MAX_NODES / BITS] = {0};
    int error = errno;
    if (node < 0 || node >= MAX_NODES - 1)
        return false;
    nodes[(unsigned)node / BITS] = 1ul << ((unsigned)node % BITS);
    bool is_done =
        is_free_to_choose() && syscall(SYS_set_mempolicy, POLICY_PREFERRED, nodes, MAX_NODES) == 0;
    errno = error;
    return is_done;
}

void cushim_copy_node_leave(void) {
    int error = errno;
    syscall(SYS_set_mempolicy, POLICY_DEFAULT, NULL, 0);
    errno = error;
}
