#include "tools/cushim/recording/names.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/utf8.h"
#include "report/frame.h"
#include "tools/cushim/file_image.h"
#include "tools/cushim/symbols.h"
#include "trace/python.h"

struct row {
    uint64_t frame;
    const struct cushim_trace_module *at;
    uint64_t address; /* as the file's symbols count */
    struct name name;
    UT_hash_handle hh;
};

struct names {
    struct row *rows;
    struct row **by_module;
    size_t n_rows, n_newer;
};

/* ---- the place of a frame ---- */

/* The address, as the symbols of an ELF file count, of a place in the file. */
static uint64_t address_of(const struct image *image, uint64_t offset) {
    Elf64_Ehdr head;
    Elf64_Phdr part;
    const void *bytes = image_part(image, 0, sizeof head);
    if (!bytes)
        return offset;
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_phentsize != sizeof part)
        return offset;
    for (unsigned i = 0; i < head.e_phnum; i++) {
        bytes = image_part(image, head.e_phoff + i * sizeof part, sizeof part);
        if (!bytes)
            return offset;
        memcpy(&part, bytes, sizeof part);
        if (part.p_type == PT_LOAD && offset - part.p_offset < part.p_filesz)
            return offset - part.p_offset + part.p_vaddr;
    }
    return offset;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_ours(const char *path) {
    static const char *const ours[] = {"libcushim-preload.so", "libcuda.so", "libcudart.so",
                                       "libcushim.so"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (strncmp(base_name(path), ours[i], strlen(ours[i])) == 0)
            return true;
    }
    return false;
}

/* "function\nfile" (trace/python.h); the offset is the line's number. */
static void name_python(struct name *name, const char *text) {
    const char *file = strchr(text, '\n');
    int n_function = file ? (int)(file - text) : (int)strlen(text);
    snprintf(name->function, NAME_BYTES, "%.*s", n_function, text);
    snprintf(name->module, NAME_BYTES, "%s", file ? file + 1 : "");
    cushim_utf8_clean(name->function);
    cushim_utf8_clean(name->module);
    snprintf(name->line, NAME_BYTES, "%.100s:%" PRIu64, base_name(name->module), name->offset);
}

static bool add_frame(struct names *names, const struct cushim_trace_account *account,
                      uint64_t frame) {
    struct row *row;
    HASH_FIND(hh, names->rows, &frame, sizeof frame, row);
    if (row)
        return true;
    row = calloc(1, sizeof *row);
    if (!row)
        return false;
    row->frame = frame;
    row->at = cushim_trace_account_module(account, frame, &row->name.offset);
    if (row->at && frame & CUSHIM_PYTHON_BIT) {
        name_python(&row->name, row->at->path);
    } else if (row->at) {
        snprintf(row->name.module, NAME_BYTES, "%s", row->at->path);
        cushim_utf8_clean(row->name.module);
        row->name.is_ours = is_ours(row->at->path);
        snprintf(row->name.function, NAME_BYTES, "%.100s+0x%" PRIx64, base_name(row->name.module),
                 row->name.offset);
    } else {
        row->name.offset = frame;
        snprintf(row->name.function, NAME_BYTES, "0x%" PRIx64, frame);
    }
    HASH_ADD(hh, names->rows, frame, sizeof row->frame, row);
    names->n_rows++;
    return true;
}

/* ---- names ---- */

static int by_module(const void *left, const void *right) {
    const struct row *a = *(struct row *const *)left, *b = *(struct row *const *)right;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->frame < b->frame ? -1 : a->frame > b->frame;
}

/* Answers are kept, because a recording is read several times, and each child reads all debugging
 * information of a file. */
struct known {
    struct {
        uint64_t file, address; /* the file, as the hash of its path */
    } key;
    char function[NAME_BYTES], line[NAME_BYTES];
    UT_hash_handle hh;
};

static struct known *all_known;

static uint64_t hash_of(const char *path) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *path; path++)
        hash = (hash ^ (unsigned char)*path) * 0x100000001b3u;
    return hash;
}

static struct known *find_known(uint64_t file, uint64_t address) {
    struct known *known, wanted = {.key = {file, address}};
    HASH_FIND(hh, all_known, &wanted.key, sizeof wanted.key, known);
    return known;
}

static bool add_known(uint64_t file, uint64_t address) {
    struct known *known = calloc(1, sizeof *known);
    if (!known)
        return false;
    known->key.file = file;
    known->key.address = address;
    HASH_ADD(hh, all_known, key, sizeof known->key, known);
    return true;
}

struct question {
    uint64_t file;
    uint64_t *addresses;
    size_t n;
};

static void learn(size_t i, const char *function, const char *line, void *context) {
    const struct question *question = context;
    struct known *known = find_known(question->file, question->addresses[i]);
    snprintf(known->function, NAME_BYTES, "%s", function);
    snprintf(known->line, NAME_BYTES, "%s", line);
    cushim_utf8_clean(known->function);
    cushim_utf8_clean(known->line);
}

/* Returns whether a line is known. */
static bool take_name(struct row *row, uint64_t file) {
    const struct known *known = find_known(file, row->address);
    if (!known)
        return false;
    if (*known->function)
        memcpy(row->name.function, known->function, NAME_BYTES);
    memcpy(row->name.line, known->line, NAME_BYTES);
    return *known->line;
}

/* Was the file written after the last event of the recording? */
static bool is_newer(const struct stat *file, const struct cushim_trace_account *account) {
    const struct cushim_trace_head *head = &account->reader.head;
    uint64_t run_ns = account->last_ns > head->start_ns ? account->last_ns - head->start_ns : 0;
    return (uint64_t)file->st_mtim.tv_sec > (head->start_wall_ns + run_ns) / 1000000000u;
}

/* For the rows of one module.  Returns whether the lines are from a file that was written since. */
static bool ask(struct row **rows, size_t n_rows, const struct cushim_trace_account *account) {
    const struct cushim_trace_module *at = rows[0]->at;
    struct image image;
    struct stat status;
    bool has_line = false;
    if (!at || at->start & CUSHIM_PYTHON_BIT || *at->path != '/' ||
        image_map(&image, at->path, &status) != 0)
        return false;
    struct question question = {hash_of(at->path),
                                reallocarray(NULL, n_rows, sizeof *question.addresses), 0};
    for (size_t i = 0; i < n_rows; i++)
        /* the call is before the address to which it returns */
        rows[i]->address = address_of(&image, rows[i]->name.offset) - 1;
    image_unmap(&image);
    for (size_t i = 0; question.addresses && i < n_rows; i++) {
        if (!find_known(question.file, rows[i]->address) &&
            add_known(question.file, rows[i]->address))
            question.addresses[question.n++] = rows[i]->address;
    }
    symbols_find(at->path, question.addresses, question.n, learn, &question);
    for (size_t i = 0; i < n_rows; i++)
        has_line |= take_name(rows[i], question.file);
    free(question.addresses);
    return has_line && is_newer(&status, account);
}

int names_find(struct names **found, const struct cushim_trace_account *account) {
    struct names *names = *found = calloc(1, sizeof *names);
    bool is_well = names != NULL;
    for (size_t i = 0; is_well && i < account->n_sites; i++) {
        for (unsigned k = 0; is_well && k < account->sites[i]->n_frames; k++)
            is_well = add_frame(names, account, account->sites[i]->frames[k]);
    }
    if (is_well)
        names->by_module = reallocarray(NULL, names->n_rows + 1, sizeof *names->by_module);
    if (!is_well || !names->by_module) {
        names_free(names);
        *found = NULL;
        return ENOMEM;
    }
    size_t n = 0;
    for (struct row *row = names->rows; row; row = row->hh.next)
        names->by_module[n++] = row;
    if (n)
        qsort(names->by_module, n, sizeof *names->by_module, by_module);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && names->by_module[end]->at == names->by_module[i]->at; end++) {
        }
        names->n_newer += ask(names->by_module + i, end - i, account);
    }
    return 0;
}

size_t names_newer(const struct names *names) {
    return names->n_newer;
}

const struct name *names_of(const struct names *names, uint64_t frame) {
    struct row *row;
    HASH_FIND(hh, names->rows, &frame, sizeof frame, row);
    return &row->name;
}

unsigned names_first(const struct names *names, const struct cushim_trace_site *site) {
    enum { DEPTH = 12 }; /* a library of the driver's may be between two of ours */
    unsigned first = 0;
    for (unsigned i = 0; i < site->n_frames && i < DEPTH; i++) {
        if (names_of(names, site->frames[i])->is_ours)
            first = i + 1;
    }
    return first;
}

enum { SITE_BYTES = 4 * NAME_BYTES };

/* "forward FILE:12", at most so many columns wide. */
static void put_name(char text[SITE_BYTES], const struct name *name, size_t columns) {
    char function[NAME_BYTES], line[NAME_BYTES];
    memcpy(function, name->function, NAME_BYTES);
    memcpy(line, name->line, NAME_BYTES);
    cushim_frame_shorten(line, columns / 2);
    cushim_frame_shorten(function, columns - (*line ? strlen(line) + 1 : 0));
    snprintf(text, SITE_BYTES, "%s%s%s", function, *line ? " " : "", line);
}

enum { COLUMNS = 80, INDENT = 12 };
static const char caller_mark[] = "< ";

void names_put_place(struct cushim_writer *out, const char *lead, const char *asker,
                     const char *caller) {
    size_t n_lead = strlen(lead), n_caller = *caller ? 1 + strlen(caller_mark) + strlen(caller) : 0;
    bool fits_behind = n_lead + strlen(asker) + n_caller <= COLUMNS;
    bool fits_a_line = INDENT + strlen(asker) + n_caller <= COLUMNS;
    while (!fits_behind && n_lead && lead[n_lead - 1] == ' ')
        n_lead--;
    cushim_write(out, "%.*s", (int)n_lead, lead);
    if (!fits_behind)
        cushim_write(out, "\n%*s", INDENT, "");
    cushim_write(out, "%s", asker);
    if (*caller && !fits_behind && !fits_a_line)
        cushim_write(out, "\n%*s", INDENT - 1, "");
    cushim_write(out, "%s%s%s\n", *caller ? " " : "", *caller ? caller_mark : "", caller);
}

void names_put_site(struct cushim_writer *out, const char *lead, const struct names *names,
                    const struct cushim_trace_site *site) {
    char asker[SITE_BYTES], caller[SITE_BYTES] = "";
    unsigned first = names_first(names, site);
    if (first < site->n_frames)
        put_name(asker, names_of(names, site->frames[first]), COLUMNS - INDENT);
    else
        strcpy(asker, site->n_frames ? "in CUDA or cushim" : "no stack was recorded");
    if (first + 1 < site->n_frames)
        put_name(caller, names_of(names, site->frames[first + 1]),
                 COLUMNS - INDENT - strlen(caller_mark));
    names_put_place(out, lead, asker, caller);
}

void names_free(struct names *names) {
    struct row *row, *next;
    if (!names)
        return;
    HASH_ITER(hh, names->rows, row, next) {
        HASH_DEL(names->rows, row);
        free(row);
    }
    free(names->by_module);
    free(names);
}
