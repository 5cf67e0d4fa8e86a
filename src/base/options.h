/*
 * The options of the environment: one table (options.def), one struct.
 *
 * If a value cannot be read, one line says so and the default is kept.  A variable CUSHIM_<WORD>
 * that is no option is named once.  Some names are left alone: those in CUSHIM_SIM_ belong to the
 * software device, a few to the companion and the kernels, one to `cushim run`.
 */
#pragma once

#include "base/amount.h"

/* Longest path, text and mistake that the functions below write, with the final 0. */
enum {
    CUSHIM_OPTION_PATH_BYTES = 1024,
    CUSHIM_OPTION_TEXT_BYTES = 64,
    CUSHIM_OPTION_PHRASE_BYTES = 128
};

/* `cushim run` sets it if an exit report is asked for: the number of the process that it becomes.
 * Children inherit the variable, but not the number. */
#define CUSHIM_STARTED_VARIABLE "CUSHIM_STARTED"

enum cushim_option_type {
    CUSHIM_OPTION_BOOL,
    CUSHIM_OPTION_BYTES,
    CUSHIM_OPTION_AMOUNT,
    CUSHIM_OPTION_LIMITS,
    CUSHIM_OPTION_ENUM,
    CUSHIM_OPTION_PATH,
    CUSHIM_OPTION_TEXT
};

struct cushim_options {
#define OPTION_FIELD_BOOL(name)                          bool name;
#define OPTION_FIELD_BYTES(name)                         size_t name;
#define OPTION_FIELD_AMOUNT(name)                        struct cushim_amount name;
#define OPTION_FIELD_LIMITS(name)                        char name[CUSHIM_OPTION_TEXT_BYTES];
#define OPTION_FIELD_ENUM(name)                          int name;
#define OPTION_FIELD_PATH(name)                          char name[CUSHIM_OPTION_PATH_BYTES];
#define OPTION_FIELD_TEXT(name)                          char name[CUSHIM_OPTION_PATH_BYTES];
#define OPT(type, name, value, min, max, unit, sentence) OPTION_FIELD_##type(name)
#include "base/options.def"
#undef OPT
#undef OPTION_FIELD_BOOL
#undef OPTION_FIELD_BYTES
#undef OPTION_FIELD_AMOUNT
#undef OPTION_FIELD_LIMITS
#undef OPTION_FIELD_ENUM
#undef OPTION_FIELD_PATH
#undef OPTION_FIELD_TEXT
};

struct cushim_option_row {
    const char *name; /* as in options.def: small letters */
    enum cushim_option_type type;
    size_t default_number;    /* BOOL, BYTES, AMOUNT in bytes, ENUM */
    const char *default_text; /* PATH and TEXT, else NULL */
    size_t min, max;          /* inclusive; of an AMOUNT in bytes, a share is 0 to 100 */
    const char *unit;         /* of an ENUM its words; of PATH and TEXT the form, or "" */
    const char *sentence;
    size_t offset; /* of the field in struct cushim_options */
};

/* All rows in the order of options.def; static. */
const struct cushim_option_row *cushim_option_rows(size_t *n_rows);

/* The row of `name` (cut at n_bytes), in upper or lower case, or NULL. */
const struct cushim_option_row *cushim_option_find(const char *name, size_t n_bytes);

/* The row whose name is nearest to an unknown one (base/nearest.h), or NULL. */
const struct cushim_option_row *cushim_option_nearest(const char *name, size_t n_bytes);

/* The variable of a row: CUSHIM_<NAME>. */
void cushim_option_variable(const struct cushim_option_row *row,
                            char text[CUSHIM_OPTION_TEXT_BYTES]);

/* A value as a user would write it: "on", "256M", "50%", a word, "" for no path.  It is in `text`
 * or in the options. */
const char *cushim_option_text(const struct cushim_options *options,
                               const struct cushim_option_row *row,
                               char text[CUSHIM_OPTION_TEXT_BYTES]);

/* The default, in the same way. */
void cushim_option_default_text(const struct cushim_option_row *row,
                                char text[CUSHIM_OPTION_TEXT_BYTES]);

/* Is `entry`, NAME=value of the environment, meant for us: an option, or a mistake? */
bool cushim_options_has(const char *entry);

void cushim_options_default(struct cushim_options *options);

/*
 * Read one value into its field.  Returns NULL, or the mistake and what is allowed as one phrase,
 * which is in `phrase` or static; the field is then unchanged.
 */
const char *cushim_option_set(struct cushim_options *options, const struct cushim_option_row *row,
                              const char *text, char phrase[CUSHIM_OPTION_PHRASE_BYTES]);

/* What LIMITS say of a device; of one that they do not name, auto. */
struct cushim_amount cushim_limits_of(const char *limits, int device);

/* Does the field of this row differ from its default? */
bool cushim_option_is_set(const struct cushim_options *options,
                          const struct cushim_option_row *row);

/* Is it one of the words that turn a BOOL off? */
bool cushim_option_is_off(const char *text);

/*
 * Load the defaults, then the environment, but in a setuid program the defaults only.  Each refused
 * value and each unknown name is logged as one line, after the log level itself was read.
 */
void cushim_options_load(struct cushim_options *options);

/* The same with another default of the log's level, because the companion is silent until asked. */
void cushim_options_load_at(struct cushim_options *options, int log_level);
