/* Lines of Python: from objects as 3.12 and 3.10 have them, and from any other bytes. */
#include "trace/python.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/suite.h"

/* Objects of an interpreter, each field at the place that 3.12 has it. */
struct object {
    uint64_t words[32];
};

/* From the start of a page on: how many pages a stack has decides what is read. */
static _Alignas(4096) struct {
    struct object thread, cframe, frames[40], code, function, file, lines;
} world;

static uint64_t type_of_code;
static unsigned long version = 0x030c01f0;
static bool is_there = true;

static void *state(void) {
    return &world.thread;
}

static void *look_up(const char *name) {
    void *function = NULL;
    void *(*made)(void) = state;
    memcpy(&function, &made, sizeof function);
    if (!is_there)
        return NULL;
    return strcmp(name, "Py_Version") == 0    ? (void *)&version
           : strcmp(name, "PyCode_Type") == 0 ? (void *)&type_of_code
           : strcmp(name, "_PyRuntime") == 0  ? (void *)&world
                                              : function;
}

static void set(struct object *object, unsigned at, uint64_t value) {
    memcpy((char *)object + at, &value, sizeof value);
}

static uint64_t address(const void *of) {
    return (uintptr_t)of;
}

/* A str of one byte a character. */
static void set_text(struct object *object, const char *text, bool is_ascii) {
    set(object, 16, strlen(text));
    set(object, 32, 1 << 2 | 0x20 | (is_ascii ? 0x40 : 0));
    memcpy((char *)object + (is_ascii ? 40 : 56), text, strlen(text));
}

/* The thread runs `n` frames of one function, which begins in line 10, at a unit of its code. */
static void make_world(unsigned n, unsigned unit, const uint8_t *lines, size_t n_lines) {
    memset(&world, 0, sizeof world);
    set(&world.thread, 56, address(&world.cframe));
    set(&world.cframe, 0, n ? address(&world.frames[0]) : 0);
    for (unsigned i = 0; i < n; i++) {
        set(&world.frames[i], 0, address(&world.code));
        set(&world.frames[i], 8, i + 1 < n ? address(&world.frames[i + 1]) : 0);
        set(&world.frames[i], 56, address(&world.code) + 192 + 2 * unit);
    }
    set(&world.code, 8, address(&type_of_code));
    set(&world.code, 68, 10);
    set(&world.code, 112, address(&world.file));
    set(&world.code, 128, address(&world.function));
    set(&world.code, 136, address(&world.lines));
    set_text(&world.function, "Layer.forward", true);
    set_text(&world.file, "/train.py", true);
    set(&world.lines, 16, n_lines);
    memcpy((char *)&world.lines + 32, lines, n_lines);
}

static struct cushim_python_cache cache;
static struct cushim_python python;
static uint64_t found[CUSHIM_PYTHON_LINES];

/* With what the thread knows from before. */
static unsigned take_again(void) {
    return cushim_python_lines(&python, &cache, found);
}

static unsigned take(void) {
    memset(&cache, 0, sizeof cache);
    ck_assert(cushim_python_find(&python, look_up));
    return take_again();
}

static void assert_line(unsigned i, uint32_t number, const char *text) {
    const struct cushim_python_line *line = cushim_python_line(found[i]);
    ck_assert(line && found[i] & CUSHIM_PYTHON_BIT);
    ck_assert_uint_eq(line->number, number);
    ck_assert_uint_eq(line->n_text, strlen(text));
    ck_assert_mem_eq(line->text, text, line->n_text);
}

static const uint8_t TABLE[] = {
    0x80 | 10 << 3 | 1, 3,    9,          /* units 0 and 1: this line, columns */
    0x80 | 11 << 3 | 0, 3,    9,          /* unit 2: the next line */
    0x80 | 13 << 3 | 3, 0x7e, 0x03,       /* units 3 to 6: 127 lines on, of two bytes */
    0x80 | 14 << 3 | 0, 0x21, 0,    1, 2, /* unit 7: 16 lines back */
    0x80 | 3 << 3 | 0,  0x45,             /* unit 8: the same line */
    0x80 | 15 << 3 | 7,                   /* units 9 to 16: of no line, so of the last one */
};

TEST(each_unit_of_code_has_its_line) {
    static const struct {
        unsigned unit, line;
    } rows[] = {{0, 10},  {1, 10},  {2, 11},   {3, 138}, {6, 138},
                {7, 122}, {8, 122}, {12, 122}, {500, 10}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_world(1, rows[i].unit, TABLE, sizeof TABLE);
        ck_assert_uint_eq(take(), 1);
        assert_line(0, rows[i].line, "Layer.forward\n/train.py");
    }
}

TEST(the_innermost_frames_are_taken_and_a_ring_ends) {
    make_world(3, 0, TABLE, sizeof TABLE);
    ck_assert_uint_eq(take(), 3);
    ck_assert_uint_eq(found[0], found[2]); /* one line, one frame */
    make_world(40, 0, TABLE, sizeof TABLE);
    ck_assert_uint_eq(take(), CUSHIM_PYTHON_LINES);
    set(&world.frames[1], 8, address(&world.frames[0]));
    ck_assert_uint_eq(take(), CUSHIM_PYTHON_LINES);
    for (unsigned i = 0; i < 40; i++)
        set(&world.frames[i], 64, (uint64_t)3 << 48); /* of the C code that calls it */
    ck_assert_uint_eq(take(), 0);
    make_world(0, 0, TABLE, sizeof TABLE);
    ck_assert_uint_eq(take(), 0);
}

TEST(texts_are_utf8_without_control_characters) {
    char wide[] = "gr\xf6\xdf"
                  "e\n\x1b";
    make_world(1, 0, TABLE, sizeof TABLE);
    set_text(&world.function, wide, false);
    ck_assert_uint_eq(take(), 1);
    assert_line(0, 10,
                "gr\xc3\xb6\xc3\x9f"
                "e??\n/train.py");
    set(&world.function, 32, 4 << 2 | 0x20);
    set(&world.function, 16, 2);
    set(&world.function, 56, 0x1f600 | (uint64_t)0xd800 << 32);
    ck_assert_uint_eq(take(), 1);
    assert_line(0, 10, "\xf0\x9f\x98\x80?\n/train.py");
}

TEST(whatever_lies_there_harms_nobody) {
    void *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t random = 88172645463325252u;
    for (unsigned i = 0; i < suite_steps(20000); i++) {
        make_world(3, 0, TABLE, sizeof TABLE);
        set(&world.thread, 8, 1); /* of a thread that does not end the interpreter */
        for (int k = 0; k < 3; k++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            uint64_t value = i % 3 == 0   ? random
                             : i % 3 == 1 ? address(nothing) + random % 8192
                                          : random % 512;
            size_t at = random / 512 % (sizeof world - 8);
            if (at >= sizeof world.thread.words[0] * 2) /* not that word */
                memcpy((char *)&world + at, &value, sizeof value);
        }
        unsigned n = i % 2 ? take() : take_again();
        ck_assert_uint_le(n, CUSHIM_PYTHON_LINES);
        for (unsigned k = 0; k < n; k++) {
            const struct cushim_python_line *line = cushim_python_line(found[k]);
            ck_assert(!line || (line->number && line->n_text <= CUSHIM_PYTHON_TEXT_BYTES));
        }
    }
    munmap(nothing, 4096);
}

/* A second function, at the address of the first one. */
TEST(code_is_looked_at_anew_whoever_reads_it) {
    for (int is_first = 0; is_first < 2; is_first++) {
        make_world(2, 0, TABLE, sizeof TABLE);
        set(&world.thread, 8, is_first ? 0 : 1);
        ck_assert_uint_eq(take(), 2);
        ck_assert_uint_eq(cache.is_direct, is_first);
        ck_assert_uint_eq(take_again(), 2);
        assert_line(1, 10, "Layer.forward\n/train.py");
        set_text(&world.lines, "Other", true);
        set(&world.code, 128, address(&world.lines));
        set(&world.code, 136, address(&world.frames[9])); /* no entry: the first line */
        set(&world.code, 68, 77);
        set(&world.frames[0], 8, address(&world.frames[3])); /* which has not run before */
        set(&world.frames[3], 0, address(&world.code));
        set(&world.frames[3], 56, address(&world.code) + 192);
        ck_assert_uint_eq(take_again(), 2);
        assert_line(1, 77, "Other\n/train.py");
        assert_line(0, is_first ? 77 : 10,
                    is_first ? "Other\n/train.py" : "Layer.forward\n/train.py");
    }
}

/* A layout that does not fit shows itself in the first stack. */
TEST(nothing_is_read_directly_before_a_whole_stack_was_read) {
    make_world(2, 0, TABLE, sizeof TABLE);
    set(&world.frames[1], 0, address(&world.file)); /* no code */
    ck_assert_uint_eq(take(), 1);
    ck_assert(!cache.is_direct);
    set(&world.frames[1], 8, 8); /* no frame */
    set(&world.frames[1], 0, address(&world.code));
    ck_assert_uint_eq(take(), 2);
    ck_assert(!cache.is_direct);
    set(&world.frames[1], 8, 0);
    ck_assert_uint_eq(take(), 2);
    ck_assert(cache.is_direct);
}

static void *take_in_thread(void *unused) {
    (void)unused;
    ck_assert_uint_eq(take(), 2);
    ck_assert(!cache.is_direct);
    return NULL;
}

TEST(another_thread_reads_nothing_directly) {
    pthread_t thread;
    make_world(2, 0, TABLE, sizeof TABLE);
    ck_assert_int_eq(pthread_create(&thread, NULL, take_in_thread, NULL), 0);
    pthread_join(thread, NULL);
}

static const char *name_of_3_10(void) {
    return "3.10.13 (main)";
}

static void *look_up_3_10(const char *name) {
    void *function = NULL;
    const char *(*made)(void) = name_of_3_10;
    memcpy(&function, &made, sizeof function);
    return strcmp(name, "Py_Version") == 0      ? NULL
           : strcmp(name, "Py_GetVersion") == 0 ? function
                                                : look_up(name);
}

/* The C library's, with what is asked of it counted. */
static unsigned n_reads, n_parts;
pid_t getpid(void) {
    n_reads++;
    return (pid_t)syscall(SYS_getpid);
}

ssize_t process_vm_readv(pid_t process, const struct iovec *ours, unsigned long n_ours,
                         const struct iovec *theirs, unsigned long n_theirs, unsigned long flags) {
    n_reads++;
    n_parts += (unsigned)n_theirs;
    return syscall(SYS_process_vm_readv, process, ours, n_ours, theirs, n_theirs, flags);
}

/* As 3.12 has it, whose frame for C code that entered Python lies on the stack. */
static void *take_with_c_code(void *unused) {
    struct object cframe = {{0}}, entry = {{0}};
    set(&world.thread, 56, address(&cframe));
    set(&cframe, 0, address(&world.frames[0]));
    set(&world.frames[1], 8, address(&entry));
    set(&entry, 0, address(&world.code));
    set(&entry, 8, address(&world.frames[2]));
    set(&entry, 64, (uint64_t)3 << 48);
    ck_assert_uint_eq(take(), 10);
    n_reads = n_parts = 0;
    ck_assert_uint_eq(take_again(), 10);
    ck_assert(!cache.is_direct);
    return unused;
}

TEST(another_thread_asks_the_kernel_once_for_what_it_knows) {
    pthread_t thread;
    make_world(10, 0, TABLE, sizeof TABLE);
    pthread_create(&thread, NULL, take_with_c_code, NULL);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(n_reads, 1);
    ck_assert_uint_eq(n_parts, 2); /* the thread's word, and the frames */
}

TEST(a_child_reads_its_own_memory) {
    int status = 1;
    make_world(2, 0, TABLE, sizeof TABLE);
    set(&world.thread, 8, 1);
    ck_assert_uint_eq(take(), 2);
    pid_t child = fork();
    if (child == 0) {
        cache.thread = 0; /* as after any fork */
        make_world(3, 0, TABLE, sizeof TABLE);
        _exit(take_again() != 3);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

TEST(the_frames_of_3_10_are_objects) {
    static const uint8_t pairs[] = {4, 1, 2, 0x80, 2, 5, 6, 0xfe};
    static const struct {
        int unit;
        uint32_t line;
    } rows[] = {{-1, 10}, {0, 11}, {1, 11}, {2, 11}, {3, 16}, {4, 14}, {6, 14}, {7, 10}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_world(0, 0, pairs, sizeof pairs);
        set(&world.thread, 24, address(&world.frames[0]));
        set(&world.frames[0], 32, address(&world.code));
        set(&world.frames[0], 96, (uint32_t)rows[i].unit);
        set(&world.code, 40, 10);
        set(&world.code, 104, address(&world.file));
        set(&world.code, 112, address(&world.function));
        set(&world.code, 120, address(&world.lines));
        set(&world.function, 32, 1 << 2 | 0x20 | 0x40);
        memcpy((char *)&world.function + 48, "forward", 7);
        set(&world.function, 16, 7);
        memcpy((char *)&world.file + 48, "/a.py", 5);
        set(&world.file, 16, 5);
        memset(&cache, 0, sizeof cache);
        ck_assert(cushim_python_find(&python, look_up_3_10));
        ck_assert_uint_eq(take_again(), 1);
        assert_line(0, rows[i].line, "forward\n/a.py");
    }
}

TEST(other_interpreters_are_none_that_can_be_read) {
    static const unsigned long versions[] = {0x030900f0, 0x030f00f0, 0x030d00a1, 0, ~0ul};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        version = versions[i];
        ck_assert(!cushim_python_find(&python, look_up));
        ck_assert_uint_eq(take_again(), 0);
    }
    version = 0x030d00f0;
    memset(&world, 0, sizeof world);
    ck_assert(cushim_python_find(&python, look_up));
    world.thread.words[2] = 1; /* the runtime says that it has no lock */
    ck_assert(!cushim_python_find(&python, look_up));
    is_there = false;
    ck_assert(cushim_python_find(&python, look_up)); /* no Python is no fault */
    ck_assert_uint_eq(take_again(), 0);
}

SUITE() {
    return tests_run("python");
}
