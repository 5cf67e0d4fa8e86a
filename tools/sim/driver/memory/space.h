/*
 * A range of addresses kept for one purpose: the memory of a device, or pinned and managed memory.
 *
 * The whole range is reserved once and inaccessible.  Pieces of it are taken and given back in
 * pages, lowest first, and get memory when they are committed.  So an address of the range where
 * nothing lives is known to be device memory that was freed, and not some host memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_space {
    char *base;
    size_t page_bytes;
    size_t n_pages;
    size_t n_pages_used;
    size_t lowest_free; /* no page below it is free */
    uint8_t *is_used;   /* by page */
    int fd; /* the file behind the range, which other processes can map; -1: private memory */
    uint64_t inode;   /* of that file, because the number may have become another file's */
    bool is_unbacked; /* pages get no memory when they are committed; set before any is */
};

/* False: the system refuses.  `is_shared` puts a file behind the range. */
bool sim_space_init(struct sim_space *space, size_t page_bytes, size_t n_pages, bool is_shared);

/* A file of memory that is zero at first, at a high descriptor; -1: none available. */
int sim_space_open_file(size_t n_bytes, uint64_t *inode);

bool sim_space_has(const struct sim_space *space, const void *address);

/* Pages for n_bytes on a boundary of align_pages; NULL if there is no such gap.  No memory yet. */
void *sim_space_take(struct sim_space *space, size_t n_bytes, size_t align_pages);

/* The same pages at an address of the caller's choice; false if one is in use. */
bool sim_space_take_at(struct sim_space *space, void *address, size_t n_bytes);

void sim_space_give(struct sim_space *space, void *address, size_t n_bytes);

/* Memory, zero and accessible, for pages that were taken; and its end. */
bool sim_space_commit(struct sim_space *space, void *address, size_t n_bytes);
void sim_space_decommit(struct sim_space *space, void *address, size_t n_bytes);

/* n_bytes rounded up to pages of this space. */
size_t sim_space_round(const struct sim_space *space, size_t n_bytes);
