/*
 * Finds the names of a recording's frames, function and source line, by addr2line.
 *
 * A recording may come from anywhere, and its modules may name any file, so only a child process
 * reads them (symbols.h), and control characters are taken out of names.
 */
#pragma once

#include "base/writer.h"
#include "report/library.h"
#include "trace/account.h"

enum { NAME_BYTES = 160 };

struct names;

struct name {
    char function[NAME_BYTES]; /* "train", or "train+0x1234" with the module's name */
    char line[NAME_BYTES];     /* "FILE:88"; "" if unknown */
    char module[NAME_BYTES];   /* the path of the file; "" if there is none */
    uint64_t offset;           /* in the file */
    bool is_ours;              /* it is in the preload or in CUDA */
    enum cushim_library_kind kind;
    char library[CUSHIM_LIBRARY_BYTES]; /* "" if it is of none that is known */
};

/* Find the names of all frames of an account, which was read to its end. Returns 0 or an errno. */
int names_find(struct names **names, const struct cushim_trace_account *account);

/* The name of one of these frames. */
const struct name *names_of(const struct names *names, uint64_t frame);

/* The number of files that were written after the recording, so that their lines may be wrong. */
size_t names_newer(const struct names *names);

/* The index of the first frame in the program's own code; n_frames if there is none. */
unsigned names_first(const struct names *names, const struct cushim_trace_site *site);

/* Find how many frames tell the labels of the sites apart. */
void names_tell_apart(const struct names *names, const struct cushim_trace_account *account);

/* Have two sites the same label? */
bool names_are_alike(const struct names *names, const struct cushim_trace_site *one,
                     const struct cushim_trace_site *other);

/* Who asked: the first package or library of the program in the stack, "the program itself", or ""
 * if no frame tells. */
const char *names_library(const struct names *names, const struct cushim_trace_site *site);

/* Write "forward FILE:12 < step FILE:30" behind `lead`, in a line of 80 columns.  If it is too
 * long, it goes on in lines below, and names are shortened to fit. */
void names_put_site(struct cushim_writer *out, const char *lead, const struct names *names,
                    const struct cushim_trace_site *site);

/* The same for some frames. */
void names_put_place(struct cushim_writer *out, const char *lead, const struct name *const frames[],
                     unsigned n_frames);

void names_free(struct names *names);
