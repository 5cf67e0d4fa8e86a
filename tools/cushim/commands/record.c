#include "tools/cushim/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_mode.h"
#include "base/path.h"
#include "base/writer.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/commands/run.h"
#include "tools/cushim/recording/recording.h"
#include "tools/cushim/usage.h"
#include "tools/cushim/numbers.h"

struct request {
    char folder[PATH_MAX]; /* absolute */
    const char *pattern;   /* as given, or NULL */
    char name[PATH_MAX];   /* with its places filled in */
};

/* Returns the index of the program's name in argv, or minus an exit code after a message. */
static int take_arguments(struct request *request, int argc, char **argv) {
    const struct argument rows[] = {{"-o", .text = &request->pattern}, {0}};
    const struct arguments arguments = {.topic = "record",
                                        .rows = rows,
                                        .take_other = run_take_option,
                                        .program = ARGUMENTS_PROGRAM};
    return arguments_read(&arguments, argc, argv);
}

/*
 * Fill in the places of the name.  All ranks of a job have the same command line, so a name without
 * a place for the rank gets it before its ending.  Returns false if the name is too long.
 */
static bool choose_name(struct request *request, const char *program) {
    const struct cushim_path_places places = {.process = getpid(), .rank = cushim_path_rank()};
    char pattern[PATH_MAX], apart[PATH_MAX];
    if (!request->pattern)
        return snprintf(request->name, sizeof request->name, "%.40s.%ld.cushim", basename(program),
                        places.process) > 0;
    size_t n = strlen(request->pattern);
    if (n >= sizeof pattern)
        return false;
    strcpy(pattern, request->pattern);
    while (n > 1 && pattern[n - 1] == '/')
        pattern[--n] = 0;
    bool is_one_of_many = places.rank >= 0 && cushim_path_ranks() != 1;
    if (!is_one_of_many || cushim_path_has(pattern, "prq"))
        return cushim_path_expand(request->name, sizeof request->name, pattern, &places);
    return cushim_path_tell_apart(apart, sizeof apart, pattern, "%r") &&
           cushim_path_expand(request->name, sizeof request->name, apart, &places);
}

/* Make a folder for this recording alone.  Returns false, after a message, if that fails. */
static bool make_folder(struct request *request, const char *program) {
    struct recording_files files;
    if (!choose_name(request, program)) {
        complain("%s: %s", request->pattern, strerror(ENAMETOOLONG));
        return false;
    }
    if (mkdir(request->name, 0700) != 0 && errno != EEXIST) {
        complain("%s: %s", request->name, strerror(errno));
        return false;
    }
    int error = recording_files(&files, request->name);
    size_t n = error ? 0 : files.n;
    if (!error)
        recording_files_free(&files);
    if (n) {
        complain("%s has a recording already; with %%p in its name, as in -o app-%%p.cushim, each "
                 "process has one of its own",
                 request->name);
        return false;
    }
    if (error || !realpath(request->name, request->folder)) {
        complain("%s: %s", request->name, strerror(error ? error : errno));
        return false;
    }
    return true;
}

/* Print one line if the recording is incomplete. */
static void tell_of_gaps(const struct cushim_trace_head *head) {
    uint64_t state = atomic_load(&head->state), n_lost = atomic_load(&head->n_lost);
    if (state == CUSHIM_TRACE_FAILED)
        complain("the recording of process %lu ended early: %s", (unsigned long)head->process,
                 strerror((int)atomic_load(&head->error)));
    else if (state == CUSHIM_TRACE_FULL)
        complain("the recording of process %lu ended early: its file was full; %s %s not "
                 "written; --trace-max allows more",
                 (unsigned long)head->process, text_of_count(n_lost),
                 n_lost == 1 ? "event was" : "events were");
}

static uint64_t count_events(const char *path) {
    struct cushim_trace_reader reader;
    struct cushim_trace_event event;
    uint64_t writer, n = 0;
    if (cushim_trace_reader_open(&reader, path) != 0)
        return 0;
    tell_of_gaps(&reader.head);
    while (cushim_trace_reader_next(&reader, &event, &writer))
        n++;
    cushim_trace_reader_close(&reader);
    return n;
}

/* Write into the recording how its program ended, because only this process knows it.  If a
 * process became another program, it has several files; the end belongs to the last one. */
static void note_end(const struct recording_files *files, pid_t process, int status) {
    const uint64_t next_status = (uint64_t)status + 1;
    uint64_t latest_ns = 0;
    const char *latest = NULL;
    for (size_t i = 0; i < files->n; i++) {
        struct cushim_trace_reader reader;
        if (cushim_trace_reader_open(&reader, files->paths[i]) != 0)
            continue;
        if (reader.head.process == (uint64_t)process && reader.head.start_ns >= latest_ns) {
            latest_ns = reader.head.start_ns;
            latest = files->paths[i];
        }
        cushim_trace_reader_close(&reader);
    }
    int found = latest ? open(latest, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (found < 0)
        return;
    cushim_file_let_write(found); /* because the file is read-only if the process was killed */
    close(found);
    int file = open(latest, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0)
        return;
    if (pwrite(file, &next_status, sizeof next_status,
               offsetof(struct cushim_trace_head, next_status)) != sizeof next_status)
        complain("%s: %s", latest, strerror(errno));
    close(file);
}

static void tell(pid_t process, int status, void *context) {
    const struct request *request = context;
    struct recording_files files;
    uint64_t n_events = 0, n_bytes = 0;
    int error = recording_files(&files, request->folder);
    if (error) {
        complain("%s: %s", request->name, strerror(error));
        return;
    }
    note_end(&files, process, status);
    for (size_t i = 0; i < files.n; i++) {
        struct stat file;
        n_events += count_events(files.paths[i]);
        n_bytes += stat(files.paths[i], &file) == 0 ? (uint64_t)file.st_size : 0;
    }
    if (files.n)
        complain("%s: %s, %s, %s; `cushim report %s` reads it", request->name,
                 text_of_some(files.n, "process"), text_of_some(n_events, "event"),
                 text_of_bytes(n_bytes), request->name);
    else
        complain("no recording: no process used CUDA memory that cushim can see");
    if (!files.n)
        rmdir(request->folder);
    recording_files_free(&files);
}

int record_main(int argc, char **argv) {
    static struct request request;
    int first = take_arguments(&request, argc, argv);
    if (first < 0)
        return -first;
    if (!make_folder(&request, argv[first]))
        return EXIT_OURS;
    if (setenv("CUSHIM_TRACE", request.folder, 1) != 0)
        return EXIT_OURS;
    int code = run_program(first, argv, true, tell, &request);
    rmdir(request.folder); /* nothing was started */
    return code;
}
