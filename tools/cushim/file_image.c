#include "tools/cushim/file_image.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int image_map(struct image *image, const char *path, struct stat *status) {
    struct stat own;
    int error = 0;
    if (!status)
        status = &own;
    *image = (struct image){"", 0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno;
    if (fstat(fd, status) != 0) {
        error = errno;
    } else if (!S_ISREG(status->st_mode)) {
        error = S_ISDIR(status->st_mode) ? EISDIR : EACCES;
    } else if (status->st_size > 0) {
        void *bytes = mmap(NULL, (size_t)status->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED)
            error = errno;
        else
            *image = (struct image){bytes, (size_t)status->st_size};
    }
    close(fd);
    return error;
}

void image_unmap(struct image *image) {
    if (image->n_bytes)
        munmap((void *)image->bytes, image->n_bytes);
    *image = (struct image){"", 0};
}

const void *image_part(const struct image *image, size_t offset, size_t n) {
    if (offset > image->n_bytes || n > image->n_bytes - offset)
        return NULL;
    return image->bytes + offset;
}

const char *image_string(const struct image *image, size_t offset) {
    if (offset >= image->n_bytes || !memchr(image->bytes + offset, 0, image->n_bytes - offset))
        return "";
    return image->bytes + offset;
}
