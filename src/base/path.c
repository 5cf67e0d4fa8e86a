#include "base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* NULL: no launcher gave one. */
static const char *rank_text(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "MV2_COMM_WORLD_RANK",  "RANK",      "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = secure_getenv(names[i]);
        if (value && *value && strspn(value, "0123456789") == strlen(value))
            return value;
    }
    return NULL;
}

/* Processes of a job whose rank is unknown must not share a name. */
static void put_rank(char *piece, size_t piece_bytes, long process) {
    const char *rank = rank_text();
    if (rank)
        snprintf(piece, piece_bytes, "%s", rank);
    else
        snprintf(piece, piece_bytes, "%ld", process);
}

bool cushim_path_expand_for(char *out, size_t cap, const char *pattern, long process) {
    size_t n = 0;
    if (!cap)
        return false;
    for (const char *at = pattern; *at; at++) {
        char piece[256] = {*at, 0};
        if (*at == '%') {
            switch (at[1]) {
            case 'p':
                snprintf(piece, sizeof piece, "%ld", process);
                break;
            case 'h':
                if (gethostname(piece, sizeof piece - 1) != 0)
                    strcpy(piece, "localhost");
                break;
            case 'r':
                put_rank(piece, sizeof piece, process);
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

bool cushim_path_expand(char *out, size_t cap, const char *pattern) {
    return cushim_path_expand_for(out, cap, pattern, (long)getpid());
}
