#include "tools/cushim/commands/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/writer.h"
#include "tools/cushim/recording/recording.h"
#include "tools/cushim/recording/summary.h"
#include "tools/cushim/usage.h"

typedef int put_fn(struct cushim_writer *out, const char *path);

static const struct format {
    const char *name;
    put_fn *put;
    const char *begin, *between, *end; /* around the recordings of a folder */
} formats[] = {
    {"text", summary_text, "", "\n", ""},
    {"json", summary_json, "[", ",", "]\n"},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

struct request {
    const struct format *format;
    const char *path, *output;
};

static bool take_format(struct request *request, const char *name) {
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (strcmp(formats[i].name, name) == 0)
            request->format = &formats[i];
    }
    return request->format != NULL;
}

static int take_arguments(struct request *request, int argc, char **argv) {
    static const char *const known[] = {"--format", "-o"};
    const char *names[N_FORMATS];
    for (size_t i = 0; i < N_FORMATS; i++)
        names[i] = formats[i].name;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--format=", 9) == 0) {
            request->format = NULL;
            if (!take_format(request, argv[i] + 9))
                return usage_unknown("report", "format", argv[i] + 9, names, N_FORMATS);
        } else if (strcmp(argv[i], "-o") == 0) {
            if (++i >= argc)
                return usage_error("report", "-o wants the name of a file");
            request->output = argv[i];
        } else if (*argv[i] == '-' && argv[i][1]) {
            return usage_unknown("report", "option", argv[i], known, 2);
        } else if (request->path) {
            return usage_error("report", "report reads one recording at a time");
        } else {
            request->path = argv[i];
        }
    }
    if (!request->path)
        return usage_error("report", "report what? a recording is missing");
    return EXIT_WELL;
}

static const char *what_is_wrong(int error) {
    return error == ENOEXEC ? "no recording of this version" : strerror(error);
}

/* All recordings; an exit code. */
static int put_all(struct request *request, struct cushim_writer *out) {
    struct recording_files files;
    int error = recording_files(&files, request->path), code = EXIT_WELL;
    if (error || !files.n) {
        complain("%s: %s", request->path, error ? what_is_wrong(error) : "no recording in it");
        return EXIT_WRONG;
    }
    cushim_write(out, "%s", request->format->begin);
    for (size_t i = 0, n = 0; i < files.n; i++) {
        if (n)
            cushim_write(out, "%s", request->format->between);
        error = request->format->put(out, files.paths[i]);
        n += !error;
        if (error) {
            complain("%s: %s", files.paths[i], what_is_wrong(error));
            code = EXIT_WRONG;
        }
    }
    cushim_write(out, "%s", request->format->end);
    cushim_writer_flush(out);
    recording_files_free(&files);
    return code;
}

int report_main(int argc, char **argv) {
    struct request request = {.format = formats};
    struct cushim_writer out = {.fd = STDOUT_FILENO};
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        usage_print(stdout, "report");
        return EXIT_WELL;
    }
    int code = take_arguments(&request, argc, argv);
    if (code != EXIT_WELL)
        return code;
    if (request.output)
        out.fd = open(request.output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out.fd < 0) {
        complain("%s: %s", request.output, strerror(errno));
        return EXIT_OURS;
    }
    code = put_all(&request, &out);
    if (request.output && close(out.fd) != 0 && !out.error)
        out.error = errno;
    if (out.error) {
        complain("%s: %s", request.output ? request.output : "standard output",
                 strerror(out.error));
        return EXIT_OURS;
    }
    return code;
}
