/* One setting of the software device, as text: for the device, and for `cushim sim`. */
#pragma once

#include "options.h"

#include <stdbool.h>

struct sim_setting {
    const char *name; /* lower case, as in sim_options.def */
    enum { TYPE_NUMBER, TYPE_BYTES, TYPE_LATENCY, TYPE_FILE, TYPE_KERNELS } type;
    uint64_t preset, min, max;
    const char *sentence;
};

enum {
#define OPT(type, name, value, min, max, unit, sentence) SIM_SETTING_##name,
#include "sim_options.def"
#undef OPT
    SIM_N_SETTINGS
};

extern const struct sim_setting sim_settings[SIM_N_SETTINGS];

/* False: the text is no value of the setting. */
bool sim_setting_read(const struct sim_setting *setting, const char *text, uint64_t *value);

enum { SIM_VARIABLE_BYTES = 64, SIM_ALLOWED_BYTES = 64 };

/* The values that a setting takes, in words; in `text` or static. */
const char *sim_setting_allowed(const struct sim_setting *setting, char text[SIM_ALLOWED_BYTES]);

/* The name of its variable: CUSHIM_SIM_ and the name in capitals. */
void sim_setting_variable(const struct sim_setting *setting, char variable[SIM_VARIABLE_BYTES]);
