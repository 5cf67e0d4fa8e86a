#include "tools/cushim/commands/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cushim/launch.h"
#include "tools/cushim/usage.h"
#include "tools/sim/driver/core/setting.h"

/* The folder of the device's libraries, without a slash at its end; false: it is not here.  The
 * driver is asked for by its folder, since a library folder may have NVIDIA's. */
static bool find_device(char folder[PATH_MAX]) {
    if (!launch_find_library("../sim/libcuda.so.1", ".", folder) &&
        !launch_find_library("cushim/sim/libcuda.so.1", ".", folder))
        return false;
    *strrchr(folder, '/') = 0;
    return true;
}

/* Of an argument --NAME=VALUE or --NAME; NULL: no setting has the name. */
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

static int unknown_option(const char *name) {
    const char *known[SIM_N_SETTINGS + 1] = {"runtime"};
    for (int i = 0; i < SIM_N_SETTINGS; i++)
        known[i + 1] = sim_settings[i].name;
    return usage_unknown("sim", "option", name, known, SIM_N_SETTINGS + 1);
}

/* Sets the variable; *runtime is what --runtime says. */
static int take_option(const char *argument, const char **runtime) {
    uint64_t value;
    char variable[SIM_VARIABLE_BYTES];
    if (strncmp(argument, "--", 2) != 0)
        return usage_error("sim", "no option %s", argument);
    const char *name = argument + 2, *text = strchr(name, '=');
    size_t n_bytes = text ? (size_t)(text - name) : strlen(name);
    text = text ? text + 1 : "1";
    if (n_bytes == 7 && memcmp(name, "runtime", 7) == 0) {
        *runtime = text;
        if (strcmp(text, "12") != 0 && strcmp(text, "13") != 0)
            return usage_error("sim", "--runtime=%s: 12 or 13", text);
        return EXIT_WELL;
    }
    const struct sim_setting *setting = find_setting(name, n_bytes);
    if (!setting)
        return unknown_option(name);
    if (!sim_setting_read(setting, text, &value))
        return usage_error("sim", "--%s=%s: that is no value of it", setting->name, text);
    sim_setting_variable(setting, variable);
    return setenv(variable, text, 1) == 0 ? EXIT_WELL : EXIT_OURS;
}

/* `word` at the front of a list of the loader, or behind it. */
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

static bool set_device(const char *folder, const char *runtime) {
    char library[PATH_MAX + 32];
    if (!set_list("LD_LIBRARY_PATH", folder, true))
        return false;
    if (!runtime)
        return true;
    snprintf(library, sizeof library, "%s/libcudart.so.%s", folder, runtime);
    return set_list("LD_PRELOAD", library, false); /* behind the preload, which answers first */
}

static int run_there(char **argv, const char *runtime) {
    char folder[PATH_MAX];
    if (!find_device(folder)) {
        complain("the software device is not here: the package cushim-sim has it, or a build that "
                 "was installed with -Dsim_install=true");
        return EXIT_OURS;
    }
    if (strpbrk(folder, " :;$")) {
        complain("%s cannot stand in LD_LIBRARY_PATH: it has a blank, a colon or a $; move it",
                 folder);
        return EXIT_OURS;
    }
    if (!set_device(folder, runtime)) {
        complain("the environment cannot be set: %s", strerror(errno));
        return EXIT_OURS;
    }
    execvp(argv[0], argv);
    int error = errno;
    complain("%s: %s", argv[0], strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT;
}

int sim_main(int argc, char **argv) {
    const char *runtime = NULL;
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            usage_print(stdout, "sim");
            return EXIT_WELL;
        }
        int code = take_option(argv[i], &runtime);
        if (code != EXIT_WELL)
            return code;
    }
    if (i >= argc)
        return usage_error("sim", "run what? a program is missing");
    return run_there(argv + i, runtime);
}
