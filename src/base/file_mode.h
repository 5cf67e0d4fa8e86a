/*
 * Files that are mapped and written to.  If such a file is cut, its mapping goes, and the next
 * store into it ends the process by SIGBUS.  So only root may open one for writing after us: `: >
 * file` is refused then.  Removing the file does no harm.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

static inline void cushim_file_set_writable(int file, bool is_writable) {
    struct stat status;
    if (fstat(file, &status) != 0)
        return;
    mode_t mode = status.st_mode & 07777;
    (void)!fchmod(file, is_writable ? mode | S_IWUSR : mode & ~(mode_t)0222);
}

static inline void cushim_file_bar_writers(int file) {
    cushim_file_set_writable(file, false);
}

static inline void cushim_file_let_write(int file) {
    cushim_file_set_writable(file, true);
}
