/*
 * Lines of Python: the place of this thread, read from the interpreter's own memory.
 *
 * No function of the interpreter is called, because libraries release the interpreter's lock before
 * they ask for memory, and taking it again here could wait for a thread that waits for us.  Only
 * the thread itself, which is the caller, changes its frames.  They are read by a system call, for
 * which a bad pointer is an error and no fault, because an interpreter that ends frees memory of
 * threads that still run.
 *
 * The layout depends on the version: 3.11 to 3.13, with the lock.
 */
#ifndef CUSHIM_TRACE_PYTHON_H
#define CUSHIM_TRACE_PYTHON_H

#include <stdbool.h>

#include "trace/event.h"

enum { CUSHIM_PYTHON_TEXT_BYTES = 240 };

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
    uint8_t frame_code, frame_previous, frame_at, frame_owner;
    uint8_t code_first_line, code_start;
    uint8_t ascii_text, text;
};

struct cushim_python {
    const struct cushim_python_layout *layout; /* NULL: there is none that can be read */
    void *(*thread)(void);                     /* the thread's state, or NULL */
    uint64_t code_type;
};

/* Look for the interpreter of this process by the names of its symbols.  False: there is one of an
 * unknown version. */
bool cushim_python_find(struct cushim_python *python, void *(*look_up)(const char *name));

/* The lines of this thread, the innermost first; 0: it runs no Python. */
unsigned cushim_python_lines(const struct cushim_python *python,
                             struct cushim_python_line lines[CUSHIM_TRACE_FRAMES]);

#endif
