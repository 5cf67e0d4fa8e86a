/*
 * Lines of Python: the place of this thread, read from the interpreter's own memory.
 *
 * No function of the interpreter is called, because libraries release the interpreter's lock before
 * they ask for memory, and taking it again here could wait for a thread that waits for us.  Only
 * the thread itself, which is the caller, changes its frames, and its frames keep their code.
 *
 * An interpreter that ends frees memory of threads that still run.  So other threads than the one
 * that ends it read by a system call, for which a bad pointer is an error and no fault: one for
 * the frames, which mostly lie together, and one for the code of those that changed.  The kernel
 * looks up each part and each page, so these are as few as the last stack had.  What lies on the
 * thread's own stack it reads directly.
 *
 * The thread that started the interpreter also ends it, so nothing goes while it is here, and it
 * reads directly.  Its first stack is read by system calls all the same, and it goes on so until
 * one has shown that each frame and each code object is where this version has it.
 *
 * The layout depends on the version: 3.10 to 3.14, with the lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { CUSHIM_PYTHON_LINES = 24, CUSHIM_PYTHON_TEXT_BYTES = 240 };

/* In a stack a line is a frame with this bit, which no address of code has, and a hash of the rest.
 * The text is "function\nfile", in UTF-8 without control characters. */
#define CUSHIM_PYTHON_BIT (UINT64_C(1) << 63)
struct cushim_python_line {
    uint64_t frame;
    uint32_t number, n_text;
    char text[CUSHIM_PYTHON_TEXT_BYTES];
};

/* The offsets that are read in an interpreter's objects. */
struct cushim_python_layout {
    unsigned version; /* 0x030b: 3.11 */
    bool has_cframe;
    uint8_t thread_frame, cframe_frame;
    uint8_t frame_bytes, frame_code, frame_previous, frame_at, frame_owner; /* 0: it has none */
    uint8_t code_first_line, code_file, code_function, code_lines;
    uint8_t code_start; /* 0: a frame has the number of its instruction, not the address */
    uint8_t ascii_text, text;
};

struct cushim_python {
    const struct cushim_python_layout *layout; /* NULL: there is none that can be read */
    void *(*thread)(void);                     /* the thread's state, or NULL */
    uint64_t code_type;
};

/* A frame, and where in its code it is. */
struct cushim_python_place {
    uint64_t code, at, frame;
};

/* What a thread read before; all zero at its start. */
enum {
    CUSHIM_PYTHON_KNOWN = 1024,
    CUSHIM_PYTHON_PAGES = 3,
    CUSHIM_PYTHON_PAGE_BYTES = 4096,
    CUSHIM_PYTHON_CODE_BYTES = 144
};
struct cushim_python_cache {
    uint64_t thread;
    bool is_first, is_direct;
    uint64_t stack, stack_end;
    uint64_t top;         /* where the last stack began */
    unsigned n_pages;     /* that had it, the one of `top` and those before it */
    uint64_t from, until; /* the memory that `pages` has, up to its end */
    uint8_t pages[CUSHIM_PYTHON_PAGES * CUSHIM_PYTHON_PAGE_BYTES];
    uint8_t objects[CUSHIM_PYTHON_LINES][CUSHIM_PYTHON_CODE_BYTES];
    struct cushim_python_known {
        struct cushim_python_place place;
        uint64_t mark, line; /* line: 0 for code that is not the program's */
        bool is_fleeting;
    } known[CUSHIM_PYTHON_KNOWN];
};

/* Look for the interpreter of this process by the names of its symbols.  False: there is one of an
 * unknown version. */
bool cushim_python_find(struct cushim_python *python, void *(*look_up)(const char *name));

/* The lines of this thread, the innermost first; 0: it runs no Python. */
unsigned cushim_python_lines(const struct cushim_python *python, struct cushim_python_cache *cache,
                             uint64_t lines[CUSHIM_PYTHON_LINES]);

/* A line by its frame; NULL: unknown, or there was no memory for it. */
const struct cushim_python_line *cushim_python_line(uint64_t frame);
