#include "tools/cushim/top/tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* 0: not known. */
static int64_t parent_of(int64_t process) {
    char path[64], text[512];
    int64_t parent = 0;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", process);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *state = strrchr(text, ')'); /* the name before it may contain any */
    if (!state || sscanf(state, ") %*c %" SCNd64, &parent) != 1)
        return 0;
    return parent;
}

static bool has_row(const struct tree_row rows[], size_t n, int64_t process) {
    for (size_t i = 0; i < n; i++) {
        if (rows[i].process == process && rows[i].is_alive)
            return true;
    }
    return false;
}

/* The nearest ancestor that has a row; 0: none. */
static int64_t above(const struct tree_row rows[], size_t n, int64_t process) {
    enum { MOST_STEPS = 256 }; /* processes start and end while they are read */
    for (int i = 0; i < MOST_STEPS && process > 0; i++) {
        process = parent_of(process);
        if (process > 0 && has_row(rows, n, process))
            return process;
    }
    return 0;
}

struct move {
    struct tree_row *rows, *sorted;
    size_t n, n_sorted;
};

/* The rows of a process, and below them those of its children. */
static void move(struct move *all, size_t first, unsigned depth) {
    struct tree_row one = all->rows[first];
    for (size_t i = first; i < all->n; i++) {
        struct tree_row *row = &all->rows[i];
        if (row->is_moved || row->process != one.process || row->is_alive != one.is_alive)
            continue;
        row->is_moved = true;
        row->depth = depth;
        all->sorted[all->n_sorted++] = *row;
    }
    for (size_t i = 0; one.is_alive && i < all->n; i++) {
        if (!all->rows[i].is_moved && all->rows[i].above == one.process)
            move(all, i, depth + 1);
    }
}

void tree_sort(struct tree_row rows[], size_t n, struct tree_row sorted[]) {
    struct move all = {rows, sorted, n, 0};
    for (size_t i = 0; i < n; i++)
        rows[i].above = rows[i].is_alive ? above(rows, n, rows[i].process) : 0;
    for (size_t i = 0; i < n; i++) {
        if (!rows[i].is_moved && !rows[i].above)
            move(&all, i, 0);
    }
    for (size_t i = 0; i < n; i++) { /* if the tree changed while it was read */
        if (!rows[i].is_moved)
            move(&all, i, 0);
    }
}
