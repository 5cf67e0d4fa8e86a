/* Prepared launches: formats, and a module that is unloaded first. */
#include "cushim/function.h"
#include "cushim/module.h"

#include "cushim/stream.h"
#include "tests/unit/companion/core/call_fixture.h"
#include "tests/unit/suite.h"

struct pair {
    uint32_t a;
    uint64_t b;
};

static struct {
    void *p;
    uint8_t b;
    uint16_t h;
    uint32_t i;
    uint64_t q;
    double d;
    struct pair s;
    float f;
} got;

SIM_KERNEL(all, void *, uint8_t, uint16_t, uint32_t, uint64_t, double, struct pair, float) {
    (void)launch;
    got.p = SIM_ARG(void *, 0);
    got.b = SIM_ARG(uint8_t, 1);
    got.h = SIM_ARG(uint16_t, 2);
    got.i = SIM_ARG(uint32_t, 3);
    got.q = SIM_ARG(uint64_t, 4);
    got.d = SIM_ARG(double, 5);
    got.s = SIM_ARG(struct pair, 6);
    got.f = SIM_ARG(float, 7);
}

SIM_KERNEL(none) {
    (void)launch, (void)args;
}

static struct cushim_module *m;

static struct cushim_function *function(const char *name) {
    struct cushim_function *f;
    if (!m)
        ck_ok(cushim_module_load(NULL, SIM_MODULE_IMAGE, 0, NULL, &m));
    ck_ok(cushim_module_function(m, name, &f));
    return f;
}

static void launch_all(struct cushim_prepared *q) {
    struct cushim_launch launch;
    void *p = &launch;
    uint8_t b = 200;
    uint16_t h = 50000;
    uint32_t i = 4000000000;
    uint64_t wide = UINT64_C(1) << 60;
    double d = 1.25;
    struct pair s = {5, 6};
    float f = -2;
    memset(&got, 0, sizeof got);
    cushim_launch_default(&launch);
    ck_ok(cushim_prepared_launch(q, &launch, (const void *[]){&p, &b, &h, &i, &wide, &d, &s, &f}));
    ck_ok(cushim_stream_synchronize(NULL));
    ck_assert_ptr_eq(got.p, p);
    ck_assert_uint_eq(got.b, b);
    ck_assert_uint_eq(got.h, h);
    ck_assert_uint_eq(got.i, i);
    ck_assert_uint_eq(got.q, wide);
    ck_assert(got.d == d && got.f == f);
    ck_assert_uint_eq(got.s.a, 5);
    ck_assert_uint_eq(got.s.b, 6);
}

TEST(every_letter_of_a_format_is_known) {
    static const char *const formats[] = {"PBHIQd{16,8}f", "PbhiQd{16,8}f", "QBeIqd{16,8}I",
                                          "{8,8}{1,1}{2,2}{4,4}{8,8}{8,8}{16,8}{4,4}"};
    struct cushim_prepared *q;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        ck_ok(cushim_function_prepare(function("all"), formats[i], &q));
        launch_all(q);
        ck_ok(cushim_prepared_destroy(q));
    }
    ck_ok(cushim_function_prepare(function("none"), "", &q));
    struct cushim_launch launch;
    cushim_launch_default(&launch);
    ck_ok(cushim_prepared_launch(q, &launch, NULL));
}

TEST(a_format_that_does_not_match_the_kernel_is_reported_by_index) {
    static const struct {
        const char *format, *said;
    } rows[] = {
        {"", "index=0"},
        {"PB", "index=2"},
        {"PBHIQd{16,8}ff", "index=8"},
        {"PHHIQd{16,8}f", "index=1"},
        {"PBHIQd{24,8}f", "index=6"},
        {"PBHIx", "index=4"},
        {"PBHI{4,3}", "index=4"},
        {"PBHI{4}", "index=4"},
        {"PBHI{,4}", "index=4"},
        {"PBHI{4,4", "index=4"},
        {"PBHI{0,4}", "index=4"},
        {"PBHI{4,0}", "index=4"},
        {"PBHI{99999999999999999999,4}", "index=4"},
        {"P B", "index=1"},
        {"{-8,8}", "index=0"},
        {"l", "index=0"},
        {"PB{2,1}IQd{16,8}f", "index=2"},
        {"{8,3}BHIQd{16,8}f", "index=0"},
    };
    struct cushim_prepared *q;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        q = (struct cushim_prepared *)1;
        ck_is(cushim_function_prepare(function("all"), rows[i].format, &q), CUSHIM_INVALID);
        ck_said(rows[i].said);
        ck_assert_ptr_null(q);
    }
    ck_is(cushim_function_prepare(function("all"), NULL, &q), CUSHIM_INVALID);
    ck_is(cushim_function_prepare(function("all"), "P", NULL), CUSHIM_INVALID);
    ck_is(cushim_function_prepare(NULL, "P", &q), CUSHIM_INVALID);
}

TEST(without_a_layout_the_arguments_are_packed_by_the_format) {
    struct cushim_prepared *q;
    struct cushim_launch launch;
    primary(0);
    driver_loses(cuFuncGetParamInfo);
    ck_ok(cushim_function_prepare(function("all"), "PBHIQd{16,8}f", &q));
    launch_all(q);
    ck_ok(cushim_function_prepare(function("all"), "PI", &q));
    cushim_launch_default(&launch);
    void *p = NULL;
    uint32_t i = 0;
    ck_is(cushim_prepared_launch(q, &launch, (const void *[]){&p, &i}), CUSHIM_INVALID);
    ck_said("cuLaunchKernel failed"); /* the driver got the size */
    ck_is(cushim_function_prepare(function("all"), "{4097,1}", &q), CUSHIM_INVALID);
}

TEST(a_prepared_launch_outlives_its_module_but_does_not_run) {
    struct cushim_prepared *q;
    struct cushim_launch launch;
    cushim_launch_default(&launch);
    ck_ok(cushim_function_prepare(function("none"), "", &q));
    ck_ok(cushim_prepared_launch(q, &launch, NULL));
    ck_ok(cushim_module_unload(m));
    ck_is(cushim_prepared_launch(q, &launch, NULL), CUSHIM_BADHANDLE);
    ck_said("unloaded");
    ck_assert_uint_eq(n_calls("cuModuleUnload"), 0);
    ck_ok(cushim_prepared_destroy(q));
    ck_assert_uint_eq(n_calls("cuModuleUnload"), 1);
    ck_is(cushim_prepared_destroy(q), CUSHIM_BADHANDLE);
    ck_ok(cushim_prepared_destroy(NULL));
    ck_is(cushim_prepared_launch(q, &launch, NULL), CUSHIM_BADHANDLE);
}

TEST(arguments_may_not_be_null) {
    struct cushim_prepared *q;
    struct cushim_launch launch;
    const void *args[8] = {&launch, NULL};
    cushim_launch_default(&launch);
    ck_ok(cushim_function_prepare(function("all"), "PBHIQd{16,8}f", &q));
    ck_is(cushim_prepared_launch(q, &launch, NULL), CUSHIM_INVALID);
    ck_is(cushim_prepared_launch(q, &launch, args), CUSHIM_INVALID);
    ck_said("index=1");
    ck_is(cushim_prepared_launch(q, NULL, args), CUSHIM_INVALID);
    ck_is(cushim_prepared_launch(NULL, &launch, args), CUSHIM_INVALID);
}

TEST(a_dead_context_refuses_the_launch_but_not_the_destruction) {
    struct cushim_context *ctx;
    struct cushim_function *f;
    struct cushim_prepared *q;
    struct cushim_launch launch;
    cushim_launch_default(&launch);
    ck_ok(cushim_context_create(0, 0, &ctx));
    ck_ok(cushim_module_load(ctx, SIM_MODULE_IMAGE, 0, NULL, &m));
    ck_ok(cushim_module_function(m, "none", &f));
    ck_ok(cushim_function_prepare(f, "", &q));
    ck_ok(cushim_context_destroy(ctx));
    ck_is(cushim_prepared_launch(q, &launch, NULL), CUSHIM_DEADCONTEXT);
    ck_ok(cushim_prepared_destroy(q));
    ck_ok(cushim_module_unload(m));
}

SUITE() {
    return tests_run("prepared");
}
