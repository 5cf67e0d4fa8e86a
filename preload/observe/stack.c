#include "preload/observe/stack.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#include "base/log.h"
#include "preload/resolve/elf.h" /* dladdr1 is weak */
#include "report/frame.h"
#include "report/library.h"
#include "trace/python.h"

#if defined(__x86_64__)
enum { TRIED = 1 }; /* the words of a frame that may have its return address, from its end on */
#else
enum { TRIED = 1 << 12 };
#endif
enum { SETS = 64, WAYS = 4 }; /* of the stacks that a thread keeps */
enum { MOST_SEEN = 64 };      /* frames, of a stack that may be without Python */
enum { MOST_NATIVE = CUSHIM_BACKTRACE_FRAMES - CUSHIM_PYTHON_LINES }; /* above lines of Python */

struct kept_stack {
    uintptr_t place; /* of our own frame; 0: the row is free */
    unsigned n;
    bool is_without_python; /* from the thread's start on, no frame is the interpreter's */
    void *frames[MOST_SEEN], **words[MOST_SEEN];
};

/* Of a thread, in memory of its own. */
struct cache {
    bool is_busy; /* a signal handler may come between */
    unsigned n_kept;
    struct kept_stack kept[SETS][WAYS];
    struct cushim_python_cache python;
};

/* Where an object's code and data lie. */
struct span {
    uintptr_t from, until;
};

static _Thread_local struct cache *cache_of_thread __attribute__((tls_model("initial-exec")));
static pthread_key_t thread_end;
static struct cushim_python python;
static struct span own, interpreter, libc;
/* Of the library that backtrace(3) loads; NULL: it has none */
static __typeof__(&_Unwind_Backtrace) unwind;
static __typeof__(&_Unwind_GetIP) frame_of;
static __typeof__(&_Unwind_GetCFA) place_of;

static bool is_in(const struct span *span, const void *address) {
    return (uintptr_t)address - span->from < span->until - span->from;
}

/* ---- compiled code ---- */

/* Return addresses lie between what sanitizers guard. */
#define OUTSIDE __attribute__((no_sanitize("address")))

/* A stack while it is unwound. */
struct unwinding {
    struct kept_stack *kept;
    bool is_own, is_whole; /* is_whole: each return address has its word */
    uintptr_t place;
};

static OUTSIDE _Unwind_Reason_Code see_frame(struct _Unwind_Context *context, void *argument) {
    struct unwinding *unwinding = argument;
    struct kept_stack *kept = unwinding->kept;
    void *frame = (void *)frame_of(context), **word = (void **)place_of(context);
    if (unwinding->is_own) { /* the function that asked */
        unwinding->is_own = false;
        return _URC_NO_REASON;
    }
    if (!frame || kept->n >= (kept->is_without_python ? MOST_SEEN : CUSHIM_BACKTRACE_NATIVE))
        return _URC_END_OF_STACK;
    bool is_word = false;
    for (int i = 0; i < TRIED && !is_word && (uintptr_t)word > unwinding->place; i++)
        is_word = *--word == frame;
    unwinding->is_whole &= is_word;
    unwinding->place = place_of(context);
    kept->is_without_python &= !is_in(&interpreter, frame);
    kept->frames[kept->n] = frame;
    kept->words[kept->n++] = word;
    return _URC_NO_REASON;
}

static OUTSIDE bool is_still(const struct kept_stack *kept, uintptr_t place) {
    if (kept->place != place)
        return false;
    for (unsigned i = 0; i < kept->n; i++) {
        if (*kept->words[i] != kept->frames[i])
            return false;
    }
    return true;
}

static __attribute__((noinline)) const struct kept_stack *native_of(struct cache *cache) {
    uintptr_t place = (uintptr_t)__builtin_frame_address(0);
    struct kept_stack *set = cache->kept[place / 16 % SETS];
    for (int i = 0; i < WAYS; i++) {
        if (is_still(&set[i], place))
            return &set[i];
    }
    struct kept_stack *kept = &set[cache->n_kept++ % WAYS];
    struct unwinding unwinding = {kept, true, true, place};
    kept->n = 0;
    kept->is_without_python = python.layout;
    unwind(see_frame, &unwinding);
    kept->is_without_python &=
        kept->n && kept->n < MOST_SEEN && is_in(&libc, kept->frames[kept->n - 1]);
    kept->place = unwinding.is_whole ? place : 0;
    return kept;
}

/* ---- both ---- */

/* Frames above the last one of ours are left out: a request that goes through the runtime to a
 * second of our functions is of the same place as one that the first function serves. */
static void take(struct cache *cache, struct cushim_backtrace *stack) {
    enum { DEPTH = 12 };
    const struct kept_stack *kept = native_of(cache);
    uint64_t lines[CUSHIM_PYTHON_LINES];
    unsigned n = kept->n < CUSHIM_BACKTRACE_NATIVE ? kept->n : CUSHIM_BACKTRACE_NATIVE;
    unsigned first = 0, n_lines = kept->is_without_python
                                      ? 0
                                      : cushim_python_lines(&python, &cache->python, lines);
    for (unsigned i = 0; i < DEPTH && i + 1 < n; i++)
        first = is_in(&own, kept->frames[i]) ? i + 1 : first;
    stack->n_frames = 0;
    for (unsigned i = first; i < n; i++) {
        if (n_lines && (stack->n_frames == MOST_NATIVE || is_in(&interpreter, kept->frames[i])))
            break;
        stack->frames[stack->n_frames++] = kept->frames[i];
    }
    for (unsigned i = 0; i < n_lines; i++)
        stack->frames[stack->n_frames++] = (void *)(uintptr_t)lines[i];
}

static void drop_cache(void *cache) {
    cache_of_thread = NULL;
    munmap(cache, sizeof(struct cache));
}

/* NULL: there is no memory for one. */
static struct cache *cache_of(void) {
    int saved_errno = errno;
    if (cache_of_thread)
        return cache_of_thread;
    void *cache = mmap(NULL, sizeof(struct cache), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (cache != MAP_FAILED && pthread_setspecific(thread_end, cache) == 0)
        cache_of_thread = cache;
    else if (cache != MAP_FAILED)
        munmap(cache, sizeof(struct cache));
    errno = saved_errno;
    return cache_of_thread;
}

static void take_stack(struct cushim_backtrace *stack) {
    struct cache *cache = cache_of();
    if (!cache || cache->is_busy) {
        cushim_backtrace_native(stack);
        return;
    }
    cache->is_busy = true;
    atomic_signal_fence(memory_order_seq_cst);
    take(cache, stack);
    atomic_signal_fence(memory_order_seq_cst);
    cache->is_busy = false;
}

/* ---- the process ---- */

/* The object that contains an address. */
static struct span span_of(const void *address) {
    Dl_info info;
    struct link_map *map = NULL;
    struct span span = {0, 0};
    if (!dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return span;
    const Elf64_Ehdr *head = info.dli_fbase;
    const Elf64_Phdr *parts = (const void *)((const char *)head + head->e_phoff);
    span.from = (uintptr_t)head;
    for (int i = 0; i < head->e_phnum; i++) {
        uintptr_t end = map->l_addr + parts[i].p_vaddr + parts[i].p_memsz;
        if (parts[i].p_type == PT_LOAD && end > span.until)
            span.until = end;
    }
    return span;
}

static void *symbol_of_python(const char *name) {
    static struct cushim_object object;
    if (!object.dynamic && !cushim_object_list("", "PyGILState_GetThisThreadState", &object, 1))
        return NULL;
    return cushim_object_symbol(&object, name);
}

static void find_unwinder(void) {
    struct cushim_object object;
    if (!cushim_object_list("libgcc_s.so", "_Unwind_Backtrace", &object, 1))
        return;
    void *functions[] = {cushim_object_symbol(&object, "_Unwind_Backtrace"),
                         cushim_object_symbol(&object, "_Unwind_GetIP"),
                         cushim_object_symbol(&object, "_Unwind_GetCFA")};
    memcpy(&unwind, &functions[0], sizeof unwind);
    memcpy(&frame_of, &functions[1], sizeof frame_of);
    memcpy(&place_of, &functions[2], sizeof place_of);
}

static void find_python(void) {
    struct cushim_object object;
    struct cushim_python found;
    if (!cushim_python_find(&found, symbol_of_python))
        log_info("stacks", "no lines of Python: those of 3.10 to 3.14 can be read");
    if (found.layout) {
        interpreter = span_of((const void *)found.code_type);
        if (cushim_object_list("libc.so", "pthread_create", &object, 1))
            libc = span_of(cushim_object_symbol(&object, "pthread_create"));
    }
    python = found;
}

void cushim_stack_begin(bool has_lines) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const char here;
    struct cushim_backtrace stack;
    if (cushim_backtrace_taker || pthread_mutex_trylock(&lock) != 0)
        return;
    cushim_backtrace_native(&stack); /* because the first one allocates */
    own = span_of(&here);
    find_unwinder();
    if (has_lines)
        find_python();
    if (unwind && frame_of && place_of && !cushim_backtrace_taker &&
        pthread_key_create(&thread_end, drop_cache) == 0)
        cushim_backtrace_taker = take_stack;
    pthread_mutex_unlock(&lock);
}

void cushim_stack_in_child(void) {
    if (cache_of_thread)
        cache_of_thread->python.thread = 0; /* another thread may be the first now */
}

/* ---- a stack for the page ---- */

static void put_end(char *to, size_t to_bytes, const char *from, size_t n) {
    size_t n_kept = n < to_bytes ? n : to_bytes - 1;
    memcpy(to, from + n - n_kept, n_kept);
}

/* The name by which others find the file.  The loader has no name for the program, and argv's may
 * be any.  Of a long path the end is kept, because it has the name of the file. */
static void name_file(const struct link_map *map, const char *known_as,
                      struct cushim_page_frame *frame) {
    char path[PATH_MAX];
    bool is_program = map && !*map->l_name;
    ssize_t n = is_program ? readlink("/proc/self/exe", path, sizeof path - 1) : -1;
    if (n > 0)
        path[n] = 0;
    bool has_path = n > 0 || (*known_as != '/' && realpath(known_as, path));
    const char *name = has_path ? path : known_as;
    put_end(frame->file, sizeof frame->file, name, strlen(name));
}

/* Where a line's text has the name of its file. */
static unsigned file_in(const struct cushim_python_line *line) {
    const char *end = memchr(line->text, '\n', line->n_text);
    return end ? (unsigned)(end - line->text) + 1 : line->n_text;
}

/* The C++ library of the program has the function, if it has a library of C++. */
static void name_function(const char *symbol, struct cushim_page_frame *frame) {
    struct cushim_object object;
    char *(*demangle)(const char *, char *, size_t *, int *), *name = NULL;
    bool is_mangled = strncmp(symbol, "_Z", 2) == 0;
    if (is_mangled && cushim_object_list("libstdc++.so", "__cxa_demangle", &object, 1)) {
        void *function = cushim_object_symbol(&object, "__cxa_demangle");
        memcpy(&demangle, &function, sizeof demangle);
        name = function ? demangle(symbol, NULL, NULL, NULL) : NULL;
    }
    if (name)
        cushim_frame_shorten(name, sizeof frame->function - 1);
    snprintf(frame->function, sizeof frame->function, "%s", name ? name : symbol);
    free(name);
}

static void describe_frame(void *address, struct cushim_page_frame *frame) {
    struct link_map *map = NULL;
    Dl_info info;
    const struct cushim_python_line *line = cushim_python_line((uintptr_t)address);
    *frame = (struct cushim_page_frame){.offset = (uint64_t)address};
    if (line) {
        unsigned file = file_in(line);
        frame->offset = line->number | CUSHIM_PAGE_PYTHON;
        put_end(frame->file, sizeof frame->file, line->text + file, line->n_text - file);
        put_end(frame->function, sizeof frame->function, line->text, file ? file - 1 : 0);
        return;
    }
    if (!dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || !info.dli_fname)
        return;
    frame->offset -= map ? map->l_addr : 0;
    name_file(map, info.dli_fname, frame);
    name_function(info.dli_sname ? info.dli_sname : "", frame);
}

/* Is the address in the C library, and in this function of it?  NULL: in any. */
static bool is_in_libc(const void *address, const char *function) {
    static const char name[] = "libc.so";
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname &&
           strncmp(basename(info.dli_fname), name, sizeof name - 1) == 0 &&
           (!function || (info.dli_sname && strcmp(info.dli_sname, function) == 0));
}

int cushim_stack_end(const struct cushim_backtrace *stack) {
    int end = stack->n_frames, least = cushim_backtrace_first(stack) + 1;
    if (end > least && is_in_libc(stack->frames[end - 2], "__libc_start_main"))
        end--;
    while (end > least && is_in_libc(stack->frames[end - 1], NULL))
        end--;
    return end;
}

/* The page keeps few: of an allocator the first frame, of a package of Python two lines in a row,
 * of a runtime none. */
static unsigned describe(const struct cushim_backtrace *stack, struct cushim_page_frame frames[],
                         unsigned most, bool is_all) {
    enum cushim_library_kind last = CUSHIM_LIBRARY_PROGRAM;
    char name[CUSHIM_LIBRARY_BYTES];
    bool has_lines = (uintptr_t)stack->frames[stack->n_frames - 1] & CUSHIM_PYTHON_BIT;
    unsigned n = 0, n_of_package = 0, most_native = has_lines ? most / 2 : most;
    int end = cushim_stack_end(stack);
    for (int i = cushim_backtrace_first(stack); i < end && n < most; i++) {
        bool is_line = (uintptr_t)stack->frames[i] & CUSHIM_PYTHON_BIT;
        if (n >= most_native && !is_line)
            continue;
        describe_frame(stack->frames[i], &frames[n]);
        enum cushim_library_kind kind = cushim_library_of(frames[n].file, name);
        n_of_package = is_line && kind == CUSHIM_LIBRARY_PACKAGE ? n_of_package + 1 : 0;
        n += is_all || (n_of_package <= 2 && kind != CUSHIM_LIBRARY_RUNTIME &&
                        (kind != CUSHIM_LIBRARY_ALLOCATOR || kind != last));
        last = kind;
    }
    return n;
}

unsigned cushim_stack_describe(const struct cushim_backtrace *stack,
                               struct cushim_page_frame frames[], unsigned most) {
    unsigned n = stack->n_frames ? describe(stack, frames, most, false) : 0;
    return n || !stack->n_frames ? n : describe(stack, frames, most, true);
}

void cushim_stack_text(const struct cushim_backtrace *stack, int i,
                       char text[CUSHIM_BACKTRACE_FRAME_BYTES]) {
    const struct cushim_python_line *line = cushim_python_line((uintptr_t)stack->frames[i]);
    unsigned file = line ? file_in(line) : 0;
    if (line)
        snprintf(text, CUSHIM_BACKTRACE_FRAME_BYTES, "%.*s  %.*s:%u", file ? (int)file - 1 : 0,
                 line->text, (int)(line->n_text - file), line->text + file, line->number);
    else
        cushim_backtrace_text(stack, i, text);
}
