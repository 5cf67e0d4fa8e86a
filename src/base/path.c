#include "base/path.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *rank_text(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "MV2_COMM_WORLD_RANK",  "RANK",      "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = secure_getenv(names[i]);
        if (value && *value && strspn(value, "0123456789") == strlen(value))
            return value;
    }
    return "0";
}

bool cushim_path_expand(char *out, size_t cap, const char *pattern) {
    size_t n = 0;
    if (!cap)
        return false;
    for (const char *at = pattern; *at; at++) {
        char piece[256] = {*at, 0};
        if (*at == '%') {
            switch (at[1]) {
            case 'p':
                snprintf(piece, sizeof piece, "%ld", (long)getpid());
                break;
            case 'h':
                if (gethostname(piece, sizeof piece - 1) != 0)
                    strcpy(piece, "localhost");
                break;
            case 'r':
                snprintf(piece, sizeof piece, "%s", rank_text());
                break;
            case '%':
                break;
            default:
                at--; /* an unknown place stays as it is written */
                break;
            }
            at++;
        }
        size_t length = strlen(piece);
        if (length >= cap - n)
            return false;
        memcpy(out + n, piece, length);
        n += length;
    }
    out[n] = 0;
    return true;
}

int cushim_path_create(const char *path) {
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                0600);
}
