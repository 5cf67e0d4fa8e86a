/*
 * The libraries that go with the command: where they are, and how the preload gets into a process.
 *
 * They are looked for beside the command, in the build tree, and in the library folder that the
 * command was installed with, in this order and relative to the command itself, so that a moved
 * tree works.
 */
#ifndef CUSHIM_TOOLS_LAUNCH_H
#define CUSHIM_TOOLS_LAUNCH_H

#include <limits.h>
#include <stdbool.h>

#define LAUNCH_LIBRARY "libcushim-preload.so"

/* Longest phrase of launch_find, the final 0 counted. */
enum { LAUNCH_WRONG_BYTES = 2 * PATH_MAX };

/* Write the folder of this command, without a slash at its end; false where nobody knows. */
bool launch_find_here(char here[PATH_MAX]);

/* Write the absolute path of a library; `build_folder` is where the build tree has it, as seen from
 * the command's folder there.  False where there is none. */
bool launch_find_library(const char *name, const char *build_folder, char path[PATH_MAX]);

/*
 * Write the absolute path of the preload library.  False where there is none, or where its path
 * cannot stand in LD_PRELOAD; `wrong` then says so as one phrase.
 */
bool launch_find(char path[PATH_MAX], char wrong[LAUNCH_WRONG_BYTES]);

/*
 * The value of LD_PRELOAD that has `library` in it once and keeps all else of `now` (may be NULL)
 * in order.  Where `now` has a library of that file name, ours takes its place; else it comes last.
 * With no `library` the value has none of that file name.  Returns memory for free(3), or NULL with
 * errno.
 */
char *launch_merge(const char *now, const char *library);

/* Put `library` into this process` LD_PRELOAD, for what is executed next.  False with errno. */
bool launch_set(const char *library);

/* Take our library out of it.  False with errno. */
bool launch_unset(void);

/*
 * Where a range of NVTX is to reset the arena (CUSHIM_ARENA_RESET), NVTX shall find `library` as
 * its injection, unless the user named another.  False with errno.
 */
bool launch_inject(const char *library);

/*
 * Let the preload know this process, which stays the same in what is executed next, from its
 * children; or, where not `is_wanted`, let it know nothing.  False with errno.
 */
bool launch_mark(bool is_wanted);

#endif
