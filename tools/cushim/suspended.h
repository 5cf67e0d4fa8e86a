/*
 * The notes of suspended processes: a file for each, beside the live pages, so that another command
 * can tell of it and resume it, and knows how much memory it needs.
 */
#pragma once

#include <stdbool.h>

#include "report/report.h"

struct suspended {
    char magic[8];
    int64_t process;
    uint64_t start;                       /* of the process, because its number may be used again */
    uint64_t since_ns;                    /* of cushim_clock_ns */
    uint64_t is_whole;                    /* 0: its memory is on its way */
    uint64_t n_bytes[CUSHIM_MAX_DEVICES]; /* that it had of each device, by NVML's numbers */
    uint64_t spare_bytes[CUSHIM_MAX_DEVICES]; /* that must be free beside it when it comes back */
    char program[CUSHIM_NAME_BYTES];
};

uint64_t suspended_bytes(const struct suspended *suspended);

/* Note in the report of a process for how long it is suspended. */
void suspended_note(struct cushim_report *report);

/* Find the note of a process that lives; false: there is none. */
bool suspended_find(int64_t process, struct suspended *suspended);

/* Call `show` for the note of each process that lives. */
typedef void suspended_show_fn(const struct suspended *suspended, void *context);
void suspended_each(suspended_show_fn *show, void *context);

/* "suspended for 5.2 min, 3.1 GiB"; returns `text`. */
enum { SUSPENDED_TEXT_BYTES = 128 };
const char *suspended_text(char text[SUSPENDED_TEXT_BYTES], const struct suspended *suspended);

/* Open the note of a process for this command alone, until it is released.  Returns a descriptor,
 * or -1 after a line that says why not.  NULL empties it, and an empty note goes at the release. */
int suspended_hold(int64_t process);
void suspended_write(int note, const struct suspended *suspended);
void suspended_release(int note, int64_t process);

/* Begin a note: the name and the start of a process.  *state is the letter of proc(5).  False: the
 * process has ended. */
bool suspended_look_up(int64_t process, struct suspended *out, char *state);
