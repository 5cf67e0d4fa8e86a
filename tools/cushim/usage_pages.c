/* The pages of commands that read what processes left: reports and live pages. */
#include <string.h>

#include "tools/cushim/usage.h"

static const char page_merge[] =
    "NAME\n"
    "    cushim merge - reports of several processes in one table\n"
    "\n"
    "SYNOPSIS\n"
    "    cushim merge [-o FILE] REPORT...\n"
    "\n"
    "DESCRIPTION\n"
    "    REPORT is a file of JSON from `cushim run --stats=FILE.json`, a folder of such files\n"
    "    (--stats=FOLDER/), or the number of a process that has a live page.\n"
    "\n"
    "    Prints a line for each process, in the order of ranks: the peaks of its device memory,\n"
    "    its requests, what its frees waited for the GPU, and how it ended; then the sums.  Peaks\n"
    "    of several processes need not have been at the same time.  Behind that, the ranks from 0\n"
    "    to the last that have no report, and with three processes or more the one that is\n"
    "    furthest from the median of each column.\n"
    "\n"
    "    A file of a folder that cannot be read is named on standard error and passed over.\n"
    "\n"
    "OPTIONS\n"
    "    -o FILE   also write all reports into one file of JSON, which merge and diff read\n"
    "\n"
    "EXIT STATUS\n"
    "    0  all was read\n"
    "    1  something was not, or there was nothing\n"
    "    2  wrong command line\n";

static const char page_diff[] =
    "NAME\n"
    "    cushim diff - two runs side by side, for a gate in CI\n"
    "\n"
    "SYNOPSIS\n"
    "    cushim diff [--fail-if=CONDITION,...] BEFORE AFTER\n"
    "\n"
    "DESCRIPTION\n"
    "    BEFORE and AFTER are what `cushim merge` reads: files of JSON, folders of them, numbers\n"
    "    of processes with live pages.  Of several processes the numbers are added, and peaks are\n"
    "    the largest of a process.\n"
    "\n"
    "    Prints a line for each number, device by device, and one on standard error for each that\n"
    "    fails.\n"
    "\n"
    "OPTIONS\n"
    "    --fail-if=CONDITION,...\n"
    "        Exit with 1 where one holds for a device.  CONDITION is [KIND.]NAME, then >, < or =,\n"
    "        then NUMBER.  With + or - before it NUMBER is a change from BEFORE, with % behind it\n"
    "        a share of that; without a sign it is what AFTER may have.  Bytes take K, M, G and "
    "T,\n"
    "        times ns, us, ms and s.  NAME is of the JSON of reports, without its _bytes if you\n"
    "        like: peak_live, peak_held, live, held, requests, no_call, frees, wait_ns,\n"
    "        native_allocs, double_frees and so on.  KIND is device, pinned, managed or async;\n"
    "        device where it is left out.  Quote it: the shell knows >.\n"
    "\n"
    "EXIT STATUS\n"
    "    0  no condition holds\n"
    "    1  one does\n"
    "    2  wrong command line, an unknown name, or a run that cannot be read or lacks a device\n"
    "\n"
    "EXAMPLES\n"
    "    cushim diff --fail-if='peak_held>+5%,live>0,double_frees>0' before.json after.json\n";

static const char page_metrics[] =
    "NAME\n"
    "    cushim metrics - what running programs have, for Prometheus\n"
    "\n"
    "SYNOPSIS\n"
    "    cushim metrics [--file=FILE.prom] [--every=SECONDS]\n"
    "\n"
    "DESCRIPTION\n"
    "    Reads live pages, as `cushim stat` does, and prints their counters in Prometheus' text\n"
    "    format: cushim_live_bytes, cushim_held_bytes, cushim_requests_total and so on, with the\n"
    "    labels pid, program, device, kind, and rank where there is one.  cushim_up is 1 for each\n"
    "    process that runs.  Arguments of programs are not in it.\n"
    "\n"
    "OPTIONS\n"
    "    --file=FILE.prom   write to FILE, which is there whole at any moment and readable by\n"
    "                       all: for the textfile collector of node_exporter\n"
    "    --every=SECONDS    go on until a signal comes\n"
    "\n"
    "EXIT STATUS\n"
    "    0    all was written\n"
    "    2    wrong command line\n"
    "    125  the file or standard output cannot be written\n";

static const char page_top[] =
    "NAME\n"
    "    cushim top - what running programs have, on a screen\n"
    "\n"
    "SYNOPSIS\n"
    "    cushim top [--once | --batch] [--every=SECONDS]\n"
    "\n"
    "DESCRIPTION\n"
    "    Draws a line for each process that has a live page and each device of it, each second:\n"
    "    what is live, held and spare, requests a second, the share of the time that frees waited\n"
    "    for the GPU (of all threads together), and how much was held in the last looks.  The\n"
    "    programs do nothing for it.  Where no screen is to be had (a pipe, TERM=dumb) it prints\n"
    "    once.\n"
    "\n"
    "    Keys: s sorts by the next column, up and down choose a process, enter shows its report\n"
    "    and goes back, p pauses, q leaves.  Ctrl-C, Ctrl-Z and SIGTERM do what they do\n"
    "    elsewhere, and leave the terminal as it was.\n"
    "\n"
    "OPTIONS\n"
    "    --once             print the table once\n"
    "    --batch            print a line for each row again and again, until a signal comes\n"
    "    --every=SECONDS    look so often: 0.1 to 3600, 1 by default\n"
    "\n"
    "EXIT STATUS\n"
    "    0    something was shown\n"
    "    1    no process has a live page\n"
    "    2    wrong command line\n";

static const char page_compare[] =
    "NAME\n"
    "    cushim compare - time a program natively and under cushim\n"
    "\n"
    "SYNOPSIS\n"
    "    cushim compare [--runs=N] [--OPTION=VALUE ...] [--] PROGRAM [ARGUMENT ...]\n"
    "\n"
    "DESCRIPTION\n"
    "    Runs PROGRAM N times natively and N times by `cushim run`, in turns, and prints the\n"
    "    median and the range of the wall time of each: from before the start to the end, the\n"
    "    start of `cushim run` included.  It says faster or slower only where the two ranges do\n"
    "    not overlap.  Nothing is known of other machines, inputs or loads.\n"
    "\n"
    "    Standard output of PROGRAM goes nowhere.  A run that ends otherwise than the first one\n"
    "    natively did ends the comparison.\n"
    "\n"
    "OPTIONS\n"
    "    --runs=N          1 to 1000, 5 by default\n"
    "    --OPTION=VALUE    as of `cushim run`\n"
    "\n"
    "EXIT STATUS\n"
    "    0    all was run and told\n"
    "    1    a run ended otherwise\n"
    "    2    wrong command line\n"
    "    126, 127  as of `cushim run`\n"
    "\n"
    "EXAMPLES\n"
    "    cushim compare --runs=9 --free=relaxed ./app input.dat\n";

static const struct {
    const char *topic, *text;
} pages[] = {
    {"merge", page_merge}, {"top", page_top},         {"compare", page_compare},
    {"diff", page_diff},   {"metrics", page_metrics},
};

const char *usage_plain_page(const char *topic) {
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (strcmp(topic, pages[i].topic) == 0)
            return pages[i].text;
    }
    return NULL;
}
