#include "tools/cushim/commands.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cushim/arguments.h"
#include "tools/cushim/cache/cache.h"
#include "tools/cushim/sim/sim_alias.h"
#include "tools/cushim/launch.h"
#include "tools/cushim/usage.h"
#include "tools/sim/driver/core/setting.h"

/* The values of --runtime: 12, 13, or the file name of a wheel's runtime. */
struct runtimes {
    const char *names[8];
    int n;
};

/* Find the folder of the device's libraries, without a slash at its end.  Returns false if it is
 * missing.  The driver is looked for with its folder, because a library folder may have NVIDIA's
 * driver. */
static bool find_device(char folder[PATH_MAX]) {
    if (!launch_find_library("../sim/libcuda.so.1", ".", folder) &&
        !launch_find_library("cushim/sim/libcuda.so.1", ".", folder))
        return false;
    *strrchr(folder, '/') = 0;
    return true;
}

/* Find the setting of --NAME; NULL if no setting has the name. */
static const struct sim_setting *find_setting(const char *name, size_t n_bytes) {
    for (int i = 0; i < SIM_N_SETTINGS; i++) {
        const char *known = sim_settings[i].name;
        size_t k = 0;
        while (k < n_bytes && known[k] &&
               (known[k] == name[k] || (known[k] == '_' && name[k] == '-')))
            k++;
        if (k == n_bytes && !known[k])
            return &sim_settings[i];
    }
    return NULL;
}

static int take_runtime(void *context, const char *text) {
    struct runtimes *runtimes = context;
    const char *name = basename(text);
    bool is_version = strcmp(text, "12") == 0 || strcmp(text, "13") == 0;
    if (!is_version && !sim_alias_version(name))
        return usage_error("sim", "--runtime=%s: 12, 13 or a file name as libcudart-1a2b.so.13",
                           text);
    if (runtimes->n == sizeof runtimes->names / sizeof *runtimes->names)
        return usage_error("sim", "--runtime=%s: too many runtimes", text);
    runtimes->names[runtimes->n++] = name;
    return EXIT_WELL;
}

static int take_setting(const char *topic, char **words, int *at) {
    uint64_t value;
    const char *option = words[*at];
    const char *known[SIM_N_SETTINGS + 1] = {"runtime"}, *text = strchr(option, '=');
    char variable[SIM_VARIABLE_BYTES];
    size_t n_bytes = strcspn(option, "=");
    if (strncmp(option, "--", 2) != 0)
        return usage_error(topic, "no option %s", option);
    const struct sim_setting *setting = find_setting(option + 2, n_bytes - 2);
    if (text)
        text++;
    else if (setting && setting->type == TYPE_NUMBER && setting->max == 1)
        text = "1";
    else if (setting && words[*at + 1])
        text = words[++*at];
    for (int i = 0; i < SIM_N_SETTINGS; i++)
        known[i + 1] = sim_settings[i].name;
    if (!setting)
        return usage_unknown(topic, "option", option + 2, known, SIM_N_SETTINGS + 1);
    if (!text)
        return usage_error(topic, "%s needs a value", option);
    if (!sim_setting_read(setting, text, &value))
        return usage_error(topic, "--%s=%s is not possible: %s (%" PRIu64 " to %" PRIu64 ")",
                           setting->name, text, setting->sentence, setting->min, setting->max);
    sim_setting_variable(setting, variable);
    return setenv(variable, text, 1) == 0 ? EXIT_WELL : EXIT_OURS;
}

/* Put `word` at the front of a list of the loader, or at its end. */
static bool set_list(const char *name, const char *word, bool is_first) {
    const char *now = getenv(name);
    char *list = NULL;
    if (!now || !*now)
        return setenv(name, word, 1) == 0;
    if (asprintf(&list, "%s:%s", is_first ? word : now, is_first ? now : word) < 0)
        return false;
    bool is_set = setenv(name, list, 1) == 0;
    free(list);
    return is_set;
}

/* Put the runtime into LD_PRELOAD, behind the preload, which must answer first. */
static int preload_runtime(const char *folder, int version) {
    char library[PATH_MAX + 32];
    snprintf(library, sizeof library, "%s/libcudart.so.%d", folder, version);
    return set_list("LD_PRELOAD", library, false) ? 0 : errno;
}

/* Put the runtime into LD_PRELOAD, and a library of that name which needs it. */
static int preload_alias(const char *folder, const char *name) {
    char file[NAME_MAX + 1], path[PATH_MAX];
    snprintf(file, sizeof file, "sim/%s", name);
    if (!cache_path(file, path) || strpbrk(path, " :;$"))
        return ENOENT;
    cache_make_folders(path);
    int error = sim_alias_write(path, name);
    if (!error)
        error = preload_runtime(folder, sim_alias_version(name));
    return error ? error : set_list("LD_PRELOAD", path, false) ? 0 : errno;
}

/* Returns EXIT_WELL or another exit code. */
static int set_device(const char *folder, const struct runtimes *runtimes) {
    int error = set_list("LD_LIBRARY_PATH", folder, true) ? 0 : errno;
    for (int i = 0; i < runtimes->n && !error; i++) {
        const char *name = runtimes->names[i];
        error = isdigit((unsigned char)*name) ? preload_runtime(folder, atoi(name))
                                              : preload_alias(folder, name);
        if (error)
            complain("--runtime=%s cannot be set: %s (a file in XDG_CACHE_HOME or ~/.cache, whose "
                     "path has no blank, colon or $)",
                     name, strerror(error));
    }
    return error ? EXIT_OURS : EXIT_WELL;
}

static int run_there(int first, char **argv, const struct runtimes *runtimes) {
    char folder[PATH_MAX];
    if (!find_device(folder)) {
        complain(
            "the software device is not installed: the package cushim-sim has it, or a build that "
            "was installed with -Dsim_install=true");
        return EXIT_OURS;
    }
    if (strpbrk(folder, " :;$")) {
        complain("%s cannot be in LD_LIBRARY_PATH, because it has a blank, a colon or a $; move it",
                 folder);
        return EXIT_OURS;
    }
    int code = set_device(folder, runtimes);
    if (code != EXIT_WELL)
        return code;
    execvp(argv[first], argv + first);
    return launch_refused(first, argv, errno);
}

int sim_main(int argc, char **argv) {
    struct runtimes runtimes = {.n = 0};
    const struct argument rows[] = {{"--runtime", .take = take_runtime}, {0}};
    const struct arguments arguments = {.topic = "sim",
                                        .rows = rows,
                                        .context = &runtimes,
                                        .take_other = take_setting,
                                        .program = ARGUMENTS_PROGRAM};
    int first = arguments_read(&arguments, argc, argv);
    return first < 0 ? -first : run_there(first, argv, &runtimes);
}
