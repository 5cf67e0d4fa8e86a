#include "tools/cushim/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/options.h"
#include "base/path.h"
#include "tools/cushim/usage.h"
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

_Noreturn static void unknown(const char *topic, const char *name, size_t name_bytes) {
    char text[TEXT] = "";
    const struct cushim_option_row *nearest = cushim_option_nearest(name, name_bytes);
    usage_error(topic, "no option --%.*s%s%s%s", (int)name_bytes, name,
                nearest ? " (did you mean --" : "", nearest ? spell(nearest, text) : "",
                nearest ? "?)" : "");
}

/* The row of "--name" or "--name=value"; NULL if no option has the name. */
static const struct cushim_option_row *row_of(const char *argument) {
    size_t name_bytes = strcspn(argument + 2, "=");
    char text[TEXT];
    respell(argument + 2, name_bytes, '-', '_', text);
    return name_bytes < TEXT ? cushim_option_find(text, name_bytes) : NULL;
}

/* NULL, or the mistake as one phrase, until the next call. */
static const char *mistake_in(const struct cushim_option_row *row, const char *value) {
    static char phrase[CUSHIM_OPTION_PHRASE_BYTES];
    struct cushim_options scratch;
    cushim_options_default(&scratch);
    return cushim_option_set(&scratch, row, value, phrase);
}

void settings_take(const char *topic, char **words, int *at) {
    if (strncmp(words[*at], "--", 2) != 0)
        usage_error(topic, "no option %s", words[*at]);
    const char *name = words[*at] + 2;
    size_t name_bytes = strcspn(name, "=");
    char text[TEXT], variable[TEXT];
    const struct cushim_option_row *row = row_of(words[*at]);
    if (!row)
        unknown(topic, name, name_bytes);
    const char *next = words[*at + 1];
    const char *value = name[name_bytes] ? name + name_bytes + 1 : bare_value(row);
    if (!value && next && strcmp(next, "--") != 0)
        value = words[++*at];
    spell(row, text);
    if (!value)
        usage_error(topic, "--%s needs a value: --%s=VALUE", text, text);
    const char *reason = mistake_in(row, value);
    if (reason)
        usage_error(topic, "--%s=%s %s", text, value, reason);
    cushim_option_variable(row, variable);
    if (setenv(variable, value, 1) != 0)
        usage_error(topic, "no memory for --%s", text);
}

bool settings_has(const char *word) {
    return strncmp(word, "--", 2) == 0 && row_of(word);
}

bool settings_would_take(const char *option, const char *value) {
    static const char *const endings[] = {".json", ".txt", ".log", "/"};
    bool is_option = strncmp(option, "--", 2) == 0 && !strchr(option, '=');
    const struct cushim_option_row *row = is_option ? row_of(option) : NULL;
    if (!row || mistake_in(row, value))
        return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (cushim_path_ends_in(value, endings[i]))
            return true;
    }
    return row->type != CUSHIM_OPTION_PATH && row->type != CUSHIM_OPTION_TEXT;
}

bool settings_is_ours(const char *entry, const char **wrong, char nearest[static TEXT]) {
    *wrong = NULL;
    *nearest = 0;
    size_t name_bytes = strcspn(entry, "=");
    bool is_main = name_bytes == 6 && strncmp(entry, "CUSHIM", 6) == 0;
    if (!is_main && !cushim_options_has(entry))
        return false;
    const struct cushim_option_row *row =
        is_main ? cushim_option_find("cushim", 6) : cushim_option_find(entry + 7, name_bytes - 7);
    if (!row || (!is_main && strcmp(row->name, "cushim") == 0)) {
        *wrong = "is no option";
        row = cushim_option_nearest(entry + 7, name_bytes - 7);
        if (row)
            cushim_option_variable(row, nearest);
    } else if (entry[name_bytes] == '=') {
        *wrong = mistake_in(row, entry + name_bytes + 1);
    }
    return true;
}

/* The options as the preload will read them; a value that cannot be read changes nothing. */
static const struct cushim_options *from_environment(void) {
    static const char *const names[] = {"cushim", "stats", "log", "check"};
    static struct cushim_options options; /* too large for a stack */
    cushim_options_default(&options);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct cushim_option_row *row = cushim_option_find(names[i], strlen(names[i]));
        char variable[TEXT], phrase[CUSHIM_OPTION_PHRASE_BYTES];
        cushim_option_variable(row, variable);
        const char *value = getenv(variable);
        if (value)
            cushim_option_set(&options, row, value, phrase);
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

bool settings_want_word(void) {
    const struct cushim_options *options = from_environment();
    return settings_want_report() || (options->cushim && options->check && options->log);
}

/* The values that a row takes, in words. */
static const char *values_of(const struct cushim_option_row *row) {
    static const char *const values[] = {[CUSHIM_OPTION_BOOL] = "on|off",
                                         [CUSHIM_OPTION_BYTES] = "NUMBER",
                                         [CUSHIM_OPTION_AMOUNT] = "SIZE|SHARE%",
                                         [CUSHIM_OPTION_LIMITS] = "SIZE|SHARE%|DEVICE:SIZE,...",
                                         [CUSHIM_OPTION_PATH] = "FILE",
                                         [CUSHIM_OPTION_TEXT] = "TEXT"};
    bool is_size = row->type == CUSHIM_OPTION_BYTES && strcmp(row->unit, "bytes") == 0;
    return row->type == CUSHIM_OPTION_ENUM ? row->unit : is_size ? "SIZE" : values[row->type];
}

/* The list for people has what is used every day first.  The last group has all others. */
static const struct {
    const char *title, *names;
} groups[] = {
    {"Everyday", "stats sites check limit free"},
    {"Recordings (cushim record)", "trace stacks trace_max"},
    {"Memory that is kept", "keep reserve large buckets backend zero async_keep"},
    {"What is pooled", "cushim pool runtime managed pinned capture"},
    {"Copies", "copy copy_stage copy_stage_min copy_ring copy_threads"},
    {"Arenas and graphs", "arena arena_max_block arena_managed arena_poison arena_reset graph"},
    {"More", ""},
};
enum { N_GROUPS = sizeof groups / sizeof *groups };

static void print_option(FILE *out, const struct cushim_option_row *row) {
    char preset[TEXT], name[TEXT], head[2 * TEXT], text[1024];
    const char *bare = bare_value(row);
    cushim_option_default_text(row, preset);
    snprintf(head, sizeof head, "--%s%s=%s%s", spell(row, name), bare ? "[" : "", values_of(row),
             bare ? "]" : "");
    snprintf(text, sizeof text, "%s (default %s)", row->sentence, *preset ? preset : "none");
    usage_beside(out, head, text);
}

void settings_print_list(FILE *out) {
    size_t n_rows;
    const struct cushim_option_row *rows = cushim_option_rows(&n_rows);
    bool has_told[64] = {false};
    for (int group = 0; group < N_GROUPS; group++) {
        fprintf(out, "%s  %s:\n", group ? "\n" : "", groups[group].title);
        for (const char *name = groups[group].names; *name; name += strcspn(name, " ")) {
            name += strspn(name, " ");
            const struct cushim_option_row *row = cushim_option_find(name, strcspn(name, " "));
            if (row) {
                has_told[row - rows] = true;
                print_option(out, row);
            }
        }
    }
    for (size_t i = 0; i < n_rows; i++) {
        if (!has_told[i])
            print_option(out, &rows[i]);
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
    static const char *const values[] = {[TYPE_NUMBER] = "NUMBER",
                                         [TYPE_BYTES] = "SIZE",
                                         [TYPE_LATENCY] = "NUMBER|real",
                                         [TYPE_FILE] = "FILE",
                                         [TYPE_KERNELS] = "program|skip|fail"};
    for (int i = 0; i < SIM_N_SETTINGS; i++) {
        const struct sim_setting *setting = &sim_settings[i];
        char name[SIM_VARIABLE_BYTES], head[2 * SIM_VARIABLE_BYTES];
        respell(setting->name, strlen(setting->name), '_', '-', name);
        snprintf(head, sizeof head, "--%s=%s", name, values[setting->type]);
        usage_beside(out, head, setting->sentence);
    }
}
