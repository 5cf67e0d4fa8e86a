/*
 * A cubin is an ELF file of machine 190.  As nvcc 13.0 writes it: kernels are functions marked as
 * entries (0x10 of st_other), each with sections of its name: .nv.info.NAME, .nv.shared.NAME.
 * Variables are objects of .nv.global, .nv.global.init and .nv.constant3.  Records of .nv.info are
 * a form, an attribute and 16 bits: a value, or in form 4 the number of bytes that follow.
 */
#include "gpu_image.h"

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MACHINE = 190, ENTRY = 0x10, SIZED = 4, RESERVED_BYTES = 1024 };
enum { MOST_THREADS = 0x05, FRAME = 0x11, PARAMETER = 0x17, REGISTERS = 0x2f };

struct cubin {
    struct sim_part all, names, symbols, symbol_names;
    Elf64_Ehdr head;
};

static bool section_at(const struct cubin *cubin, size_t i, Elf64_Shdr *section) {
    return i < cubin->head.e_shnum &&
           sim_part_copy(section, cubin->all, cubin->head.e_shoff + i * sizeof *section,
                         sizeof *section);
}

/* The bytes of a section; one without bytes in the file has only a size. */
static struct sim_part content_of(const struct cubin *cubin, const Elf64_Shdr *section) {
    if (section->sh_type == SHT_NOBITS)
        return (struct sim_part){NULL, section->sh_size};
    return sim_part_of(cubin->all, section->sh_offset, section->sh_size);
}

static bool find_section(const struct cubin *cubin, const char *prefix, const char *name,
                         struct sim_part *content) {
    Elf64_Shdr section;
    size_t n = strlen(prefix);
    for (size_t i = 0; section_at(cubin, i, &section); i++) {
        const char *found = sim_part_text(cubin->names, section.sh_name);
        if (strncmp(found, prefix, n) == 0 && strcmp(found + n, name) == 0) {
            *content = content_of(cubin, &section);
            return true;
        }
    }
    return false;
}

static bool open_cubin(struct cubin *cubin, struct sim_part all) {
    Elf64_Shdr section, strings;
    *cubin = (struct cubin){.all = all};
    if (!sim_part_copy(&cubin->head, all, 0, sizeof cubin->head) ||
        memcmp(cubin->head.e_ident, ELFMAG, SELFMAG) != 0 || cubin->head.e_machine != MACHINE ||
        cubin->head.e_ident[EI_CLASS] != ELFCLASS64 || cubin->head.e_shentsize != sizeof section ||
        !section_at(cubin, cubin->head.e_shstrndx, &section))
        return false;
    cubin->names = content_of(cubin, &section);
    for (size_t i = 0; section_at(cubin, i, &section); i++) {
        if (section.sh_type != SHT_SYMTAB || !section_at(cubin, section.sh_link, &strings))
            continue;
        cubin->symbols = content_of(cubin, &section);
        cubin->symbol_names = content_of(cubin, &strings);
    }
    return cubin->symbols.bytes && cubin->symbol_names.bytes;
}

/* ---- records ---- */

struct record {
    uint8_t form, attribute;
    uint16_t value;
    struct sim_part content; /* of a record with a size */
};

static bool next_record(struct sim_part info, size_t *at, struct record *record) {
    if (!sim_part_copy(record, info, *at, 4))
        return false;
    *at += 4;
    record->content = (struct sim_part){NULL, 0};
    if (record->form != SIZED)
        return true;
    record->content = sim_part_of(info, *at, record->value);
    *at += record->value;
    return record->content.bytes != NULL;
}

static uint32_t word_of(const struct record *record, size_t i) {
    uint32_t word = 0;
    sim_part_copy(&word, record->content, i * sizeof word, sizeof word);
    return word;
}

/* What the file says of a symbol, by its number. */
static int number_of(const struct cubin *cubin, int attribute, size_t symbol) {
    struct sim_part info;
    struct record record;
    if (!find_section(cubin, ".nv.info", "", &info))
        return 0;
    for (size_t at = 0; next_record(info, &at, &record);) {
        if (record.attribute == attribute && word_of(&record, 0) == symbol)
            return (int)word_of(&record, 1);
    }
    return 0;
}

/* Number, place and size of one parameter; the size is above 18 other bits.  False: there are more
 * than fit into a row. */
static bool take_parameter(struct sim_image_row *row, const struct record *record) {
    size_t i = word_of(record, 1) & 0xffff;
    if (i >= SIM_IMAGE_N_SIZES - 1)
        return false;
    row->offsets[i] = word_of(record, 1) >> 16;
    row->sizes[i] = word_of(record, 2) >> 18;
    return true;
}

static bool read_info(struct sim_image_row *row, struct sim_part info) {
    struct record record;
    for (size_t at = 0; next_record(info, &at, &record);) {
        if (record.attribute == PARAMETER && !take_parameter(row, &record))
            return false;
        if (record.attribute == MOST_THREADS)
            row->most_threads =
                (int)(word_of(&record, 0) * word_of(&record, 1) * word_of(&record, 2));
    }
    return true;
}

/* From capability 9.0 on the size includes what the driver reserves. */
static size_t shared_bytes_of(size_t n_bytes, int capability) {
    return capability < 90 ? n_bytes : n_bytes < RESERVED_BYTES ? 0 : n_bytes - RESERVED_BYTES;
}

static bool add_kernel(struct sim_image *image, const struct cubin *cubin, size_t number,
                       const char *name) {
    struct sim_part part;
    struct sim_image_row row = {.kind = SIM_IMAGE_ENTRY, .has_offsets = true};
    int capability = cubin->head.e_flags >> 8 & 0xff;
    row.capability = capability >= 50 ? capability : (int)(cubin->head.e_flags & 0xff);
    if (find_section(cubin, ".nv.info.", name, &part) && !read_info(&row, part))
        return false;
    if (find_section(cubin, ".nv.shared.", name, &part))
        row.shared_bytes = shared_bytes_of(part.n_bytes, row.capability);
    row.n_registers = number_of(cubin, REGISTERS, number);
    row.local_bytes = number_of(cubin, FRAME, number);
    return sim_image_add(image, &row, name);
}

static bool add_variable(struct sim_image *image, const struct cubin *cubin,
                         const Elf64_Sym *symbol, const char *name) {
    Elf64_Shdr section;
    struct sim_image_row row = {.kind = SIM_IMAGE_GLOBAL};
    if (!section_at(cubin, symbol->st_shndx, &section) || symbol->st_size == 0)
        return true;
    const char *place = sim_part_text(cubin->names, section.sh_name);
    if (strncmp(place, ".nv.global", 10) != 0 && strcmp(place, ".nv.constant3") != 0)
        return true;
    struct sim_part content = content_of(cubin, &section);
    if (symbol->st_value > content.n_bytes || symbol->st_size > content.n_bytes - symbol->st_value)
        return false;
    row.sizes[0] = symbol->st_size;
    if (content.bytes)
        row.contents = content.bytes + symbol->st_value;
    return sim_image_add(image, &row, name);
}

bool sim_cubin_read(struct sim_image *image, struct sim_part all) {
    struct cubin cubin;
    Elf64_Sym symbol;
    bool is_whole = open_cubin(&cubin, all);
    for (size_t i = 0;
         is_whole && sim_part_copy(&symbol, cubin.symbols, i * sizeof symbol, sizeof symbol); i++) {
        const char *name = sim_part_text(cubin.symbol_names, symbol.st_name);
        if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_other & ENTRY)
            is_whole = add_kernel(image, &cubin, i, name);
        else if (ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT)
            is_whole = add_variable(image, &cubin, &symbol, name);
    }
    return is_whole;
}
