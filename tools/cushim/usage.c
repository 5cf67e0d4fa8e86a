#include "tools/cushim/usage.h"

#include <stdarg.h>
#include <string.h>

#include "base/nearest.h"
#include "base/utf8.h"
#include "report/words.h"
#include "tools/cushim/options.h"

static const char page_cushim[] =
    "NAME\n"
    "    cushim - pool the CUDA memory of unmodified programs\n"
    "\n"
    "SYNOPSIS\n"
    "    cushim run [--OPTION=VALUE ...] [--] PROGRAM [ARGUMENT ...]\n"
    "    cushim stat [--json | --clean] [PROCESS | PROGRAM]\n"
    "    cushim top [--once | --batch] [--every=SECONDS]\n"
    "    cushim record [-o FOLDER] [--OPTION=VALUE ...] [--] PROGRAM [ARGUMENT ...]\n"
    "    cushim report [--format=FORMAT] [--redact] [-o FILE] RECORDING\n"
    "    cushim report [--at=TIME] [--by=GROUP] [--range=MARK] RECORDING\n"
    "    cushim replay --plan [--with=SETTINGS] [--least-limit] [--json] RECORDING\n"
    "    cushim merge [-o FILE] REPORT...\n"
    "    cushim diff [--fail-if=CONDITION] BEFORE AFTER\n"
    "    cushim metrics [--file=FILE.prom] [--every=SECONDS]\n"
    "    cushim calibrate [--device=N]\n"
    "    cushim compare [--runs=N] [--OPTION=VALUE ...] [--] PROGRAM [ARGUMENT ...]\n"
    "    cushim sim [--OPTION=VALUE ...] [--] PROGRAM [ARGUMENT ...]\n"
    "    cushim doctor [--json] [PROGRAM]\n"
    "    cushim help [PAGE]\n"
    "    cushim --version\n"
    "\n"
    "COMMANDS\n"
    "    run        start a program with its CUDA memory pooled\n"
    "    stat       show what running programs have, and what ended ones had\n"
    "    top        the same on a screen that is drawn again and again\n"
    "    record     start a program, and record what its memory does\n"
    "    report     show what a recording has: what holds the memory at the peak and at the end\n"
    "    replay     plan what a recording would have held with other settings, without a GPU\n"
    "    merge      put reports of several processes into one table\n"
    "    diff       put two runs side by side, and fail if the second is worse than allowed\n"
    "    metrics    print what running programs have as text for Prometheus\n"
    "    calibrate  measure the driver's own allocations, for the verdict of reports\n"
    "    compare    time a program without and with cushim, in turns\n"
    "    sim        start a program on a CUDA device in software, without a GPU\n"
    "    doctor     show what this machine and a program have, and whether cushim works here\n"
    "    help       show a page: `cushim help run` is what `cushim run --help` shows\n"
    "\n"
    "EXAMPLES\n"
    "    cushim run ./app\n"
    "    cushim run --stats -- python3 train.py --epochs 3\n"
    "    cushim doctor ./app\n";

static const char page_run[] =
    "NAME\n"
    "    cushim run - start a program with its CUDA memory pooled\n"
    "\n"
    "SYNOPSIS\n"
    "    cushim run [--OPTION=VALUE ...] [--] PROGRAM [ARGUMENT ...]\n"
    "\n"
    "DESCRIPTION\n"
    "    Sets LD_PRELOAD to the preload library, sets CUSHIM_<OPTION> for each option given,\n"
    "    and becomes PROGRAM, which is looked for on PATH.  CUSHIM_LIVE is set, so that\n"
    "    `cushim stat` can look at it.  Nothing else is changed, and children of the program\n"
    "    inherit all of it.\n"
    "\n"
    "    With --stats it starts PROGRAM and waits, as time(1) does.  A process that ends\n"
    "    normally leaves its report in its live page; if it ends by a signal or by _exit, its\n"
    "    counters are there, too, and so are those of children.  `cushim run` writes all of\n"
    "    them together: a section each, and a table.  If the name of the file has %p, %r, %n\n"
    "    or %q, or is a FOLDER/, each process has a file of its own, and FOLDER/run.json\n"
    "    lists them.\n"
    "\n"
    "    SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGALRM that are sent to cushim are passed on;\n"
    "    SIGINT and SIGQUIT are ignored, because the terminal sends them to both.  If a\n"
    "    signal ends the program, cushim ends by it, too.  With --no-wait it becomes PROGRAM\n"
    "    even with --stats, and a process that ends without writing its report has none.\n"
    "    Three variables identify the processes of a run: CUSHIM_STARTED, CUSHIM_RUN and\n"
    "    CUSHIM_WAITER.\n"
    "\n"
    "    LD_PRELOAD keeps what it already holds, in its order.  The library comes last,\n"
    "    because some libraries (libasan) insist on being first, and is in it once.\n"
    "\n"
    "    LD_PRELOAD is split at blanks and colons and expands $.  If the path of the preload\n"
    "    library has one of these, `cushim run` says so and starts nothing.  Names of\n"
    "    programs may have any of them.\n"
    "\n"
    "    If no preload reaches a program (fully static, set-user-id, built for another\n"
    "    machine), one line on standard error says so, and it runs without cushim.  So does\n"
    "    one built for musl, for which LD_PRELOAD does not get our library.  If another\n"
    "    preload answers dlsym before ours, a line says so, too; a child process finds that\n"
    "    out.\n"
    "\n"
    "    With --stats, if neither the program nor a process that it started used CUDA memory,\n"
    "    there is no report, and one line on standard error says so at the end.\n"
    "\n"
    "OPTIONS\n"
    "    An option given here wins over its variable.  --OPTION alone means on, if on and off\n"
    "    are its values; --stats alone means --stats=stderr, --check alone --check=frees.\n";

static const char page_run_end[] =
    "\n"
    "EXIT STATUS\n"
    "    The program's own, or\n"
    "      2    wrong option or value; the program was not started\n"
    "      125  cushim itself failed, as when its preload library is missing\n"
    "      126  the program was found but cannot be executed\n"
    "      127  the program was not found\n"
    "\n"
    "EXAMPLES\n"
    "    cushim run ./app\n"
    "    cushim run --stats=report-%p.json --large=64M ./app input.dat\n";

static const char page_stat[] =
    "NAME\n"
    "    cushim stat - what programs have now\n"
    "\n"
    "SYNOPSIS\n"
    "    cushim stat [--json] [--all-users] [--watch[=SECONDS]] [PROCESS | PROGRAM | --all]\n"
    "    cushim stat --sites | --findings | --oom | --fields  PROCESS | PROGRAM | --all\n"
    "    cushim stat --clean\n"
    "\n"
    "DESCRIPTION\n"
    "    Reads the live pages of this user's processes that `cushim run` started, and prints\n"
    "    a row for each process and device.  With a process number or a name it prints the\n"
    "    report of this moment.  The programs do nothing for it: their counters are in files\n"
    "    in memory, in CUSHIM_LIVE_DIR, $XDG_RUNTIME_DIR/cushim or /dev/shm/cushim-UID, the\n"
    "    first that works.\n"
    "\n"
    "    A process that ended normally has no page any more.  `ended` marks one that was\n"
    "    killed, or left by _exit, while nothing waited for it; `cushim run` removes such\n"
    "    pages after a day, and keeps the last 16 MiB of them.  A process that runs in\n"
    "    another container counts as running, too, because its page is locked while it lives.\n"
    "\n"
    "OPTIONS\n"
    "    --json      reports as JSON objects, one after the other\n"
    "    --all       the report of each process\n"
    "    --sites     of these, the places that hold their memory, with their lines; a process has\n"
    "                them if it was started with --sites\n"
    "    --findings  the mistakes that were found, with their stacks\n"
    "    --oom       the last requests that found no memory\n"
    "    --fields    the counters, for programs: process, device, kind, name and value in a line;\n"
    "                - if a counter is for all devices or kinds\n"
    "    --all-users also those of other users: root sees all, and a group those of folders of\n"
    "                mode 0750 that it has\n"
    "    --clean     remove this user's pages of processes that ended\n"
    "    --watch     look again each second, or each SECONDS, until there is nothing left\n"
    "\n"
    "EXIT STATUS\n"
    "    0  something was shown\n"
    "    1  there is no such process\n"
    "    2  wrong command line\n";

static const char page_doctor[] =
    "NAME\n"
    "    cushim doctor - say whether cushim works here\n"
    "\n"
    "SYNOPSIS\n"
    "    cushim doctor [--json] [PROGRAM]\n"
    "    cushim doctor [--json] -- PROGRAM [ARGUMENT ...]\n"
    "\n"
    "DESCRIPTION\n"
    "    Reports the preload library, glibc, whether the kernel grants membarrier(2), the\n"
    "    CUDA driver and its devices, the toolkit, the CUDA runtime libraries that a program\n"
    "    would find, and the settings in the environment.\n"
    "\n"
    "    If the kernel library is there, reports for each device whether it has code compiled\n"
    "    for it, PTX that the driver compiles at the first use, or none, and whether the CPU\n"
    "    references run.  The library is read, not loaded.\n"
    "\n"
    "    With PROGRAM, reports how it is linked (dynamic or fully static, shared or static\n"
    "    CUDA runtime, set-user-id, built for musl, in need of AddressSanitizer's library\n"
    "    first) and what of it a preload cannot reach.  PROGRAM is not run.\n"
    "\n"
    "    With -- the command is run, too, under the preload.  The report says which of its\n"
    "    processes were reached and why others were not, which CUDA runtimes they loaded,\n"
    "    what was pooled, what the driver served as it was asked, and what bypassed cushim.\n"
    "    A process that lived for less than some 10 ms may be missing.\n"
    "\n"
    "    Last, a small child process allocates device memory under the preload, once through\n"
    "    dlsym and once through cuGetProcAddress; its exit report shows whether the pool\n"
    "    served both.\n"
    "\n"
    "    Marks: ok; -- for something worth knowing; !! for something wrong, with a remedy\n"
    "    below it.\n"
    "\n"
    "OPTIONS\n"
    "    --json    the same rows as one JSON object\n"
    "\n"
    "EXIT STATUS\n"
    "    0  all is well\n"
    "    1  something is wrong\n"
    "    2  wrong command line\n";

static const char page_record[] =
    "NAME\n"
    "    cushim record - start a program, and record what its memory does\n"
    "\n"
    "SYNOPSIS\n"
    "    cushim record [-o FOLDER] [--max=SIZE] [--stacks=WHICH] [--OPTION=VALUE ...] PROGRAM ...\n"
    "\n"
    "DESCRIPTION\n"
    "    Starts PROGRAM as `cushim run` does, and waits for its end.  Each process of it that\n"
    "    uses CUDA memory writes its requests and frees into a file of FOLDER, with the call\n"
    "    stack of each request.  The file is complete however the process ends.  The last\n"
    "    line says what was recorded; `cushim report FOLDER` reads it.\n"
    "\n"
    "    A recorded program takes a microsecond or more longer for each request, most of it\n"
    "    for the stack; --stacks=none leaves stacks out.  An event takes about 8 bytes of the\n"
    "    file.\n"
    "\n"
    "    --stacks=python has the lines of Python instead of those of C, in threads that run\n"
    "    Python 3.11 to 3.13; other threads have native stacks.\n"
    "\n"
    "OPTIONS\n"
    "    -o FOLDER         the folder; without it PROGRAM.NUMBER.cushim is made here.\n"
    "                      %p is the process, %r the rank, %h the host, %q{NAME} a variable, %%\n"
    "                      a %; without %p, %r and %q each rank of a job that a launcher started\n"
    "                      writes FOLDER with its rank: out.cushim becomes out-0.cushim\n"
    "    --max=SIZE        how large a file may grow, 4G by default; then the recording ends, and\n"
    "                      says how many events are missing\n"
    "    --stacks=WHICH    native, the default; python; or none: stacks are most of the cost\n"
    "    --OPTION=VALUE    as of `cushim run`\n"
    "\n"
    "EXIT STATUS\n"
    "    As of `cushim run`.\n";

static const char page_report[] =
    "NAME\n"
    "    cushim report - what a recording has, and the words of reports\n"
    "\n"
    "SYNOPSIS\n"
    "    cushim report [--format=FORMAT] [--redact] [-o FILE] RECORDING\n"
    "    cushim report [--at=TIME] [--by=GROUP] [--range=MARK] RECORDING\n"
    "\n"
    "DESCRIPTION\n"
    "    RECORDING is a folder of `cushim record`, or one file of it.  For each device, and\n"
    "    for pinned memory, the report says what was live at the peak and at the end, by the\n"
    "    place in the program that asked for it, which frees waited for the GPU, and which\n"
    "    places leak: what they hold grew in each quarter of the run.  addr2line finds the\n"
    "    lines of the source, if the programs and libraries are still at their paths.\n"
    "\n"
    "    Without --format and -o it prints the summary, and writes NAME.html beside the\n"
    "    recording NAME.cushim: one page for a browser, which needs no network.\n"
    "\n"
    "    A recording can be read while its program runs.  Damaged parts of it are skipped and\n"
    "    counted.\n"
    "\n"
    "    `cushim run --stats PROGRAM` prints the exit report, in the same words, without\n"
    "    sites.  Every number in it was counted or measured in that process, unless it is\n"
    "    marked otherwise.  docs/guide/reading-the-report.md has more.\n"
    "\n"
    "OPTIONS\n"
    "    --format=text    the summary, for people\n"
    "    --format=json    the same and all sites, an array with one object for each recording\n"
    "    --format=html    the page: memory over time, flame graphs, sites, copies\n"
    "    --format=perfetto    Chrome's trace format: live and held over time, waits, copies, "
    "marks\n"
    "    --format=folded  a line for each stack with its bytes at the peak, for flame graphs\n"
    "    --format=pprof   a profile: requests, alive at the end, at the peak; of one process\n"
    "    --format=torch   a snapshot for PyTorch's memory_viz: trace and segments; of one process\n"
    "    --format=rmm     RMM's log of requests and frees, which its replay reads\n"
    "    --format=trace-text  an event a line\n"
    "    --at=TIME        what was live at one moment, and how its segments were filled: peak, "
    "end,\n"
    "                     or a time after the start, 1.5s, 200ms, 4min; peak by default\n"
    "    --by=GROUP       at that moment by site, size, thread or context; the stream of a\n"
    "                     stream-ordered request is not recorded\n"
    "    --range=MARK     only what was asked for between cushim_preload_mark(MARK) and the next\n"
    "                     mark\n"
    "    --redact         the page without arguments, host and folders\n"
    "    -o FILE          to a file in place of standard output; FILE.html is the page\n"
    "\n"
    "EXIT STATUS\n"
    "    0  all was read\n"
    "    1  it is no recording, or one of its files cannot be read\n"
    "    2  wrong command line\n"
    "\n"
    "WORDS\n";

static const char page_replay[] =
    "NAME\n"
    "    cushim replay - say what a recording would have held with other settings\n"
    "\n"
    "SYNOPSIS\n"
    "    cushim replay --plan [--with=SETTINGS] [--least-limit] [--json] RECORDING\n"
    "\n"
    "DESCRIPTION\n"
    "    The requests and frees of RECORDING go through the memory engine again, in their\n"
    "    order and at their times, on a driver without a device, so no GPU is needed.  For\n"
    "    each setting, and for the run as it was, it prints the driver's calls for memory,\n"
    "    the peaks of live and of held memory, and how many requests found no memory.\n"
    "\n"
    "    Nothing runs on a device, so no free finds it busy, and there are no times.  One\n"
    "    thread replays what all threads asked for; if there were several, their caches held\n"
    "    some more.  What the driver served itself it serves again.  A request that found no\n"
    "    memory in the run is tried, too, and its block given back at once.\n"
    "\n"
    "    RECORDING is a folder or a file of `cushim record`, or a log that RMM wrote\n"
    "    (Thread,Time,Action,Pointer,Size,Stream).\n"
    "\n"
    "OPTIONS\n"
    "    --with=SETTINGS   settings, with commas between; native,exact,relaxed by default.  A\n"
    "                      setting is native, or exact or relaxed and options, joined by +:\n"
    "                      keep=, reserve=, limit=, buckets=, with values as of `cushim run`;\n"
    "                      --with=exact,exact+keep=0,relaxed+limit=40G\n"
    "    --least-limit     find the least limit with which nothing more is refused; it plans\n"
    "                      some ten times\n"
    "    --json            an array of an object a process\n"
    "\n"
    "EXIT STATUS\n"
    "    0  all was planned\n"
    "    1  it is no recording, or one of its files cannot be read\n"
    "    2  wrong command line\n";

static const char page_sim[] =
    "NAME\n"
    "    cushim sim - start a program on a CUDA device in software\n"
    "\n"
    "SYNOPSIS\n"
    "    cushim sim [--OPTION=VALUE ...] [--] PROGRAM [ARGUMENT ...]\n"
    "    cushim sim [--OPTION=VALUE ...] cushim run [--OPTION=VALUE ...] PROGRAM ...\n"
    "\n"
    "DESCRIPTION\n"
    "    Puts the software device's driver and runtimes first in LD_LIBRARY_PATH, sets\n"
    "    CUSHIM_SIM_<OPTION> for each option given, and becomes PROGRAM.  It needs no GPU and\n"
    "    uses none.  Without `cushim run` there is no preload.\n"
    "\n"
    "    Kernels do not run; the program may have functions for them.  Counts are right, but\n"
    "    no time says anything about a GPU.  NVIDIA's own runtime needs NVIDIA's driver: a\n"
    "    program that contains it ends with an error, in one line.\n"
    "    docs/guide/software-device.md has more.\n"
    "\n"
    "OPTIONS\n"
    "    --runtime=12|13|NAME  the runtime also goes into LD_PRELOAD, for programs with one of\n"
    "                          their own that they find by their own path, such as PyTorch's\n"
    "                          wheels.  NAME is the file name of a copy with another name, such\n"
    "                          as libcudart-9f92e4c3.so.13.3.29.  May be given more than once\n";

static const char page_sim_end[] = "\n"
                                   "EXIT STATUS\n"
                                   "    The program's own, or\n"
                                   "      2    wrong option or value; the program was not started\n"
                                   "      125  the software device is not installed\n"
                                   "      126  the program was found but cannot be executed\n"
                                   "      127  the program was not found\n"
                                   "\n"
                                   "EXAMPLES\n"
                                   "    cushim sim ./app\n"
                                   "    cushim sim --devices=2 --memory=4G --kernels=skip ./app\n"
                                   "    cushim sim cushim run --stats ./app\n";

static const char page_help[] =
    "NAME\n"
    "    cushim help - show a page of the manual\n"
    "\n"
    "SYNOPSIS\n"
    "    cushim help [PAGE]\n"
    "    cushim help options --markdown\n"
    "\n"
    "DESCRIPTION\n"
    "    Each command has a page of its name.  `cushim help options` lists every option with\n"
    "    its variable, values and default; --markdown writes the same as\n"
    "    docs/reference/options.md.\n";

static const char page_options[] =
    "NAME\n"
    "    cushim options - what can be set\n"
    "\n"
    "DESCRIPTION\n"
    "    Each option is a variable of the environment, CUSHIM_<OPTION>, and an argument of\n"
    "    `cushim run`, --OPTION=VALUE.  Sizes take K, M, G and T (powers of 1024).  In file names\n"
    "    %p, %h and %r stand for process, host and rank, %n for the first number from 0 that "
    "makes\n"
    "    the name new, %q{NAME} for a variable.  A value that cannot be read is refused\n"
    "    in one line and the default kept; `cushim run` refuses it before the program starts.\n"
    "\n";

const char *const usage_topics[] = {"cushim", "run",       "stat",    "record", "report", "replay",
                                    "top",    "calibrate", "compare", "merge",  "diff",   "metrics",
                                    "sim",    "doctor",    "options", "help"};
const size_t usage_n_topics = sizeof usage_topics / sizeof usage_topics[0];

static void print_words(FILE *out) {
    for (int i = 0; i < CUSHIM_N_WORDS; i++)
        fprintf(out, "    %s\n        %s\n", cushim_report_words[i].text,
                cushim_report_words[i].sentence);
}

bool usage_print(FILE *out, const char *topic) {
    if (strcmp(topic, "cushim") == 0) {
        fputs(page_cushim, out);
    } else if (strcmp(topic, "run") == 0) {
        fputs(page_run, out);
        settings_print_list(out);
        fputs(page_run_end, out);
    } else if (strcmp(topic, "stat") == 0) {
        fputs(page_stat, out);
    } else if (strcmp(topic, "record") == 0) {
        fputs(page_record, out);
    } else if (strcmp(topic, "doctor") == 0) {
        fputs(page_doctor, out);
    } else if (strcmp(topic, "options") == 0) {
        fputs(page_options, out);
        settings_print_list(out);
    } else if (strcmp(topic, "report") == 0) {
        fputs(page_report, out);
        print_words(out);
    } else if (strcmp(topic, "replay") == 0) {
        fputs(page_replay, out);
    } else if (strcmp(topic, "help") == 0) {
        fputs(page_help, out);
    } else if (strcmp(topic, "sim") == 0) {
        fputs(page_sim, out);
        settings_print_sim(out);
        fputs(page_sim_end, out);
    } else if (usage_plain_page(topic)) {
        fputs(usage_plain_page(topic), out);
    } else {
        return false;
    }
    return true;
}

/* "cushim: " and the words, which may come from elsewhere: a terminal shows them and executes
 * nothing. */
static void put_complaint(const char *format, va_list arguments) {
    char text[8192]; /* a path and more */
    vsnprintf(text, sizeof text, format, arguments);
    cushim_utf8_clean(text);
    fprintf(stderr, "cushim: %s", text);
}

int usage_error(const char *topic, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    put_complaint(format, arguments);
    va_end(arguments);
    if (strcmp(topic, "cushim") == 0)
        fputs("; try `cushim --help`\n", stderr);
    else
        fprintf(stderr, "; try `cushim help %s`\n", topic);
    return EXIT_USAGE;
}

int usage_unknown(const char *topic, const char *what, const char *word, const char *const *known,
                  size_t n_known) {
    struct cushim_nearest search;
    cushim_nearest_begin(&search, word, strlen(word));
    for (size_t i = 0; i < n_known; i++)
        cushim_nearest_try(&search, known[i]);
    if (search.best)
        return usage_error(topic, "no %s `%s` (did you mean `%s`?)", what, word, search.best);
    return usage_error(topic, "no %s `%s`", what, word);
}

void complain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    put_complaint(format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}
