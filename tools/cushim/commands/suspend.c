#include "tools/cushim/suspend.h"

#include <limits.h>

#include "tools/cushim/arguments.h"
#include "tools/cushim/commands.h"
#include "tools/cushim/suspend_list.h"
#include "tools/cushim/usage.h"

static int for_each(const char *topic, int argc, char **argv, bool (*what)(int64_t process)) {
    static struct suspend_list list;
    bool is_well = true;
    int n = arguments_words(topic, NULL, NULL, 1, INT_MAX, "a process or a program", argc, argv);
    for (int i = 0; i < n; i++)
        is_well &= suspend_list_add(&list, argv[i]);
    for (int i = 0; i < list.n; i++)
        is_well &= what(list.processes[i]);
    return is_well ? EXIT_WELL : EXIT_WRONG;
}

int suspend_main(int argc, char **argv) {
    return for_each("suspend", argc, argv, suspend_process);
}

int resume_main(int argc, char **argv) {
    return for_each("resume", argc, argv, resume_process);
}
