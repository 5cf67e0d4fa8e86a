/*
 * Finds the libraries that belong to the command, and puts the preload into a process.
 *
 * They are looked for beside the command, in the build tree, and in the library folder with which
 * the command was installed, in this order.  All places are relative to the command itself, so a
 * tree can be moved.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#define LAUNCH_LIBRARY "libcushim-preload.so"

/* The longest phrase of launch_find, with the final 0. */
enum { LAUNCH_WRONG_BYTES = 2 * PATH_MAX };

/* The longest hint of launch_hint, with the final 0. */
enum { LAUNCH_HINT_BYTES = PATH_MAX + 64 };

/* Write the absolute path of a library; `build_folder` is its folder in the build tree, relative
 * to the command's.  Returns false if there is no such library. */
bool launch_find_library(const char *name, const char *build_folder, char path[PATH_MAX]);

/*
 * Write the absolute path of the preload library.  Returns false if there is none, or if LD_PRELOAD
 * cannot contain its path; `wrong` then has the reason as one phrase.
 */
bool launch_find(char path[PATH_MAX], char wrong[LAUNCH_WRONG_BYTES]);

/* Put `library` into this process's LD_PRELOAD, for the next program that it executes; NULL takes
 * our library out of it.  Returns false, with errno, if that fails. */
bool launch_set(const char *library);

/*
 * If a range of NVTX is to reset the arena (CUSHIM_ARENA_RESET), make NVTX find `library` as its
 * injection, unless the user named another. Returns false, with errno, if that fails.
 */
bool launch_inject(const char *library);

/*
 * Set a variable by which the preload distinguishes this process, in the next program that it
 * executes, from its children.  If not `is_wanted`, remove the variable. Returns false, with errno,
 * if that fails.
 */
bool launch_mark(bool is_wanted);

/* Write what may have been meant if the program `name` cannot be executed because of `error`: ""
 * or " (...)". */
void launch_hint(const char *name, int error, char hint[LAUNCH_HINT_BYTES]);

/* Say why argv[first] could not be executed, and what may have been meant.  Returns an exit
 * code. */
int launch_refused(int first, char **argv, int error);
