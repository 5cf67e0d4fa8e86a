#include "options.h"

#include "complain.h"
#include "setting.h"

#include <pthread.h>
#include <stdlib.h>

static struct sim_options options;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
    uint64_t *const fields[] = {
#define OPT(type, name, value, min, max, unit, sentence) &options.name,
#include "sim_options.def"
#undef OPT
    };
    for (int i = 0; i < SIM_N_SETTINGS; i++) {
        const struct sim_setting *setting = &sim_settings[i];
        char variable[SIM_VARIABLE_BYTES], allowed[SIM_ALLOWED_BYTES];
        uint64_t value;
        *fields[i] = setting->preset;
        sim_setting_variable(setting, variable);
        const char *text = getenv(variable);
        if (text && sim_setting_read(setting, text, &value))
            *fields[i] = value;
        else if (text)
            sim_complain("%s=%s is not possible (%s) and has no effect", variable, text,
                         sim_setting_allowed(setting, allowed));
    }
}

const struct sim_options *sim_options(void) {
    pthread_once(&once, load);
    return &options;
}
