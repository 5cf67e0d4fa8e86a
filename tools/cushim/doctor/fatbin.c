#include "tools/cushim/doctor/fatbin.h"

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const uint32_t MAGIC = 0xba55ed50;

/* The kind of an entry, and two bits of its flags. */
enum { PTX = 1, CUBIN = 2 };
enum { OF_ONE_DEVICE = 1 << 20, OF_ONE_FAMILY = 1 << 21 };

struct header {
    uint32_t magic;
    uint16_t version;
    uint16_t header_bytes;
    uint64_t n_bytes; /* behind the header */
};

struct entry {
    uint16_t kind;
    uint16_t version;
    uint32_t header_bytes;
    uint64_t n_bytes; /* behind the header */
    uint32_t unread[3];
    uint32_t capability;
    uint32_t unread_too[2];
    uint64_t flags;
};

/* Copy a part of an image, because its parts need not be aligned.  Returns false if the image is
 * shorter. */
static bool copy(void *to, const struct image *image, size_t offset, size_t n) {
    const void *from = image_part(image, offset, n);
    if (from)
        memcpy(to, from, n);
    return from;
}

bool fatbin_find(const struct image *library, struct image *section) {
    Elf64_Ehdr elf;
    Elf64_Shdr names, row;
    if (!copy(&elf, library, 0, sizeof elf) || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
        elf.e_ident[EI_CLASS] != ELFCLASS64 ||
        !copy(&names, library, elf.e_shoff + elf.e_shstrndx * sizeof row, sizeof names))
        return false;
    for (size_t i = 0; i < elf.e_shnum; i++) {
        if (!copy(&row, library, elf.e_shoff + i * sizeof row, sizeof row))
            return false;
        if (strcmp(image_string(library, names.sh_offset + row.sh_name), ".nv_fatbin") != 0)
            continue;
        *section = (struct image){image_part(library, row.sh_offset, row.sh_size), row.sh_size};
        return section->bytes && section->n_bytes;
    }
    return false;
}

/* Returns false if the entries do not fill the fatbin. */
static bool read_entries(struct fatbin *fatbin, struct image rest) {
    struct entry entry;
    while (rest.n_bytes) {
        if (!copy(&entry, &rest, 0, sizeof entry) || entry.header_bytes < sizeof entry ||
            entry.header_bytes > rest.n_bytes || entry.n_bytes > rest.n_bytes - entry.header_bytes)
            return false;
        bool is_code = entry.kind == PTX || entry.kind == CUBIN;
        if (is_code && fatbin->n_codes < FATBIN_MOST_CODES)
            fatbin->codes[fatbin->n_codes++] =
                (struct fatbin_code){.is_ptx = entry.kind == PTX,
                                     .capability = entry.capability,
                                     .variant = entry.flags & OF_ONE_DEVICE   ? 'a'
                                                : entry.flags & OF_ONE_FAMILY ? 'f'
                                                                              : 0};
        rest.bytes += entry.header_bytes + entry.n_bytes;
        rest.n_bytes -= entry.header_bytes + entry.n_bytes;
    }
    return true;
}

bool fatbin_take(struct image *section, struct fatbin *fatbin) {
    struct header header;
    *fatbin = (struct fatbin){.n_codes = 0};
    if (!copy(&header, section, 0, sizeof header) || header.magic != MAGIC ||
        header.header_bytes < sizeof header || header.header_bytes > section->n_bytes ||
        header.n_bytes > section->n_bytes - header.header_bytes)
        return false;
    struct image body = {section->bytes + header.header_bytes, header.n_bytes};
    section->bytes = body.bytes + body.n_bytes;
    section->n_bytes -= header.header_bytes + header.n_bytes;
    while (section->n_bytes && !*section->bytes) { /* padding before the next one */
        section->bytes++;
        section->n_bytes--;
    }
    return read_entries(fatbin, body);
}

static enum fatbin_fit fit_of(const struct fatbin_code *code, unsigned capability) {
    bool is_same = capability == code->capability;
    bool is_later = capability > code->capability;
    bool is_of_family = capability / 10 == code->capability / 10;
    if (code->variant == 'a' ? !is_same : !is_same && !is_later)
        return FATBIN_NONE;
    if (code->is_ptx)
        return code->variant == 'f' && !is_of_family ? FATBIN_NONE : FATBIN_PTX;
    return is_same ? FATBIN_EXACT : is_of_family ? FATBIN_NEAR : FATBIN_NONE;
}

enum fatbin_fit fatbin_choose(const struct fatbin *fatbin, unsigned capability,
                              struct fatbin_code *code) {
    enum fatbin_fit best = FATBIN_NONE;
    for (unsigned i = 0; i < fatbin->n_codes; i++) {
        const struct fatbin_code *candidate = &fatbin->codes[i];
        enum fatbin_fit fit = fit_of(candidate, capability);
        if (fit == FATBIN_NONE || fit < best ||
            (fit == best && candidate->capability < code->capability))
            continue;
        best = fit;
        *code = *candidate;
    }
    return best;
}

void fatbin_name(const struct fatbin_code *code, char name[FATBIN_NAME_BYTES]) {
    char variant[2] = {code->variant, 0};
    snprintf(name, FATBIN_NAME_BYTES, "%s%u%s", code->is_ptx ? "PTX of compute_" : "sm_",
             code->capability, variant);
}
