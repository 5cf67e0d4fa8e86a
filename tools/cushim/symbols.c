#include "tools/cushim/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/utf8.h"
#include "base/writer.h"
#include "report/finding.h"
#include "report/frame.h"
#include "report/shortage.h"
#include "report/site.h"

extern char **environ;

enum { PATIENCE_MS = 10000 };

enum { MOST_TEXT_BYTES = 256 << 20 };

/* A file in memory, so that the reader never makes us wait; -1: none. */
static int list_addresses(const uint64_t addresses[], size_t n) {
    int file = memfd_create("addresses", MFD_CLOEXEC);
    if (file < 0)
        return -1;
    struct cushim_writer out = {.fd = file};
    for (size_t i = 0; i < n; i++)
        cushim_write(&out, "0x%" PRIx64 "\n", addresses[i]);
    cushim_writer_flush(&out);
    if (!out.error && lseek(file, 0, SEEK_SET) == 0)
        return file;
    close(file);
    return -1;
}

/* A child, so that a bad file harms only that; our preload is not in it. */
static pid_t start(const char *file, int input, int output) {
    char *words[] = {"addr2line", "-C", "-f", "-e", (char *)file, NULL};
    static char *const plain[] = {"LC_ALL=C", NULL};
    posix_spawn_file_actions_t actions;
    pid_t child = -1;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    if (posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO) != 0 ||
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) != 0 ||
        posix_spawnp(&child, words[0], &actions, NULL, words, plain) != 0)
        child = -1;
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

/* Its output, with a 0 at the end; output that comes too late is ignored.  NULL: no memory. */
static char *read_all(int input) {
    struct pollfd ready = {.fd = input, .events = POLLIN};
    size_t n = 0, most = 1 << 16;
    char *text = malloc(most);
    while (text && n < MOST_TEXT_BYTES && poll(&ready, 1, PATIENCE_MS) > 0) {
        if (n + 1 == most) {
            char *more = realloc(text, 2 * most);
            if (!more)
                break;
            text = more;
            most *= 2;
        }
        ssize_t n_read = read(input, text + n, most - 1 - n);
        if (n_read < 0 && errno == EINTR)
            continue;
        if (n_read <= 0)
            break;
        n += (size_t)n_read;
    }
    if (text)
        text[n] = 0;
    return text;
}

static char *ask(const char *file, const uint64_t addresses[], size_t n_addresses) {
    int pipes[2], input = list_addresses(addresses, n_addresses);
    char *text = NULL;
    if (input >= 0 && pipe2(pipes, O_CLOEXEC) == 0) {
        pid_t child = start(file, input, pipes[1]);
        close(pipes[1]);
        if (child > 0) {
            text = read_all(pipes[0]);
            kill(child, SIGKILL); /* it has written everything, or is stuck */
            while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
            }
        }
        close(pipes[0]);
    }
    if (input >= 0)
        close(input);
    return text;
}

static bool is_file(const char *path) {
    struct stat status;
    return *path == '/' && stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* "/folder/FILE:88 (discriminator 2)" without the rest; "" if it has no line. */
static const char *line_of(char *place) {
    char *end = strstr(place, " (discriminator ");
    if (end)
        *end = 0;
    const char *colon = strrchr(place, ':');
    if (!colon || strtoul(colon + 1, NULL, 10) == 0)
        return "";
    const char *slash = strrchr(place, '/');
    return slash ? slash + 1 : place;
}

void symbols_find(const char *file, const uint64_t addresses[], size_t n_addresses,
                  void (*tell)(size_t i, const char *function, const char *line, void *context),
                  void *context) {
    char *text = n_addresses && is_file(file) ? ask(file, addresses, n_addresses) : NULL,
         *rest = NULL;
    if (text) {
        char *name = strtok_r(text, "\n", &rest);
        for (size_t i = 0; name && i < n_addresses; i++) {
            char *place = strtok_r(NULL, "\n", &rest);
            if (!place)
                break;
            cushim_frame_shorten(name, CUSHIM_REPORT_LINE_BYTES - 1);
            tell(i, *name == '?' ? "" : name, line_of(place), context);
            name = strtok_r(NULL, "\n", &rest);
        }
    }
    free(text);
}

/* ---- answers, in the order of files and offsets ---- */

struct place {
    char file[sizeof((struct cushim_page_frame *)NULL)->file];
    uint64_t offset;
    char function[CUSHIM_REPORT_LINE_BYTES], line[CUSHIM_REPORT_LINE_BYTES]; /* "": not known */
};

static struct {
    struct place *rows;
    size_t n, n_room;
} known;

static int in_order(const void *one, const void *other) {
    const struct place *a = one, *b = other;
    int files = strcmp(a->file, b->file);
    return files ? files : a->offset < b->offset ? -1 : a->offset > b->offset;
}

static struct place *find(const struct cushim_page_frame *frame, size_t n_known) {
    struct place wanted = {.offset = frame->offset};
    snprintf(wanted.file, sizeof wanted.file, "%s", frame->file);
    return n_known ? bsearch(&wanted, known.rows, n_known, sizeof wanted, in_order) : NULL;
}

/* Added behind the known ones; duplicates are removed when all are there. */
static void want(const struct cushim_page_frame frames[], uint64_t n_frames, size_t n_known) {
    for (uint64_t i = 0; i < n_frames; i++) {
        if (!frames[i].offset || find(&frames[i], n_known))
            continue;
        if (known.n == known.n_room) {
            size_t n_room = known.n_room ? 2 * known.n_room : 64;
            struct place *rows = realloc(known.rows, n_room * sizeof *rows);
            if (!rows)
                return;
            known.rows = rows;
            known.n_room = n_room;
        }
        struct place *place = &known.rows[known.n++];
        *place = (struct place){.offset = frames[i].offset};
        snprintf(place->file, sizeof place->file, "%s", frames[i].file);
    }
}

static void want_all(const struct cushim_report *report, size_t n_known) {
    struct cushim_page_finding finding;
    struct cushim_page_shortage shortage;
    struct cushim_site site;
    for (unsigned i = 0; i < CUSHIM_PAGE_SITES; i++) {
        if (cushim_site_get(report, i, &site))
            want(site.frames, site.n_frames, n_known);
    }
    for (unsigned i = 0; i < CUSHIM_PAGE_FINDINGS; i++) {
        if (!cushim_finding_get(&report->page, i, &finding))
            continue;
        want(finding.obtained, finding.n_obtained, n_known);
        want(finding.freed, finding.n_freed, n_known);
        want(finding.at, finding.n_at, n_known);
    }
    for (unsigned i = 0; i < CUSHIM_PAGE_SHORTAGES; i++) {
        if (cushim_shortage_get(&report->page, i, &shortage))
            want(shortage.frames, shortage.n_frames, n_known);
    }
}

static void keep(size_t i, const char *function, const char *line, void *context) {
    struct place *place = (struct place *)context + i;
    if (!*line)
        return;
    snprintf(place->function, sizeof place->function, "%s", *function ? function : "??");
    snprintf(place->line, sizeof place->line, "%s", line);
    cushim_utf8_clean(place->function);
    cushim_utf8_clean(place->line);
}

void symbols_learn(const struct cushim_report *report) {
    size_t n_known = known.n, n = n_known;
    want_all(report, n_known);
    struct place *fresh = known.rows + n_known;
    size_t n_fresh = known.n - n_known;
    if (!n_fresh)
        return;
    qsort(fresh, n_fresh, sizeof *fresh, in_order);
    for (size_t i = 0; i < n_fresh; i++) { /* each once */
        if (!i || in_order(&fresh[i], &known.rows[n - 1]) != 0)
            known.rows[n++] = fresh[i];
    }
    known.n = n;
    uint64_t *addresses = reallocarray(NULL, n - n_known, sizeof *addresses);
    for (size_t i = n_known; addresses && i < n;) {
        size_t n_asked = 0;
        while (i + n_asked < n && strcmp(known.rows[i].file, known.rows[i + n_asked].file) == 0) {
            addresses[n_asked] = known.rows[i + n_asked].offset - 1; /* the call is before */
            n_asked++;
        }
        symbols_find(known.rows[i].file, addresses, n_asked, keep, &known.rows[i]);
        i += n_asked;
    }
    free(addresses);
    qsort(known.rows, known.n, sizeof *known.rows, in_order);
}

bool symbols_find_line(const struct cushim_page_frame *frame,
                       char function[CUSHIM_REPORT_LINE_BYTES],
                       char line[CUSHIM_REPORT_LINE_BYTES]) {
    struct place alone = {.offset = frame->offset}, *place = find(frame, known.n);
    *line = 0;
    if (!frame->offset)
        return false;
    if (!place) {
        symbols_find(frame->file, &(uint64_t){frame->offset - 1}, 1, keep, &alone);
        place = &alone;
    }
    if (*place->line) {
        strcpy(function, place->function);
        strcpy(line, place->line);
    }
    return *line != 0;
}
