#include "tools/cushim/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "base/writer.h"
#include "report/group.h"
#include "tools/cushim/arguments.h"
#include "tools/cushim/control.h"
#include "tools/cushim/usage.h"

/* A number alone may be meant as GiB or as a share, so it gets its unit. */
static const char *words_of(const char *size) {
    static char text[CUSHIM_OPTION_TEXT_BYTES + sizeof " bytes"];
    bool is_number = strspn(size, "0123456789") == strlen(size);
    snprintf(text, sizeof text, "%s%s", size, is_number ? " bytes" : "");
    return strcmp(size, "0") == 0 ? "no limit" : text;
}

/* ---- a group ---- */

static void limit_group(struct cushim_group *group, const char *size) {
    for (int i = 0; i < CUSHIM_GROUP_DEVICES; i++) {
        struct cushim_group_device *device = &group->file->devices[i];
        uint64_t total_bytes = atomic_load(&device->total_bytes);
        uint64_t limit_bytes = cushim_amount_bytes(cushim_limits_of(size, i), total_bytes);
        atomic_store(&device->limit_bytes, limit_bytes < total_bytes ? limit_bytes : 0);
        if (total_bytes)
            cushim_group_ask(group, i);
    }
}

/* What each member has of each device that the group uses, and what they have together. */
static void show_group(const struct cushim_group *group, const char *name) {
    struct cushim_writer out = {.fd = STDOUT_FILENO};
    char uuid[CUSHIM_REPORT_UUID_BYTES];
    for (int i = 0; i < CUSHIM_GROUP_DEVICES; i++) {
        const struct cushim_group_device *device = &group->file->devices[i];
        uint64_t limit_bytes = atomic_load(&device->limit_bytes), sum_bytes = 0;
        if (!atomic_load(&device->total_bytes))
            continue;
        cushim_report_uuid(uuid, device->uuid);
        cushim_write(&out, "%s\n", uuid);
        for (int row = -1; (row = cushim_group_member(group, row + 1)) >= 0;) {
            uint64_t n_bytes = atomic_load(&group->file->rows[row].n_bytes[i]);
            sum_bytes += n_bytes;
            cushim_write(&out, "  %9s  process %lu\n", CUSHIM_BYTES(n_bytes),
                         (unsigned long)atomic_load(&group->file->rows[row].process));
        }
        cushim_write(&out, "  %9s  of %s for group %s\n", CUSHIM_BYTES(sum_bytes),
                     CUSHIM_BYTES(limit_bytes ? limit_bytes : atomic_load(&device->total_bytes)),
                     name);
    }
    cushim_writer_flush(&out);
}

/* Returns EXIT_WELL, an exit code after a message, or -1: there is no such group.  `size` is NULL
 * to show it. */
static int try_group(const char *name, const char *size) {
    static struct cushim_group group; /* too large for a stack */
    int error = cushim_group_look(&group, name);
    if (error == ESRCH && !strchr(name, '/'))
        return -1;
    if (error)
        return complain_as(EXIT_WRONG, "no group %s: %s", name, cushim_group_fault(error));
    if (size && strchr(size, ':'))
        usage_error("limit", "a group has one size for all devices");
    if (size) {
        limit_group(&group, size);
        complain("group %s: %s from the next request of each process on", name, words_of(size));
    } else {
        show_group(&group, name);
    }
    cushim_group_leave(&group);
    return EXIT_WELL;
}

/* ---- processes ---- */

static void write_limits(struct cushim_page_head *head, const char *size) {
    for (int device = 0; device < CUSHIM_MAX_DEVICES; device++) {
        struct cushim_amount amount = cushim_limits_of(size, device);
        if (!cushim_amount_is_auto(amount))
            atomic_store(&head->limits[device], cushim_amount_pack(amount));
    }
    atomic_fetch_add(&head->n_limits, 1);
}

static bool limit_process(const struct page *page, struct cushim_page_head *head, void *context) {
    const char *size = context;
    const char *group = cushim_report_option(&page->report->page.head, "limit-group");
    if (group)
        return complain("%s has the limit of its group: `cushim limit %s %s`", control_name(page),
                        group, size);
    write_limits(head, size);
    if (!cushim_page_is_alive(page->folder, page->name))
        return complain("%s has ended", control_name(page));
    return !complain("%s: %s from its next request on", control_name(page), words_of(size));
}

int limit_main(int argc, char **argv) {
    static struct cushim_options options; /* too large for a stack */
    int n = arguments_words("limit", NULL, NULL, 1, 2, "a process, program or group, and a size",
                            argc, argv);
    char *name = argv[0], *size = n > 1 ? argv[1] : NULL, phrase[CUSHIM_OPTION_PHRASE_BYTES];
    cushim_options_default(&options);
    const char *wrong =
        size ? cushim_option_set(&options, cushim_option_find("limit", 5), size, phrase) : NULL;
    if (wrong)
        usage_error("limit", "%s %s", size, wrong);
    if (strspn(name, "0123456789") != strlen(name)) {
        int code = try_group(name, size);
        if (code >= 0)
            return code;
    }
    if (!size)
        usage_error("limit", "there is no group %s, and a process needs a size", name);
    struct control_asked asked = control_each(name, limit_process, size);
    if (!asked.n_found)
        complain("no process, program or group %s runs with cushim", name);
    return asked.n_found && !asked.n_failed ? EXIT_WELL : EXIT_WRONG;
}
