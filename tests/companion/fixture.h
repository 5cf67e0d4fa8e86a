/*
 * For the behaviour cases: the device they run on, their kernels, and a stream that is busy for a
 * while.
 *
 * One program is one list of cases. The same binary runs on the software device, each case in its
 * own process so that it begins without a driver, and on a GPU, all cases in one process because
 * CUDA does not survive a fork. A case whose needs are not met is a counted skip. libcuda is found
 * as by the library: $CUSHIM_LIBCUDA, otherwise libcuda.so.1.
 *
 * The fixture launches through the driver, not through the code under test.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cushim/cushim.h"
#include "tests/unit/suite.h"

/* The needs of a case, as bits: TEST(case_T1_..., .needs = FIXTURE_TWO). */
enum fixture_need {
    FIXTURE_GPU = 1, /* real kernels or real time */
    FIXTURE_SIM = 2, /* the software device's own functions */
    FIXTURE_TWO = 4  /* two devices */
};

/*
 * main of every program: `return fixture_main(argc, argv);` runs the tests of its file.  TAP goes
 * to stdout.  A first argument runs only the cases whose names contain it.
 */
int fixture_run(int argc, char **argv, const struct test_row *cases);

static inline int fixture_main(int argc, char **argv) {
    return fixture_run(argc, argv, test_rows);
}

bool fixture_is_simulated(void);
int fixture_n_devices(void);

/* An exported name of libcuda (of the driver, or of the software device); if it is absent, the case
 * fails. */
void *fixture_symbol(const char *name);

/* All kernels as an image for cushim_module_load: PTX, or the software device's own. */
const char *fixture_image(void);

/* Two images to link (the second one calls the first), and one with an error in line 5. */
const char *fixture_image_callee(void);
const char *fixture_image_caller(void);
const char *fixture_image_wrong(void);

/* The CUfunction of a kernel (kernels.ptx.h) in the current context, otherwise in the primary
 * one. */
void *fixture_kernel(const char *name);

/*
 * Launch by name, one dimension: void *args[] = {&dst, &value, &n}; fixture_launch(s, "fill", 1,
 * 256, args).  The current context must be the stream's; without one, the primary context of device
 * 0 is used.
 */
void fixture_launch(struct cushim_stream *stream, const char *name, unsigned n_blocks,
                    unsigned n_threads, void **args);

/* Queue work that keeps the stream busy for this many milliseconds. */
void fixture_spin(struct cushim_stream *stream, unsigned ms);

/* The same, with work that writes `value` to every word of dst[0 .. n) again and again. */
void fixture_spin_fill(struct cushim_stream *stream, cushim_devptr dst, uint32_t value, size_t n,
                       unsigned ms);

/*
 * Run this program again, for a test that needs a new process: its main first checks
 * fixture_child_word(argc, argv) and does what the word says. Returns the exit code (or minus the
 * signal that ended it), and stores both outputs in said[cap_bytes], cut.
 */
int fixture_child(const char *word, char *said, size_t cap_bytes);

/* The word for which this process was started; NULL if it is no child. */
const char *fixture_child_word(int argc, char **argv);

/* Milliseconds of the host's clock. */
double fixture_now_ms(void);

/* A call that must succeed, or return this status; a failure shows the library's text. */
#define fixture_ok(expr)         fixture_is((expr), CUSHIM_OK)
#define fixture_is(expr, status) fixture_verdict((expr), (status), #expr, __FILE__, __LINE__)
void fixture_verdict(enum cushim_status got, enum cushim_status wanted, const char *text,
                     const char *file, int line);

/* The text of the last failure contains this. */
#define fixture_said(part)                                                                         \
    ck_assert_msg(strstr(cushim_last_error(), (part)) != NULL, "text: %s", cushim_last_error())
