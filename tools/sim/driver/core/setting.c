#include "setting.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"

const struct sim_setting sim_settings[SIM_N_SETTINGS] = {
#define OPT(type, name, value, min, max, unit, sentence)                                           \
    {#name, TYPE_##type, value, min, max, sentence},
#include "sim_options.def"
#undef OPT
};

static bool parse_kernels(const char *text, uint64_t *out) {
    static const char *const words[] = {[SIM_KERNELS_PROGRAM] = "program",
                                        [SIM_KERNELS_SKIP] = "skip",
                                        [SIM_KERNELS_FAIL] = "fail"};
    for (*out = 0; *out < sizeof words / sizeof words[0]; ++*out) {
        if (strcmp(text, words[*out]) == 0)
            return true;
    }
    return false;
}

static bool parse(const char *text, int type, uint64_t *out) {
    if (type == TYPE_KERNELS)
        return parse_kernels(text, out);
    if (type == TYPE_FILE) {
        *out = 1;
        return *text == '/';
    }
    if (type == TYPE_LATENCY && strcmp(text, "real") == 0) {
        *out = SIM_LATENCY_REAL;
        return true;
    }
    if (type == TYPE_BYTES)
        return !cushim_size_read(out, text);
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *end == 0;
}

bool sim_setting_read(const struct sim_setting *setting, const char *text, uint64_t *value) {
    if (!parse(text, setting->type, value))
        return false;
    bool is_real = setting->type == TYPE_LATENCY && *value == SIM_LATENCY_REAL;
    return is_real || (*value >= setting->min && *value <= setting->max);
}

const char *sim_setting_allowed(const struct sim_setting *setting, char text[SIM_ALLOWED_BYTES]) {
    const char *words = setting->type == TYPE_KERNELS ? "program, skip or fail"
                        : setting->type == TYPE_FILE  ? "an absolute path"
                                                      : NULL;
    if (words)
        return words;
    snprintf(text, SIM_ALLOWED_BYTES, "%" PRIu64 " to %" PRIu64 "%s", setting->min, setting->max,
             setting->type == TYPE_LATENCY ? ", or real" : "");
    return text;
}

void sim_setting_variable(const struct sim_setting *setting, char variable[SIM_VARIABLE_BYTES]) {
    snprintf(variable, SIM_VARIABLE_BYTES, "CUSHIM_SIM_%s", setting->name);
    for (char *at = variable; *at; at++) {
        if (*at >= 'a' && *at <= 'z')
            *at &= ~0x20;
    }
}
