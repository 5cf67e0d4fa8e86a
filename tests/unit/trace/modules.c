/* Modules: a frame's file is written with the first stack that has it. */
#include "trace/modules.h"

#include <string.h>

#include "recording.h"

static struct recording recording;

/* How many modules hold the address, the last one's path in `path`. */
static unsigned find(uint64_t address, char *path) {
    struct cushim_trace_reader reader;
    struct cushim_trace_event event;
    unsigned n = 0;
    uint64_t writer;
    ck_assert_int_eq(cushim_trace_reader_open(&reader, recording.path), 0);
    while (cushim_trace_reader_next(&reader, &event, &writer)) {
        if (event.code != CUSHIM_TRACE_MODULE || address - event.address >= event.n_bytes)
            continue;
        n++;
        memcpy(path, event.text, event.text_bytes);
        path[event.text_bytes] = 0;
    }
    cushim_trace_reader_close(&reader);
    return n;
}

TEST(the_file_of_a_frame_is_told_once) {
    uint64_t frame = (uint64_t)(uintptr_t)&find;
    char path[CUSHIM_TRACE_TEXT_BYTES + 1], own[CUSHIM_TRACE_TEXT_BYTES + 1] = "";
    recording_open(&recording, (uint64_t)1 << 30);
    cushim_trace_modules_tell(&recording.trace, &recording.writer, &frame, 1, 0);
    cushim_trace_modules_tell(&recording.trace, &recording.writer, &frame, 1, 0);
    ck_assert_uint_eq(find(frame, path), 1);
    ck_assert_int_gt(readlink("/proc/self/exe", own, sizeof own - 1), 0);
    ck_assert_str_eq(path, own);
    cushim_trace_modules_forget();
    cushim_trace_modules_tell(&recording.trace, &recording.writer, &frame, 1, 0);
    ck_assert_uint_eq(find(frame, path), 2);
    recording_close(&recording);
}

SUITE() {
    return tests_run("modules");
}
