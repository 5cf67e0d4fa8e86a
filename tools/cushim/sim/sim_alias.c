#include "tools/cushim/sim/sim_alias.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/draft.h"

#ifdef __aarch64__
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_X86_64 };
#endif

enum { LARGEST_PAGE = 65536, NODE = 2, NAME_BYTES = 128 };

/*
 * The whole file as it is mapped.  It has a name, the library that it needs, and the version node
 * that users of the runtime refer to.
 */
struct library {
    Elf64_Ehdr head;
    Elf64_Phdr segments[3];
    Elf64_Dyn dynamic[10];
    Elf64_Sym symbols[1];
    Elf64_Versym versions[4]; /* of the one symbol; the others keep the alignment of what follows */
    struct {
        Elf64_Verdef definition;
        Elf64_Verdaux name;
    } nodes[2]; /* the library's own, and the runtime's */
    struct {
        char none[1];
        char name[NAME_BYTES];
        char runtime[32];
    } strings;
};

#define AT(member)   ((Elf64_Xword)offsetof(struct library, member))
#define NAME(member) ((Elf64_Word)(AT(strings.member) - AT(strings)))

int sim_alias_version(const char *name) {
    const char *suffix = strstr(name, ".so.");
    if (strncmp(name, "libcudart", 9) != 0 || !suffix || strlen(name) >= NAME_BYTES)
        return 0;
    int version = 0, n = 0;
    if (sscanf(suffix, ".so.%d%n", &version, &n) != 1 || (suffix[n] && suffix[n] != '.'))
        return 0;
    return version == 12 || version == 13 ? version : 0;
}

/* The hash of a version's name, as in the ELF specification. */
static Elf64_Word hash_of(const char *name) {
    Elf64_Word hash = 0;
    for (; *name; name++) {
        hash = (hash << 4) + (unsigned char)*name;
        Elf64_Word top = hash & 0xf0000000;
        hash = (hash ^ top >> 24) & ~top;
    }
    return hash;
}

static void fill_node(struct library *library, int i, const char *text, Elf64_Word name) {
    library->nodes[i].definition = (Elf64_Verdef){
        .vd_version = VER_DEF_CURRENT,
        .vd_flags = i == 0 ? VER_FLG_BASE : 0,
        .vd_ndx = (Elf64_Half)(i + 1),
        .vd_cnt = 1,
        .vd_hash = hash_of(text),
        .vd_aux = sizeof library->nodes[i].definition,
        .vd_next = i == 0 ? sizeof library->nodes[i] : 0,
    };
    library->nodes[i].name = (Elf64_Verdaux){.vda_name = name};
}

static void fill_segments(struct library *library) {
    library->head = (Elf64_Ehdr){
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_DYN,
        .e_machine = MACHINE,
        .e_version = EV_CURRENT,
        .e_phoff = AT(segments),
        .e_ehsize = sizeof library->head,
        .e_phentsize = sizeof library->segments[0],
        .e_phnum = 3,
    };
    library->segments[0] = (Elf64_Phdr){.p_type = PT_LOAD,
                                        .p_flags = PF_R | PF_W,
                                        .p_filesz = sizeof *library,
                                        .p_memsz = sizeof *library,
                                        .p_align = LARGEST_PAGE};
    library->segments[1] = (Elf64_Phdr){.p_type = PT_DYNAMIC,
                                        .p_flags = PF_R | PF_W,
                                        .p_offset = AT(dynamic),
                                        .p_vaddr = AT(dynamic),
                                        .p_filesz = sizeof library->dynamic,
                                        .p_memsz = sizeof library->dynamic,
                                        .p_align = sizeof(Elf64_Xword)};
    library->segments[2] = (Elf64_Phdr){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W};
}

static void fill(struct library *library, const char *name) {
    const Elf64_Dyn dynamic[] = {
        {DT_SONAME, {NAME(name)}},   {DT_NEEDED, {NAME(runtime)}},
        {DT_STRTAB, {AT(strings)}},  {DT_STRSZ, {sizeof library->strings}},
        {DT_SYMTAB, {AT(symbols)}},  {DT_SYMENT, {sizeof library->symbols[0]}},
        {DT_VERSYM, {AT(versions)}}, {DT_VERDEF, {AT(nodes)}},
        {DT_VERDEFNUM, {NODE}},      {DT_NULL, {0}},
    };
    *library = (struct library){0};
    fill_segments(library);
    memcpy(library->dynamic, dynamic, sizeof dynamic);
    snprintf(library->strings.name, sizeof library->strings.name, "%s", name);
    snprintf(library->strings.runtime, sizeof library->strings.runtime, "libcudart.so.%d",
             sim_alias_version(name));
    fill_node(library, 0, name, NAME(name));
    fill_node(library, 1, library->strings.runtime, NAME(runtime));
}

int sim_alias_write(const char *path, const char *name) {
    struct library library;
    struct cushim_draft draft;
    fill(&library, name);
    int error = cushim_draft_begin(&draft, path);
    if (error)
        return error;
    ssize_t n = write(draft.fd, &library, sizeof library);
    return cushim_draft_end(&draft, n == (ssize_t)sizeof library ? 0 : n < 0 ? errno : ENOSPC);
}
