/*
 * `cushim run --suspend`: a child of ours suspends processes before the program starts, and resumes
 * them after its end, however it and the command itself end.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Suspend the processes of a list "PID,NAME,idle".  False, after a line, if one of them cannot be:
 * then none is. */
bool guard_begin(const char *words);

/* The program was started. */
void guard_note(pid_t program);

/* Resume them now.  Nothing happens without a guard, or the second time. */
void guard_end(void);
