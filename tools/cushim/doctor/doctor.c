#include "tools/cushim/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/writer.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/doctor/command.h"
#include "tools/cushim/launch.h"
#include "tools/cushim/doctor/machine.h"
#include "tools/cushim/doctor/probe.h"
#include "tools/cushim/program.h"
#include "tools/cushim/doctor/findings.h"
#include "tools/cushim/options.h"
#include "tools/cushim/signals.h"
#include "tools/cushim/usage.h"

static bool examine_cushim(char library[PATH_MAX]) {
    char wrong[LAUNCH_WRONG_BYTES];
    bool is_found = launch_find(library, wrong);
    report_heading("cushim");
    report_ok("version", "%s", CUSHIM_VERSION_TEXT);
    report_add(is_found ? REPORT_OK : REPORT_WRONG, "preload", "%s", is_found ? library : wrong);
    for (char **entry = environ; *entry; entry++) {
        const char *reason;
        char nearest[SETTINGS_VARIABLE_BYTES];
        if (!settings_is_ours(*entry, &reason, nearest))
            continue;
        if (reason)
            report_wrong("setting", "%s %s", *entry, reason);
        else
            report_note("setting", "%s", *entry);
        if (*nearest)
            report_remedy("did you mean %s?", nearest);
    }
    if (settings_are_off())
        report_note("setting", "everything is off (the probe below is on)");
    return is_found;
}

static const struct {
    enum report_state state;
    const char *text, *remedy;
} links[] = {
    [PROGRAM_DYNAMIC] = {REPORT_OK, "dynamically: a preload reaches it", NULL},
    [PROGRAM_MUSL] =
        {REPORT_WRONG,
         "dynamically, for musl: the preload library is made for glibc, and `cushim run` "
         "leaves it out",
         "build it for glibc"},
    [PROGRAM_OLD_GLIBC] =
        {REPORT_WRONG,
         "dynamically, with a glibc of its own that is older than the preload library "
         "needs, and `cushim run` leaves that out",
         "build cushim with that glibc, or take a program for the system's"},
    [PROGRAM_STATIC] = {REPORT_WRONG, "fully static: no preload reaches it",
                        "link it without -static; a static CUDA runtime is fine"},
    [PROGRAM_FOREIGN] = {REPORT_WRONG, "for another machine or word size",
                         "the preload library must be built for the same one"},
    [PROGRAM_UNKNOWN] = {REPORT_NOTE, "apparently not an ELF program", NULL},
};

static void examine_rights(const struct program *program) {
    if (!program->has_setid && !program->has_capabilities)
        return;
    const char *what = program->has_setid ? "set-user-id or set-group-id" : "file capabilities";
    if (program->is_privileged) {
        report_wrong("rights", "%s: the loader ignores LD_PRELOAD", what);
        report_remedy("run a copy without them");
    } else {
        report_note("rights", "%s, without effect for this user", what);
    }
}

static void examine_cuda(const struct program *program) {
    switch (program->cudart) {
    case PROGRAM_CUDART_SHARED:
        report_ok("CUDA runtime", "shared, %s", program->cudart_name);
        break;
    case PROGRAM_CUDART_STATIC:
        report_ok("CUDA runtime", "static, inside the program");
        break;
    case PROGRAM_CUDART_NONE:
        report_note("CUDA runtime", "none in the program itself; libraries it loads may bring one");
        break;
    }
    if (program->needs_libcuda)
        report_ok("CUDA driver", "linked, libcuda.so.1");
    if (program->imports_dlmopen)
        report_note("dlmopen", "used: libraries in another namespace are not seen");
    if (program->imports_dlopen)
        report_note("dlopen", "used: libraries opened with RTLD_DEEPBIND are not seen");
}

/* The sanitizer's library has to come first; `cushim run` keeps what LD_PRELOAD has ahead of
 * ours. */
static void examine_sanitizer(const struct program *program) {
    const char *preloads = getenv("LD_PRELOAD");
    if (!*program->sanitizer)
        return;
    if (preloads && strstr(preloads, program->sanitizer)) {
        report_ok("sanitizer", "%s, which LD_PRELOAD has", program->sanitizer);
        return;
    }
    report_wrong("sanitizer", "AddressSanitizer: it ends a program whose first library is not %s",
                 program->sanitizer);
    report_remedy("LD_PRELOAD=<path of %s> cushim run ...: `cushim run` keeps it first",
                  program->sanitizer);
}

/* Returns false if it cannot be run. */
static bool examine_program(const char *name) {
    char path[PATH_MAX];
    struct program program;
    report_heading("the program");
    int error = program_find(name, path);
    if (!error)
        error = program_inspect(&program, path);
    bool is_read = !error, can_run = is_read && access(path, X_OK) == 0;
    if (can_run) {
        report_ok("file", "%s", path);
    } else {
        char hint[LAUNCH_HINT_BYTES];
        error = is_read ? errno : error;
        launch_hint(name, error, hint);
        report_wrong("file", "%s: %s%s", name, strerror(error), hint);
    }
    if (!is_read)
        return false;
    if (*program.interpreter)
        report_ok("script", "run by %s, which the rows below describe", program.interpreter);
    report_add(links[program.link].state, "linked", "%s", links[program.link].text);
    if (links[program.link].remedy)
        report_remedy("%s", links[program.link].remedy);
    examine_rights(&program);
    if (program.link == PROGRAM_DYNAMIC || program.link == PROGRAM_STATIC)
        examine_cuda(&program);
    examine_sanitizer(&program);
    return can_run;
}

static void examine_entry(const char *name, const char *file, const char *library) {
    char real[PATH_MAX];
    bool is_ours = realpath(file, real) && strcmp(real, library) == 0;
    report_add(is_ours ? REPORT_OK : REPORT_WRONG, name, "%s %s",
               is_ours ? "leads to the preload," : "leads past the preload, to", file);
}

static void examine_entries(const char *library) {
    struct probe probe;
    report_heading("the probe: two allocations in a child process under the preload");
    probe_run(&probe, library);
    if (*probe.findings.by_dlsym)
        examine_entry("dlsym", probe.findings.by_dlsym, library);
    if (*probe.findings.by_resolver)
        examine_entry("cuGetProcAddress", probe.findings.by_resolver, library);
    if (probe.findings.is_full) {
        report_note("pool", "not tried: %s, so device 0 is full", probe.findings.failure);
    } else if (*probe.findings.failure) {
        report_wrong("pool", "%s", probe.findings.failure);
    } else if (*probe.failure) {
        report_wrong("pool", "%s", probe.failure);
    } else {
        bool is_all = probe.n_requests == PROBE_N_ALLOCATIONS;
        report_add(is_all ? REPORT_OK : REPORT_WRONG, "pool", "%d of %d allocations served",
                   (int)probe.n_requests, PROBE_N_ALLOCATIONS);
        if (probe.n_bypassed)
            report_wrong("bypassed", "%s no entry point saw",
                         CUSHIM_SOME((uint64_t)probe.n_bypassed, "driver allocation"));
    }
}

int doctor_main(int argc, char **argv) {
    bool is_json = false;
    bool is_looked_at = false; /* the program is not run */
    int number = 0;            /* of the signal that ended it */
    const struct argument rows[] = {
        {"--json", .flag = &is_json}, {"--no-run", .flag = &is_looked_at}, {0}};
    int probe_fd;
    char rest;
    if (argc == 2 && sscanf(argv[1], "--probe=%d%c", &probe_fd, &rest) == 1)
        return probe_child(probe_fd); /* we are the child that examine_entries started */
    if (argc == 3 && strcmp(argv[1], "--look") == 0)
        probe_look_child(argv[2]); /* or the child of `cushim run` */
    char **command = argv + arguments_program("doctor", rows, NULL, NULL, false, argc, argv);
    char library[PATH_MAX];
    bool has_library = examine_cushim(library);
    bool has_device = machine_examine();
    bool can_run = *command && examine_program(*command); /* NULL: there is none */
    if (has_library && has_device)
        examine_entries(library);
    if (!is_json)
        report_print();
    if (can_run && has_library && !is_looked_at) {
        if (!is_json)
            puts("\nthe program's output");
        number = command_examine(command, library, is_json);
    }
    int code = EXIT_WELL;
    if (is_json) {
        code = report_print_json();
    } else {
        report_print();
        report_print_verdict();
    }
    if (number)
        signals_end_by(number);
    return report_n_wrong() ? EXIT_WRONG : code;
}
