#include "tools/cushim/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/writer.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/recording/events.h"
#include "tools/cushim/recording/html.h"
#include "tools/cushim/recording/moment.h"
#include "tools/cushim/recording/profile.h"
#include "tools/cushim/recording/recording.h"
#include "tools/cushim/recording/summary.h"
#include "tools/cushim/usage.h"

typedef int put_fn(struct cushim_writer *out, const char *path);

static const struct format {
    const char *name;
    put_fn *put;                       /* NULL for the page, which has all recordings of a folder */
    const char *begin, *between, *end; /* around recordings; `between` NULL: only one may be */
} formats[] = {
    {"text", summary_text, "", "\n", ""},
    {"json", summary_json, "[", ",", "]\n"},
    {"html", NULL, "", "", ""},
    {"perfetto", events_perfetto, "{\"traceEvents\": [\n", ",\n", "]}\n"},
    {"folded", profile_folded, "", "", ""},
    {"pprof", profile_pprof, "", NULL, ""},
    {"trace-text", events_text, "", "", ""},
};
enum { TEXT, JSON, HTML, N_FORMATS = sizeof formats / sizeof *formats };

enum { START_BYTES = 1024 };

struct request {
    const struct format *format; /* NULL for text, and the page to a file */
    const char *path, *output;   /* `path` is the first recording */
    struct recording_files files;
    bool is_redacted;
    struct moment_wish moment;
};

/* The start of a file as text; "" if it cannot be read. */
static void read_start(const char *path, char text[static START_BYTES]) {
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = file < 0 ? 0 : read(file, text, START_BYTES - 1);
    text[n < 0 ? 0 : n] = 0;
    if (file >= 0)
        close(file);
}

static void complain_of(const char *path, int error) {
    char start[START_BYTES];
    read_start(path, start);
    complain("%s: %s", path,
             error == ENODATA ? "it has no mark of that name; --format=trace-text shows its marks"
             : error == ENOEXEC && strstr(start, "\"cushim-report/")
                 ? "a report of `cushim run --stats`, which `cushim merge` and `cushim diff` read"
                 : recording_error(error));
}

static int take_arguments(struct request *request, int argc, char **argv) {
    struct moment_wish *moment = &request->moment;
    const char *at = NULL, *names[N_FORMATS + 1] = {NULL};
    int format = -1, group = -1;
    const struct argument rows[] = {{"--format", .word = &format, .words = names},
                                    {"--redact", .flag = &request->is_redacted},
                                    {"--at", .text = &at},
                                    {"--by", .word = &group, .words = moment_groups},
                                    {"--range", .text = &moment->range},
                                    {"-o", .text = &request->output},
                                    {0}};
    for (size_t i = 0; i < N_FORMATS; i++)
        names[i] = formats[i].name;
    int n = arguments_words("report", rows, NULL, 1, INT_MAX,
                            "a recording, which `cushim record` makes", argc, argv);
    if (at && !moment_take_time(moment, at))
        usage_error("report", "--at=%s: peak, end or a time such as 1.5s", at);
    request->path = *argv;
    if (format >= 0)
        request->format = &formats[format];
    if (group >= 0)
        moment->group = (enum moment_group)group;
    moment->is_wanted = at || group >= 0 || moment->range;
    if (moment->is_wanted && request->format && request->format != &formats[TEXT])
        usage_error("report", "--at, --by and --range are for text only");
    if (moment->is_wanted)
        request->format = &formats[TEXT];
    if (!request->format && request->output)
        request->format = &formats[cushim_path_ends_in(request->output, ".html")   ? HTML
                                   : cushim_path_ends_in(request->output, ".json") ? JSON
                                                                                   : TEXT];
    if (request->is_redacted && request->format && request->format->put)
        usage_error("report", "--redact is for the page only");
    if (request->output && strcmp(request->output, "-") == 0)
        request->output = NULL;
    for (int i = 0; i < n; i++) {
        int error = recording_files_add(&request->files, argv[i]);
        if (error || !request->files.n) {
            complain_of(argv[i], error ? error : ENOEXEC);
            return EXIT_WRONG;
        }
    }
    for (size_t i = 0; request->output && i < request->files.n; i++) {
        struct stat from, to;
        if (stat(request->files.paths[i], &from) == 0 && stat(request->output, &to) == 0 &&
            from.st_dev == to.st_dev && from.st_ino == to.st_ino)
            usage_error("report", "-o names the recording %s itself", request->files.paths[i]);
    }
    return EXIT_WELL;
}

/* An earlier file is replaced only if a recording can be read. */
static bool has_readable(const struct recording_files *files) {
    struct cushim_trace_reader reader;
    for (size_t i = 0; i < files->n; i++) {
        if (cushim_trace_reader_open(&reader, files->paths[i]) != 0)
            continue;
        cushim_trace_reader_close(&reader);
        return true;
    }
    return false;
}

/* Write all recordings.  Returns how many were read. */
static size_t put_all(const struct request *request, const struct format *format,
                      struct cushim_writer *out) {
    const struct recording_files *files = &request->files;
    size_t n = 0;
    if (!format->put)
        return html_put(out, files, request->is_redacted, complain_of);
    cushim_write(out, "%s", format->begin);
    for (size_t i = 0; i < files->n; i++) {
        if (n)
            cushim_write(out, "%s", format->between);
        if (request->moment.is_wanted && files->n > 1) /* moments do not name their recording */
            cushim_write(out, "%s\n", files->paths[i]);
        int error = request->moment.is_wanted && format == &formats[TEXT]
                        ? moment_text(out, files->paths[i], &request->moment)
                        : format->put(out, files->paths[i]);
        n += !error;
        if (error)
            complain_of(files->paths[i], error);
    }
    cushim_write(out, "%s", format->end);
    return n;
}

static int complain_unwritten(const struct request *request, const char *path, int error) {
    if (!path || request->output)
        return usage_unwritten(path, error);
    return complain_as(EXIT_OURS, "%s cannot be written: %s; -o names another place", path,
                       strerror(error));
}

/* Write to a file, or to standard output if `path` is NULL.  Returns an exit code. */
static int put_to(const struct request *request, const struct format *format, const char *path) {
    struct cushim_writer out = {.fd = STDOUT_FILENO};
    if (path)
        out.fd = open(has_readable(&request->files) ? path : "/dev/null",
                      O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out.fd < 0)
        return complain_unwritten(request, path, errno);
    size_t n = put_all(request, format, &out);
    cushim_writer_flush(&out);
    if (path && close(out.fd) != 0 && !out.error)
        out.error = errno;
    if (out.error)
        return complain_unwritten(request, path, out.error);
    return n == request->files.n ? EXIT_WELL : EXIT_WRONG;
}

/* The name NAME.html beside NAME.cushim, in memory for free(3).  Returns NULL if there is no
 * memory. */
static char *page_of(const char *path) {
    char *page, real[PATH_MAX];
    if (path[strspn(path, "./")] == 0 && realpath(path, real))
        path = real; /* "." and ".." are no names */
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (asprintf(&page, "%.*s.html", (int)n, path) < 0)
        return NULL;
    page[n] = 0;
    n -= cushim_path_ends_in(page, ".cushim")             ? strlen(".cushim")
         : cushim_path_ends_in(page, CUSHIM_TRACE_ENDING) ? strlen(CUSHIM_TRACE_ENDING)
                                                          : 0;
    strcpy(page + n, ".html");
    return page;
}

/* The user did not name the page, so a file of its name that somebody else wrote must stay. */
static bool is_of_others(const char *path) {
    char start[START_BYTES];
    read_start(path, start);
    return *start && !strstr(start, "<title>cushim</title>");
}

static int put_text_and_page(const struct request *request) {
    int code = put_to(request, &formats[TEXT], NULL);
    char *page = code == EXIT_WELL ? page_of(request->path) : NULL;
    if (page && is_of_others(page)) {
        code = complain_as(EXIT_OURS, "%s is no page of cushim and stays; -o names another place",
                           page);
    } else if (page) {
        code = put_to(request, &formats[HTML], page);
        if (code == EXIT_WELL)
            printf("\nwrote     %s\n", page);
    }
    free(page);
    return code;
}

int report_main(int argc, char **argv) {
    struct request request = {.format = NULL};
    int code = take_arguments(&request, argc, argv);
    if (code != EXIT_WELL)
        return code;
    if (request.format && request.format->put && !request.format->between && request.files.n > 1)
        code = complain_as(EXIT_WRONG,
                           "these are %zu processes, but --format=%s takes one at a time: "
                           "name one file of a recording",
                           request.files.n, request.format->name);
    else if (request.format)
        code = put_to(&request, request.format, request.output);
    else
        code = put_text_and_page(&request);
    recording_files_free(&request.files);
    return code;
}
