/* Lines of Python: from objects as 3.12 has them, and from any other bytes. */
#include "trace/python.h"

#include <string.h>
#include <sys/mman.h>

#include "tests/unit/suite.h"

/* Objects of an interpreter, each field at the place that 3.12 has it. */
struct object {
    uint64_t words[32];
};

static struct { struct object thread, cframe, frames[40], code, function, file, lines; } world;

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

static unsigned take(struct cushim_python_line lines[CUSHIM_TRACE_FRAMES]) {
    struct cushim_python python;
    ck_assert(cushim_python_find(&python, look_up));
    return cushim_python_lines(&python, lines);
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
    struct cushim_python_line lines[CUSHIM_TRACE_FRAMES];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_world(1, rows[i].unit, TABLE, sizeof TABLE);
        ck_assert_uint_eq(take(lines), 1);
        ck_assert_uint_eq(lines[0].number, rows[i].line);
        ck_assert_uint_eq(lines[0].n_text, 23);
        ck_assert_mem_eq(lines[0].text, "Layer.forward\n/train.py", 23);
        ck_assert(lines[0].frame & CUSHIM_PYTHON_BIT);
    }
}

TEST(the_innermost_frames_are_taken_and_a_ring_ends) {
    struct cushim_python_line lines[CUSHIM_TRACE_FRAMES];
    make_world(3, 0, TABLE, sizeof TABLE);
    ck_assert_uint_eq(take(lines), 3);
    ck_assert_uint_eq(lines[0].frame, lines[2].frame); /* one line, one frame */
    make_world(40, 0, TABLE, sizeof TABLE);
    ck_assert_uint_eq(take(lines), CUSHIM_TRACE_FRAMES);
    set(&world.frames[1], 8, address(&world.frames[0]));
    ck_assert_uint_eq(take(lines), CUSHIM_TRACE_FRAMES);
    for (unsigned i = 0; i < 40; i++)
        set(&world.frames[i], 64, (uint64_t)3 << 48); /* of the C code that calls it */
    ck_assert_uint_eq(take(lines), 0);
    make_world(0, 0, TABLE, sizeof TABLE);
    ck_assert_uint_eq(take(lines), 0);
}

TEST(texts_are_utf8_without_control_characters) {
    struct cushim_python_line lines[CUSHIM_TRACE_FRAMES];
    char wide[] = "gr\xf6\xdf"
                  "e\n\x1b";
    make_world(1, 0, TABLE, sizeof TABLE);
    set_text(&world.function, wide, false);
    ck_assert_uint_eq(take(lines), 1);
    ck_assert_mem_eq(lines[0].text,
                     "gr\xc3\xb6\xc3\x9f"
                     "e??\n/train.py",
                     lines[0].n_text);
    set(&world.function, 32, 4 << 2 | 0x20);
    set(&world.function, 16, 2);
    set(&world.function, 56, 0x1f600 | (uint64_t)0xd800 << 32);
    ck_assert_uint_eq(take(lines), 1);
    ck_assert_mem_eq(lines[0].text, "\xf0\x9f\x98\x80?\n/train.py", lines[0].n_text);
}

TEST(whatever_lies_there_harms_nobody) {
    struct cushim_python_line lines[CUSHIM_TRACE_FRAMES];
    void *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t random = 88172645463325252u;
    for (unsigned i = 0; i < suite_steps(20000); i++) {
        make_world(3, 0, TABLE, sizeof TABLE);
        for (int k = 0; k < 3; k++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            uint64_t value = i % 3 == 0   ? random
                             : i % 3 == 1 ? address(nothing) + random % 8192
                                          : random % 512;
            memcpy((char *)&world + random / 512 % (sizeof world - 8), &value, sizeof value);
        }
        unsigned n = take(lines);
        ck_assert_uint_le(n, CUSHIM_TRACE_FRAMES);
        for (unsigned k = 0; k < n; k++) {
            ck_assert_uint_le(lines[k].n_text, sizeof lines[k].text);
            ck_assert(lines[k].number);
        }
    }
    munmap(nothing, 4096);
}

TEST(other_interpreters_are_none_that_can_be_read) {
    static const unsigned long versions[] = {0x030a0df0, 0x030e00f0, 0, ~0ul};
    struct cushim_python_line lines[CUSHIM_TRACE_FRAMES];
    struct cushim_python python;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        version = versions[i];
        ck_assert(!cushim_python_find(&python, look_up));
        ck_assert_uint_eq(cushim_python_lines(&python, lines), 0);
    }
    version = 0x030d00f0;
    memset(&world, 0, sizeof world);
    ck_assert(cushim_python_find(&python, look_up));
    world.thread.words[2] = 1; /* the runtime says that it has no lock */
    ck_assert(!cushim_python_find(&python, look_up));
    is_there = false;
    ck_assert(cushim_python_find(&python, look_up)); /* no Python is no fault */
    ck_assert_uint_eq(cushim_python_lines(&python, lines), 0);
}

SUITE() {
    return tests_run("python");
}
