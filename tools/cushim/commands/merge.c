#include "tools/cushim/commands.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/draft.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/processes.h"
#include "tools/cushim/recording/counters.h"
#include "tools/cushim/usage.h"

struct request {
    const char *output; /* NULL if none */
    char **sources;
    int n_sources;
    struct processes processes;
    struct cushim_writer merged;
};

static void take_output(void *context, const char *value) {
    struct request *request = context;
    if (request->output)
        usage_error("merge", "-o wants the name of a file, once");
    request->output = value;
}

static void take_arguments(struct request *request, int argc, char **argv) {
    const struct argument rows[] = {{"-o", .take = take_output}, {0}};
    int n = arguments_words("merge", rows, request, 1, INT_MAX, "a report, or several", argc, argv);
    for (int i = 0; request->output && i < n; i++) {
        if (counters_is_recording(argv[i]))
            usage_error("merge", "%s is a recording, and -o writes reports", argv[i]);
    }
    request->sources = argv;
    request->n_sources = n;
}

static void take(const struct cushim_report *report, const struct report_origin *origin,
                 void *context) {
    struct request *request = context;
    const char *comma = request->processes.n ? ",\n" : "";
    processes_add(&request->processes, report);
    if (!request->output)
        return;
    cushim_write(&request->merged, "%s", comma);
    if (origin->json) { /* everything, including unknown members */
        const char *text = json_object_to_json_string_ext((struct json_object *)origin->json,
                                                          JSON_C_TO_STRING_SPACED);
        cushim_write_bytes(&request->merged, text, strlen(text));
    } else {
        cushim_report_json(&request->merged, report);
    }
}

static bool take_all(struct request *request) {
    bool is_whole = true;
    cushim_write(&request->merged, "{\"schema\": \"" REPORTS_SCHEMA "\", \"reports\": [\n");
    for (int i = 0; i < request->n_sources; i++)
        is_whole &= counters_reports_of(request->sources[i], take, request);
    cushim_write(&request->merged, "]}\n");
    cushim_writer_flush(&request->merged);
    return is_whole;
}

/* The file is replaced when the new one is complete, because a source may have the same name. */
static int take_to_file(struct request *request, bool *is_whole) {
    struct cushim_draft draft;
    int error = cushim_draft_begin(&draft, request->output);
    if (error)
        return error;
    request->merged.fd = draft.fd;
    *is_whole = take_all(request);
    if (!request->merged.error && !request->processes.n)
        return cushim_draft_end(&draft, ECANCELED) == ECANCELED ? 0 : EIO;
    return cushim_draft_end(&draft, request->merged.error);
}

static int put(struct request *request, bool is_whole) {
    struct cushim_writer out = {.fd = STDOUT_FILENO};
    if (!request->processes.n) {
        for (int i = 0; i < request->n_sources && is_whole; i++)
            complain("%s has no report", request->sources[i]);
        return EXIT_WRONG;
    }
    processes_sort(&request->processes);
    processes_put(&out, &request->processes);
    processes_put_outliers(&out, &request->processes);
    int code = usage_flush(&out);
    return code == EXIT_WELL && !is_whole ? EXIT_WRONG : code;
}

int merge_main(int argc, char **argv) {
    struct request request = {.merged = {.fd = -1}};
    bool is_whole = true;
    int error = 0;
    take_arguments(&request, argc, argv);
    if (request.output)
        error = take_to_file(&request, &is_whole);
    else
        for (int i = 0; i < request.n_sources; i++)
            is_whole &= counters_reports_of(request.sources[i], take, &request);
    int code = error ? usage_unwritten(request.output, error) : put(&request, is_whole);
    processes_free(&request.processes);
    return code;
}
