#include "preload/observe/stack.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/resolve/elf.h" /* dladdr1 is weak */

/* The name by which others find the file.  The loader has no name for the program, and argv's may
 * be any. */
static void name_file(const struct link_map *map, const char *known_as,
                      struct cushim_page_frame *frame) {
    char path[PATH_MAX];
    bool is_program = map && !*map->l_name;
    ssize_t n = is_program ? readlink("/proc/self/exe", path, sizeof path - 1) : -1;
    if (n > 0)
        path[n] = 0;
    bool has_path = n > 0 || (*known_as != '/' && realpath(known_as, path));
    const char *name = has_path ? path : known_as;
    size_t n_bytes = strlen(name), most = sizeof frame->file - 1;
    /* keep the end of a long path, because it has the name of the file */
    memcpy(frame->file, n_bytes > most ? name + n_bytes - most : name,
           n_bytes > most ? most : n_bytes);
}

static void describe_frame(void *address, struct cushim_page_frame *frame) {
    struct link_map *map = NULL;
    Dl_info info;
    frame->offset = (uint64_t)address;
    if (!dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || !info.dli_fname)
        return;
    frame->offset -= map ? map->l_addr : 0;
    name_file(map, info.dli_fname, frame);
    snprintf(frame->function, sizeof frame->function, "%s", info.dli_sname ? info.dli_sname : "");
}

unsigned cushim_stack_describe(const struct cushim_backtrace *stack,
                               struct cushim_page_frame frames[], unsigned most) {
    unsigned n = 0;
    for (int i = cushim_backtrace_first(stack); i < stack->n_frames && n < most; i++)
        describe_frame(stack->frames[i], &frames[n++]);
    return n;
}
