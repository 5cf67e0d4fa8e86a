/* Clients: cases N1 and N2, and the other guarantees of 2.8. */
#include "tests/companion/fixture.h"

#include <string.h>

enum { WORDS = 1024, BYTES = 4 * WORDS };

static struct cushim_client *get_client(void) {
    struct cushim_client *client;
    fixture_ok(cushim_client_get(0, &client));
    return client;
}

static cushim_devptr filled(struct cushim_client *client, uint32_t word) {
    cushim_devptr block;
    uint32_t words[WORDS];
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = word + i;
    fixture_ok(cushim_client_alloc(client, BYTES, &block));
    fixture_ok(cushim_client_h2d(client, block, words, BYTES));
    return block;
}

static void assert_filled(const uint32_t *words, uint32_t word) {
    for (unsigned i = 0; i < WORDS; i++)
        ck_assert_uint_eq(words[i], word + i);
}

/* ---- N1 ---- */

TEST(case_N1_a_pipelined_copy_overtakes_the_compute_stream) {
    enum { SPIN_MS = 50 };
    struct cushim_client *client = get_client(), *again = get_client();
    struct cushim_stream *compute;
    struct cushim_event *event;
    uint32_t got[WORDS] = {0};
    ck_assert_ptr_eq(client, again);
    cushim_devptr block = filled(client, 100);
    fixture_ok(cushim_client_compute(client, &compute));
    fixture_ok(cushim_client_synchronize(client));
    fixture_spin(compute, 1); /* loads its kernel */
    fixture_ok(cushim_client_synchronize(client));
    fixture_ok(cushim_client_record(client, &event));
    double begun_ms = fixture_now_ms();
    fixture_spin(compute, SPIN_MS);
    fixture_ok(cushim_client_d2h_pipelined(client, got, block, BYTES, event));
    double taken_ms = fixture_now_ms() - begun_ms;
    assert_filled(got, 100);
    if (!fixture_is_simulated()) /* its kernel blocks the only thread that runs all streams */
        ck_assert_double_lt(taken_ms, SPIN_MS / 2.0);
    fixture_is(cushim_client_d2h_pipelined(client, got, block, BYTES, event), CUSHIM_BADHANDLE);
    fixture_is(cushim_event_destroy(event), CUSHIM_BADHANDLE);
    fixture_ok(cushim_client_free(client, block, BYTES));
    fixture_ok(cushim_client_synchronize(client));
    fixture_ok(cushim_client_destroy(client));
    fixture_ok(cushim_client_destroy(again));
    fixture_is(cushim_client_destroy(again), CUSHIM_BADHANDLE);
}

/* ---- N2 ---- */

TEST(case_N2_an_empty_copy_makes_no_driver_call) {
    struct cushim_client *client = get_client();
    struct cushim_event *event;
    unsigned char byte = 0;
    fixture_ok(cushim_client_record(client, &event));
    unsigned long (*n_calls)(void) = NULL;
    unsigned long before = 0;
    if (fixture_is_simulated()) {
        void *address = fixture_symbol("sim_calls_total");
        memcpy(&n_calls, &address, sizeof n_calls);
        before = n_calls();
    }
    fixture_ok(cushim_client_h2d(client, 0, &byte, 0));
    fixture_ok(cushim_client_d2h(client, &byte, 0, 0));
    fixture_ok(cushim_client_d2d(client, 0, 0, 0));
    fixture_ok(cushim_client_d2h_pipelined(client, &byte, 0, 0, event));
    if (n_calls)
        ck_assert_uint_eq(n_calls(), before);
    fixture_is(cushim_client_d2h_pipelined(client, &byte, 0, 0, event), CUSHIM_BADHANDLE);
    fixture_ok(cushim_client_destroy(client));
}

/* ---- other guarantees ---- */

TEST(case_N_borrowed_objects_cannot_be_destroyed) {
    struct cushim_client *client = get_client();
    struct cushim_stream *compute, *copy;
    struct cushim_pool *pool;
    struct cushim_context *context;
    fixture_ok(cushim_client_compute(client, &compute));
    fixture_ok(cushim_client_copy(client, &copy));
    fixture_ok(cushim_client_pool(client, &pool));
    fixture_ok(cushim_client_context(client, &context));
    ck_assert_ptr_ne(compute, copy);
    fixture_is(cushim_stream_destroy(compute), CUSHIM_STATE);
    fixture_is(cushim_stream_destroy(copy), CUSHIM_STATE);
    fixture_is(cushim_pool_destroy(pool), CUSHIM_STATE);
    fixture_is(cushim_context_destroy(context), CUSHIM_STATE);
    fixture_ok(cushim_client_synchronize(client));
    fixture_ok(cushim_client_destroy(client));
    fixture_is(cushim_stream_destroy(compute), CUSHIM_BADHANDLE);
    fixture_is(cushim_pool_destroy(pool), CUSHIM_BADHANDLE);
}

TEST(case_N_sources_may_change_once_the_copy_has_returned) {
    enum { N_BIG = 1 << 20 };
    struct cushim_client *client = get_client();
    uint32_t *source, got = 0;
    void *pinned;
    cushim_devptr block;
    fixture_ok(cushim_client_alloc(client, N_BIG, &block));
    fixture_ok(cushim_host_alloc(NULL, N_BIG, 0, &pinned));
    source = pinned;
    for (uint32_t round = 1; round < 20; round++) {
        source[N_BIG / 4 - 1] = round;
        fixture_ok(cushim_client_h2d(client, block, source, N_BIG));
        source[N_BIG / 4 - 1] = 0;
        fixture_ok(cushim_client_d2h(client, &got, block + N_BIG - 4, sizeof got));
        ck_assert_uint_eq(got, round);
    }
    fixture_is(cushim_client_d2d(client, block, block + 16, 17), CUSHIM_INVALID);
    fixture_ok(cushim_client_d2d(client, block, block + 16, 16));
    fixture_ok(cushim_client_free(client, block, N_BIG));
    fixture_ok(cushim_client_synchronize(client));
    fixture_ok(cushim_host_free(pinned));
    fixture_ok(cushim_client_destroy(client));
}

TEST(case_N_a_started_copy_ends_before_its_event) {
    struct cushim_client *client = get_client();
    struct cushim_event *event, *done;
    void *pinned;
    cushim_devptr block = filled(client, 7);
    fixture_ok(cushim_host_alloc(NULL, BYTES, 0, &pinned));
    fixture_ok(cushim_client_record(client, &event));
    fixture_ok(cushim_client_d2h_start(client, pinned, block, BYTES, event, &done));
    fixture_is(cushim_event_destroy(event), CUSHIM_BADHANDLE);
    fixture_ok(cushim_event_synchronize(done));
    assert_filled(pinned, 7);
    fixture_ok(cushim_event_destroy(done));
    fixture_ok(cushim_client_free(client, block, BYTES));
    fixture_ok(cushim_client_synchronize(client));
    fixture_ok(cushim_host_free(pinned));
    fixture_ok(cushim_client_destroy(client));
}

int main(int argc, char **argv) {
    return fixture_main(argc, argv);
}
