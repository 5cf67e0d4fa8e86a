#include "trace/modules.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cancel.h"
#include "trace/python.h"

enum { MOST = 2048 };

/* Written by the thread that holds the flag; rows below n never change. */
static struct { uint64_t start, end; } known[MOST];
static atomic_uint n_known;
static atomic_flag is_taken = ATOMIC_FLAG_INIT;

static bool is_known(uint64_t address) {
    unsigned n = atomic_load_explicit(&n_known, memory_order_acquire);
    for (unsigned i = 0; i < n; i++) {
        if (address >= known[i].start && address < known[i].end)
            return true;
    }
    return false;
}

static void add(struct cushim_trace *trace, struct cushim_trace_writer *writer, const char *line,
                uint64_t time_ns) {
    uint64_t start, end, offset;
    char rights[5];
    int at = 0;
    unsigned n = atomic_load_explicit(&n_known, memory_order_relaxed);
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &start, &end, rights,
               &offset, &at) < 4 ||
        rights[2] != 'x' || n == MOST || is_known(start))
        return;
    const char *path = at ? line + at : "";
    cushim_trace_put(trace, writer,
                     &(struct cushim_trace_event){.code = CUSHIM_TRACE_MODULE,
                                                  .time_ns = time_ns,
                                                  .address = start,
                                                  .n_bytes = end - start,
                                                  .number = offset,
                                                  .text = path,
                                                  .text_bytes = strcspn(path, "\n")});
    known[n].start = start;
    known[n].end = end;
    atomic_store_explicit(&n_known, n + 1, memory_order_release);
}

static void read_all(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                     uint64_t time_ns) {
    char line[CUSHIM_TRACE_TEXT_BYTES];
    int saved_errno = errno, cancel = cushim_cancel_hold();
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        add(trace, writer, line, time_ns);
    if (maps)
        fclose(maps);
    cushim_cancel_let(cancel);
    errno = saved_errno;
}

void cushim_trace_modules_tell(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                               const uint64_t *frames, unsigned n_frames, uint64_t time_ns) {
    unsigned i = 0;
    while (i < n_frames && (frames[i] & CUSHIM_PYTHON_BIT || is_known(frames[i])))
        i++;
    /* while one thread reads, others leave it to that one */
    if (i == n_frames || atomic_flag_test_and_set(&is_taken))
        return;
    read_all(trace, writer, time_ns);
    atomic_flag_clear(&is_taken);
}

void cushim_trace_modules_forget(void) {
    atomic_store(&n_known, 0);
    atomic_flag_clear(&is_taken);
}
