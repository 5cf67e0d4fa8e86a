#include "trace/python.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trace/python_line.h"

enum { THREAD_NEXT = 8, CODE_BYTES = CUSHIM_PYTHON_CODE_BYTES };
enum { OWNED_BY_CALLER = 3 };    /* from here on a frame stands for C code that entered Python */
enum { TAGS = 3 };               /* bits of a pointer to code, of 3.14 */
enum { LEAST_CANDIDATE = 0xc0 }; /* the layout of a version is final from its first candidate on */

static const struct cushim_python_layout layouts[] = {
    {0x030a, false, 24, 0, 100, 32, 24, 96, 0, 40, 104, 112, 120, 0, 48, 72},
    {0x030b, true, 56, 8, 70, 32, 48, 56, 69, 72, 112, 128, 136, 184, 48, 72},
    {0x030c, true, 56, 0, 71, 0, 8, 56, 70, 68, 112, 128, 136, 192, 40, 56},
    {0x030d, false, 72, 0, 71, 0, 8, 56, 70, 68, 112, 128, 136, 200, 40, 56},
    {0x030e, false, 72, 0, 75, 0, 8, 56, 74, 68, 112, 128, 136, 208, 40, 56},
};

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
    cushim_python_process = getpid();
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

/* ---- frames ---- */

static uint64_t page_of(uint64_t address) {
    return address & -(uint64_t)CUSHIM_PYTHON_PAGE_BYTES;
}

/* The page of an address and those before it, n in all, as one part, because the kernel looks each
 * part up.  Its address is 0 if fewer than n pages lie below. */
enum { PAGES = CUSHIM_PYTHON_PAGES, PAGE = CUSHIM_PYTHON_PAGE_BYTES };
static struct part pages_to(struct cushim_python_cache *cache, uint64_t address, unsigned n) {
    uint64_t page = page_of(address), before = (n - 1) * (uint64_t)PAGE;
    cache->from = page > before ? page - before : 0;
    cache->until = cache->from + n * (uint64_t)PAGE;
    return (struct part){cache->from, cache->pages + (PAGES - n) * PAGE, n * (size_t)PAGE};
}

static void find_stack(struct cushim_python_cache *cache) {
    pthread_attr_t attributes;
    void *start;
    size_t n_bytes;
    cache->stack = cache->stack_end = 0;
    if (cache->is_first || pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    pthread_attr_getstack(&attributes, &start, &n_bytes);
    pthread_attr_destroy(&attributes);
    cache->stack = (uintptr_t)start;
    cache->stack_end = cache->stack + n_bytes;
}

/* Memory of the callers' on the thread's stack stays while it is here; a fiber has another stack.
 */
static bool is_on_stack(const struct cushim_python_cache *cache, uint64_t at) {
    uint64_t here = (uintptr_t)__builtin_frame_address(0);
    return here >= cache->stack && at > here && at < cache->stack_end;
}

/* Memory of the interpreter: itself, or its page that was read, because frames lie together; NULL:
 * there is none.  From 3.12 on a frame that stands for C code lies on the stack. */
static const uint8_t *memory_at(struct cushim_python_cache *cache, uint64_t at, size_t n_bytes) {
    uint64_t end = at + n_bytes;
    if (cache->is_direct || is_on_stack(cache, at))
        return (const uint8_t *)(uintptr_t)at;
    if (end < at)
        return NULL;
    if (at < cache->from || end > cache->until) {
        struct part part =
            pages_to(cache, end - 1, 1 + (unsigned)((page_of(end - 1) - page_of(at)) / PAGE));
        if (!cushim_python_read(&part, 1))
            return NULL;
    }
    return cache->pages + PAGES * PAGE - (cache->until - at);
}

/* The innermost frame.  With it comes the memory that had the frames the last time. */
static bool find_frame(const struct cushim_python_layout *layout, struct cushim_python_cache *cache,
                       uint64_t *frame) {
    struct part parts[2] = {{cache->thread + layout->thread_frame, frame, sizeof *frame}};
    size_t n = 1;
    if (cache->is_direct) {
        *frame = word_at((const uint8_t *)(uintptr_t)cache->thread, layout->thread_frame);
    } else {
        if (cache->n_pages)
            parts[n++] = pages_to(cache, cache->top - 1, cache->n_pages);
        n = cushim_python_read(parts, n);
        if (n < 2)
            cache->from = cache->until = 0;
    }
    if (!n || !layout->has_cframe)
        return n;
    const uint8_t *cframe = memory_at(cache, *frame + layout->cframe_frame, sizeof *frame);
    if (cframe)
        *frame = word_at(cframe, 0);
    return cframe;
}

/* The place of each frame in its code, the innermost first; `is_whole` if every frame was read. */
static unsigned walk(const struct cushim_python *python, struct cushim_python_cache *cache,
                     struct cushim_python_place places[], unsigned most, bool *is_whole) {
    enum { LOOKED_AT = 4 };
    const struct cushim_python_layout *layout = python->layout;
    uint64_t at = 0;
    unsigned n = 0;
    *is_whole = find_frame(layout, cache, &at);
    cache->top = at + layout->frame_bytes;
    cache->n_pages = *is_whole && at != 0;
    for (unsigned i = 0; *is_whole && at && i < LOOKED_AT * most && n < most; i++) {
        const uint8_t *frame = memory_at(cache, at, layout->frame_bytes);
        *is_whole = frame;
        if (!frame)
            break;
        bool is_code = !layout->frame_owner || frame[layout->frame_owner] < OWNED_BY_CALLER;
        uint64_t code = word_at(frame, layout->frame_code) & ~(uint64_t)TAGS;
        uint64_t unit = layout->code_start ? word_at(frame, layout->frame_at)
                                           : half_at(frame, layout->frame_at);
        if (is_code && code)
            places[n++] = (struct cushim_python_place){code, unit, at};
        uint64_t n_below = (page_of(cache->top - 1) - page_of(at)) / PAGE;
        if (n_below >= cache->n_pages && n_below < PAGES)
            cache->n_pages = (unsigned)n_below + 1;
        at = word_at(frame, layout->frame_previous);
    }
    return n;
}

static bool is_of(const struct cushim_python_cache *cache, const struct cushim_python_known *known,
                  const struct cushim_python_place *place) {
    return known->place.code == place->code && known->place.at == place->at &&
           (cache->is_direct || known->place.frame == place->frame);
}

/* The row of a place, or a row for it.  Each place may lie in two rows, because two places of one
 * stack that had only one row would push each other out, and be read again each time. */
static struct cushim_python_known *known_of(struct cushim_python_cache *cache,
                                            const struct cushim_python_place *place) {
    uint64_t frame = cache->is_direct ? 0 : place->frame; /* each call of a recursion */
    uint64_t hash = (place->code ^ place->at << 7 ^ frame << 13) * 0x9e3779b97f4a7c15u;
    struct cushim_python_known *first = &cache->known[hash >> 32 & (CUSHIM_PYTHON_KNOWN - 2)];
    if (is_of(cache, first, place) || is_of(cache, first + 1, place))
        return first + !is_of(cache, first, place);
    return first + (first->place.code && (!first[1].place.code || hash >> 63));
}

static uint64_t mix(uint64_t hash, uint64_t word) {
    return (hash ^ word) * 0x9e3779b97f4a7c15u;
}

/* Mix in how long bytes are, and their last ones; of a few bytes, what lies before them in their
 * object. */
static uint64_t mix_bytes(uint64_t hash, const uint8_t *bytes, uint64_t n) {
    const uint8_t *last = bytes + n - 2 * sizeof hash;
    return mix(mix(mix(hash, n), word_at(last, 0)), word_at(last, sizeof hash));
}

static uint64_t mix_text(uint64_t hash, const struct cushim_python_layout *layout, uint64_t text) {
    const uint8_t *object = (const uint8_t *)(uintptr_t)text;
    uint32_t state = text ? half_at(object, TEXT_STATE) : 0;
    if (!(state & STATE_COMPACT)) /* its characters are elsewhere */
        return hash;
    return mix_bytes(hash, object + (state & STATE_ASCII ? layout->ascii_text : layout->text),
                     word_at(object, TEXT_LENGTH) * (state >> STATE_KIND_SHIFT & STATE_KIND));
}

/*
 * What makes a code object another one at the same address: its texts and its table.  Their
 * addresses say less, because what a program compiles, runs and drops often comes to the same ones,
 * but only what is read directly has more.
 */
static uint64_t mark_of(const struct cushim_python_cache *cache,
                        const struct cushim_python_layout *layout, const uint8_t *object) {
    uint64_t function = word_at(object, layout->code_function),
             file = word_at(object, layout->code_file), lines = word_at(object, layout->code_lines),
             mark = mix(mix(mix(half_at(object, layout->code_first_line), function), file), lines);
    if (!cache->is_direct || !lines)
        return mark;
    const uint8_t *table = (const uint8_t *)(uintptr_t)lines;
    mark = mix_bytes(mark, table + BYTES_DATA, word_at(table, SIZED_SIZE));
    return mix_text(mix_text(mark, layout, file), layout, function);
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
                    known->mark == mark && (cache->is_direct || !known->is_fleeting);
    known->place = *place;
    if (is_known)
        return true;
    known->mark = mark;
    known->line = is_code ? cushim_python_learn(layout, object, place) : 0;
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
    unsigned of[CUSHIM_PYTHON_LINES], n_parts = 0, n_lines = 0;
    for (unsigned i = 0; i < n; i++) {
        struct cushim_python_known *known = known_of(cache, &places[i]);
        if (cache->is_direct) {
            see(python, cache, known, &places[i], (const uint8_t *)(uintptr_t)places[i].code);
        } else if (known->is_fleeting || !is_of(cache, known, &places[i])) {
            parts[n_parts] = (struct part){places[i].code, cache->objects[n_parts], CODE_BYTES};
            of[n_parts++] = i;
        }
        lines[i] = known->line;
    }
    unsigned n_read = n_parts ? (unsigned)cushim_python_read(parts, n_parts) : 0;
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
        cushim_python_process = getpid();
        cache->is_first = is_first(thread);
        cache->is_direct = false;
        find_stack(cache);
    }
    unsigned n = walk(python, cache, places, CUSHIM_PYTHON_LINES, &is_whole);
    n = lines_of(python, cache, places, n, lines, &is_whole);
    cache->is_direct = cache->is_direct || (cache->is_first && is_whole && n);
    errno = saved_errno;
    return n;
}
