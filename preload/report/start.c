#include "preload/report/start.h"

#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/helgrind.h"
#include "base/output.h"
#include "preload/resolve/elf.h"
#include "preload/state/live.h"

static char folder[PATH_MAX];

const char *cushim_start_folder(void) {
    return folder;
}

/* Called for a loaded object: if it is this one, ignore its variables. */
static int ignore_own(struct dl_phdr_info *info, size_t size, void *unused) {
    const char *variable = folder;
    (void)size;
    (void)unused;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const char *memory = (const char *)(info->dlpi_addr + segment->p_vaddr);
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_W) || variable < memory ||
            variable >= memory + segment->p_memsz)
            continue;
        cushim_helgrind_ignore(memory, segment->p_memsz);
        return 1;
    }
    return 0;
}

/*
 * Before the program comes to CUDA, it may change its folder, clear its environment, and open a
 * file of its own under the number of standard error.  Threads of its own may be the first to come.
 */
__attribute__((constructor)) static void enter_process(int n_arguments, char **arguments) {
    if (!cushim_object_is_of_glibc()) /* no arguments are passed, and there is no CUDA */
        return;
    const char *report = secure_getenv("CUSHIM_STATS");
    cushim_object_pass_by("clock_gettime"); /* one clock from the start to the end */
    cushim_output_note();
    cushim_environment_note();
    cushim_live_note_arguments(n_arguments, arguments);
    if (report && *report && *report != '/' && !getcwd(folder, sizeof folder))
        *folder = 0;
    dl_iterate_phdr(ignore_own, NULL);
}
