#include "trace/python.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* The same in all known versions. */
enum { OBJECT_TYPE = 8, SIZED_SIZE = 16, BYTES_DATA = 32 };
enum { CODE_FILE = 112, CODE_FUNCTION = 128, CODE_LINES = 136 };
enum { TEXT_LENGTH = 16, TEXT_STATE = 32 };
/* The bytes read of a frame, of a code object and of a str. */
enum { FRAME_BYTES = 72, CODE_BYTES = CODE_LINES + 8, HEAD_BYTES = TEXT_STATE + 4 };
enum { STATE_KIND_SHIFT = 2, STATE_KIND = 7, STATE_COMPACT = 0x20, STATE_ASCII = 0x40 };
enum { UNIT_BYTES = 2 };      /* of code */
enum { OWNED_BY_CALLER = 3 }; /* a frame that stands for the C code that entered the interpreter */
enum { MOST_TEXT = 4096, MOST_TABLE = 1 << 20 };

static const struct cushim_python_layout layouts[] = {
    {0x030b, true, 56, 8, 32, 48, 56, 69, 72, 184, 48, 72},
    {0x030c, true, 56, 0, 0, 8, 56, 70, 68, 192, 40, 56},
    {0x030d, false, 72, 0, 0, 8, 56, 70, 68, 200, 40, 56},
};

/* Memory that may be missing, in several parts by one call. */
struct part {
    uint64_t at;
    void *to;
    size_t n_bytes;
};

static bool read_parts(const struct part *parts, size_t n) {
    enum { MOST = 3 };
    struct iovec ours[MOST], theirs[MOST];
    size_t n_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        ours[i] = (struct iovec){parts[i].to, parts[i].n_bytes};
        theirs[i] = (struct iovec){(void *)(uintptr_t)parts[i].at, parts[i].n_bytes};
        n_bytes += parts[i].n_bytes;
    }
    return process_vm_readv(getpid(), ours, n, theirs, n, 0) == (ssize_t)n_bytes;
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

bool cushim_python_find(struct cushim_python *python, void *(*look_up)(const char *name)) {
    struct {
        char cookie[8];
        uint64_t version, has_no_lock;
    } offsets; /* from 3.13 on */
    const unsigned long *version = look_up("Py_Version");
    void *thread = look_up("PyGILState_GetThisThreadState");
    uint64_t runtime = (uintptr_t)look_up("_PyRuntime");
    *python = (struct cushim_python){.code_type = (uintptr_t)look_up("PyCode_Type")};
    memcpy(&python->thread, &thread, sizeof thread);
    if (!thread)
        return true;
    for (size_t i = 0; version && i < sizeof layouts / sizeof *layouts; i++) {
        if (*version >> 16 == layouts[i].version)
            python->layout = &layouts[i];
    }
    if (!python->code_type)
        python->layout = NULL;
    if (python->layout && !python->layout->has_cframe &&
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

/* ---- frames ---- */

static uint64_t hash_of(const struct cushim_python_line *line) {
    uint64_t hash = 0xcbf29ce484222325u ^ line->number;
    for (uint32_t i = 0; i < line->n_text; i++)
        hash = (hash ^ (uint8_t)line->text[i]) * 0x100000001b3u;
    return hash | CUSHIM_PYTHON_BIT;
}

/* False: it is no frame of Python, but of its caller. */
static bool read_line(struct cushim_python_line *line, const struct cushim_python *python,
                      const uint8_t *frame) {
    const struct cushim_python_layout *layout = python->layout;
    uint8_t object[CODE_BYTES], heads[3][HEAD_BYTES];
    struct text texts[2];
    struct table table = {0};
    uint64_t code = word_at(frame, layout->frame_code), at = word_at(frame, layout->frame_at);
    if (frame[layout->frame_owner] == OWNED_BY_CALLER || !read_at(code, object, sizeof object) ||
        word_at(object, OBJECT_TYPE) != python->code_type)
        return false;
    uint64_t function = word_at(object, CODE_FUNCTION), file = word_at(object, CODE_FILE),
             lines = word_at(object, CODE_LINES);
    struct part parts[3] = {{function, heads[0], HEAD_BYTES},
                            {file, heads[1], HEAD_BYTES},
                            {lines, heads[2], BYTES_DATA}};
    if (!read_parts(parts, 3))
        return false;
    uint64_t n_table = word_at(heads[2], SIZED_SIZE);
    n_table = n_table < MOST_TABLE ? n_table : 0;
    table.n = n_table < TABLE_BYTES ? n_table : TABLE_BYTES;
    table.at = lines + BYTES_DATA + table.n;
    table.end = lines + BYTES_DATA + n_table;
    parts[0] = part_of(&texts[0], layout, function, heads[0], MOST_CHARACTERS * 2 / 3);
    parts[1] = part_of(&texts[1], layout, file, heads[1], MOST_CHARACTERS);
    parts[2] = (struct part){lines + BYTES_DATA, table.bytes, table.n};
    if (!read_parts(parts, 3))
        return false;
    uint32_t first = half_at(object, layout->code_first_line);
    uint64_t start = code + layout->code_start;
    line->number = at < start ? first : line_at(&table, first, (at - start) / UNIT_BYTES);
    if (!line->number) /* the interpreter's own, between a class and its __init__ */
        return false;
    line->n_text = 0;
    add_text(line, &texts[0]);
    if (line->n_text < sizeof line->text)
        line->text[line->n_text++] = '\n';
    add_text(line, &texts[1]);
    line->frame = hash_of(line);
    return true;
}

unsigned cushim_python_lines(const struct cushim_python *python,
                             struct cushim_python_line lines[CUSHIM_TRACE_FRAMES]) {
    enum { MOST_LOOKED_AT = 4 * CUSHIM_TRACE_FRAMES };
    const struct cushim_python_layout *layout = python->layout;
    uint64_t at = layout ? (uintptr_t)python->thread() : 0;
    uint8_t frame[FRAME_BYTES];
    unsigned n = 0;
    int saved_errno = errno;
    if (!at || !read_at(at + layout->thread_frame, &at, sizeof at) ||
        (layout->has_cframe && !read_at(at + layout->cframe_frame, &at, sizeof at)))
        at = 0;
    for (unsigned i = 0; at && i < MOST_LOOKED_AT && n < CUSHIM_TRACE_FRAMES; i++) {
        if (!read_at(at, frame, sizeof frame))
            break;
        n += read_line(&lines[n], python, frame);
        at = word_at(frame, layout->frame_previous);
    }
    errno = saved_errno;
    return n;
}
