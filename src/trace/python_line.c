#include "trace/python_line.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

enum { HEAD_BYTES = TEXT_STATE + 4 }; /* of a str */
enum { UNIT_BYTES = 2 };              /* of code */
enum { MOST_TEXT = 4096, MOST_TABLE = 1 << 20 };

atomic_int cushim_python_process;

size_t cushim_python_read(const struct part *parts, size_t n) {
    struct iovec ours[MOST_PARTS], theirs[MOST_PARTS];
    size_t i = 0;
    do {
        ours[i] = (struct iovec){parts[i].to, parts[i].n_bytes};
        theirs[i] = (struct iovec){(void *)(uintptr_t)parts[i].at, parts[i].n_bytes};
    } while (++i < n);
    ssize_t n_bytes = process_vm_readv(cushim_python_process, ours, n, theirs, n, 0);
    size_t n_read = 0;
    while (n_read < n && n_bytes >= (ssize_t)parts[n_read].n_bytes)
        n_bytes -= (ssize_t)parts[n_read++].n_bytes;
    return n_read;
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

uint64_t cushim_python_learn(const struct cushim_python_layout *layout, const uint8_t *object,
                             const struct cushim_python_place *place) {
    uint8_t heads[3][HEAD_BYTES];
    struct cushim_python_line line = {.n_text = 0};
    struct text texts[2];
    struct table table = {0};
    uint64_t function = word_at(object, layout->code_function),
             file = word_at(object, layout->code_file), lines = word_at(object, layout->code_lines);
    struct part parts[3] = {{function, heads[0], HEAD_BYTES},
                            {file, heads[1], HEAD_BYTES},
                            {lines, heads[2], BYTES_DATA}};
    if (cushim_python_read(parts, 3) < 3)
        return 0;
    uint64_t n_table = word_at(heads[2], SIZED_SIZE);
    n_table = n_table < MOST_TABLE ? n_table : 0;
    table.n = n_table < TABLE_BYTES ? n_table : TABLE_BYTES;
    table.at = lines + BYTES_DATA + table.n;
    table.end = lines + BYTES_DATA + n_table;
    parts[0] = part_of(&texts[0], layout, function, heads[0], MOST_CHARACTERS * 2 / 3);
    parts[1] = part_of(&texts[1], layout, file, heads[1], MOST_CHARACTERS);
    parts[2] = (struct part){lines + BYTES_DATA, table.bytes, table.n};
    if (cushim_python_read(parts, 3) < 3)
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
