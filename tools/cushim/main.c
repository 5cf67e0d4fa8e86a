/* The command `cushim` starts here: it finds the command that is named. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/cushim/commands.h"
#include "tools/cushim/options.h"
#include "tools/cushim/program.h"
#include "tools/cushim/usage.h"

static int help_main(int argc, char **argv) {
    bool is_of_help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    const char *topic = is_of_help ? "help" : argc > 1 ? argv[1] : "cushim";
    if (argc == 3 && strcmp(topic, "options") == 0 && strcmp(argv[2], "--markdown") == 0)
        topic = "options.md";
    else if (argc > 2)
        usage_error("help", "help shows one page at a time");
    usage_print(stdout, topic);
    return EXIT_WELL;
}

static int version_main(int argc, char **argv) {
    if (argc > 1)
        usage_error("cushim", "%s takes nothing else: `%s`", argv[0], argv[1]);
    puts("cushim " CUSHIM_VERSION_TEXT);
    return EXIT_WELL;
}

static const struct {
    const char *name;
    command_fn *main;
} commands[] = {
    {"run", run_main},           {"stat", stat_main},         {"record", record_main},
    {"snapshot", snapshot_main}, {"report", report_main},     {"replay", replay_main},
    {"top", top_main},           {"suspend", suspend_main},   {"resume", resume_main},
    {"trim", trim_main},         {"limit", limit_main},       {"merge", merge_main},
    {"diff", diff_main},         {"metrics", metrics_main},   {"sim", sim_main},
    {"doctor", doctor_main},     {"help", help_main},         {"--help", help_main},
    {"-h", help_main},           {"--version", version_main}, {"version", version_main},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

/* It may be a mistyped command, or a program or an option without `run` before it. */
_Noreturn static void unknown_command(const char *word) {
    const char *names[N_COMMANDS];
    char path[PATH_MAX];
    int n = 0;
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].name, "-h") != 0) /* every option of one letter is like it */
            names[n++] = commands[i].name;
    }
    if (program_find(word, path) == 0 || settings_has(word))
        usage_error("cushim", "no command `%s` (did you mean `cushim run %s`?)", word, word);
    usage_unknown("cushim", "command", word, names, (size_t)n);
}

/* If a standard descriptor is closed, a file of ours must not get its number, because messages
 * would go into it.  The descriptors that are opened here fail as closed ones do, and no program
 * inherits them. */
static void hold_closed_descriptors(void) {
    int file;
    do {
        file = open("/", O_PATH | O_CLOEXEC);
    } while (file >= 0 && file <= STDERR_FILENO);
    if (file >= 0)
        close(file);
}

int main(int argc, char **argv) {
    hold_closed_descriptors();
    if (argc < 2) {
        usage_print(stderr, "cushim");
        return EXIT_USAGE;
    }
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return usage_end(commands[i].main(argc - 1, argv + 1));
    }
    unknown_command(argv[1]);
}
