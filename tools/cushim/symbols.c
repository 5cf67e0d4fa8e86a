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

#include "base/hash.h"
#include "base/list.h"
#include "base/utf8.h"
#include "base/writer.h"
#include "report/finding.h"
#include "report/frame.h"
#include "report/shortage.h"
#include "report/site.h"

extern char **environ;

enum { PATIENCE_MS = 10000 };

enum { MOST_TEXT_BYTES = 256 << 20 };

/* An address of a file.  Answers are kept, because each child reads all debugging information. */
struct known {
    uint64_t address;
    struct symbol symbol;
    UT_hash_handle hh;
};

struct file {
    char *path;
    struct known *known;
    struct known **wanted; /* those to ask for next */
    size_t n_wanted;
    UT_hash_handle hh;
};

static struct file *files;

/* ---- addr2line ---- */

/* Write the addresses to a file in memory, because a pipe could make us wait.  Returns -1 if
 * that fails. */
static int list_addresses(const struct file *of) {
    int file = memfd_create("addresses", MFD_CLOEXEC);
    if (file < 0)
        return -1;
    struct cushim_writer out = {.fd = file};
    for (size_t i = 0; i < of->n_wanted; i++)
        cushim_write(&out, "0x%" PRIx64 "\n", of->wanted[i]->address);
    cushim_writer_flush(&out);
    if (!out.error && lseek(file, 0, SEEK_SET) == 0)
        return file;
    close(file);
    return -1;
}

/* Start addr2line.  It is a child process, so a bad file harms only the child; our preload is
 * not in it. */
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

/* Read the output, and put a 0 at its end.  Output that comes too late is ignored.  Returns NULL
 * if there is no memory. */
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

static char *ask(const struct file *file) {
    int pipes[2], input = list_addresses(file);
    char *text = NULL;
    if (input >= 0 && pipe2(pipes, O_CLOEXEC) == 0) {
        pid_t child = start(file->path, input, pipes[1]);
        close(pipes[1]);
        if (child > 0) {
            text = read_all(pipes[0]);
            kill(child, SIGKILL); /* it has written everything, or is stuck */
            TEMP_FAILURE_RETRY(waitpid(child, NULL, 0));
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

/* Cut "/folder/FILE:88 (discriminator 2)" to "FILE:88"; "" if it has no line. */
static const char *line_of(char *place) {
    char *end = strstr(place, " (discriminator ");
    if (end)
        *end = 0;
    const char *colon = strrchr(place, ':');
    if (!colon || strtoul(colon + 1, NULL, 10) == 0)
        return "";
    return basename(place);
}

static void take_answers(const struct file *file, char *text) {
    char *rest = NULL, *name = strtok_r(text, "\n", &rest), *place;
    for (size_t i = 0; i < file->n_wanted && name && (place = strtok_r(NULL, "\n", &rest)); i++) {
        struct symbol *symbol = &file->wanted[i]->symbol;
        cushim_frame_shorten(name, CUSHIM_REPORT_LINE_BYTES - 1);
        snprintf(symbol->function, sizeof symbol->function, "%s", *name == '?' ? "" : name);
        snprintf(symbol->line, sizeof symbol->line, "%s", line_of(place));
        cushim_utf8_clean(symbol->function);
        cushim_utf8_clean(symbol->line);
        name = strtok_r(NULL, "\n", &rest);
    }
}

void symbols_ask(void) {
    for (struct file *file = files; file; file = file->hh.next) {
        char *text = file->n_wanted && is_file(file->path) ? ask(file) : NULL;
        if (text)
            take_answers(file, text);
        free(text);
        file->n_wanted = 0;
    }
}

/* ---- what is known ---- */

static struct file *find_file(const char *path) {
    struct file *file;
    HASH_FIND_STR(files, path, file);
    if (file || !(file = calloc(1, sizeof *file)))
        return file;
    file->path = strdup(path);
    if (file->path) {
        HASH_ADD_KEYPTR(hh, files, file->path, strlen(file->path), file);
        return file;
    }
    free(file);
    return NULL;
}

const struct symbol *symbols_want(const char *path, uint64_t address) {
    struct file *file = find_file(path);
    struct known *known = NULL, **wanted;
    if (!file)
        return NULL;
    HASH_FIND(hh, file->known, &address, sizeof address, known);
    if (known)
        return &known->symbol;
    HASH_GET(file->known, address, address, known);
    if (!known)
        return NULL;
    LIST_ADD(file->wanted, file->n_wanted, wanted);
    if (wanted)
        *wanted = known;
    return &known->symbol;
}

/* ---- the frames of a report ---- */

static void want(const struct cushim_page_frame frames[], uint64_t n_frames) {
    for (uint64_t i = 0; i < n_frames; i++) {
        if (frames[i].offset && !(frames[i].offset & CUSHIM_PAGE_PYTHON))
            symbols_want(frames[i].file, frames[i].offset - 1); /* the call, not what follows */
    }
}

void symbols_learn(const struct cushim_report *report) {
    struct cushim_page_finding finding;
    struct cushim_page_shortage shortage;
    struct cushim_site site;
    for (unsigned i = 0; i < CUSHIM_PAGE_SITES; i++) {
        if (cushim_site_get(report, i, &site))
            want(site.frames, site.n_frames);
    }
    for (unsigned i = 0; i < CUSHIM_N_FINDINGS; i++) {
        if (!cushim_finding_get(report, i, &finding))
            continue;
        want(finding.obtained, finding.n_obtained);
        want(finding.freed, finding.n_freed);
        want(finding.at, finding.n_at);
    }
    for (unsigned i = 0; i < CUSHIM_PAGE_SHORTAGES; i++) {
        if (cushim_shortage_get(&report->page, i, &shortage))
            want(shortage.frames, shortage.n_frames);
    }
    symbols_ask();
}

bool symbols_find_line(const struct cushim_page_frame *frame,
                       char function[CUSHIM_REPORT_LINE_BYTES],
                       char line[CUSHIM_REPORT_LINE_BYTES]) {
    const struct symbol *symbol =
        frame->offset ? symbols_want(frame->file, frame->offset - 1) : NULL;
    symbols_ask();
    strcpy(line, symbol ? symbol->line : "");
    strcpy(function, symbol ? symbol->function : "");
    return *line;
}
