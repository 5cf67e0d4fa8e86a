#include "tools/cushim/file_image.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/utf8.h"
#include "tools/cushim/usage.h"

static struct image *mapped; /* the last one, and those before it */

/* Called if a read is behind the end of a file that was cut, so nothing of stdio is under way.  Any
 * other fault has its usual effect. */
static void say_cut(int signal, siginfo_t *info, void *unused) {
    char path[256];
    (void)unused;
    for (const struct image *image = mapped; image; image = image->before) {
        if ((uintptr_t)info->si_addr - (uintptr_t)image->bytes >= image->n_bytes)
            continue;
        snprintf(path, sizeof path, "%s", image->path);
        cushim_utf8_clean(path);
        dprintf(STDERR_FILENO, "cushim: %s: it was cut while it was read\n", path);
        _exit(EXIT_WRONG);
    }
    sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

int image_map(struct image *image, const char *path, struct stat *status) {
    struct stat own;
    int error = 0;
    if (!status)
        status = &own;
    *image = (struct image){"", 0, path, mapped};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno;
    if (fstat(fd, status) != 0) {
        error = errno;
    } else if (!S_ISREG(status->st_mode)) {
        error = S_ISDIR(status->st_mode) ? EISDIR : EACCES;
    } else if (status->st_size > 0) {
        void *bytes = mmap(NULL, (size_t)status->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) {
            error = errno;
        } else {
            image->bytes = bytes;
            image->n_bytes = (size_t)status->st_size;
        }
    }
    close(fd);
    if (!error) {
        mapped = image;
        sigaction(SIGBUS, &(struct sigaction){.sa_sigaction = say_cut, .sa_flags = SA_SIGINFO},
                  NULL);
    }
    return error;
}

void image_unmap(struct image *image) {
    mapped = image->before;
    if (image->n_bytes)
        munmap((void *)image->bytes, image->n_bytes);
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

const Elf64_Phdr *image_segments(const struct image *image, size_t *n_segments) {
    const Elf64_Ehdr *header = image_part(image, 0, sizeof *header);
    if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_phoff % _Alignof(Elf64_Phdr) != 0)
        return NULL;
    *n_segments = header->e_phnum;
    return image_part(image, header->e_phoff, *n_segments * sizeof(Elf64_Phdr));
}
