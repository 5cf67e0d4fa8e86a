/*
 * Loaded objects and their dynamic symbols, read in place.
 *
 * The real dlsym cannot serve here: our own is in its way, it leaves an error behind for every name
 * that an object lacks (interposition.md B8), and it may allocate.  This reads what the loader
 * mapped: no lock of ours, no allocation, no dlerror, no C library function that a sanitizer
 * replaces before it is ready.
 *
 * A `struct cushim_object` is a copy of three words and stays right while the object is loaded.
 */
#pragma once

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct cushim_object {
    uintptr_t load_offset;    /* added to addresses in the file */
    const char *name;         /* the loader's path; "" for the program; owned by the loader */
    const Elf64_Dyn *dynamic; /* ends with DT_NULL */
};

/* Only glibc has it.  musl loads this object, too, and then it does nothing there. */
#pragma weak dladdr1

/* Is the C library of this process glibc?  There are drivers for no other. */
static inline bool cushim_object_is_of_glibc(void) {
    return dladdr1 != 0;
}

/* Are two texts the same?  Sanitizers look names up before the C library's function is ready. */
bool cushim_object_equal(const char *a, const char *b);

/* The name after the last slash. */
const char *cushim_object_base_name(const struct cushim_object *object);

/* Does the base name begin like this? */
bool cushim_object_is_named(const struct cushim_object *object, const char *prefix);

/* Does the object name this file in DT_NEEDED? */
bool cushim_object_needs(const struct cushim_object *object, const char *file);

/**
 * Find a function or variable that an object defines, in its default version.
 * @return the address | NULL: not defined, or only in a hidden version, or thread-local or indirect
 */
void *cushim_object_symbol(const struct cushim_object *object, const char *name);

/**
 * List the loaded objects whose base name begins with `prefix` and that define a symbol, in load
 * order.
 * @param prefix  "" fits all
 * @param symbol  NULL: any
 * @param out     [max]; the first `max` of them are written
 * @return their number, which may be more than max
 * Threads  any; takes the loader's lock for a moment, while forks are held off
 */
unsigned cushim_object_list(const char *prefix, const char *symbol, struct cushim_object *out,
                            unsigned max);

/* Find the object that was mapped at an address; false if there was none. */
bool cushim_object_at(const void *address, struct cushim_object *out);

/* Is an object still loaded at this place, under this name? */
bool cushim_object_is_loaded(const struct cushim_object *object);

/* The number of objects that were unloaded so far. */
unsigned long long cushim_object_unloads(void);

/**
 * Find the next definition of a function behind this object in load order, before anything else in
 * the process is ready (B7): that of another preload, or the C library's own.
 * @return its address | NULL: nothing behind us defines it
 * Threads  any; walks the loader's list without its lock, because the part that was loaded with the
 *          program never changes
 */
void *cushim_object_next_symbol(const char *name);

/**
 * Find what another preload, behind this object and ahead of the C library and of any object whose
 * base name begins with `ahead_of`, has under the name of a function.  Without cushim a call would
 * go there first.
 * @param ahead_of  NULL: it may be behind them, too, as in cushim_object_next_symbol
 * @return its address | NULL: there is none
 */
void *cushim_object_interposed(const char *name, const char *ahead_of);

/**
 * Find another copy of this library, of whatever version, among what was loaded with the program.
 * @param is_ahead  in load order; if false, behind this one
 * @return its path | NULL: there is none
 * Threads  any; walks the loader's list as above
 */
const char *cushim_object_copy(bool is_ahead);

/**
 * From now on our calls of a C library function bypass what is ahead of us, another preload or the
 * program.  Its constructors run after ours and its destructors before ours, so it may have ended
 * when we call it.
 * @param name  NULL: all functions but those of host memory, which goes back to the library that
 *              gave it
 * Threads  any; if something is ahead, the loader's words of this object are written
 */
void cushim_object_pass_by(const char *name);

/* Is the object at an address ahead of this one in load order, so that we are its next one? */
bool cushim_object_is_ahead(const void *address);
