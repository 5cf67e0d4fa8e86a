/*
 * Names of a recording's frames: function, and line of the source, from addr2line.
 *
 * A recording may come from anywhere, and its modules may name any file.  So they are only read, by
 * a child (symbols.h), and names are made harmless for a terminal.
 */
#ifndef CUSHIM_TOOLS_NAMES_H
#define CUSHIM_TOOLS_NAMES_H

#include "base/writer.h"
#include "trace/account.h"

enum { NAME_BYTES = 160 };

struct names;

struct name {
    char function[NAME_BYTES]; /* "train", or "train+0x1234" with the module's name */
    char line[NAME_BYTES];     /* "FILE:88"; "": it is not known */
    char module[NAME_BYTES];   /* the file's path; "": none */
    uint64_t offset;           /* in it */
    bool is_ours;              /* of the preload, or of CUDA */
};

/* Find the names of all frames of an account, which was read to its end.  0 or an errno. */
int names_find(struct names **names, const struct cushim_trace_account *account);

/* Of one of these frames. */
const struct name *names_of(const struct names *names, uint64_t frame);

/* The number of files that gave lines and were written after the recording: these lines may be
 * wrong. */
size_t names_newer(const struct names *names);

/* The first frame of a site that is the program's; n_frames if there is none. */
unsigned names_first(const struct names *names, const struct cushim_trace_site *site);

/* "forward FILE:12 < step FILE:30" as the end of a line of 80 columns.  If it is too long, on one
 * or two lines below, with names shortened to fit there. */
void names_put_site(struct cushim_writer *out, const char *lead, const struct names *names,
                    const struct cushim_trace_site *site);

/* The same for two named places; the caller is "" if there is none. */
void names_put_place(struct cushim_writer *out, const char *lead, const char *asker,
                     const char *caller);

void names_free(struct names *names);

#endif
