/*
 * A fake of the kernel's memory policy, for a program linked with -Wl,--wrap=syscall, so that tests
 * pass on machines with one node and in sandboxes that refuse the calls.  All other calls pass.
 */
#pragma once

struct copy_fixture_kernel {
    long policy;
    unsigned long nodes[16];
    int refused; /* the errno of calls that set a policy; 0: they succeed */
    unsigned n_set;
};
extern struct copy_fixture_kernel copy_fixture_kernel;
