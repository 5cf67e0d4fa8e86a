#include "tools/cushim/replay/setting.h"

#include <stdio.h>
#include <string.h>

/* Options that decide where a block comes from, in one thread and without a device. */
static bool is_planned(const char *name) {
    static const char *const known[] = {"free", "keep", "reserve", "limit", "buckets"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i], name) == 0)
            return true;
    }
    return false;
}

static bool take_word(struct setting *setting, struct cushim_options *options, const char *word,
                      char *wrong, size_t wrong_bytes) {
    const char *equals = strchr(word, '=');
    bool is_free = strcmp(word, "exact") == 0 || strcmp(word, "relaxed") == 0;
    if (strcmp(word, "native") == 0) {
        setting->is_native = true;
        return true;
    }
    const struct cushim_option_row *row = is_free ? cushim_option_find("free", 4)
                                          : equals
                                              ? cushim_option_find(word, (size_t)(equals - word))
                                              : NULL;
    if (!row || !is_planned(row->name)) {
        snprintf(wrong, wrong_bytes,
                 "`%.40s` is not one of native, exact, relaxed, keep=, reserve=, "
                 "limit=, buckets=",
                 word);
        return false;
    }
    const char *fault = cushim_option_set(options, row, is_free ? word : equals + 1);
    if (fault)
        snprintf(wrong, wrong_bytes, "`%.40s` %s", word, fault);
    return !fault;
}

bool setting_read(struct setting *setting, const char *text, size_t n_bytes, char *wrong,
                  size_t wrong_bytes) {
    char words[SETTING_BYTES], *rest = words, *word;
    static struct cushim_options options; /* too large for a stack */
    cushim_options_default(&options);
    setting->is_native = false;
    if (!n_bytes || n_bytes >= sizeof words) {
        snprintf(wrong, wrong_bytes, "a setting has 1 to %d characters", SETTING_BYTES - 1);
        return false;
    }
    memcpy(words, text, n_bytes);
    words[n_bytes] = 0;
    memcpy(setting->name, words, sizeof words);
    bool is_well = true;
    while (is_well && (word = strsep(&rest, "+")))
        is_well = take_word(setting, &options, word, wrong, wrong_bytes);
    if (is_well && setting->is_native && strcmp(setting->name, "native") != 0) {
        snprintf(wrong, wrong_bytes, "native takes no options");
        is_well = false;
    }
    setting->is_relaxed = options.free != 0;
    setting->buckets = options.buckets;
    setting->large_bytes = options.large;
    setting->keep = options.keep;
    setting->reserve = options.reserve;
    memcpy(setting->limit, options.limit, sizeof setting->limit);
    return is_well;
}
