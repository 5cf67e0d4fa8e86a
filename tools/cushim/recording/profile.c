#include "tools/cushim/recording/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/writer.h"
#include "tools/cushim/numbers.h"
#include "tools/cushim/recording/recording.h"
#include "trace/python.h"

/* ---- folded ---- */

/* Write a frame.  Semicolons are replaced, because they end a frame. */
static void put_folded_frame(struct cushim_writer *out, const struct name *name) {
    char text[2 * NAME_BYTES + 2];
    snprintf(text, sizeof text, "%s%s%s", name->function, *name->line ? " " : "", name->line);
    for (char *at = text; (at = strchr(at, ';')); at++)
        *at = ',';
    cushim_write(out, ";%s", text);
}

static int put_folded(void *context, struct recording *recording,
                      const struct recording_scope *scope, int i_scope, int n_scopes) {
    char name[32];
    struct cushim_writer *out = context;
    (void)i_scope;
    if (!n_scopes)
        return 0;
    for (size_t i = 0; i < recording->account.n_sites; i++) {
        const struct cushim_trace_site *site = recording->account.sites[i];
        unsigned first = names_first(recording->names, site);
        if (!site->noted_bytes)
            continue;
        cushim_write(out, "%s", recording_scope_name(scope, name));
        if (first == site->n_frames)
            cushim_write(out, ";no frame of the program");
        for (unsigned k = site->n_frames; k > first; k--)
            put_folded_frame(out, names_of(recording->names, site->frames[k - 1]));
        cushim_write(out, " %" PRIu64 "\n", site->noted_bytes);
    }
    return 0;
}

int profile_folded(struct cushim_writer *out, const char *path) {
    return recording_each_scope(path, NULL, 0, put_folded, out);
}

/* ---- profile.proto ---- */

enum { VARINT = 0, BYTES = 2 };
enum { MESSAGE_BYTES = 1024 }; /* enough for a message without parts of variable length */

/* Fields of the messages that we write. */
enum { PROFILE_SAMPLE_TYPE = 1, PROFILE_SAMPLE, PROFILE_MAPPING, PROFILE_LOCATION };
enum { PROFILE_FUNCTION = 5, PROFILE_STRING, PROFILE_TIME = 9, PROFILE_DURATION };
enum { VALUE_TYPE = 1, VALUE_UNIT };
enum { SAMPLE_LOCATIONS = 1, SAMPLE_VALUES, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_TEXT };
enum { MAPPING_ID = 1, MAPPING_START, MAPPING_LIMIT, MAPPING_OFFSET, MAPPING_FILE };
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1, LINE_NUMBER };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILE };

/* The first strings of the profile, in the order of their numbers. */
static const char *const words[] = {
    "",           "alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "peak_objects",
    "peak_space", "count",         "bytes",       "memory"};
enum { WORD_COUNT = 7, WORD_BYTES, WORD_MEMORY, N_WORDS };
enum { N_VALUES = 6 };

struct message {
    size_t n;
    uint8_t bytes[MESSAGE_BYTES];
};

struct profile {
    struct cushim_writer *out;
    struct numbers frames, modules;
    uint64_t n_strings;
};

static size_t varint(uint8_t to[10], uint64_t n) {
    size_t i = 0;
    for (; n >= 0x80; n >>= 7)
        to[i++] = (uint8_t)(n | 0x80);
    to[i++] = (uint8_t)n;
    return i;
}

static void add(struct message *message, unsigned field, uint64_t n) {
    message->n += varint(message->bytes + message->n, field << 3 | VARINT);
    message->n += varint(message->bytes + message->n, n);
}

static void add_message(struct message *message, unsigned field, const struct message *inner) {
    message->n += varint(message->bytes + message->n, field << 3 | BYTES);
    message->n += varint(message->bytes + message->n, inner->n);
    memcpy(message->bytes + message->n, inner->bytes, inner->n);
    message->n += inner->n;
}

static void put_bytes(struct profile *profile, unsigned field, const void *bytes, size_t n) {
    uint8_t head[20];
    size_t n_head = varint(head, field << 3 | BYTES);
    n_head += varint(head + n_head, n);
    cushim_write_bytes(profile->out, head, n_head);
    cushim_write_bytes(profile->out, bytes, n);
}

static void put(struct profile *profile, unsigned field, const struct message *message) {
    put_bytes(profile, field, message->bytes, message->n);
}

static void put_number(struct profile *profile, unsigned field, uint64_t n) {
    struct message message = {0};
    add(&message, field, n);
    cushim_write_bytes(profile->out, message.bytes, message.n);
}

/* Write a string.  Returns its number. */
static uint64_t put_string(struct profile *profile, const char *text, size_t n) {
    put_bytes(profile, PROFILE_STRING, text, n);
    return profile->n_strings++;
}

static void begin(struct profile *profile, const struct cushim_trace_account *account) {
    const struct cushim_trace_head *head = &account->reader.head;
    for (size_t i = 0; i < N_WORDS; i++)
        put_string(profile, words[i], strlen(words[i]));
    for (uint64_t i = 0; i < N_VALUES; i++) {
        struct message type = {0};
        add(&type, VALUE_TYPE, 1 + i);
        add(&type, VALUE_UNIT, i % 2 ? WORD_BYTES : WORD_COUNT);
        put(profile, PROFILE_SAMPLE_TYPE, &type);
    }
    put_number(profile, PROFILE_TIME, head->start_wall_ns);
    put_number(profile, PROFILE_DURATION, account->last_ns - account->first_ns);
}

/* Write a module once.  Returns its number, from 1; 0 if there is no module, or no memory. */
static uint64_t put_module(struct profile *profile, const struct cushim_trace_module *module,
                           const char *path) {
    uint64_t number;
    bool is_new;
    if (!module || !numbers_of(&profile->modules, module->start, &number, &is_new))
        return 0;
    if (is_new) {
        struct message mapping = {0};
        add(&mapping, MAPPING_ID, number + 1);
        add(&mapping, MAPPING_START, module->start);
        add(&mapping, MAPPING_LIMIT, module->start + module->n_bytes);
        add(&mapping, MAPPING_OFFSET, module->offset);
        add(&mapping, MAPPING_FILE, put_string(profile, path, strlen(path)));
        put(profile, PROFILE_MAPPING, &mapping);
    }
    return number + 1;
}

/* Write a location and a function, both with the number of the frame, from 1. */
static void put_frame(struct profile *profile, const struct recording *recording, uint64_t frame,
                      uint64_t id) {
    uint64_t offset;
    const struct name *name = names_of(recording->names, frame);
    const char *colon = strrchr(name->line, ':');
    size_t n_file = colon ? (size_t)(colon - name->line) : strlen(name->line);
    struct message function = {0}, line = {0}, location = {0};
    uint64_t text = put_string(profile, name->function, strlen(name->function));
    add(&function, FUNCTION_ID, id);
    add(&function, FUNCTION_NAME, text);
    add(&function, FUNCTION_SYSTEM_NAME, text);
    add(&function, FUNCTION_FILE, put_string(profile, name->line, n_file));
    put(profile, PROFILE_FUNCTION, &function);
    add(&line, LINE_FUNCTION, id);
    add(&line, LINE_NUMBER, colon ? strtoul(colon + 1, NULL, 10) : 0);
    add(&location, LOCATION_ID, id);
    bool is_code = !(frame & CUSHIM_PYTHON_BIT);
    uint64_t module =
        is_code
            ? put_module(profile, cushim_trace_account_module(&recording->account, frame, &offset),
                         name->module)
            : 0;
    if (module)
        add(&location, LOCATION_MAPPING, module);
    add(&location, LOCATION_ADDRESS, frame);
    add_message(&location, LOCATION_LINE, &line);
    put(profile, PROFILE_LOCATION, &location);
}

static int put_site(struct profile *profile, const struct recording *recording,
                    const struct cushim_trace_site *site, uint64_t memory) {
    const uint64_t values[N_VALUES] = {site->n_requests, site->requested_bytes, site->n_live,
                                       site->live_bytes, site->n_noted,         site->noted_bytes};
    struct message sample = {0}, locations = {0}, numbers = {0}, label = {0};
    for (unsigned k = names_first(recording->names, site); k < site->n_frames; k++) {
        uint64_t number;
        bool is_new;
        if (!numbers_of(&profile->frames, site->frames[k], &number, &is_new))
            return ENOMEM;
        if (is_new)
            put_frame(profile, recording, site->frames[k], number + 1);
        locations.n += varint(locations.bytes + locations.n, number + 1);
    }
    for (size_t i = 0; i < N_VALUES; i++)
        numbers.n += varint(numbers.bytes + numbers.n, values[i]);
    add(&label, LABEL_KEY, WORD_MEMORY);
    add(&label, LABEL_TEXT, memory);
    add_message(&sample, SAMPLE_LOCATIONS, &locations);
    add_message(&sample, SAMPLE_VALUES, &numbers);
    add_message(&sample, SAMPLE_LABEL, &label);
    put(profile, PROFILE_SAMPLE, &sample);
    return 0;
}

static int put_scope(void *context, struct recording *recording,
                     const struct recording_scope *scope, int i_scope, int n_scopes) {
    char name[32];
    struct profile *profile = context;
    int error = 0;
    if (!n_scopes)
        return 0;
    if (!i_scope)
        begin(profile, &recording->account);
    recording_scope_name(scope, name);
    uint64_t memory = put_string(profile, name, strlen(name));
    for (size_t i = 0; !error && i < recording->account.n_sites; i++) {
        if (recording_has_site(recording->account.sites[i]))
            error = put_site(profile, recording, recording->account.sites[i], memory);
    }
    return error;
}

int profile_pprof(struct cushim_writer *out, const char *path) {
    struct profile profile = {.out = out};
    int error = recording_each_scope(path, NULL, 0, put_scope, &profile);
    numbers_free(&profile.frames);
    numbers_free(&profile.modules);
    return error;
}
