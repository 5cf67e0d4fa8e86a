/*
 * Variables of the environment, also when the program has cleared it.
 *
 * Programs clear their environment, or hide it for a while, and we read much of it late: the
 * options at the first use of CUDA, the names of files at the end.  So the variables that we read
 * are noted at the start of the process, and count if the environment no longer has them.  A value
 * that the program sets itself comes first.
 *
 * Nothing else is kept, because a program may clear its environment to remove secrets.  In a
 * set-user-id program there is no variable at all.
 */
#pragma once

/* Note the variables that we read.  One thread, once; without a variable of ours it does nothing.
 */
void cushim_environment_note(void);

/* The value of a variable; NULL if there is none. */
const char *cushim_environment(const char *name);

/* For each entry ("NAME=VALUE") of the environment, then for the noted ones that it no longer has.
 */
void cushim_environment_each(void (*visit)(const char *entry, void *context), void *context);
