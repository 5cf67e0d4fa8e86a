#include "tools/cushim/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/options.h"
#include "tools/sim/driver/core/setting.h"

_Static_assert((int)SETTINGS_VARIABLE_BYTES == CUSHIM_OPTION_TEXT_BYTES &&
                   (int)SETTINGS_PATH_BYTES == CUSHIM_OPTION_PATH_BYTES,
               "lengths are the same");

#define TEXT CUSHIM_OPTION_TEXT_BYTES

/* Copy `name` with one character replaced by another, because options have hyphens and rows have
 * underscores.  The text is cut if it is full. */
static const char *respell(const char *name, size_t name_bytes, char from, char to,
                           char text[static TEXT]) {
    size_t i = 0;
    for (; i < name_bytes && i + 1 < TEXT; i++)
        text[i] = name[i];
    text[i] = 0;
    for (i = 0; text[i]; i++) {
        if (text[i] == from)
            text[i] = to;
    }
    return text;
}

static const char *spell(const struct cushim_option_row *row, char text[static TEXT]) {
    return respell(row->name, strlen(row->name), '_', '-', text);
}

/* What an option means without a value, if it is not a BOOL. */
static const struct {
    const char *name, *value;
} bare_values[] = {{"stats", "stderr"}, {"check", "frees"}, {"sites", "512K"}};

/* The value of an option without one; NULL if it needs one. */
static const char *bare_value(const struct cushim_option_row *row) {
    for (size_t i = 0; i < sizeof bare_values / sizeof bare_values[0]; i++) {
        if (strcmp(row->name, bare_values[i].name) == 0)
            return bare_values[i].value;
    }
    return row->type == CUSHIM_OPTION_BOOL ? "1" : NULL;
}

static void tell_unknown(const char *name, size_t name_bytes, char *wrong, size_t wrong_bytes) {
    char text[TEXT] = "";
    const struct cushim_option_row *nearest = cushim_option_nearest(name, name_bytes);
    if (nearest)
        spell(nearest, text);
    snprintf(wrong, wrong_bytes, "no option --%.*s%s%s%s", (int)name_bytes, name,
             nearest ? " (did you mean --" : "", text, nearest ? "?)" : "");
}

bool settings_take(const char *argument, char *wrong, size_t wrong_bytes) {
    const char *name = argument + 2; /* after the two dashes */
    size_t name_bytes = strcspn(name, "=");
    char text[TEXT];
    respell(name, name_bytes, '-', '_', text);
    const struct cushim_option_row *row =
        name_bytes < TEXT ? cushim_option_find(text, name_bytes) : NULL;
    if (!row) {
        tell_unknown(name, name_bytes, wrong, wrong_bytes);
        return false;
    }
    const char *value = name + name_bytes + 1;
    if (name[name_bytes] == 0) {
        value = bare_value(row);
        if (!value) {
            spell(row, text);
            snprintf(wrong, wrong_bytes, "--%s needs a value: --%s=VALUE", text, text);
            return false;
        }
    }
    struct cushim_options scratch;
    cushim_options_default(&scratch);
    const char *reason = cushim_option_set(&scratch, row, value);
    if (reason) {
        bool has_words = row->type == CUSHIM_OPTION_ENUM;
        snprintf(wrong, wrong_bytes, "--%s=%s %s%s%s", spell(row, text), value, reason,
                 has_words ? ": " : "", has_words ? row->unit : "");
        return false;
    }
    char variable[TEXT];
    cushim_option_variable(row, variable);
    if (setenv(variable, value, 1) != 0) {
        snprintf(wrong, wrong_bytes, "no memory for --%s", spell(row, text));
        return false;
    }
    return true;
}

const char settings_no_option[] = "is no option";

bool settings_is_ours(const char *entry, const char **wrong) {
    *wrong = NULL;
    size_t name_bytes = strcspn(entry, "=");
    bool is_main = name_bytes == 6 && strncmp(entry, "CUSHIM", 6) == 0;
    if (!is_main && !cushim_options_has(entry))
        return false;
    const struct cushim_option_row *row =
        is_main ? cushim_option_find("cushim", 6) : cushim_option_find(entry + 7, name_bytes - 7);
    if (!row || (!is_main && strcmp(row->name, "cushim") == 0)) {
        *wrong = settings_no_option;
    } else if (entry[name_bytes] == '=') {
        struct cushim_options scratch;
        cushim_options_default(&scratch);
        *wrong = cushim_option_set(&scratch, row, entry + name_bytes + 1);
    }
    return true;
}

bool settings_nearest(const char *entry, char text[static TEXT]) {
    const char *name = entry + strlen("CUSHIM_");
    const struct cushim_option_row *row = cushim_option_nearest(name, strcspn(name, "="));
    if (row)
        cushim_option_variable(row, text);
    return row != NULL;
}

/* The options as the preload will read them; a value that cannot be read changes nothing. */
static const struct cushim_options *from_environment(void) {
    static const char *const names[] = {"cushim", "stats", "log"};
    static struct cushim_options options; /* too large for a stack */
    cushim_options_default(&options);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct cushim_option_row *row = cushim_option_find(names[i], strlen(names[i]));
        char variable[TEXT];
        cushim_option_variable(row, variable);
        const char *value = getenv(variable);
        if (value)
            cushim_option_set(&options, row, value);
    }
    return &options;
}

bool settings_are_off(void) {
    return !from_environment()->cushim;
}

bool settings_report(char where[static CUSHIM_OPTION_PATH_BYTES]) {
    const struct cushim_options *options = from_environment();
    strcpy(where, options->stats);
    return options->cushim && *where && !cushim_option_is_off(where);
}

bool settings_are_told(void) {
    return from_environment()->log >= CUSHIM_LOG_INFO;
}

bool settings_want_report(void) {
    char where[CUSHIM_OPTION_PATH_BYTES];
    bool has_report = settings_report(where) && from_environment()->log;
    return has_report || (!settings_are_off() && settings_are_told());
}

/* The values that a row takes, in words. */
static const char *values_of(const struct cushim_option_row *row) {
    switch (row->type) {
    case CUSHIM_OPTION_BOOL:
        return "on|off";
    case CUSHIM_OPTION_BYTES:
        return strcmp(row->unit, "bytes") == 0 ? "SIZE" : "NUMBER"; /* named after the unit */
    case CUSHIM_OPTION_AMOUNT:
        return "SIZE|SHARE%";
    case CUSHIM_OPTION_LIMITS:
        return "SIZE|SHARE%|DEVICE:SIZE,...";
    case CUSHIM_OPTION_ENUM:
        return row->unit;
    case CUSHIM_OPTION_PATH:
        return "FILE";
    case CUSHIM_OPTION_TEXT:
        return "TEXT";
    }
    return "";
}

void settings_print_list(FILE *out) {
    size_t n_rows;
    const struct cushim_option_row *rows = cushim_option_rows(&n_rows);
    for (size_t i = 0; i < n_rows; i++) {
        char variable[TEXT], preset[TEXT], text[TEXT];
        cushim_option_variable(&rows[i], variable);
        cushim_option_default_text(&rows[i], preset);
        const char *bare = bare_value(&rows[i]);
        fprintf(out, "    --%s%s=%s%s    %s, default %s\n        %s\n", spell(&rows[i], text),
                bare ? "[" : "", values_of(&rows[i]), bare ? "]" : "", variable,
                *preset ? preset : "none", rows[i].sentence);
    }
}

/* Print a cell of a markdown table, with bars escaped. */
static void print_cell(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', out);
        fputc(*text, out);
    }
}

void settings_print_table(FILE *out) {
    size_t n_rows;
    const struct cushim_option_row *rows = cushim_option_rows(&n_rows);
    for (size_t i = 0; i < n_rows; i++) {
        char variable[TEXT], preset[TEXT], text[TEXT];
        cushim_option_variable(&rows[i], variable);
        cushim_option_default_text(&rows[i], preset);
        fprintf(out, "| `%s` | `--%s` | ", variable, spell(&rows[i], text));
        print_cell(out, values_of(&rows[i]));
        fprintf(out, " | %s | ", *preset ? preset : "none");
        print_cell(out, rows[i].sentence);
        fputs(" |\n", out);
    }
}

void settings_print_sim_table(FILE *out) {
    for (int i = 0; i < SIM_N_SETTINGS; i++) {
        char variable[SIM_VARIABLE_BYTES];
        sim_setting_variable(&sim_settings[i], variable);
        fprintf(out, "| `%s` | ", variable);
        print_cell(out, sim_settings[i].sentence);
        fputs(" |\n", out);
    }
}

void settings_print_sim(FILE *out) {
    for (int i = 0; i < SIM_N_SETTINGS; i++) {
        char name[SIM_VARIABLE_BYTES];
        snprintf(name, sizeof name, "--%s=VALUE", sim_settings[i].name);
        for (char *at = name; *at; at++)
            *at = *at == '_' ? '-' : *at;
        fprintf(out, "    %-21s %s\n", name, sim_settings[i].sentence);
    }
}
