#include "tools/cushim/replay/setting.h"

#include <string.h>

#include "tools/cushim/usage.h"

/* Options that decide where a block comes from, in one thread and without a device. */
static bool is_planned(const char *name) {
    static const char *const known[] = {"free", "keep", "reserve", "limit", "buckets"};
    size_t i = 0, n = sizeof known / sizeof *known;
    while (i < n && strcmp(known[i], name) != 0)
        i++;
    return i < n;
}

static void take_option(struct cushim_options *options, const char *word) {
    const char *equals = strchr(word, '=');
    bool is_free = strcmp(word, "exact") == 0 || strcmp(word, "relaxed") == 0;
    const struct cushim_option_row *row = is_free ? cushim_option_find("free", 4)
                                          : equals
                                              ? cushim_option_find(word, (size_t)(equals - word))
                                              : NULL;
    if (!row || !is_planned(row->name))
        usage_error("replay",
                    "--with: `%.40s` is not one of native, exact, relaxed, keep=, "
                    "reserve=, limit=, buckets=",
                    word);
    char phrase[CUSHIM_OPTION_PHRASE_BYTES];
    const char *fault = cushim_option_set(options, row, is_free ? word : equals + 1, phrase);
    if (fault)
        usage_error("replay", "--with: `%.40s` %s", word, fault);
}

void setting_read(struct setting *setting, const char *text, size_t n_bytes) {
    char words[SETTING_BYTES], *rest = words, *word;
    static struct cushim_options options; /* too large for a stack */
    cushim_options_default(&options);
    if (!n_bytes || n_bytes >= sizeof words)
        usage_error("replay", "--with: a setting has 1 to %d characters", SETTING_BYTES - 1);
    memcpy(words, text, n_bytes);
    words[n_bytes] = 0;
    memcpy(setting->name, words, sizeof words);
    setting->is_native = false;
    while ((word = strsep(&rest, "+"))) {
        if (strcmp(word, "native") == 0)
            setting->is_native = true;
        else
            take_option(&options, word);
    }
    if (setting->is_native && strcmp(setting->name, "native") != 0)
        usage_error("replay", "--with: native takes no options");
    setting->is_relaxed = options.free != 0;
    setting->buckets = options.buckets;
    setting->large_bytes = options.large;
    setting->keep = options.keep;
    setting->reserve = options.reserve;
    memcpy(setting->limit, options.limit, sizeof setting->limit);
}
