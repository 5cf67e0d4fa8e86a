#include "tools/cushim/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cushim/arguments.h"
#include "tools/cushim/commands/diff_sites.h"
#include "tools/cushim/commands/condition.h"
#include "tools/cushim/recording/counters.h"
#include "tools/cushim/usage.h"

enum { BEFORE, AFTER, N_SIDES, MOST_CONDITIONS = 32, MOST_ROWS = 48 };

struct request {
    const char *sides[N_SIDES];
    struct run_numbers *numbers[N_SIDES];
    struct diff_sites *sites;
    struct condition conditions[MOST_CONDITIONS];
    int n_conditions;
    struct cushim_writer out;
    int n_held; /* conditions that hold */
};

/* ---- the command line ---- */

/* Read conditions with commas between them.  One that holds is enough. */
static int take_conditions(void *context, const char *text) {
    struct request *request = context;
    char wrong[160];
    for (;;) {
        size_t n = strcspn(text, ",");
        const char *begin = text;
        size_t n_bytes = n;
        while (n_bytes && *begin == ' ')
            begin++, n_bytes--;
        while (n_bytes && begin[n_bytes - 1] == ' ')
            n_bytes--;
        if (request->n_conditions == MOST_CONDITIONS)
            return usage_error("diff", "at most %d conditions", MOST_CONDITIONS);
        if (!condition_read(&request->conditions[request->n_conditions++], begin, n_bytes, wrong))
            return usage_error("diff", "%s", wrong);
        if (!text[n])
            return EXIT_WELL;
        text += n + 1;
    }
}

static int take_arguments(struct request *request, int argc, char **argv) {
    const struct argument rows[] = {{"--fail-if", .take = take_conditions}, {0}};
    const struct arguments arguments = {.topic = "diff",
                                        .rows = rows,
                                        .context = request,
                                        .least_words = N_SIDES,
                                        .most_words = N_SIDES,
                                        .of_words = "two runs, BEFORE and AFTER"};
    int n = arguments_read(&arguments, argc, argv);
    if (n < 0)
        return -n;
    memcpy(request->sides, argv, sizeof request->sides);
    return EXIT_WELL;
}

/* ---- the runs ---- */

struct side {
    struct run_numbers *numbers;
    struct diff_sites *sites;
    int number;
};

static void take(const struct cushim_report *report, const struct report_origin *origin,
                 void *context) {
    struct side *side = context;
    run_numbers_add(side->numbers, report);
    side->numbers->is_recorded |= origin->is_recording;
    diff_sites_add(side->sites, side->number, report, origin);
}

/* A run that cannot be read completely must not pass. */
static bool read_side(struct request *request, int side) {
    struct run_numbers *numbers = aligned_alloc(_Alignof(struct run_numbers), sizeof *numbers);
    if (numbers) /* a page needs more alignment than malloc gives */
        memset(numbers, 0, sizeof *numbers);
    request->numbers[side] = numbers;
    struct side context = {request->numbers[side], request->sites, side};
    if (!context.numbers || !context.sites ||
        !counters_reports_of(request->sides[side], take, &context))
        return false;
    if (!request->numbers[side]->n_processes)
        complain("%s has no report", request->sides[side]);
    return request->numbers[side]->n_processes;
}

static bool has_device(const struct request *request, int device) {
    return request->numbers[BEFORE]->has_device[device] ||
           request->numbers[AFTER]->has_device[device];
}

/* Do both sides have this number? */
static bool is_known(const struct request *request, const struct condition_name *name) {
    return condition_is_recorded(name) ||
           (!request->numbers[BEFORE]->is_recorded && !request->numbers[AFTER]->is_recorded);
}

static bool are_comparable(const struct request *request) {
    bool has_any = false;
    for (int i = 0; i < request->n_conditions; i++) {
        if (is_known(request, &request->conditions[i].name))
            continue;
        complain("a recording has no %s: %s", request->conditions[i].name.name,
                 request->conditions[i].text);
        return false;
    }
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        has_any |= has_device(request, device);
        for (int side = 0; side < N_SIDES; side++) {
            if (!request->n_conditions || !has_device(request, device) ||
                request->numbers[side]->has_device[device])
                continue;
            complain("%s has nothing of device %d", request->sides[side], device);
            return false;
        }
    }
    if (!has_any)
        complain("neither run has a device");
    return has_any;
}

/* ---- the table ---- */

static bool check(struct request *request, int device, const struct condition_name *name,
                  uint64_t before, uint64_t after) {
    bool holds = false;
    for (int i = 0; i < request->n_conditions; i++) {
        const struct condition *condition = &request->conditions[i];
        char text[2][CUSHIM_AMOUNT_BYTES];
        if (condition->name.kind != name->kind || strcmp(condition->name.name, name->name) != 0 ||
            !condition_holds(condition, before, after))
            continue;
        holds = true;
        request->n_held++;
        complain("device %d: %s.%s is %s, was %s: %s", device, cushim_report_kind(name->kind),
                 name->name, condition_put(text[0], name->unit, after),
                 condition_put(text[1], name->unit, before), condition->text);
    }
    return holds;
}

/* Did a process of it use the software device? */
static bool is_software(const struct run_numbers *numbers) {
    return cushim_mem_stats_read(&numbers->sum.page.head.is_software);
}

static void put_row(struct request *request, int device, const struct condition_name *name) {
    char label[64], change[24], text[2][CUSHIM_AMOUNT_BYTES];
    uint64_t before = condition_value(request->numbers[BEFORE], device, name);
    uint64_t after = condition_value(request->numbers[AFTER], device, name);
    bool is_no_gpu = name->unit == CONDITION_NS && (is_software(request->numbers[BEFORE]) ||
                                                    is_software(request->numbers[AFTER]));
    snprintf(label, sizeof label, "device %d %s.%s%s", device, cushim_report_kind(name->kind),
             name->name, is_no_gpu ? " (no GPU)" : "");
    diff_change_text(change, before, after);
    bool fails = check(request, device, name, before, after);
    cushim_write(&request->out, "  %-33s %11s %11s %11s%s\n", label,
                 condition_put(text[0], name->unit, before),
                 condition_put(text[1], name->unit, after), change, fails ? "  FAILS" : "");
}

static void add_name(struct condition_name rows[MOST_ROWS], int *n_rows,
                     const struct condition_name *name) {
    for (int i = 0; i < *n_rows; i++) {
        if (rows[i].kind == name->kind && rows[i].name == name->name)
            return;
    }
    if (*n_rows < MOST_ROWS)
        rows[(*n_rows)++] = *name;
}

/* Choose the rows that are always shown, and those of conditions. */
static int choose_rows(const struct request *request, struct condition_name rows[MOST_ROWS]) {
    static const char *const always[] = {"requests",      "no_call",   "frees",
                                         "live",          "peak_live", "peak_held",
                                         "native_allocs", "waits",     "out_of_memory"};
    struct condition_name name;
    const char *near;
    int n_rows = 0;
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        if (condition_find(&name, always[i], strlen(always[i]), &near))
            add_name(rows, &n_rows, &name);
    }
    for (int i = 0; i < request->n_conditions; i++)
        add_name(rows, &n_rows, &request->conditions[i].name);
    return n_rows;
}

static int put_all(struct request *request) {
    struct condition_name rows[MOST_ROWS];
    int n_rows = choose_rows(request, rows);
    cushim_write(&request->out, "  %-33s %11s %11s %11s\n", "", "before", "after", "change");
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        for (int i = 0; has_device(request, device) && i < n_rows; i++) {
            if (is_known(request, &rows[i]))
                put_row(request, device, &rows[i]);
        }
    }
    diff_sites_put(&request->out, request->sites);
    int code = usage_flush(&request->out);
    return code == EXIT_WELL && request->n_held ? EXIT_WRONG : code;
}

int diff_main(int argc, char **argv) {
    static struct request request = {.out = {.fd = STDOUT_FILENO}};
    int code = take_arguments(&request, argc, argv);
    if (code != EXIT_WELL)
        return code;
    code = EXIT_USAGE;
    request.sites = diff_sites_new();
    if (read_side(&request, BEFORE) && read_side(&request, AFTER) && are_comparable(&request))
        code = put_all(&request);
    diff_sites_free(request.sites);
    free(request.numbers[BEFORE]);
    free(request.numbers[AFTER]);
    return code;
}
