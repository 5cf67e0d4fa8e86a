#include "tools/cushim/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/amount.h"
#include "base/nearest.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/commands/diff_sites.h"
#include "tools/cushim/recording/counters.h"
#include "tools/cushim/usage.h"

enum { BEFORE, AFTER, N_SIDES, MOST_CONDITIONS = 32, MOST_ROWS = 48 };

/* ---- numbers, by their names in the JSON of reports ---- */

enum type { SUM, GAUGE, PEAK };
enum unit { COUNT, BYTES, NS };

/* The counters of all processes of a run, of a device and kind.  A peak is the largest of a
 * process; the other numbers are sums. */
struct amounts {
    struct cushim_mem_stats stats;
    struct cushim_report_held held;
};

struct number {
    const char *name;
    enum type type;
    enum unit unit;
    size_t at; /* in struct amounts */
    enum cushim_kind kind;
};

static const struct number numbers[] = {
#define COUNTER(name, field, type, unit, sentence)                                                 \
    {#name, type, unit, offsetof(struct amounts, stats.field), CUSHIM_KIND_DEVICE},
#include "report/report.def"
#undef COUNTER
#define FINDING(name, field, one, many)                                                            \
    {#name, SUM, COUNT, offsetof(struct amounts, stats.field), CUSHIM_KIND_DEVICE},
    CUSHIM_REPORT_FINDINGS(FINDING)
#undef FINDING
        {"rounding_bytes", GAUGE, BYTES, offsetof(struct amounts, held.rounding_bytes),
         CUSHIM_KIND_DEVICE},
    {"spare_bytes", GAUGE, BYTES, offsetof(struct amounts, held.spare_bytes), CUSHIM_KIND_DEVICE},
    {"idle_bytes", GAUGE, BYTES, offsetof(struct amounts, held.idle_bytes), CUSHIM_KIND_DEVICE}};
enum { N_NUMBERS = sizeof numbers / sizeof *numbers };

/* Find [KIND.]NAME, whose `_bytes` at the end may be left out.  Returns false if it is unknown;
 * `near` is then a similar name, or NULL. */
static bool find_number(struct number *found, const char *name, size_t n, const char **near) {
    struct cushim_nearest search;
    enum cushim_kind kind = CUSHIM_KIND_DEVICE;
    const char *dot = memchr(name, '.', n);
    for (int i = 0; dot && i < CUSHIM_N_KINDS; i++) {
        const char *word = cushim_report_kind((enum cushim_kind)i);
        if (strlen(word) != (size_t)(dot - name) || strncmp(name, word, strlen(word)) != 0)
            continue;
        kind = (enum cushim_kind)i;
        n -= strlen(word) + 1;
        name = dot + 1;
        break;
    }
    cushim_nearest_begin(&search, name, n);
    for (size_t i = 0; n && i < N_NUMBERS; i++) {
        *found = numbers[i];
        found->kind = kind;
        if (strncmp(found->name, name, n) == 0 &&
            (!found->name[n] || strcmp(found->name + n, "_bytes") == 0))
            return true;
        cushim_nearest_try(&search, found->name);
    }
    *near = search.best;
    return false;
}

/* Does a recording have this number? */
static bool is_recorded(const struct number *number) {
    static const char recorded[] =
        " requests no_call misses native refused frees requested_bytes live_bytes peak_live_bytes "
        "held_bytes peak_held_bytes waits wait_ns ";
    char word[64];
    snprintf(word, sizeof word, " %s ", number->name);
    return strstr(recorded, word);
}

static char *put_amount(char text[CUSHIM_AMOUNT_BYTES], enum unit unit, uint64_t value) {
    return unit == BYTES ? cushim_text_bytes(text, value)
           : unit == NS  ? cushim_text_time(text, value)
                         : cushim_text_count(text, value);
}

/* ---- conditions: NUMBER(>|<|=)[+|-]AMOUNT[%|UNIT] ---- */

struct condition {
    struct number number;
    char text[96];      /* as given */
    char relation;      /* >, < or = */
    char sign;          /* + or -: of the change between the two runs; 0: of the second run */
    bool is_share;      /* in per cent of the first run */
    long double amount; /* not negative */
};

/* Read "12.5%" or "60M".  Returns false if the text is no such amount. */
static bool read_amount(struct condition *condition, const char *text) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    char *end;
    size_t n = strspn(text, "0123456789."), n_bytes;
    condition->amount = strtold(text, &end);
    if (!n || end != text + n)
        return false;
    condition->is_share = strcmp(end, "%") == 0;
    if (!condition->is_share && condition->number.unit == BYTES) {
        if (cushim_size_read(&n_bytes, text))
            return false;
        condition->amount = (long double)n_bytes;
        return n_bytes <= INT64_MAX;
    }
    bool is_known = condition->is_share || !*end;
    uint64_t scale = 1;
    for (size_t i = 0; !is_known && condition->number.unit == NS && i < 4; i++, scale *= 1000) {
        if ((is_known = strcmp(end, units[i]) == 0))
            break;
    }
    condition->amount *= (long double)scale;
    return is_known && condition->amount <= INT64_MAX && (!condition->is_share || condition->sign);
}

/* Read a condition of n bytes. */
static void read_condition(struct condition *condition, const char *text, size_t n) {
    const char *near = NULL;
    *condition = (struct condition){.relation = 0};
    snprintf(condition->text, sizeof condition->text, "%.*s", (int)n, text);
    size_t at = strcspn(condition->text, "<>=");
    if (!at || !condition->text[at])
        usage_error("diff", "`%s` is not a condition: NAME>NUMBER, as in peak_held>+5%%",
                    condition->text);
    if (!find_number(&condition->number, condition->text, at, &near))
        usage_error("diff", "no number `%.*s`%s%s%s", (int)(at < 64 ? at : 64), condition->text,
                    near ? " (did you mean `" : "", near ? near : "", near ? "`?)" : "");
    condition->relation = condition->text[at++];
    if (condition->text[at] == '+' || condition->text[at] == '-')
        condition->sign = condition->text[at++];
    if (!read_amount(condition, condition->text + at))
        usage_error("diff", "`%.60s`: after >, < or = comes [+|-]NUMBER[%s]%s", condition->text,
                    condition->number.unit == BYTES ? "%|K|M|G|T"
                    : condition->number.unit == NS  ? "%|ns|us|ms|s"
                                                    : "%",
                    condition->is_share ? ", and a share needs a sign" : "");
}

static bool holds(const struct condition *condition, uint64_t before, uint64_t after) {
    long double amount = condition->sign == '-' ? -condition->amount : condition->amount;
    long double value = (long double)after - (condition->sign ? (long double)before : 0);
    if (condition->is_share) {
        value *= 100;
        amount *= (long double)before;
    }
    return condition->relation == '>'   ? value > amount
           : condition->relation == '<' ? value < amount
                                        : value == amount;
}

/* ---- the command line ---- */

struct run {
    const char *name;
    struct amounts amounts[CUSHIM_MAX_DEVICES][CUSHIM_N_KINDS];
    bool has_device[CUSHIM_MAX_DEVICES];
    bool is_recorded; /* one process has a recording, which lacks some counters */
    bool is_software; /* one process used the software device */
    size_t n_processes;
};

static struct run runs[N_SIDES];
static struct condition conditions[MOST_CONDITIONS];
static int n_conditions, n_held; /* n_held: that hold */

/* Read conditions with commas between them.  One that holds is enough. */
static void take_conditions(void *context, const char *text) {
    (void)context;
    for (;; text++) {
        text += strspn(text, " ");
        size_t n = strcspn(text, ","), n_kept = n;
        while (n_kept && text[n_kept - 1] == ' ')
            n_kept--;
        if (n_conditions == MOST_CONDITIONS)
            usage_error("diff", "at most %d conditions", MOST_CONDITIONS);
        read_condition(&conditions[n_conditions++], text, n_kept);
        text += n;
        if (!*text)
            return;
    }
}

/* ---- the runs ---- */

static void take(const struct cushim_report *report, const struct report_origin *origin,
                 void *context) {
    struct run *run = context;
    run->n_processes++;
    run->is_software |= cushim_mem_stats_read(&report->page.head.is_software) != 0;
    run->is_recorded |= origin->is_recording;
    diff_sites_add((int)(run - runs), report, origin);
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        run->has_device[device] |= cushim_report_has_device(report, device);
        for (int kind = 0; kind < CUSHIM_N_KINDS; kind++) {
            struct amounts *to = &run->amounts[device][kind];
            const struct cushim_mem_stats *from = &report->page.stats[device][kind];
            for (size_t i = 0; i < N_NUMBERS; i++) {
                size_t at = numbers[i].at;
                if (at >= offsetof(struct amounts, held))
                    continue;
                uint64_t n =
                    cushim_mem_stats_read((const atomic_uint_fast64_t *)((const char *)from + at));
                (numbers[i].type == PEAK ? cushim_mem_stats_raise : cushim_mem_stats_add)(
                    (atomic_uint_fast64_t *)((char *)to + at), n);
            }
            cushim_mem_stats_add(&to->stats.free_segment_bytes,
                                 cushim_mem_stats_read(&from->free_segment_bytes));
            to->held = cushim_report_held(&to->stats);
        }
    }
}

/* A run that cannot be read completely must not pass. */
static bool read_run(struct run *run) {
    return counters_reports_of(run->name, take, run) &&
           (run->n_processes || complain("%s has no report", run->name));
}

static bool has_device(int device) {
    return runs[BEFORE].has_device[device] || runs[AFTER].has_device[device];
}

/* Do both sides have this number? */
static bool is_known(const struct number *number) {
    return is_recorded(number) || (!runs[BEFORE].is_recorded && !runs[AFTER].is_recorded);
}

static bool are_comparable(void) {
    bool has_any = false;
    for (int i = 0; i < n_conditions; i++) {
        if (!is_known(&conditions[i].number))
            return complain("a recording has no %s: %s", conditions[i].number.name,
                            conditions[i].text);
    }
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        has_any |= has_device(device);
        for (int side = 0; side < N_SIDES; side++) {
            if (n_conditions && has_device(device) && !runs[side].has_device[device])
                return complain("%s has nothing of device %d", runs[side].name, device);
        }
    }
    return has_any || complain("neither run has a device");
}

/* ---- the table ---- */

static uint64_t value_of(const struct run *run, int device, const struct number *number) {
    uint64_t value;
    memcpy(&value, (const char *)&run->amounts[device][number->kind] + number->at, sizeof value);
    return value;
}

static bool check(int device, const struct number *number, uint64_t before, uint64_t after) {
    int n_before = n_held;
    for (int i = 0; i < n_conditions; i++) {
        const struct condition *condition = &conditions[i];
        char text[2][CUSHIM_AMOUNT_BYTES];
        if (condition->number.kind != number->kind || condition->number.at != number->at ||
            !holds(condition, before, after))
            continue;
        n_held++;
        complain("device %d: %s.%s is %s, was %s: %s", device, cushim_report_kind(number->kind),
                 number->name, put_amount(text[0], number->unit, after),
                 put_amount(text[1], number->unit, before), condition->text);
    }
    return n_held > n_before;
}

static void put_row(struct cushim_writer *out, int device, const struct number *number) {
    char label[64], change[24], text[2][CUSHIM_AMOUNT_BYTES];
    uint64_t before = value_of(&runs[BEFORE], device, number);
    uint64_t after = value_of(&runs[AFTER], device, number);
    bool is_no_gpu = number->unit == NS && (runs[BEFORE].is_software || runs[AFTER].is_software);
    snprintf(label, sizeof label, "device %d %s.%s%s", device, cushim_report_kind(number->kind),
             number->name, is_no_gpu ? " (no GPU)" : "");
    diff_change_text(change, before, after);
    bool fails = check(device, number, before, after);
    cushim_write(out, "  %-33s %11s %11s %11s%s\n", label,
                 put_amount(text[0], number->unit, before),
                 put_amount(text[1], number->unit, after), change, fails ? "  FAILS" : "");
}

static void add_row(struct number rows[MOST_ROWS], int *n_rows, const struct number *number) {
    for (int i = 0; i < *n_rows; i++) {
        if (rows[i].kind == number->kind && rows[i].at == number->at)
            return;
    }
    if (*n_rows < MOST_ROWS)
        rows[(*n_rows)++] = *number;
}

/* Write the rows that are always shown, and those of conditions. */
static int put_all(void) {
    static const char *const always[] = {"requests",      "no_call",   "frees",
                                         "live",          "peak_live", "peak_held",
                                         "native_allocs", "waits",     "out_of_memory"};
    struct cushim_writer out = {.fd = STDOUT_FILENO};
    struct number rows[MOST_ROWS], number;
    const char *near;
    int n_rows = 0;
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        if (find_number(&number, always[i], strlen(always[i]), &near))
            add_row(rows, &n_rows, &number);
    }
    for (int i = 0; i < n_conditions; i++)
        add_row(rows, &n_rows, &conditions[i].number);
    cushim_write(&out, "  %-33s %11s %11s %11s\n", "", "before", "after", "change");
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        for (int i = 0; has_device(device) && i < n_rows; i++) {
            if (is_known(&rows[i]))
                put_row(&out, device, &rows[i]);
        }
    }
    diff_sites_put(&out);
    int code = usage_flush(&out);
    return code == EXIT_WELL && n_held ? EXIT_WRONG : code;
}

int diff_main(int argc, char **argv) {
    const struct argument options[] = {{"--fail-if", .take = take_conditions}, {0}};
    arguments_words("diff", options, NULL, N_SIDES, N_SIDES, "two runs, BEFORE and AFTER", argc,
                    argv);
    runs[BEFORE].name = argv[BEFORE];
    runs[AFTER].name = argv[AFTER];
    return read_run(&runs[BEFORE]) && read_run(&runs[AFTER]) && are_comparable() ? put_all()
                                                                                 : EXIT_USAGE;
}
