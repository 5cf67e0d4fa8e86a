#include "tools/cushim/commands/condition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "base/nearest.h"

/* ---- numbers of a run ---- */

enum type { SUM, GAUGE, PEAK };

static void add(struct cushim_mem_stats *to, const struct cushim_mem_stats *from, size_t counter,
                enum type type) {
    atomic_uint_fast64_t *sum = (atomic_uint_fast64_t *)((char *)to + counter);
    uint64_t n =
        cushim_mem_stats_read((const atomic_uint_fast64_t *)((const char *)from + counter));
    if (type == PEAK)
        cushim_mem_stats_raise(sum, n);
    else
        cushim_mem_stats_add(sum, n);
}

void run_numbers_add(struct run_numbers *numbers, const struct cushim_report *report) {
    numbers->n_processes++;
    if (cushim_mem_stats_read(&report->page.head.is_software))
        atomic_store(&numbers->sum.page.head.is_software, true);
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        numbers->has_device[device] |= cushim_report_has_device(report, device);
        for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
            struct cushim_mem_stats *to = &numbers->sum.page.stats[device][kind];
            const struct cushim_mem_stats *from = &report->page.stats[device][kind];
#define COUNTER(name, field, type, unit, sentence)                                                 \
    add(to, from, offsetof(struct cushim_mem_stats, field), type);
#include "report/report.def"
#undef COUNTER
#define FINDING(name, field, one, many)                                                            \
    add(to, from, offsetof(struct cushim_mem_stats, field), SUM);
            CUSHIM_REPORT_FINDINGS(FINDING)
#undef FINDING
            add(to, from, offsetof(struct cushim_mem_stats, free_segment_bytes), GAUGE);
        }
    }
}

/* ---- names ---- */

enum { COUNT = CONDITION_COUNT, BYTES = CONDITION_BYTES, NS = CONDITION_NS };

static const struct condition_name names[] = {
#define COUNTER(name, field, type, unit, sentence)                                                 \
    {CUSHIM_KIND_DEVICE, #name, (enum condition_unit)unit,                                         \
     offsetof(struct cushim_mem_stats, field), CONDITION_FIELD},
#include "report/report.def"
#undef COUNTER
#define FINDING(name, field, one, many)                                                            \
    {CUSHIM_KIND_DEVICE, #name, CONDITION_COUNT, offsetof(struct cushim_mem_stats, field),         \
     CONDITION_FIELD},
    CUSHIM_REPORT_FINDINGS(FINDING)
#undef FINDING
        {CUSHIM_KIND_DEVICE, "rounding_bytes", CONDITION_BYTES, 0, CONDITION_ROUNDING},
    {CUSHIM_KIND_DEVICE, "spare_bytes", CONDITION_BYTES, 0, CONDITION_SPARE},
    {CUSHIM_KIND_DEVICE, "idle_bytes", CONDITION_BYTES, 0, CONDITION_IDLE}};

static bool is_name(const char *name, const char *text, size_t n) {
    return strncmp(name, text, n) == 0 && (!name[n] || strcmp(name + n, "_bytes") == 0);
}

bool condition_find(struct condition_name *found, const char *name, size_t n_bytes,
                    const char **near) {
    enum cushim_kind kind = CUSHIM_KIND_DEVICE;
    struct cushim_nearest search;
    for (int i = 0; i < CUSHIM_N_KINDS; i++) {
        const char *word = cushim_report_kind((enum cushim_kind)i);
        size_t n = strlen(word);
        if (n_bytes > n && name[n] == '.' && strncmp(name, word, n) == 0) {
            kind = (enum cushim_kind)i;
            name += n + 1;
            n_bytes -= n + 1;
            break;
        }
    }
    cushim_nearest_begin(&search, name, n_bytes);
    for (size_t i = 0; n_bytes && i < sizeof names / sizeof *names; i++) {
        if (is_name(names[i].name, name, n_bytes)) {
            *found = names[i];
            found->kind = kind;
            return true;
        }
        cushim_nearest_try(&search, names[i].name);
    }
    *near = search.best;
    return false;
}

bool condition_is_recorded(const struct condition_name *name) {
    static const char *const recorded[] = {
        "requests",        "no_call",         "misses",     "native",          "refused",
        "frees",           "requested_bytes", "live_bytes", "peak_live_bytes", "held_bytes",
        "peak_held_bytes", "waits",           "wait_ns"};
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++) {
        if (strcmp(recorded[i], name->name) == 0)
            return true;
    }
    return false;
}

uint64_t condition_value(const struct run_numbers *numbers, int device,
                         const struct condition_name *name) {
    const struct cushim_mem_stats *stats = cushim_report_stats(&numbers->sum, device, name->kind);
    struct cushim_report_held held = cushim_report_held(stats);
    switch (name->part) {
    case CONDITION_ROUNDING:
        return held.rounding_bytes;
    case CONDITION_SPARE:
        return held.spare_bytes;
    case CONDITION_IDLE:
        return held.idle_bytes;
    default:
        return cushim_mem_stats_read(
            (const atomic_uint_fast64_t *)((const char *)stats + name->counter));
    }
}

/* ---- conditions ---- */

/* The scale of the unit behind a time or a count; 0 if it is unknown. */
static uint64_t scale_of(enum condition_unit unit, const char *text) {
    static const struct {
        const char *text;
        uint64_t scale;
    } scales[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
    for (size_t i = 0; unit == CONDITION_NS && i < sizeof scales / sizeof *scales; i++) {
        if (strcmp(scales[i].text, text) == 0)
            return scales[i].scale;
    }
    return *text ? 0 : 1;
}

/* Read "12.5%" or "60M".  Returns false if the text is no such number. */
static bool read_number(struct condition *condition, const char *text) {
    char *end;
    size_t n = strspn(text, "0123456789."), n_bytes;
    condition->number = strtold(text, &end);
    if (!n || end != text + n)
        return false;
    condition->is_share = strcmp(end, "%") == 0;
    if (!condition->is_share && condition->name.unit == CONDITION_BYTES) {
        if (cushim_size_read(&n_bytes, text))
            return false;
        condition->number = (long double)n_bytes;
        return n_bytes <= INT64_MAX;
    }
    uint64_t scale = condition->is_share ? 1 : scale_of(condition->name.unit, end);
    condition->number *= (long double)scale;
    return scale && condition->number <= INT64_MAX && (!condition->is_share || condition->sign);
}

bool condition_read(struct condition *condition, const char *text, size_t n_bytes,
                    char wrong[160]) {
    const char *near = NULL;
    *condition = (struct condition){.relation = 0};
    snprintf(condition->text, sizeof condition->text, "%.*s", (int)n_bytes, text);
    size_t at = strcspn(condition->text, "<>=");
    if (!at || !condition->text[at]) {
        snprintf(wrong, 160, "`%s` is not a condition: NAME>NUMBER, as in peak_held>+5%%",
                 condition->text);
        return false;
    }
    if (!condition_find(&condition->name, condition->text, at, &near)) {
        snprintf(wrong, 160, "no number `%.*s`%s%s%s", (int)(at < 64 ? at : 64), condition->text,
                 near ? " (did you mean `" : "", near ? near : "", near ? "`?)" : "");
        return false;
    }
    condition->relation = condition->text[at++];
    if (condition->text[at] == '+' || condition->text[at] == '-')
        condition->sign = condition->text[at++];
    if (read_number(condition, condition->text + at))
        return true;
    snprintf(wrong, 160, "`%.60s`: after >, < or = comes [+|-]NUMBER[%s]%s", condition->text,
             condition->name.unit == CONDITION_BYTES ? "%|K|M|G|T"
             : condition->name.unit == CONDITION_NS  ? "%|ns|us|ms|s"
                                                     : "%",
             condition->is_share ? ", and a share needs a sign" : "");
    return false;
}

bool condition_holds(const struct condition *condition, uint64_t before, uint64_t after) {
    long double number = condition->sign == '-' ? -condition->number : condition->number;
    long double value = (long double)after - (condition->sign ? (long double)before : 0);
    if (condition->is_share) {
        value *= 100;
        number *= (long double)before;
    }
    return condition->relation == '>'   ? value > number
           : condition->relation == '<' ? value < number
                                        : value == number;
}

char *condition_put(char text[CUSHIM_AMOUNT_BYTES], enum condition_unit unit, uint64_t value) {
    return unit == CONDITION_BYTES ? cushim_text_bytes(text, value)
           : unit == CONDITION_NS  ? cushim_text_time(text, value)
                                   : cushim_text_count(text, value);
}
