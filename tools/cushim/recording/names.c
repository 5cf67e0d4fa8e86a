#include "base/bits.h"
#include "tools/cushim/recording/names.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/utf8.h"
#include "report/frame.h"
#include "tools/cushim/file_image.h"
#include "tools/cushim/symbols.h"
#include "trace/python.h"

struct row {
    uint64_t frame;
    const struct cushim_trace_module *at;
    const struct symbol *symbol; /* NULL if it has none */
    bool is_newer;               /* its file was written after the recording */
    struct name name;
    UT_hash_handle hh;
};

struct names {
    struct row *rows;
    size_t n_newer;
};

/* ---- the place of a frame ---- */

/* Convert an offset in an ELF file to an address as its symbols have it. */
static uint64_t address_of(const struct image *image, uint64_t offset) {
    size_t n_segments = 0;
    const Elf64_Phdr *segments = image_segments(image, &n_segments);
    for (size_t i = 0; segments && i < n_segments; i++) {
        if (segments[i].p_type == PT_LOAD && offset - segments[i].p_offset < segments[i].p_filesz)
            return offset - segments[i].p_offset + segments[i].p_vaddr;
    }
    return offset;
}

static const char *const ours[] = {"libcushim-preload.so", "libcuda.so", "libcudart.so",
                                   "libcushim.so", NULL};

/* What Python calls CUDA by, if it calls it itself. */
static const char *const bridges[] = {"libffi.so", "_ctypes.", NULL};

/* Read "function\nfile" (trace/python.h).  The offset is the number of the line. */
static void name_python(struct name *name, const char *text) {
    const char *file = strchr(text, '\n');
    int n_function = file ? (int)(file - text) : (int)strlen(text);
    snprintf(name->function, NAME_BYTES, "%.*s", n_function, text);
    snprintf(name->module, NAME_BYTES, "%s", file ? file + 1 : "");
    cushim_utf8_clean(name->function);
    cushim_utf8_clean(name->module);
    snprintf(name->line, NAME_BYTES, "%.100s:%" PRIu64, basename(name->module), name->offset);
}

static bool add_frame(struct names *names, const struct cushim_trace_account *account,
                      uint64_t frame) {
    struct row *row;
    HASH_GET(names->rows, frame, frame, row);
    if (!row || *row->name.function)
        return row;
    row->at = cushim_trace_account_module(account, frame, &row->name.offset);
    if (row->at && frame & CUSHIM_PYTHON_BIT) {
        name_python(&row->name, row->at->path);
        row->name.kind = cushim_library_of(row->name.module, row->name.library);
    } else if (row->at) {
        snprintf(row->name.module, NAME_BYTES, "%s", row->at->path);
        cushim_utf8_clean(row->name.module);
        row->name.is_ours = cushim_library_is_one_of(row->at->path, ours);
        row->name.kind = cushim_library_of(row->name.module, row->name.library);
        snprintf(row->name.function, NAME_BYTES, "%.100s+0x%" PRIx64, basename(row->name.module),
                 row->name.offset);
    } else {
        row->name.offset = frame;
        snprintf(row->name.function, NAME_BYTES, "0x%" PRIx64, frame);
    }
    return true;
}

/* ---- names ---- */

static int by_module(const struct row *a, const struct row *b) {
    int order = cushim_order((uintptr_t)a->at, (uintptr_t)b->at);
    return order ? order : cushim_order(a->frame, b->frame);
}

/* Was the file written after the last event of the recording? */
static bool is_newer(const struct stat *file, const struct cushim_trace_account *account) {
    const struct cushim_trace_head *head = &account->reader.head;
    uint64_t run_ns = cushim_less(account->last_ns, head->start_ns);
    return (uint64_t)file->st_mtim.tv_sec > (head->start_wall_ns + run_ns) / 1000000000u;
}

/* Want the symbols of all rows of a module; `row` is the first of them.  Returns the next
 * module's row. */
static struct row *want_module(struct row *row, const struct cushim_trace_account *account) {
    const struct cushim_trace_module *at = row->at;
    struct image image;
    struct stat status;
    bool is_code = at && !(at->start & CUSHIM_PYTHON_BIT) && *at->path == '/' &&
                   image_map(&image, at->path, &status) == 0;
    for (; row && row->at == at; row = row->hh.next) {
        if (!is_code)
            continue;
        /* the call is before the address to which it returns */
        row->symbol = symbols_want(at->path, address_of(&image, row->name.offset) - 1);
        row->is_newer = is_newer(&status, account);
    }
    if (is_code)
        image_unmap(&image);
    return row;
}

/* Take the answers of addr2line. */
static void take_symbols(struct names *names) {
    const struct cushim_trace_module *newer = NULL;
    for (struct row *row = names->rows; row; row = row->hh.next) {
        if (!row->symbol)
            continue;
        if (*row->symbol->function)
            strcpy(row->name.function, row->symbol->function);
        strcpy(row->name.line, row->symbol->line);
        if (*row->name.line && row->is_newer && row->at != newer) {
            newer = row->at;
            names->n_newer++;
        }
    }
}

int names_find(struct names **found, const struct cushim_trace_account *account) {
    struct names *names = *found = calloc(1, sizeof *names);
    bool is_well = names != NULL;
    for (size_t i = 0; is_well && i < account->n_sites; i++) {
        for (unsigned k = 0; is_well && k < account->sites[i]->n_frames; k++)
            is_well = add_frame(names, account, account->sites[i]->frames[k]);
    }
    if (!is_well) {
        names_free(names);
        *found = NULL;
        return ENOMEM;
    }
    HASH_SORT(names->rows, by_module);
    for (struct row *row = names->rows; row;)
        row = want_module(row, account);
    symbols_ask();
    take_symbols(names);
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
    enum { DEPTH = 12 }; /* because a library of the driver may be between two of ours */
    unsigned first = 0;
    for (unsigned i = 0; i < site->n_frames && i < DEPTH; i++) {
        if (names_of(names, site->frames[i])->is_ours)
            first = i + 1;
    }
    while (first < site->n_frames &&
           cushim_library_is_one_of(names_of(names, site->frames[first])->module, bridges))
        first++;
    return first;
}

/* ---- labels ---- */

enum { LABEL = 5 };

/* Whether a function is of a library that is linked into the program: of C++, or CUDA's runtime. */
static bool is_linked_in(const char *function) {
    return strncmp(function, "std::", 5) == 0 || strncmp(function, "libcudart_static", 16) == 0 ||
           (strncmp(function, "cuda", 4) == 0 && isupper((unsigned char)function[4]));
}

/* How far a frame is from what the program's author wrote. */
static int distance_of(const struct name *name) {
    if (name->kind == CUSHIM_LIBRARY_PACKAGE)
        return 1;
    return name->kind == CUSHIM_LIBRARY_PROGRAM && !is_linked_in(name->function) ? 0 : 2;
}

/* The program's first code, which the C library calls main for. */
static bool is_start(const struct names *names, const struct cushim_trace_site *site, unsigned i) {
    static const char *const library[] = {"libc.so", NULL};
    return i && i + 1 == site->n_frames &&
           cushim_library_is_one_of(names_of(names, site->frames[i - 1])->module, library);
}

/* The label of a site: frames of the program's own code, without packages, allocators and runtimes;
 * if it has none, those of packages; if it has none of these, all. */
static unsigned choose_frames(const struct names *names, const struct cushim_trace_site *site,
                              const struct name *label[LABEL]) {
    unsigned first = names_first(names, site), n = 0;
    for (int distance = 0; !n && distance <= 2; distance++) {
        for (unsigned i = first; i < site->n_frames && n < LABEL; i++) {
            label[n] = names_of(names, site->frames[i]);
            n += distance_of(label[n]) <= distance && !is_start(names, site, i);
        }
    }
    return n;
}

/* The order of two labels, and how many frames they have in common. */
static int compare_labels(const struct names *names, const struct cushim_trace_site *a,
                          const struct cushim_trace_site *b, unsigned *n_same) {
    const struct name *of_a[LABEL], *of_b[LABEL];
    unsigned n_a = choose_frames(names, a, of_a), n_b = choose_frames(names, b, of_b);
    for (*n_same = 0; *n_same < n_a && *n_same < n_b; ++*n_same) {
        const struct name *one = of_a[*n_same], *other = of_b[*n_same];
        int order = strcmp(one->function, other->function);
        order = order ? order : strcmp(one->line, other->line);
        if (order)
            return order;
    }
    return cushim_order(n_a, n_b);
}

bool names_are_alike(const struct names *names, const struct cushim_trace_site *one,
                     const struct cushim_trace_site *other) {
    unsigned n_same;
    return compare_labels(names, one, other, &n_same) == 0;
}

static int by_label(const void *left, const void *right, void *names) {
    unsigned n_same;
    return compare_labels(names, *(struct cushim_trace_site *const *)left,
                          *(struct cushim_trace_site *const *)right, &n_same);
}

void names_tell_apart(const struct names *names, const struct cushim_trace_account *account) {
    qsort_r(account->sites, account->n_sites, sizeof *account->sites, by_label, (void *)names);
    for (size_t i = 1; i < account->n_sites; i++) {
        struct cushim_trace_site *site = account->sites[i], *before = account->sites[i - 1];
        unsigned n_same;
        compare_labels(names, before, site, &n_same);
        before->n_label = n_same + 1 > before->n_label ? n_same + 1 : before->n_label;
        site->n_label = n_same + 1;
    }
}

const char *names_library(const struct names *names, const struct cushim_trace_site *site) {
    if (site->n_frames && site->kind == CUSHIM_KIND_CONTEXT)
        return CUSHIM_LIBRARY_CONTEXTS;
    for (unsigned i = names_first(names, site); i < site->n_frames; i++) {
        const struct name *name = names_of(names, site->frames[i]);
        if (name->kind <= CUSHIM_LIBRARY_PACKAGE && *name->module)
            return *name->library ? name->library : "the program itself";
    }
    return "";
}

enum { COLUMNS = 80, INDENT = 12, PLACE_BYTES = 4 * NAME_BYTES };
static const char caller_mark[] = "< ";

/* Write "forward FILE:12", at most `columns` wide. */
static void put_frame(char text[PLACE_BYTES], const struct name *frame, size_t columns) {
    char function[NAME_BYTES], line[NAME_BYTES];
    memcpy(function, frame->function, NAME_BYTES);
    memcpy(line, frame->line, NAME_BYTES);
    cushim_frame_shorten(line, columns / 2);
    cushim_frame_shorten(function, columns - (*line ? strlen(line) + 1 : 0));
    snprintf(text, PLACE_BYTES, "%s%s%s", function, *function && *line ? " " : "", line);
    cushim_utf8_fit(text, columns);
}

void names_put_place(struct cushim_writer *out, const char *lead, const struct name *const frames[],
                     unsigned n_frames) {
    char texts[1 + LABEL][PLACE_BYTES];
    size_t n_lead = strlen(lead), n_all = n_lead, column = n_lead;
    for (unsigned i = 0; i < n_frames; i++) {
        put_frame(texts[i], frames[i], COLUMNS - INDENT - (i ? strlen(caller_mark) : 0));
        n_all += strlen(texts[i]) + (i ? 1 + strlen(caller_mark) : 0);
    }
    while (n_all > COLUMNS && n_lead && lead[n_lead - 1] == ' ')
        n_lead--;
    cushim_write(out, "%.*s", (int)n_lead, lead);
    for (unsigned i = 0; i < n_frames; i++) {
        const char *mark = i ? caller_mark : "";
        size_t n_text = (i != 0) + strlen(mark) + strlen(texts[i]);
        bool is_below = i ? column + n_text > COLUMNS : n_all > COLUMNS;
        if (is_below)
            cushim_write(out, "\n%*s", INDENT - (i != 0), "");
        column = n_text + (is_below ? INDENT - (i != 0) : column);
        cushim_write(out, "%s%s%s", i ? " " : "", mark, texts[i]);
    }
    cushim_write(out, "\n");
}

void names_put_site(struct cushim_writer *out, const char *lead, const struct names *names,
                    const struct cushim_trace_site *site) {
    static const struct name in_ours = {.function = "in CUDA or cushim"},
                             none = {.function = "no stack was recorded"},
                             context = {.function = "a context or module"};
    enum { FEWEST = 2 };
    const bool is_context = site->kind == CUSHIM_KIND_CONTEXT;
    const struct name *label[1 + LABEL] = {&context, site->n_frames ? &in_ours : &none};
    unsigned n = choose_frames(names, site, label + 1),
             n_wanted = site->n_label > FEWEST ? site->n_label : FEWEST;
    n = !n ? 1 : n < n_wanted ? n : n_wanted;
    names_put_place(out, lead, label + !is_context, n + is_context);
}

void names_free(struct names *names) {
    if (!names)
        return;
    HASH_FREE(names->rows);
    free(names);
}
