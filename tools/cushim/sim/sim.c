#include "tools/cushim/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cushim/arguments.h"
#include "tools/cushim/launch.h"
#include "tools/cushim/usage.h"
#include "tools/sim/driver/core/setting.h"

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

static void take_setting(const char *topic, char **words, int *at) {
    uint64_t value;
    const char *option = words[*at];
    const char *known[SIM_N_SETTINGS + 1] = {"runtime"}, *text = strchr(option, '=');
    char variable[SIM_VARIABLE_BYTES], allowed[SIM_ALLOWED_BYTES];
    size_t n_bytes = strcspn(option, "=");
    if (strncmp(option, "--", 2) != 0)
        usage_error(topic, "no option %s", option);
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
        usage_unknown(topic, "option", option + 2, known, SIM_N_SETTINGS + 1);
    if (!text)
        usage_error(topic, "%s needs a value", option);
    if (!sim_setting_read(setting, text, &value))
        usage_error(topic, "%.*s=%s is not possible: %s (%s)", (int)n_bytes, option, text,
                    setting->sentence, sim_setting_allowed(setting, allowed));
    sim_setting_variable(setting, variable);
    if (setenv(variable, text, 1) != 0)
        exit(EXIT_OURS);
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

/* The runtime comes behind the preload, which must answer first. */
static int run_there(int first, char **argv, const char *runtime) {
    char folder[PATH_MAX], library[PATH_MAX + 32];
    if (!find_device(folder))
        return complain_as(EXIT_OURS, "the software device is not installed: the package cushim-sim"
                                      " has it, or a build that was installed with "
                                      "-Dsim_install=true");
    if (strpbrk(folder, " :;$"))
        return complain_as(EXIT_OURS,
                           "%s cannot be in LD_LIBRARY_PATH, because it has a blank, a "
                           "colon or a $; move it",
                           folder);
    snprintf(library, sizeof library, "%s/libcudart.so.%s", folder, runtime ? runtime : "");
    if (!set_list("LD_LIBRARY_PATH", folder, true) ||
        (runtime && !set_list("LD_PRELOAD", library, false)))
        return complain_as(EXIT_OURS, "%s", strerror(errno));
    execvp(argv[first], argv + first);
    return launch_refused(first, argv, errno);
}

int sim_main(int argc, char **argv) {
    static const char *const versions[] = {"12", "13", NULL};
    int version = -1;
    const struct argument rows[] = {{"--runtime", .word = &version, .words = versions}, {0}};
    int first = arguments_program("sim", rows, NULL, take_setting, true, argc, argv);
    return run_there(first, argv, version < 0 ? NULL : versions[version]);
}
