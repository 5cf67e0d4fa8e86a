/* Rows of processes as a tree: each below the nearest ancestor that has a row. */
#ifndef CUSHIM_TOOLS_TREE_H
#define CUSHIM_TOOLS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree_row {
    int64_t process;
    bool is_alive;
    size_t place;   /* the caller's own */
    unsigned depth; /* in the tree; this and the rest are the tree's */
    int64_t above;
    bool is_moved;
};

/* Move the rows to `sorted`, in the kernel's present tree of processes.  Rows of one process stay
 * together, and siblings keep their order. */
void tree_sort(struct tree_row rows[], size_t n, struct tree_row sorted[]);

#endif
