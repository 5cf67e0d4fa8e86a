/*
 * Output: bytes to a descriptor of a program that is not ours.
 *
 * It raises no signal, because a pipe without a reader, or a file at its size limit, would end the
 * program with an exit code that is not its own.
 *
 * A program may close a standard descriptor and open a file of its own under that number.  So the
 * descriptors are noted at the start of the process, and nothing is written to one that changed.
 */
#pragma once

#include <stddef.h>

/* Note the files that standard output and standard error are now.  Two system calls; one thread,
 * once. */
void cushim_output_note(void);

/*
 * Move a file that was just opened for writing away from the numbers of the standard descriptors.
 * It gets one if the program has closed that descriptor, and then the program's output would go
 * into our file.  Returns the descriptor, close-on-exec; `fd` itself, also -1, if there is nothing
 * to do or no other number.  errno does not change.
 */
int cushim_output_aside(int fd);

/**
 * Write all of it.
 * @return 0, or an errno, which is EBADF if a noted descriptor has become another file; the
 *         variable errno does not change.
 */
int cushim_output_write(int fd, const void *bytes, size_t n_bytes);
