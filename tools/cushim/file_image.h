/*
 * A file mapped for reading.  Offsets and sizes in it are checked before use, because the file may
 * be damaged, or not be what its name says.
 */
#pragma once

#include <elf.h>
#include <stddef.h>
#include <sys/stat.h>

struct image {
    const char *bytes;
    size_t n_bytes;
    const char *path;     /* of a mapped file */
    struct image *before; /* the one that was mapped before */
};

/*
 * Map a regular file.  An empty file gives an empty image.  Returns 0 or an errno; `status` may be
 * NULL.  The path must stay, and the last image that was mapped is unmapped first.  If another
 * process cuts the file while it is mapped, the command says so and ends.
 */
int image_map(struct image *image, const char *path, struct stat *status);

void image_unmap(struct image *image);

/* The n bytes at `offset`, or NULL if the image is shorter. */
const void *image_part(const struct image *image, size_t offset, size_t n);

/* The segments of a 64-bit ELF file; NULL if it is none, or is damaged. */
const Elf64_Phdr *image_segments(const struct image *image, size_t *n_segments);

/* The string at `offset`, or "" if it does not end inside the image. */
const char *image_string(const struct image *image, size_t offset);
