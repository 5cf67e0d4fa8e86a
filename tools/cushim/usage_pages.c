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

static const struct { const char *topic, *text; } pages[] = {{"merge", page_merge}};

const char *usage_plain_page(const char *topic) {
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (strcmp(topic, pages[i].topic) == 0)
            return pages[i].text;
    }
    return NULL;
}
