#include "trace/python.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The same in all known versions. */
enum { THREAD_NEXT = 8, OBJECT_TYPE = 8, SIZED_SIZE = 16, BYTES_DATA = 32 };
enum { TEXT_LENGTH = 16, TEXT_STATE = 32 };
/* The bytes read of a code object and of a str. */
enum { CODE_BYTES = CUSHIM_PYTHON_CODE_BYTES, HEAD_BYTES = TEXT_STATE + 4 };
enum { STATE_KIND_SHIFT = 2, STATE_KIND = 7, STATE_COMPACT = 0x20, STATE_ASCII = 0x40 };
enum { UNIT_BYTES = 2 };      /* of code */
enum { OWNED_BY_CALLER = 3 }; /* from here on a frame stands for C code that entered Python */
enum { TAGS = 3 };            /* bits of a pointer to code, of 3.14 */
enum { MOST_TEXT = 4096, MOST_TABLE = 1 << 20 };
enum { LEAST_CANDIDATE = 0xc0 }; /* the layout of a version is final from its first candidate on */

static const struct cushim_python_layout layouts[] = {
    {0x030a, false, 24, 0, 100, 32, 24, 96, 0, 40, 104, 112, 120, 0, 48, 72},
    {0x030b, true, 56, 8, 70, 32, 48, 56, 69, 72, 112, 128, 136, 184, 48, 72},
    {0x030c, true, 56, 0, 71, 0, 8, 56, 70, 68, 112, 128, 136, 192, 40, 56},
    {0x030d, false, 72, 0, 71, 0, 8, 56, 70, 68, 112, 128, 136, 200, 40, 56},
    {0x030e, false, 72, 0, 75, 0, 8, 56, 74, 68, 112, 128, 136, 208, 40, 56},
};

/* Memory that may be missing, in several parts by one call.  Returns how many parts were read. */
enum { MOST_PARTS = CUSHIM_PYTHON_LINES };
struct part {
    uint64_t at;
    void *to;
    size_t n_bytes;
};

static size_t read_some(const struct part *parts, size_t n) {
    struct iovec ours[MOST_PARTS], theirs[MOST_PARTS];
    for (size_t i = 0; i < n; i++) {
        ours[i] = (struct iovec){parts[i].to, parts[i].n_bytes};
        theirs[i] = (struct iovec){(void *)(uintptr_t)parts[i].at, parts[i].n_bytes};
    }
    ssize_t n_bytes = process_vm_readv(getpid(), ours, n, theirs, n, 0);
    size_t n_read = 0;
    while (n_read < n && n_bytes >= (ssize_t)parts[n_read].n_bytes)
        n_bytes -= (ssize_t)parts[n_read++].n_bytes;
    return n_read;
}

static bool read_parts(const struct part *parts, size_t n) {
    return read_some(parts, n) == n;
}

static bool read_at(uint64_t address, void *to, size_t n_bytes) {
    return read_parts(&(struct part){address, to, n_bytes}, 1);
}

static uint64_t word_at(const uint8_t *object, size_t offset) {
    uint64_t word;
    memcpy(&word, object + offset, sizeof word);
    return word;
}

static uint32_t half_at(const uint8_t *object, size_t offset) {
    uint32_t half;
    memcpy(&half, object + offset, sizeof half);
    return half;
}

/* ---- the interpreter ---- */

/* 3.10 has no word for it, and its function of that name only writes a text. */
static unsigned version_of(void *(*look_up)(const char *name)) {
    const unsigned long *version = look_up("Py_Version");
    void *function = look_up("Py_GetVersion");
    const char *(*text)(void);
    if (version)
        return (*version & 0xff) >= LEAST_CANDIDATE ? (unsigned)(*version >> 16) : 0;
    memcpy(&text, &function, sizeof text);
    return function && strncmp(text(), "3.10.", 5) == 0 ? 0x030a : 0;
}

bool cushim_python_find(struct cushim_python *python, void *(*look_up)(const char *name)) {
    enum { FIRST_WITHOUT_LOCK = 0x030d };
    struct {
        char cookie[8];
        uint64_t version, has_no_lock;
    } offsets; /* from 3.13 on */
    void *thread = look_up("PyGILState_GetThisThreadState");
    uint64_t runtime = (uintptr_t)look_up("_PyRuntime");
    *python = (struct cushim_python){.code_type = (uintptr_t)look_up("PyCode_Type")};
    memcpy(&python->thread, &thread, sizeof thread);
    if (!thread)
        return true;
    unsigned version = version_of(look_up);
    for (size_t i = 0; python->code_type && i < sizeof layouts / sizeof *layouts; i++) {
        if (version == layouts[i].version)
            python->layout = &layouts[i];
    }
    if (version >= FIRST_WITHOUT_LOCK &&
        (!read_at(runtime, &offsets, sizeof offsets) || offsets.has_no_lock))
        python->layout = NULL;
    return python->layout != NULL;
}

/* ---- texts ---- */

/* One character as UTF-8; "?" for one that would end a line or is half of a pair. */
static size_t put_character(char to[4], uint32_t c) {
    if (c < ' ' || c == 0x7f || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
        c = '?';
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(0xf00 >> n | c);
    return n;
}

/* The characters of a str object whose head was read.  Of a longer one the last, because they name
 * the file of a path.  None if it is no such object. */
enum { MOST_CHARACTERS = CUSHIM_PYTHON_TEXT_BYTES / 2 };
struct text {
    uint32_t characters[MOST_CHARACTERS];
    size_t width, n;
};

static struct part part_of(struct text *text, const struct cushim_python_layout *layout,
                           uint64_t object, const uint8_t *head, size_t most) {
    uint64_t length = word_at(head, TEXT_LENGTH);
    uint32_t state = half_at(head, TEXT_STATE);
    uint64_t at = object + (state & STATE_ASCII ? layout->ascii_text : layout->text);
    text->width = state >> STATE_KIND_SHIFT & STATE_KIND;
    bool is_known = state & STATE_COMPACT && length <= MOST_TEXT &&
                    (text->width == 1 || text->width == 2 || text->width == 4);
    text->n = !is_known ? 0 : length < most ? length : most;
    return (struct part){at + (is_known ? (length - text->n) * text->width : 0), text->characters,
                         text->n * text->width};
}

static void add_text(struct cushim_python_line *line, const struct text *text) {
    for (size_t i = 0; i < text->n; i++) {
        char bytes[4];
        uint32_t c = 0;
        memcpy(&c, (const char *)text->characters + i * text->width, text->width);
        size_t n_bytes = put_character(bytes, c);
        if (line->n_text + n_bytes > sizeof line->text)
            return;
        memcpy(line->text + line->n_text, bytes, n_bytes);
        line->n_text += (uint32_t)n_bytes;
    }
}

/* ---- the number of a line ---- */

/* The table of a code object, some bytes at a time. */
enum { TABLE_BYTES = 128 };
struct table {
    uint64_t at, end; /* of the unread part */
    size_t i, n;
    uint8_t bytes[TABLE_BYTES];
};

static int next_byte(struct table *table) {
    if (table->i == table->n) {
        uint64_t rest = table->end - table->at;
        table->i = 0;
        table->n = rest < sizeof table->bytes ? rest : sizeof table->bytes;
        if (!table->n || !read_at(table->at, table->bytes, table->n)) {
            table->n = 0;
            return -1;
        }
        table->at += table->n;
    }
    return table->bytes[table->i++];
}

/* Six bits per byte, the low ones first; the lowest one is the sign. */
static int32_t next_signed(struct table *table) {
    uint32_t number = 0;
    int byte = 0x40;
    for (unsigned shift = 0; byte >= 0 && byte & 0x40 && shift < 32; shift += 6) {
        byte = next_byte(table);
        number |= byte < 0 ? 0 : (uint32_t)(byte & 0x3f) << shift;
    }
    return number & 1 ? -(int32_t)(number >> 1) : (int32_t)(number >> 1);
}

/* An entry is a byte with the top bit, its kind and its units of code, and bytes without that bit.
 */
static uint32_t line_at(struct table *table, uint32_t first, uint64_t unit) {
    enum { SHORT = 9, THIS = 10, NEXT_BUT_ONE = 12, LINE = 13, LONG = 14 };
    uint64_t done = 0;
    uint32_t number = first;
    for (int byte = next_byte(table); byte >= 0;) {
        int kind = byte >> 3 & 15;
        done += (byte & 7) + 1u;
        if (kind > SHORT && kind <= NEXT_BUT_ONE)
            number += (uint32_t)(kind - THIS);
        else if (kind == LINE || kind == LONG)
            number += (uint32_t)next_signed(table);
        if (unit < done)
            return number;
        do
            byte = next_byte(table);
        while (byte >= 0 && !(byte & 0x80));
    }
    return first;
}

/* The same of 3.10: an entry is its bytes of code and its lines, signed. */
static uint32_t line_of_pairs(struct table *table, uint32_t first, uint64_t unit) {
    enum { NO_LINE = -128 };
    uint64_t done = 0;
    uint32_t number = first;
    for (int n_bytes = next_byte(table); n_bytes >= 0; n_bytes = next_byte(table)) {
        int lines = (int8_t)next_byte(table);
        number += lines == NO_LINE ? 0 : (uint32_t)lines;
        done += (uint64_t)n_bytes;
        if (unit * UNIT_BYTES < done)
            return number;
    }
    return first;
}

/* ---- lines ---- */

/* All lines of the process, in lists that only grow, so that a reader needs no lock. */
enum { N_LISTS = 1 << 12, MOST_KEPT = 1 << 16 };
struct kept {
    struct kept *next;
    struct cushim_python_line line; /* its text is cut to its length */
};
static _Atomic(struct kept *) lists[N_LISTS];
static atomic_uint n_kept;

static _Atomic(struct kept *) *list_of(uint64_t frame) {
    return &lists[frame % N_LISTS];
}

const struct cushim_python_line *cushim_python_line(uint64_t frame) {
    const struct kept *kept = atomic_load_explicit(list_of(frame), memory_order_acquire);
    while (kept && kept->line.frame != frame)
        kept = kept->next;
    return kept ? &kept->line : NULL;
}

/* A line that finds no memory has no text.  Two threads may keep the same one. */
static void keep(const struct cushim_python_line *line) {
    size_t n_bytes = offsetof(struct kept, line.text) + line->n_text;
    _Atomic(struct kept *) *list = list_of(line->frame);
    if (cushim_python_line(line->frame) || atomic_fetch_add(&n_kept, 1) >= MOST_KEPT)
        return;
    struct kept *kept = malloc(n_bytes);
    if (!kept)
        return;
    memcpy(&kept->line, line, n_bytes - offsetof(struct kept, line));
    kept->next = atomic_load(list);
    while (!atomic_compare_exchange_weak(list, &kept->next, kept))
        continue;
}

static uint64_t hash_of(const struct cushim_python_line *line) {
    uint64_t hash = 0xcbf29ce484222325u ^ line->number;
    for (uint32_t i = 0; i < line->n_text; i++)
        hash = (hash ^ (uint8_t)line->text[i]) * 0x100000001b3u;
    return hash | CUSHIM_PYTHON_BIT;
}

/* The number of the line: of the instruction at an address, or with that number (3.10). */
static uint32_t number_of(struct table *table, const struct cushim_python_layout *layout,
                          const uint8_t *object, const struct cushim_python_place *place) {
    uint32_t first = half_at(object, layout->code_first_line);
    uint64_t start = place->code + layout->code_start;
    if (!layout->code_start)
        return (int32_t)place->at < 0 ? first : line_of_pairs(table, first, place->at);
    return place->at < start ? first : line_at(table, first, (place->at - start) / UNIT_BYTES);
}

/* Read a line, and keep it; 0 if it is none of the program. */
static uint64_t learn(const struct cushim_python *python, const uint8_t *object,
                      const struct cushim_python_place *place) {
    const struct cushim_python_layout *layout = python->layout;
    uint8_t heads[3][HEAD_BYTES];
    struct cushim_python_line line = {.n_text = 0};
    struct text texts[2];
    struct table table = {0};
    uint64_t function = word_at(object, layout->code_function),
             file = word_at(object, layout->code_file), lines = word_at(object, layout->code_lines);
    struct part parts[3] = {{function, heads[0], HEAD_BYTES},
                            {file, heads[1], HEAD_BYTES},
                            {lines, heads[2], BYTES_DATA}};
    if (!read_parts(parts, 3))
        return 0;
    uint64_t n_table = word_at(heads[2], SIZED_SIZE);
    n_table = n_table < MOST_TABLE ? n_table : 0;
    table.n = n_table < TABLE_BYTES ? n_table : TABLE_BYTES;
    table.at = lines + BYTES_DATA + table.n;
    table.end = lines + BYTES_DATA + n_table;
    parts[0] = part_of(&texts[0], layout, function, heads[0], MOST_CHARACTERS * 2 / 3);
    parts[1] = part_of(&texts[1], layout, file, heads[1], MOST_CHARACTERS);
    parts[2] = (struct part){lines + BYTES_DATA, table.bytes, table.n};
    if (!read_parts(parts, 3))
        return 0;
    line.number = number_of(&table, layout, object, place);
    if (!line.number) /* the interpreter's own, between a class and its __init__ */
        return 0;
    add_text(&line, &texts[0]);
    if (line.n_text < sizeof line.text)
        line.text[line.n_text++] = '\n';
    add_text(&line, &texts[1]);
    line.frame = hash_of(&line);
    keep(&line);
    return line.frame;
}

/* ---- frames ---- */

static uint64_t page_of(uint64_t address) {
    return address & -(uint64_t)CUSHIM_PYTHON_PAGE_BYTES;
}

/* The pages that end at an address, the last one first. */
enum { PAGES = CUSHIM_PYTHON_PAGES, PAGE = CUSHIM_PYTHON_PAGE_BYTES };
static size_t list_pages(struct cushim_python_cache *cache, uint64_t end,
                         struct part parts[PAGES]) {
    uint64_t page = end ? page_of(end - 1) : 0;
    size_t n = 0;
    for (; n < PAGES && page && page < end; n++, page -= PAGE)
        parts[n] =
            (struct part){page, cache->pages + (PAGES - 1 - n) * PAGE, n ? PAGE : end - page};
    return n;
}

static void have_pages(struct cushim_python_cache *cache, const struct part parts[], size_t n) {
    cache->until = n ? parts[0].at + parts[0].n_bytes : 0;
    cache->from = n ? parts[n - 1].at : 0;
}

/* Copy memory of the interpreter: directly, or by way of pages that are read together, because the
 * callers' frames mostly lie below a frame. */
static bool copy(struct cushim_python_cache *cache, uint64_t at, void *to, size_t n_bytes) {
    struct part parts[PAGES] = {{0}};
    uint64_t end = at + n_bytes;
    if (cache->is_direct) {
        memcpy(to, (const void *)(uintptr_t)at, n_bytes);
        return true;
    }
    if (at < cache->from || end > cache->until || end < at)
        have_pages(cache, parts, read_some(parts, list_pages(cache, end, parts)));
    if (at < cache->from || end > cache->until || end < at)
        return false;
    memcpy(to, cache->pages + PAGES * PAGE - (page_of(cache->until - 1) + PAGE - at), n_bytes);
    return true;
}

/* The innermost frame.  With it comes the memory that had the frames the last time. */
static bool find_frame(const struct cushim_python_layout *layout, struct cushim_python_cache *cache,
                       uint64_t *frame) {
    enum { FRAME, CFRAME, FIRST_PAGE };
    struct part parts[FIRST_PAGE + PAGES] = {{0}};
    uint64_t word = 0, by_cframe = 0;
    if (cache->is_direct)
        return copy(cache, cache->thread + layout->thread_frame, frame, sizeof *frame) &&
               (!layout->has_cframe ||
                copy(cache, *frame + layout->cframe_frame, frame, sizeof *frame));
    parts[FRAME] = (struct part){cache->thread + layout->thread_frame, &word, sizeof word};
    parts[CFRAME] = layout->has_cframe ? (struct part){cache->cframe + layout->cframe_frame,
                                                       &by_cframe, sizeof by_cframe}
                                       : parts[FRAME];
    size_t n = FIRST_PAGE + list_pages(cache, cache->top, parts + FIRST_PAGE);
    size_t n_read = read_some(parts, n);
    have_pages(cache, parts + FIRST_PAGE, n_read > FIRST_PAGE ? n_read - FIRST_PAGE : 0);
    *frame = layout->has_cframe ? by_cframe : word;
    if (!layout->has_cframe || (n_read >= FIRST_PAGE && word == cache->cframe))
        return n_read != 0;
    cache->cframe = word;
    return n_read && read_at(word + layout->cframe_frame, frame, sizeof *frame);
}

/* The places in code where the frames are, the innermost first; `is_whole` if nothing was amiss. */
static unsigned walk(const struct cushim_python *python, struct cushim_python_cache *cache,
                     struct cushim_python_place places[], unsigned most, bool *is_whole) {
    enum { LOOKED_AT = 4, FRAME_BYTES = 104 };
    const struct cushim_python_layout *layout = python->layout;
    uint64_t at = 0;
    uint8_t frame[FRAME_BYTES];
    unsigned n = 0;
    *is_whole = find_frame(layout, cache, &at);
    cache->top = at + layout->frame_bytes;
    for (unsigned i = 0; *is_whole && at && i < LOOKED_AT * most && n < most; i++) {
        *is_whole = copy(cache, at, frame, layout->frame_bytes);
        if (!*is_whole)
            break;
        bool is_code = !layout->frame_owner || frame[layout->frame_owner] < OWNED_BY_CALLER;
        uint64_t code = word_at(frame, layout->frame_code) & ~(uint64_t)TAGS;
        if (is_code && code)
            places[n++] =
                (struct cushim_python_place){code,
                                             layout->code_start ? word_at(frame, layout->frame_at)
                                                                : half_at(frame, layout->frame_at),
                                             at};
        at = word_at(frame, layout->frame_previous);
    }
    return n;
}

static struct cushim_python_known *known_of(struct cushim_python_cache *cache,
                                            const struct cushim_python_place *place) {
    uint64_t frame = cache->is_direct ? 0 : place->frame; /* each call of a recursion */
    uint64_t hash = (place->code ^ place->at << 7 ^ frame << 13) * 0x9e3779b97f4a7c15u;
    return &cache->known[hash >> 32 & (CUSHIM_PYTHON_KNOWN - 1)];
}

static uint64_t mix(uint64_t hash, uint64_t word) {
    return (hash ^ word) * 0x9e3779b97f4a7c15u;
}

/* Mix in how long bytes are, and their first or last ones. */
static uint64_t mix_bytes(uint64_t hash, const uint8_t *bytes, uint64_t n, bool is_end) {
    enum { FEW = 16 };
    uint64_t words[FEW / 8] = {0}, n_mixed = n < FEW ? n : FEW;
    memcpy(words, bytes + (is_end ? n - n_mixed : 0), n_mixed);
    return mix(mix(mix(hash, n), words[0]), words[1]);
}

static uint64_t mix_text(uint64_t hash, const struct cushim_python_layout *layout, uint64_t text) {
    const uint8_t *object = (const uint8_t *)(uintptr_t)text;
    uint32_t state = text ? half_at(object, TEXT_STATE) : 0;
    if (!(state & STATE_COMPACT)) /* its characters are elsewhere */
        return hash;
    uint64_t n_bytes = word_at(object, TEXT_LENGTH) * (state >> STATE_KIND_SHIFT & STATE_KIND);
    return mix_bytes(hash, object + (state & STATE_ASCII ? layout->ascii_text : layout->text),
                     n_bytes, true);
}

/*
 * What makes a code object another one at the same address: its texts and its table.  Their
 * addresses say less, because what a program compiles, runs and drops often comes to the same ones.
 * It is read directly; otherwise 0.
 */
static uint64_t mark_of(const struct cushim_python_cache *cache,
                        const struct cushim_python_layout *layout, const uint8_t *object) {
    uint64_t lines = word_at(object, layout->code_lines), hash = 1;
    if (!cache->is_direct || !lines)
        return 0;
    const uint8_t *table = (const uint8_t *)(uintptr_t)lines;
    hash = mix_bytes(hash, table + BYTES_DATA, word_at(table, SIZED_SIZE), false);
    hash = mix_text(hash, layout, word_at(object, layout->code_file));
    return mix_text(hash, layout, word_at(object, layout->code_function));
}

static bool is_same(const struct cushim_python_known *known,
                    const struct cushim_python_layout *layout, const uint8_t *object) {
    return known->function == word_at(object, layout->code_function) &&
           known->file == word_at(object, layout->code_file) &&
           known->lines == word_at(object, layout->code_lines) &&
           known->first_line == half_at(object, layout->code_first_line);
}

/* Is it code that a program may have compiled just now, to run it once? */
static bool is_fleeting(uint64_t frame) {
    static const char module[] = "<module>\n";
    const struct cushim_python_line *line = cushim_python_line(frame);
    return line && line->n_text >= sizeof module - 1 &&
           memcmp(line->text, module, sizeof module - 1) == 0;
}

/* Look at a code object that was read.  False: it is none. */
static bool see(const struct cushim_python *python, const struct cushim_python_cache *cache,
                struct cushim_python_known *known, const struct cushim_python_place *place,
                const uint8_t *object) {
    const struct cushim_python_layout *layout = python->layout;
    bool is_code = word_at(object, OBJECT_TYPE) == python->code_type;
    uint64_t mark = is_code ? mark_of(cache, layout, object) : 0;
    bool is_known = is_code && known->place.code == place->code && known->place.at == place->at &&
                    known->mark == mark && is_same(known, layout, object) &&
                    (cache->is_direct || !known->is_fleeting);
    known->place = *place;
    if (is_known)
        return true;
    known->mark = mark;
    known->function = word_at(object, layout->code_function);
    known->file = word_at(object, layout->code_file);
    known->lines = word_at(object, layout->code_lines);
    known->first_line = half_at(object, layout->code_first_line);
    known->line = is_code ? learn(python, object, place) : 0;
    known->is_fleeting = is_fleeting(known->line);
    return is_code;
}

/*
 * A frame that is at the same address, in the same code and at the same instruction as before has
 * the same line; the code of others is read together.  Where nothing is a system call all of it is
 * looked at.
 */
static unsigned lines_of(const struct cushim_python *python, struct cushim_python_cache *cache,
                         const struct cushim_python_place places[], unsigned n, uint64_t lines[],
                         bool *is_whole) {
    struct part parts[CUSHIM_PYTHON_LINES];
    unsigned of[CUSHIM_PYTHON_LINES], n_parts = 0, n_read = 0, n_lines = 0;
    for (unsigned i = 0; i < n; i++) {
        const struct cushim_python_known *known = known_of(cache, &places[i]);
        lines[i] = known->line;
        if (cache->is_direct) {
            const void *object = (const void *)(uintptr_t)places[i].code;
            see(python, cache, known_of(cache, &places[i]), &places[i], object);
            lines[i] = known->line;
        } else if (known->is_fleeting || memcmp(&known->place, &places[i], sizeof *places) != 0) {
            parts[n_parts] = (struct part){places[i].code, cache->objects[n_parts], CODE_BYTES};
            of[n_parts++] = i;
        }
    }
    if (n_parts)
        n_read = (unsigned)read_some(parts, n_parts);
    *is_whole &= n_read == n_parts;
    for (unsigned k = 0; k < n_parts; k++) {
        struct cushim_python_known *known = known_of(cache, &places[of[k]]);
        bool is_code = k < n_read && see(python, cache, known, &places[of[k]], cache->objects[k]);
        *is_whole &= is_code;
        lines[of[k]] = is_code ? known->line : 0;
    }
    for (unsigned i = 0; i < n; i++) {
        if (lines[i])
            lines[n_lines++] = lines[i];
    }
    return n_lines;
}

/* Is the caller the thread that started the interpreter and will end it: the process's first, with
 * the oldest of the thread states? */
static bool is_first(uint64_t thread) {
    uint64_t older;
    return syscall(SYS_gettid) == getpid() && read_at(thread + THREAD_NEXT, &older, sizeof older) &&
           !older;
}

unsigned cushim_python_lines(const struct cushim_python *python, struct cushim_python_cache *cache,
                             uint64_t lines[CUSHIM_PYTHON_LINES]) {
    struct cushim_python_place places[CUSHIM_PYTHON_LINES];
    uint64_t thread = python->layout ? (uintptr_t)python->thread() : 0;
    bool is_whole;
    int saved_errno = errno;
    if (!thread)
        return 0;
    if (thread != cache->thread) {
        cache->thread = thread;
        cache->is_first = is_first(thread);
        cache->is_direct = false;
    }
    unsigned n = walk(python, cache, places, CUSHIM_PYTHON_LINES, &is_whole);
    n = lines_of(python, cache, places, n, lines, &is_whole);
    cache->is_direct = cache->is_direct || (cache->is_first && is_whole && n);
    errno = saved_errno;
    return n;
}
