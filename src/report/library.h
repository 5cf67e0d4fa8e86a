/* Whose code a frame is, by the path of its file: the program's, a library's by the name that users
 * know, or code that others call to get memory. */
#pragma once

#include <stdbool.h>

/* In place of a library: what contexts and modules take, whatever made or loaded them. */
#define CUSHIM_LIBRARY_CONTEXTS "contexts and modules"

enum { CUSHIM_LIBRARY_BYTES = 32 };

enum cushim_library_kind {
    CUSHIM_LIBRARY_PROGRAM,   /* also its libraries */
    CUSHIM_LIBRARY_PACKAGE,   /* NCCL, cuBLAS, what is installed for Python */
    CUSHIM_LIBRARY_ALLOCATOR, /* of a library: it asks for those who call it */
    CUSHIM_LIBRARY_RUNTIME    /* CUDA, cushim, the C library, Python itself */
};

/* Does the name of a file begin with one of these?  NULL ends them. */
bool cushim_library_is_one_of(const char *path, const char *const begins[]);

/* The name is "" for allocators, runtimes and the program itself. */
enum cushim_library_kind cushim_library_of(const char *path, char name[CUSHIM_LIBRARY_BYTES]);
