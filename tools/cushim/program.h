/*
 * Looks at a program as the loader will: which file it is, how it is linked, and whether a preload
 * reaches it.
 *
 * Only the file is read; nothing is run.  A script stands for the interpreter that its first line
 * names.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

enum program_link {
    PROGRAM_DYNAMIC,
    PROGRAM_MUSL,      /* dynamic, with musl's loader; our library is made for glibc */
    PROGRAM_OLD_GLIBC, /* its loader comes with a glibc that lacks what our library needs */
    PROGRAM_STATIC,    /* no interpreter in its headers: ld.so never runs */
    PROGRAM_FOREIGN,   /* an ELF file of another machine or word size */
    PROGRAM_UNKNOWN    /* no ELF file, or a damaged one */
};

enum program_cudart { PROGRAM_CUDART_NONE, PROGRAM_CUDART_SHARED, PROGRAM_CUDART_STATIC };

struct program {
    char path[PATH_MAX];        /* as found */
    char interpreter[PATH_MAX]; /* for a script, the last interpreter of its chain; otherwise empty
                                 */
    enum program_link link;     /* this and all below describe the interpreter, if there is one */
    enum program_cudart cudart;
    char cudart_name[64]; /* the shared runtime's, as "libcudart.so.13" */
    bool needs_libcuda;
    bool imports_dlopen;
    bool imports_dlmopen;
    char sanitizer[64];    /* AddressSanitizer's shared library, which has to be loaded first;
                              empty if there is none */
    bool has_setid;        /* a set-user-id or set-group-id bit */
    bool has_capabilities; /* file capabilities */
    bool is_privileged;    /* if this user starts it, it runs with ld.so's secure mode */
};

/* Find `name` as execvp(3) does. Returns 0 or an errno. */
int program_find(const char *name, char path[PATH_MAX]);

/* Look at the file.  Returns 0 or an errno.  A file that is not ELF is PROGRAM_UNKNOWN, which is
 * no error. */
int program_inspect(struct program *program, const char *path);

/* Is the file a library of this machine, with all parts that the loader would map? */
bool program_is_whole_library(const char *path);

/* Why a preload cannot reach it, or why ours does not fit, as a phrase ("is fully static").
 * Returns NULL if it can. */
const char *program_obstacle(const struct program *program);
