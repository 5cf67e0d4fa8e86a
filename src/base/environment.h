/*
 * Variables of the environment, also when the program has cleared it.
 *
 * Programs clear their environment, or hide it for a while, and much of ours is read late: the
 * options at the first use of CUDA, the names of files at the end.  So what we read is noted at the
 * start of the process, and counts if the environment has it no more.  What the program sets itself
 * comes first.
 *
 * Nothing else is kept: a program may clear its environment because it has secrets in it.  In a
 * set-user-id program there is no variable at all.
 */
#ifndef CUSHIM_BASE_ENVIRONMENT_H
#define CUSHIM_BASE_ENVIRONMENT_H

/* Note what we read.  One thread, once; without a variable of ours it does nothing. */
void cushim_environment_note(void);

/* The value of a variable; NULL: there is none. */
const char *cushim_environment(const char *name);

/* For each entry ("NAME=VALUE") of the environment, then for those that it has no more. */
void cushim_environment_each(void (*visit)(const char *entry, void *context), void *context);

#endif
