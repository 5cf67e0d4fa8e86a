#include "print.h"

#include <stdio.h>
#include <string.h>

static char buffer[4096];
static size_t n_bytes;

void sim_print(const char *text) {
    size_t n = strlen(text);
    if (n > sizeof buffer - n_bytes)
        return;
    memcpy(buffer + n_bytes, text, n);
    n_bytes += n;
}

void sim_print_flush(void) {
    if (n_bytes)
        fwrite(buffer, 1, n_bytes, stdout);
    n_bytes = 0;
}
