/* What goes into the driver's compiler and linker, and what they say. */
#include "companion/module/module.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEVEL_MOST = 4, CACHE_MOST = 2 };

void cushim_module_options_default(struct cushim_module_options *o) {
    if (o)
        *o = (struct cushim_module_options){.struct_size = sizeof *o, .level = LEVEL_MOST};
}

/* ---- the compiler's options ---- */

static void add(struct cushim_jit *jit, CUjit_option name, uintptr_t value) {
    jit->names[jit->n] = name;
    jit->values[jit->n++] = (void *)value;
}

enum cushim_status cushim_jit_init(struct cushim_jit *jit, const char *what,
                                   const struct cushim_module_options *opts) {
    struct cushim_module_options ours;
    *jit = (struct cushim_jit){.n = 0};
    cushim_module_options_default(&ours);
    CUSHIM_TRY(cushim_struct_size_take(what, &ours, sizeof ours, opts));
    if (ours.max_registers < 0 || ours.level < 0 || ours.level > LEVEL_MOST || ours.lines < 0 ||
        ours.lines > 1 || ours.cache < 0 || ours.cache > CACHE_MOST)
        return cushim_fail(what, CUSHIM_INVALID, "max_registers=%d level=%d lines=%d cache=%d",
                           ours.max_registers, ours.level, ours.lines, ours.cache);
    jit->errors = calloc(2, CUSHIM_JIT_LOG_BYTES);
    CUSHIM_FAIL_IF(what, !jit->errors, CUSHIM_NOMEM, "bytes=%d", 2 * CUSHIM_JIT_LOG_BYTES);
    jit->infos = jit->errors + CUSHIM_JIT_LOG_BYTES;
    add(jit, CU_JIT_ERROR_LOG_BUFFER, (uintptr_t)jit->errors);
    add(jit, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CUSHIM_JIT_LOG_BYTES - 1);
    add(jit, CU_JIT_INFO_LOG_BUFFER, (uintptr_t)jit->infos);
    add(jit, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CUSHIM_JIT_LOG_BYTES - 1);
    if (ours.max_registers)
        add(jit, CU_JIT_MAX_REGISTERS, (uintptr_t)ours.max_registers);
    if (ours.level != LEVEL_MOST)
        add(jit, CU_JIT_OPTIMIZATION_LEVEL, (uintptr_t)ours.level);
    if (ours.lines)
        add(jit, CU_JIT_GENERATE_LINE_INFO, 1);
    if (ours.cache)
        add(jit, CU_JIT_CACHE_MODE, (uintptr_t)ours.cache);
    return CUSHIM_OK;
}

void cushim_jit_finish(struct cushim_jit *jit) {
    free(jit->errors);
    jit->errors = NULL;
}

/*
 * Drivers give several errors for a text that does not compile or link.  If the compiler wrote a
 * log, the text is to blame.
 */
enum cushim_status cushim_jit_fail(struct cushim_scope *scope, const struct cushim_jit *jit,
                                   const char *entry, CUresult result) {
    bool has_log = jit->errors[0] != '\0';
    enum cushim_status status =
        cushim_scope_fail_cu(scope, entry, result, "device=%d%s%s", scope->context->device,
                             has_log ? " log=" : "", jit->errors);
    bool is_vague = status == CUSHIM_UNKNOWN || status == CUSHIM_INVALID ||
                    status == CUSHIM_SYSTEM || status == CUSHIM_NOBINARY;
    return has_log && is_vague ? CUSHIM_COMPILE : status;
}

/* ---- images ---- */

/* The head of a fatbin and what is behind it; a 64-bit ELF file ends with its section table. */
enum { FATBIN_HEAD_BYTES = 16, ELF_HEAD_BYTES = 64 };
static const uint32_t fatbin_magic = 0xba55ed50, wrapper_magic = 0x466243b1, elf_magic = 0x464c457f;

static uint64_t read_number(const void *image, size_t offset, size_t n_bytes) {
    uint64_t number = 0;
    memcpy(&number, (const char *)image + offset, n_bytes); /* images are little-endian, as we */
    return number;
}

/* The length in the image's own header; 0: it is a text. */
static uint64_t length_of(const void *image, size_t bytes) {
    uint64_t magic = bytes < sizeof fatbin_magic ? 0 : read_number(image, 0, 4);
    if (magic == fatbin_magic)
        return bytes < FATBIN_HEAD_BYTES ? FATBIN_HEAD_BYTES
                                         : read_number(image, 6, 2) + read_number(image, 8, 8);
    if (magic == elf_magic)
        return bytes < ELF_HEAD_BYTES
                   ? ELF_HEAD_BYTES
                   : read_number(image, 0x28, 8) +
                         read_number(image, 0x3a, 2) * read_number(image, 0x3c, 2);
    return magic == wrapper_magic ? sizeof wrapper_magic : 0;
}

bool cushim_image_is_code(const void *image) {
    return strncmp(image, (const char *)&fatbin_magic, sizeof fatbin_magic) == 0 ||
           strncmp(image, (const char *)&wrapper_magic, sizeof wrapper_magic) == 0 ||
           strncmp(image, (const char *)&elf_magic, sizeof elf_magic) == 0;
}

enum cushim_status cushim_image_take(const char *what, const void *image, size_t bytes,
                                     char **copy) {
    *copy = NULL;
    if (bytes == 0)
        return CUSHIM_OK;
    uint64_t length = length_of(image, bytes);
    CUSHIM_FAIL_IF(what, length > bytes, CUSHIM_INVALID, "bytes=%zu image=%llu: cut short", bytes,
                   (unsigned long long)length);
    if (length || memchr(image, '\0', bytes))
        return CUSHIM_OK;
    *copy = malloc(bytes + 1);
    CUSHIM_FAIL_IF(what, !*copy, CUSHIM_NOMEM, "bytes=%zu", bytes + 1);
    memcpy(*copy, image, bytes);
    (*copy)[bytes] = '\0';
    return CUSHIM_OK;
}

/* All of it, or an errno. */
static int read_all(int fd, char *out, size_t n_bytes) {
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n = read(fd, out + done, n_bytes - done);
        if (n == 0)
            return EIO; /* it became shorter meanwhile */
        if (n < 0 && errno != EINTR)
            return errno;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

enum cushim_status cushim_image_read(const char *what, const char *path, char **out,
                                     size_t *n_bytes) {
    struct stat facts;
    int fd = open(path, O_RDONLY | O_CLOEXEC), error = 0;
    *out = NULL;
    if (fd < 0 || fstat(fd, &facts) != 0)
        error = errno;
    else if (!S_ISREG(facts.st_mode))
        error = S_ISDIR(facts.st_mode) ? EISDIR : EINVAL;
    else if (!(*out = calloc(1, (size_t)facts.st_size + 1)))
        error = ENOMEM;
    else
        error = read_all(fd, *out, (size_t)facts.st_size);
    if (fd >= 0)
        close(fd);
    if (!error) {
        *n_bytes = (size_t)facts.st_size;
        return CUSHIM_OK;
    }
    free(*out);
    *out = NULL;
    return cushim_fail(what, error == ENOMEM ? CUSHIM_NOMEM : CUSHIM_NOFILE, "path=%s: %s", path,
                       strerror(error));
}
