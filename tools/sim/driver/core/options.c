#include "options.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum option_type { TYPE_NUMBER, TYPE_BYTES, TYPE_LATENCY, TYPE_KERNELS };

struct option_row {
    const char *name;
    enum option_type type;
    uint64_t default_value, min, max;
    uint64_t *field;
};

static struct sim_options options;
static pthread_once_t once = PTHREAD_ONCE_INIT;

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

static bool parse(const char *text, enum option_type type, uint64_t *out) {
    if (type == TYPE_KERNELS)
        return parse_kernels(text, out);
    if (type == TYPE_LATENCY && strcmp(text, "real") == 0) {
        *out = SIM_LATENCY_REAL;
        return true;
    }
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    unsigned shift = 0;
    if (type == TYPE_BYTES && *end) {
        const char *units = "KMGT", *unit = strchr(units, *end & ~0x20);
        if (!unit)
            return false;
        shift = 10 * (unsigned)(unit - units + 1);
        end++;
    }
    *out = number << shift;
    return *end == 0 && *out >> shift == number;
}

/* Capitals: the row's name is its field's, the variable's is spelled as users write variables. */
static const char *value_of(const char *name) {
    char variable[64];
    snprintf(variable, sizeof variable, "CUSHIM_SIM_%s", name);
    for (char *at = variable; *at; at++) {
        if (*at >= 'a' && *at <= 'z')
            *at &= ~0x20;
    }
    return getenv(variable);
}

static void load(void) {
    const struct option_row rows[] = {
#define OPT(type, name, value, min, max, unit, sentence)                                           \
    {#name, TYPE_##type, value, min, max, &options.name},
#include "sim_options.def"
#undef OPT
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct option_row *row = &rows[i];
        *row->field = row->default_value;
        const char *text = value_of(row->name);
        if (!text)
            continue;
        uint64_t value;
        bool is_read = parse(text, row->type, &value);
        bool is_real = is_read && row->type == TYPE_LATENCY && value == SIM_LATENCY_REAL;
        if (is_read && (is_real || (value >= row->min && value <= row->max)))
            *row->field = value;
        else
            fprintf(stderr, "cushim software device: option %s cannot be %s\n", row->name, text);
    }
}

const struct sim_options *sim_options(void) {
    pthread_once(&once, load);
    return &options;
}
