#include "tools/cushim/program.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tools/cushim/file_image.h"
#include "tools/cushim/launch.h"

#if defined __x86_64__
#define OUR_MACHINE EM_X86_64
#elif defined __aarch64__
#define OUR_MACHINE EM_AARCH64
#else
#error "only x86-64 and aarch64 are known"
#endif

enum { MAX_SCRIPTS = 4 }; /* the kernel's own limit */

/* The contents of a file's dynamic section. */
struct dynamic {
    const Elf64_Dyn *entries; /* up to DT_NULL */
    size_t n_entries;
    struct image strings;
};

int program_find(const char *name, char path[PATH_MAX]) {
    if (strchr(name, '/')) {
        if (snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX)
            return ENAMETOOLONG;
        return access(path, F_OK) == 0 ? 0 : errno;
    }
    int error = ENOENT;
    const char *at = getenv("PATH");
    if (!at)
        at = "/bin:/usr/bin";
    for (;; at++) {
        int n_bytes = (int)strcspn(at, ":");
        struct stat status;
        if (snprintf(path, PATH_MAX, "%.*s%s%s", n_bytes, at, n_bytes ? "/" : "", name) <
                PATH_MAX &&
            stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
            if (access(path, X_OK) == 0)
                return 0;
            error = EACCES;
        }
        at += n_bytes;
        if (!*at)
            return error;
    }
}

static bool holds(const struct image *image, const char *text, size_t n) {
    return memmem(image->bytes, image->n_bytes, text, n) != NULL;
}

#define HOLDS(image, literal) holds(image, literal, sizeof literal - 1)

/* The offset in the file of what will be mapped at `address`; SIZE_MAX if nothing is. */
static size_t offset_of(const Elf64_Phdr *segments, size_t n_segments, uint64_t address) {
    for (size_t i = 0; i < n_segments; i++) {
        const Elf64_Phdr *segment = &segments[i];
        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
            address - segment->p_vaddr < segment->p_filesz)
            return segment->p_offset + (address - segment->p_vaddr);
    }
    return SIZE_MAX;
}

static const Elf64_Phdr *segment_of(const Elf64_Phdr *segments, size_t n_segments, uint32_t type) {
    for (size_t i = 0; i < n_segments; i++) {
        if (segments[i].p_type == type)
            return &segments[i];
    }
    return NULL;
}

/* Find the dynamic section and its strings.  Returns false if the file has none, or is damaged. */
static bool find_dynamic(const struct image *image, struct dynamic *found) {
    size_t n_segments = 0;
    const Elf64_Phdr *segments = image_segments(image, &n_segments);
    const Elf64_Phdr *dynamic = segments ? segment_of(segments, n_segments, PT_DYNAMIC) : NULL;
    if (!dynamic || dynamic->p_offset % _Alignof(Elf64_Dyn) != 0)
        return false;
    size_t n_entries = dynamic->p_filesz / sizeof(Elf64_Dyn);
    const Elf64_Dyn *entries = image_part(image, dynamic->p_offset, n_entries * sizeof *entries);
    size_t names = SIZE_MAX, names_bytes = 0, n = 0;
    for (; entries && n < n_entries && entries[n].d_tag != DT_NULL; n++) {
        if (entries[n].d_tag == DT_STRTAB)
            names = offset_of(segments, n_segments, entries[n].d_un.d_ptr);
        if (entries[n].d_tag == DT_STRSZ)
            names_bytes = entries[n].d_un.d_val;
    }
    const char *strings = names == SIZE_MAX ? NULL : image_part(image, names, names_bytes);
    if (!strings)
        return false;
    *found = (struct dynamic){entries, n, {.bytes = strings, .n_bytes = names_bytes}};
    return true;
}

static void read_dynamic(struct program *program, const struct dynamic *dynamic) {
    for (size_t i = 0; i < dynamic->n_entries; i++) {
        if (dynamic->entries[i].d_tag != DT_NEEDED)
            continue;
        const char *needed = image_string(&dynamic->strings, dynamic->entries[i].d_un.d_val);
        if (strncmp(needed, "libcudart.so", 12) == 0) {
            program->cudart = PROGRAM_CUDART_SHARED;
            snprintf(program->cudart_name, sizeof program->cudart_name, "%s", needed);
        }
        if (strncmp(needed, "libcuda.so", 10) == 0)
            program->needs_libcuda = true;
        if (strncmp(needed, "libasan.so", 10) == 0 || strncmp(needed, "libclang_rt.asan", 16) == 0)
            snprintf(program->sanitizer, sizeof program->sanitizer, "%s", needed);
    }
    program->imports_dlopen = HOLDS(&dynamic->strings, "\0dlopen\0");
    program->imports_dlmopen = HOLDS(&dynamic->strings, "\0dlmopen\0");
}

/* A static runtime contains the names of its own errors and of the driver's entry points. */
static bool has_static_cudart(const struct image *image) {
    return HOLDS(image, "\0cudaErrorCudartUnloading\0") && HOLDS(image, "\0cuGetProcAddress");
}

/* Does the C library with the strings `libc` have each glibc version that `needed` names? */
static bool has_versions(const struct image *libc, const struct image *needed) {
    static const char prefix[] = "\0GLIBC_";
    const char *at = needed->bytes, *end = needed->bytes + needed->n_bytes;
    while ((at = memmem(at, (size_t)(end - at), prefix, sizeof prefix - 1)) != NULL) {
        size_t n_bytes = strnlen(at + 1, (size_t)(end - at - 1)) + 2; /* with the 0 at both ends */
        if (n_bytes > (size_t)(end - at) || !holds(libc, at, n_bytes))
            return false;
        at++;
    }
    return true;
}

/*
 * Does this loader come with a glibc that is too old for our library?  A loader of Nix, Guix or a
 * bundle has its C library beside it.  If there is none beside it, the answer is no, because we
 * cannot know.
 */
static bool has_old_glibc(const char *loader) {
    char real[PATH_MAX], library[PATH_MAX], wrong[LAUNCH_WRONG_BYTES];
    struct image images[2];
    struct dynamic libc, ours;
    bool is_old = false;
    char *slash = realpath(loader, real) ? strrchr(real, '/') : NULL;
    if (!slash || slash + sizeof "/libc.so.6" > real + sizeof real || !launch_find(library, wrong))
        return false;
    strcpy(slash, "/libc.so.6");
    if (image_map(&images[0], real, NULL) != 0)
        return false;
    if (image_map(&images[1], library, NULL) == 0) {
        is_old = find_dynamic(&images[0], &libc) && find_dynamic(&images[1], &ours) &&
                 !has_versions(&libc.strings, &ours.strings);
        image_unmap(&images[1]);
    }
    image_unmap(&images[0]);
    return is_old;
}

static enum program_link link_by(const char *loader) {
    if (strncmp(basename(loader), "ld-musl-", 8) == 0)
        return PROGRAM_MUSL;
    return has_old_glibc(loader) ? PROGRAM_OLD_GLIBC : PROGRAM_DYNAMIC;
}

static void read_elf(struct program *program, const struct image *image) {
    program->link = PROGRAM_UNKNOWN;
    const Elf64_Ehdr *header = image_part(image, 0, sizeof *header);
    if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return;
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != OUR_MACHINE) {
        program->link = PROGRAM_FOREIGN;
        return;
    }
    if (header->e_type != ET_EXEC && header->e_type != ET_DYN)
        return;
    size_t n_segments;
    const Elf64_Phdr *segments = image_segments(image, &n_segments);
    if (!segments)
        return;
    const Elf64_Phdr *loader = segment_of(segments, n_segments, PT_INTERP);
    struct dynamic dynamic;
    program->link = loader ? link_by(image_string(image, loader->p_offset)) : PROGRAM_STATIC;
    if (find_dynamic(image, &dynamic))
        read_dynamic(program, &dynamic);
    if (program->cudart == PROGRAM_CUDART_NONE && has_static_cudart(image))
        program->cudart = PROGRAM_CUDART_STATIC;
}

/* Read the interpreter of a "#!" line.  Returns false if the image is no script. */
static bool read_script(const struct image *image, char interpreter[PATH_MAX]) {
    if (image->n_bytes < 3 || memcmp(image->bytes, "#!", 2) != 0)
        return false;
    const char *at = image->bytes + 2, *end = image->bytes + image->n_bytes;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    size_t n_bytes = 0;
    while (at + n_bytes < end && n_bytes < PATH_MAX - 1 && !strchr(" \t\n", at[n_bytes]))
        n_bytes++;
    memcpy(interpreter, at, n_bytes);
    interpreter[n_bytes] = 0;
    return n_bytes > 0;
}

/* Would the kernel put ld.so into secure mode?  It does if the ids or capabilities change. */
static void read_rights(struct program *program, const char *path, const struct stat *status) {
    program->has_setid = status->st_mode & (S_ISUID | S_ISGID);
    program->has_capabilities = getxattr(path, "security.capability", NULL, 0) > 0;
    program->is_privileged = ((status->st_mode & S_ISUID) && status->st_uid != getuid()) ||
                             ((status->st_mode & S_ISGID) && status->st_gid != getgid()) ||
                             (program->has_capabilities && getuid() != 0);
}

int program_inspect(struct program *program, const char *path) {
    memset(program, 0, sizeof *program);
    if (snprintf(program->path, sizeof program->path, "%s", path) >= (int)sizeof program->path)
        return ENAMETOOLONG;
    for (int depth = 0;; depth++) {
        const char *file = *program->interpreter ? program->interpreter : program->path;
        struct image image;
        struct stat status;
        int error = image_map(&image, file, &status);
        if (error)
            return error;
        char next[PATH_MAX];
        bool is_script = depth < MAX_SCRIPTS && read_script(&image, next);
        if (!is_script) {
            read_rights(program, file, &status);
            read_elf(program, &image);
        }
        image_unmap(&image);
        if (!is_script)
            return 0;
        strcpy(program->interpreter, next);
    }
}

bool program_is_whole_library(const char *path) {
    struct image image;
    if (image_map(&image, path, NULL) != 0)
        return false;
    size_t n_segments = 0;
    const Elf64_Ehdr *header = image_part(&image, 0, sizeof *header);
    const Elf64_Phdr *segments = image_segments(&image, &n_segments);
    bool is_whole = segments && header->e_machine == OUR_MACHINE && header->e_type == ET_DYN;
    for (size_t i = 0; is_whole && i < n_segments; i++)
        is_whole = segments[i].p_type != PT_LOAD ||
                   image_part(&image, segments[i].p_offset, segments[i].p_filesz) != NULL;
    image_unmap(&image);
    return is_whole;
}

const char *program_obstacle(const struct program *program) {
    static const char *const obstacles[PROGRAM_UNKNOWN + 1] = {
        [PROGRAM_MUSL] = "is built for musl, cushim for glibc",
        [PROGRAM_OLD_GLIBC] = "has a glibc of its own that is older than cushim needs",
        [PROGRAM_STATIC] = "is fully static",
        [PROGRAM_FOREIGN] = "is built for another machine"};
    if (!obstacles[program->link] && program->is_privileged)
        return program->has_setid ? "is set-user-id or set-group-id" : "has file capabilities";
    return obstacles[program->link];
}
