#include "base/membarrier.h"

#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cancel.h"

/* 0: the kernel was not asked yet; 1: it supports it; -1: it does not. */
static atomic_int granted;

/* The filters of the thread that asked, at that time; -1: the kernel does not tell. */
static atomic_long n_filters_then;

static bool call(int command) {
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

/* The number of this thread's seccomp filters: containers have one from the start. */
static long count_filters(void) {
    static const char head[] = "\nSeccomp_filters:";
    char text[4096];
    int cancel = cushim_cancel_hold();
    int file = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n_bytes = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    cushim_cancel_let(cancel);
    if (n_bytes <= 0)
        return -1;
    text[n_bytes] = 0;
    const char *line = strstr(text, head);
    return line ? strtol(line + sizeof head - 1, NULL, 10) : -1;
}

static bool is_filtered(void) {
    return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0;
}

bool cushim_membarrier_ask(void) {
    int known = atomic_load(&granted);
    if (!known) {
        atomic_store(&n_filters_then, is_filtered() ? count_filters() : 0);
        known = call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) ? 1 : -1;
        atomic_store(&granted, known);
    }
    return known > 0;
}

bool cushim_membarrier_pass(void) {
    return call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

bool cushim_membarrier_is_judged(void) {
    long n_then = atomic_load(&n_filters_then);
    return is_filtered() && (!n_then || count_filters() != n_then);
}
