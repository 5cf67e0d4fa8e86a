/* A file that is cut while the command reads it: one line, and no signal. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/cushim/file_image.h"
#include "tools/cushim/usage.h"

enum { BYTES = 1 << 16 };

/* Reads behind the end of what it has mapped. */
static int read_cut(const char *path, int file) {
    struct image image;
    if (image_map(&image, path, NULL) != 0 || image.n_bytes != BYTES || ftruncate(file, 0) != 0)
        return 90;
    return *(const volatile char *)image_part(&image, BYTES - 1, 1) ? 91 : 92;
}

int main(void) {
    char path[] = "/tmp/cushim-cut-XXXXXX", text[256] = "", due[256];
    int ends[2], status, file = mkstemp(path);
    if (file < 0 || ftruncate(file, BYTES) != 0 || pipe(ends) != 0)
        return 80;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        _exit(read_cut(path, file));
    }
    close(ends[1]);
    waitpid(child, &status, 0);
    ssize_t n_bytes = read(ends[0], text, sizeof text - 1);
    unlink(path);
    snprintf(due, sizeof due, "cushim: %s: it was cut while it was read\n", path);
    bool is_well = n_bytes > 0 && strcmp(text, due) == 0 && WIFEXITED(status) &&
                   WEXITSTATUS(status) == EXIT_WRONG;
    printf("1..1\n%sok 1 - a file that is cut while it is read is named\n", is_well ? "" : "not ");
    return 0;
}
