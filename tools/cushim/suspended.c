#include "tools/cushim/suspended.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host_memory.h"
#include "base/utf8.h"
#include "base/writer.h"
#include "report/page_file.h"
#include "tools/cushim/usage.h"

/* ---- the process ---- */

bool suspended_look_up(int64_t process, struct suspended *out, char *state) {
    char path[64], text[1024], *end;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", process);
    *out = (struct suspended){.magic = "CUSHIMSU", .process = process};
    if (!cushim_read_text(path, text, sizeof text) || !(end = strrchr(text, ')')) ||
        !strchr(text, '('))
        return false;
    *end = 0;
    snprintf(out->program, sizeof out->program, "%s", strchr(text, '(') + 1);
    cushim_utf8_clean(out->program);
    *state = end[1] ? end[2] : 0;
    return *state != 'Z' && *state != 'X' &&
           sscanf(end + 2,
                  "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                  "%*d %*d %" SCNu64,
                  &out->start) == 1;
}

/* ---- the note ---- */

#define NOTE_ENDING ".suspended"

static const char *note_name(char name[64], int64_t process) {
    snprintf(name, 64, "%" PRId64 NOTE_ENDING, process);
    return name;
}

int suspended_hold(int64_t process) {
    char name[64];
    struct stat status;
    int folder = cushim_page_folder_open(true), note = -1, error = errno;
    while (folder >= 0 && note < 0) {
        note = openat(folder, note_name(name, process), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                      0600);
        error = note >= 0 && flock(note, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
        if (error)
            break;
        if (fstat(note, &status) == 0 && status.st_nlink)
            return close(folder), note;
        close(note); /* another command removed it meanwhile */
        note = -1;
    }
    if (note >= 0)
        close(note);
    if (folder >= 0)
        close(folder);
    if (error == EWOULDBLOCK)
        complain("process %" PRId64 ": another command suspends or resumes it", process);
    else
        complain("process %" PRId64 ": no note of it can be made beside the live pages: %s",
                 process, strerror(error));
    return -1;
}

void suspended_write(int note, const struct suspended *suspended) {
    if (!suspended || pwrite(note, suspended, sizeof *suspended, 0) != sizeof *suspended)
        (void)!ftruncate(note, 0);
}

void suspended_release(int note, int64_t process) {
    char name[64];
    struct suspended suspended;
    int folder = suspended_find(process, &suspended) ? -1 : cushim_page_folder_open(false);
    if (folder >= 0) {
        unlinkat(folder, note_name(name, process), 0);
        close(folder);
    }
    close(note);
}

bool suspended_find(int64_t process, struct suspended *suspended) {
    char name[64], state;
    struct suspended now;
    int folder = cushim_page_folder_open(false);
    int file = folder < 0
                   ? -1
                   : openat(folder, note_name(name, process), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool is_note = file >= 0 && pread(file, suspended, sizeof *suspended, 0) == sizeof *suspended;
    bool is_there = is_note && suspended_look_up(process, &now, &state) &&
                    memcmp(now.magic, suspended->magic, 8) == 0 && now.start == suspended->start &&
                    suspended->process == process;
    if (is_note && !is_there) /* of a process that has ended */
        unlinkat(folder, name, 0);
    if (file >= 0)
        close(file);
    if (folder >= 0)
        close(folder);
    if (is_there) {
        suspended->program[sizeof suspended->program - 1] = 0;
        cushim_utf8_clean(suspended->program);
    }
    return is_there;
}

void suspended_each(suspended_show_fn *show, void *context) {
    int folder = cushim_page_folder_open(false);
    DIR *directory = folder < 0 ? NULL : fdopendir(folder);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        struct suspended suspended;
        char *end;
        int64_t process = strtoll(entry->d_name, &end, 10);
        if (process > 0 && strcmp(end, NOTE_ENDING) == 0 && suspended_find(process, &suspended))
            show(&suspended, context);
    }
    if (directory)
        closedir(directory);
}

uint64_t suspended_bytes(const struct suspended *suspended) {
    uint64_t n_bytes = 0;
    for (int i = 0; i < CUSHIM_MAX_DEVICES; i++)
        n_bytes += suspended->n_bytes[i];
    return n_bytes;
}

static uint64_t since(const struct suspended *suspended) {
    uint64_t now_ns = cushim_clock_ns();
    return now_ns > suspended->since_ns ? now_ns - suspended->since_ns : 1;
}

void suspended_note(struct cushim_report *report) {
    struct suspended suspended;
    bool is_suspended = suspended_find(report->page.head.process, &suspended);
    report->suspended_ns = is_suspended ? since(&suspended) : 0;
    report->suspended_bytes = is_suspended ? suspended_bytes(&suspended) : 0;
}

const char *suspended_text(char text[SUSPENDED_TEXT_BYTES], const struct suspended *suspended) {
    snprintf(text, SUSPENDED_TEXT_BYTES, "%s for %s, %s",
             suspended->is_whole ? "suspended" : "half suspended", CUSHIM_TIME(since(suspended)),
             CUSHIM_BYTES(suspended_bytes(suspended)));
    return text;
}
