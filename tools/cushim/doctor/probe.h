/*
 * The probe is a child process that allocates under the preload; its exit report shows what was
 * served.
 *
 * The child sends its findings as one struct, because it is the same executable.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { PROBE_TEXT_BYTES = 256 };

/* Written by the child to its descriptor, in one piece. */
struct probe_findings {
    char failure[PROBE_TEXT_BYTES];     /* empty: both allocations succeeded */
    bool is_full;                       /* the failure is that the driver had no memory left */
    char by_dlsym[PROBE_TEXT_BYTES];    /* the file of the cuMemAlloc_v2 that dlsym found */
    char by_resolver[PROBE_TEXT_BYTES]; /* the same for cuGetProcAddress */
};

struct probe {
    struct probe_findings findings;
    char failure[PROBE_TEXT_BYTES]; /* empty if the report was read; the next two are then set */
    int64_t n_requests;             /* of device memory that the pool served */
    int64_t n_bypassed;             /* driver allocations that no entry point saw */
};

/* Allocations that the child makes, one by each way. */
enum { PROBE_N_ALLOCATIONS = 2 };

/* The child's part: allocate, write the findings to `fd`.  Returns an exit code. */
int probe_child(int fd);

/*
 * The file of another preload that answers dlsym first in this process. Returns NULL if the C
 * library or our preload does.
 */
const char *probe_other_hook(void);

/*
 * Does dlsym bypass `library` in a process that is started now, with LD_PRELOAD as it is set?  A
 * child process loads the driver to find out; without a driver nothing is bypassed.
 */
bool probe_is_cut_off(const char *library);

/* The child's part of that.  Its exit status is the answer. */
_Noreturn void probe_look_child(const char *library);

/* The parent's part: start the child with `library` preloaded, and read both answers. */
void probe_run(struct probe *probe, const char *library);
