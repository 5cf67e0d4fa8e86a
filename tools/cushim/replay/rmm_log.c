#include "tools/cushim/replay/rmm_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/page.h"
#include "trace/writer.h"

static const char head_line[] = "Thread,Time,Action,Pointer,Size,Stream\n";
static const uint64_t second_ns = 1000000000;

enum { LINE_BYTES = 512 };

/* Open a log behind its first line.  Returns NULL, with errno; 0 if it is no such log. */
static FILE *open_log(const char *path) {
    char line[LINE_BYTES];
    FILE *file = fopen(path, "re");
    errno = file ? 0 : errno;
    if (file && (!fgets(line, sizeof line, file) || strcmp(line, head_line) != 0)) {
        fclose(file);
        return NULL;
    }
    return file;
}

bool rmm_log_is(const char *path) {
    FILE *file = open_log(path);
    if (file)
        fclose(file);
    return file;
}

/* Read a time of day such as "10:42:07.123456".  In older versions the last separator is a
 * colon. */
static bool take_time(const char *text, uint64_t *ns) {
    unsigned hours, minutes, seconds, micros;
    if (sscanf(text, "%2u:%2u:%2u%*1[.:]%6u", &hours, &minutes, &seconds, &micros) != 4 ||
        hours > 23 || minutes > 59 || seconds > 60)
        return false;
    *ns = (hours * 3600ull + minutes * 60 + seconds) * second_ns + micros * 1000ull;
    return true;
}

/* Read the event of a line, at its time of day.  Returns false if the line is none. */
static bool take_line(const char *line, struct cushim_trace_event *event) {
    char time[32], action[32];
    uint64_t address, n_bytes;
    if (sscanf(line, "%" SCNu64 ",%31[^,],%31[^,],%" SCNx64 ",%" SCNu64, &event->thread, time,
               action, &address, &n_bytes) != 5 ||
        !take_time(time, &event->time_ns) || n_bytes > INT64_MAX)
        return false;
    event->address = address;
    event->n_bytes = n_bytes;
    event->code = strcmp(action, "allocate") == 0           ? CUSHIM_TRACE_ALLOC
                  : strcmp(action, "allocate failure") == 0 ? CUSHIM_TRACE_REFUSE
                  : strcmp(action, "free") == 0             ? CUSHIM_TRACE_FREE
                                                            : CUSHIM_TRACE_NONE;
    return event->code != CUSHIM_TRACE_NONE;
}

/* Convert a time of day to a time that never falls, because threads write out of order, and a
 * day may end. */
static uint64_t rise(uint64_t last_ns, uint64_t ns) {
    const uint64_t day_ns = 86400 * second_ns;
    uint64_t day = last_ns / day_ns;
    if (day * day_ns + ns + day_ns / 2 < last_ns)
        day++;
    ns += day * day_ns;
    return ns > last_ns ? ns : last_ns;
}

static void copy(struct cushim_trace *trace, FILE *file, struct rmm_log *log) {
    static struct cushim_trace_writer writer;
    char line[LINE_BYTES];
    uint64_t last_ns = 0;
    memset(&writer, 0, sizeof writer);
    while (fgets(line, sizeof line, file)) {
        struct cushim_trace_event event = {.pool = 1, .kind = CUSHIM_KIND_DEVICE};
        if (!take_line(line, &event)) {
            log->n_wrong++;
            continue;
        }
        event.time_ns = last_ns = rise(last_ns, event.time_ns);
        struct cushim_trace_event place = event;
        place.code = CUSHIM_TRACE_PLACE;
        cushim_trace_at(trace, &writer, &place);
        cushim_trace_put(trace, &writer, &event);
    }
}

int rmm_log_begin(struct rmm_log *log, const char *path) {
    static struct cushim_trace trace;
    struct cushim_trace_head head = {.process = (uint64_t)getpid(), .program = "a log of RMM"};
    const char *root = getenv("TMPDIR");
    FILE *file = open_log(path);
    int error = file ? 0 : errno ? errno : ENOEXEC;
    if (error)
        return error;
    log->n_wrong = 0;
    if (snprintf(log->folder, sizeof log->folder, "%s/cushim-rmm-XXXXXX",
                 root && *root == '/' ? root : "/tmp") >= PATH_MAX - 16 ||
        !mkdtemp(log->folder))
        error = errno;
    snprintf(log->path, sizeof log->path, "%.4000s/log" CUSHIM_TRACE_ENDING, log->folder);
    if (!error && (error = cushim_trace_open(&trace, log->path, &head, INT64_MAX)))
        rmdir(log->folder);
    if (!error) {
        copy(&trace, file, log);
        cushim_trace_close(&trace);
    }
    fclose(file);
    return error;
}

void rmm_log_end(const struct rmm_log *log) {
    unlink(log->path);
    rmdir(log->folder);
}
