/* The account of a recording: live blocks, their owners, and how they go. */
#include "trace/account.h"

#include <fcntl.h>
#include <string.h>

#include "recording.h"

static const uint64_t MUCH = (uint64_t)1 << 30;

static struct recording recording;
static struct cushim_trace_account account;

static void put(enum cushim_trace_code code, unsigned flags, uint64_t address, uint64_t number) {
    cushim_trace_put(&recording.trace, &recording.writer,
                     &(struct cushim_trace_event){.code = code,
                                                  .flags = flags,
                                                  .time_ns = recording.writer.base.time_ns + 160,
                                                  .address = address << 8,
                                                  .n_bytes = number,
                                                  .number = number,
                                                  .n_waits = 1,
                                                  .stack = flags >> 8});
}

static void at(unsigned device, unsigned kind, uint64_t pool) {
    cushim_trace_at(&recording.trace, &recording.writer,
                    &(struct cushim_trace_event){.code = CUSHIM_TRACE_PLACE,
                                                 .time_ns = 1000,
                                                 .device = device,
                                                 .kind = kind,
                                                 .pool = pool,
                                                 .thread = 7});
}

static uint64_t stack(uint64_t frame) {
    uint64_t frames[] = {frame, 0x2000};
    return cushim_trace_stack(&recording.trace, &recording.writer, frames, 2, 1000);
}

/* Take all in, and leave the account open; how many frees were guessed. */
static unsigned take_all(void) {
    unsigned n = 0;
    ck_assert_int_eq(cushim_trace_account_open(&account, recording.path), 0);
    while (cushim_trace_account_next(&account))
        n += account.is_guessed;
    ck_assert_int_eq(account.error, 0);
    return n;
}

static void finish(void) {
    cushim_trace_account_close(&account);
    recording_close(&recording);
}

static const struct cushim_trace_site *site_at(uint64_t frame) {
    for (size_t i = 0; i < account.n_sites; i++) {
        if (account.sites[i]->n_frames && account.sites[i]->frames[0] == frame)
            return account.sites[i];
    }
    return NULL;
}

TEST(what_lived_before_is_no_request) {
    recording_open(&recording, MUCH);
    at(0, 0, 9);
    put(CUSHIM_TRACE_ALLOC, CUSHIM_TRACE_RESTORED, 1, 100);
    put(CUSHIM_TRACE_FREE, 0, 1, 0);
    put(CUSHIM_TRACE_ALLOC, 0, 2, 50);
    put(CUSHIM_TRACE_FREE, 0, 2, 0);
    ck_assert_uint_eq(take_all(), 0);
    const struct cushim_trace_sums *sums = &account.sums[0][0];
    ck_assert(sums->n_before == 1 && sums->before_bytes == 100 && sums->n_requests == 1);
    ck_assert(sums->n_frees == 2 && !sums->live_bytes && account.n_start == 2);
    ck_assert(account.sites[0]->n_frees == 1 && account.sites[0]->n_temporary == 1);
    finish();
}

TEST(sites_and_places_have_what_is_theirs) {
    recording_open(&recording, MUCH);
    at(1, 2, 5);
    unsigned here = (unsigned)stack(0x1000) << 8, there = (unsigned)stack(0x1100) << 8;
    put(CUSHIM_TRACE_ALLOC, here | CUSHIM_TRACE_NO_CALL, 1, 100);
    put(CUSHIM_TRACE_ALLOC, there, 2, 1000);
    put(CUSHIM_TRACE_SEGMENT, 0, 16, 4096);
    put(CUSHIM_TRACE_SEGMENT, 0, 32, 8192);
    put(CUSHIM_TRACE_SEGMENT, CUSHIM_TRACE_GIVEN_BACK, 32, 8192);
    put(CUSHIM_TRACE_SEGMENT, CUSHIM_TRACE_GIVEN_BACK, 48, 1); /* it is not known */
    put(CUSHIM_TRACE_FREE, 0, 2, 0);
    put(CUSHIM_TRACE_WAIT, 0, 0, 30);
    put(CUSHIM_TRACE_WAIT, CUSHIM_TRACE_IN_REQUEST, 0, 7);
    put(CUSHIM_TRACE_ALLOC, here | CUSHIM_TRACE_NATIVELY, 3, 10);
    put(CUSHIM_TRACE_REFUSE, there, 0, 1 << 20);
    put(CUSHIM_TRACE_FREE, 0, 9, 0);
    ck_assert_uint_eq(take_all(), 0);
    const struct cushim_trace_sums *sums = &account.sums[1][2];
    ck_assert_uint_eq(sums->n_requests, 3);
    ck_assert_uint_eq(sums->n_hits, 1);
    ck_assert_uint_eq(sums->n_native, 1);
    ck_assert_uint_eq(sums->n_frees, 1);
    ck_assert_uint_eq(sums->live_bytes, 110);
    ck_assert_uint_eq(sums->peak_live_bytes, 1100);
    ck_assert_uint_gt(sums->peak_ns, account.first_ns);
    ck_assert_uint_lt(sums->peak_ns, account.last_ns);
    ck_assert_uint_eq(sums->held_bytes, 4096);
    ck_assert_uint_eq(sums->peak_held_bytes, 12288);
    ck_assert_uint_eq(sums->n_waits, 2);
    ck_assert_uint_eq(sums->wait_ns, 37);
    ck_assert_uint_eq(sums->n_refused, 1);
    ck_assert_uint_eq(account.n_foreign, 1);
    ck_assert_uint_eq(account.n_sites, 3);
    const struct cushim_trace_site *kept = site_at(0x1000), *gone = site_at(0x1100);
    ck_assert(kept && gone);
    ck_assert_uint_eq(kept->live_bytes, 110);
    ck_assert_uint_eq(kept->n_requests, 2);
    ck_assert_uint_eq(gone->n_live, 0);
    ck_assert_uint_eq(gone->n_temporary, 1);
    ck_assert_uint_eq(gone->life_ns, 800);
    ck_assert_uint_eq(gone->wait_ns, 30);
    ck_assert_uint_eq(gone->n_refused, 1);
    finish();
}

TEST(what_the_driver_serves_is_held_as_long_as_it_lives) {
    recording_open(&recording, MUCH);
    at(0, 4, 0);
    put(CUSHIM_TRACE_ALLOC, CUSHIM_TRACE_NATIVELY, 1, 100);
    put(CUSHIM_TRACE_ALLOC, CUSHIM_TRACE_NATIVELY, 2, 1000);
    put(CUSHIM_TRACE_FREE, 0, 1, 0);
    put(CUSHIM_TRACE_ALLOC, CUSHIM_TRACE_NATIVELY | CUSHIM_TRACE_RESTORED, 1, 100);
    put(CUSHIM_TRACE_FREE, 0, 2, 0);
    ck_assert_uint_eq(take_all(), 0);
    ck_assert_uint_eq(account.sums[0][4].held_bytes, 100);
    ck_assert_uint_eq(account.sums[0][4].peak_held_bytes, 1100);
    ck_assert_uint_eq(account.sums[0][4].peak_live_bytes, 1100);
    finish();
}

TEST(a_block_whose_free_was_refused_lives_on) {
    recording_open(&recording, MUCH);
    at(0, 0, 5);
    unsigned here = (unsigned)stack(0x1000) << 8;
    put(CUSHIM_TRACE_ALLOC, here, 1, 100);
    put(CUSHIM_TRACE_FREE, 0, 1, 0);
    put(CUSHIM_TRACE_ALLOC, CUSHIM_TRACE_RESTORED, 1, 100);
    ck_assert_uint_eq(take_all(), 0);
    ck_assert_uint_eq(account.sums[0][0].n_requests, 1);
    ck_assert_uint_eq(account.sums[0][0].n_frees, 0);
    ck_assert_uint_eq(account.sums[0][0].live_bytes, 100);
    const struct cushim_trace_site *site = site_at(0x1000);
    ck_assert_uint_eq(site->n_live, 1);
    ck_assert_uint_eq(site->n_frees + site->life_ns + site->n_temporary, 0);
    finish();
}

TEST(blocks_go_with_their_pool_and_where_their_address_is_given_anew) {
    recording_open(&recording, MUCH);
    at(0, 0, 5);
    for (uint64_t i = 1; i <= 10; i++)
        put(CUSHIM_TRACE_ALLOC, 0, i, 100);
    put(CUSHIM_TRACE_ALLOC, 0, 3, 50);
    at(0, 0, 6);
    put(CUSHIM_TRACE_ALLOC, 0, 99, 7);
    put(CUSHIM_TRACE_GONE, 0, 0, 5);
    ck_assert_uint_eq(take_all(), 11);
    ck_assert_uint_eq(account.n_disorder, 1);
    ck_assert_uint_eq(account.sums[0][0].n_requests, 12);
    ck_assert_uint_eq(account.sums[0][0].n_frees, 11);
    ck_assert_uint_eq(account.sums[0][0].live_bytes, 7);
    ck_assert_uint_eq(account.sites[0]->live_bytes, 7);
    finish();
}

TEST(what_cannot_be_is_passed_over) {
    recording_open(&recording, MUCH);
    at(CUSHIM_TRACE_DEVICES, 0, 5);
    put(CUSHIM_TRACE_ALLOC, 0, 1, 100);
    at(0, CUSHIM_TRACE_KINDS, 5);
    put(CUSHIM_TRACE_ALLOC, 0, 2, 100);
    at(0, 0, 5);
    put(CUSHIM_TRACE_ALLOC, 0, 3, UINT64_MAX);
    put(CUSHIM_TRACE_ALLOC, 77 << 8, 4, 100);
    put(CUSHIM_TRACE_REFUSE, 0, 0, UINT64_MAX); /* but a program may ask for anything */
    take_all();
    ck_assert_uint_eq(account.n_strange, 5); /* two places, their events, and the size */
    ck_assert_uint_eq(account.sites[0]->live_bytes, 100);
    ck_assert_uint_eq(account.sums[0][0].n_refused, 1);
    finish();
}

/* Sites and places have the same sum after each event, whatever the events are. */
TEST(sums_agree_whatever_comes) {
    uint64_t random = 11;
    recording_open(&recording, MUCH);
    for (unsigned i = suite_steps(20000); i > 0; i--) {
        uint64_t n = suite_random(&random);
        if (n % 50 == 0)
            at((unsigned)(n >> 8) % 3, (unsigned)(n >> 16) % 4, n >> 24 & 3);
        else if (n % 200 == 1)
            put(CUSHIM_TRACE_GONE, 0, 0, n >> 24 & 3);
        else if (n % 20 == 2)
            put(CUSHIM_TRACE_ALLOC, CUSHIM_TRACE_RESTORED, n >> 8 & 255, n >> 32);
        else if (n & 1)
            put(CUSHIM_TRACE_ALLOC, (unsigned)stack(n >> 50) << 8, n >> 8 & 255, n >> 32);
        else
            put(CUSHIM_TRACE_FREE, 0, n >> 8 & 255, 0);
    }
    ck_assert_int_eq(cushim_trace_account_open(&account, recording.path), 0);
    for (unsigned n = 0; cushim_trace_account_next(&account); n++) {
        uint64_t of_sites = 0, of_places = 0;
        if (n % 64)
            continue;
        for (size_t i = 0; i < account.n_sites; i++)
            of_sites += account.sites[i]->live_bytes;
        for (int i = 0; i < 3 * CUSHIM_TRACE_KINDS; i++)
            of_places += account.sums[i / CUSHIM_TRACE_KINDS][i % CUSHIM_TRACE_KINDS].live_bytes;
        if (of_sites != of_places)
            ck_abort_msg("event %u: %lu of sites, %lu of places", n, (unsigned long)of_sites,
                         (unsigned long)of_places);
    }
    ck_assert_int_eq(account.error, 0);
    finish();
}

TEST(sites_know_how_old_their_oldest_block_is) {
    recording_open(&recording, MUCH);
    at(0, 0, 5);
    unsigned here = (unsigned)stack(0x1000) << 8, there = (unsigned)stack(0x1100) << 8;
    put(CUSHIM_TRACE_ALLOC, here, 1, 100); /* 160 ns after the first stack, as each event */
    put(CUSHIM_TRACE_ALLOC, here, 2, 100);
    put(CUSHIM_TRACE_ALLOC, here, 3, 100);
    put(CUSHIM_TRACE_ALLOC, there, 4, 100);
    put(CUSHIM_TRACE_FREE, 0, 1, 0);
    put(CUSHIM_TRACE_FREE, 0, 4, 0);
    take_all();
    cushim_trace_account_date(&account);
    ck_assert_uint_eq(site_at(0x1000)->oldest_ns, account.last_ns - 4 * 160);
    ck_assert_uint_eq(site_at(0x1100)->oldest_ns, 0);
    finish();
}

TEST(sites_count_what_a_reader_asks_for) {
    recording_open(&recording, MUCH);
    for (unsigned i = 0; i < 4; i++) {
        at(i / 2, i % 2, 5);
        put(CUSHIM_TRACE_ALLOC, 0, 2 * i, 1 << i);
        put(CUSHIM_TRACE_ALLOC, 0, 2 * i + 1, 1 << i);
        put(CUSHIM_TRACE_FREE, 0, 2 * i + 1, 0);
        put(CUSHIM_TRACE_WAIT, 0, 0, 1000 << i);
        put(CUSHIM_TRACE_REFUSE, 0, 0, 1);
    }
    ck_assert_int_eq(cushim_trace_account_open(&account, recording.path), 0);
    account.devices = 1 << 1;
    account.kinds = 1 << 0;
    while (cushim_trace_account_next(&account)) {
    }
    const struct cushim_trace_site *site = account.sites[0];
    ck_assert_uint_eq(site->live_bytes, 4);
    ck_assert_uint_eq(site->n_live, 1);
    ck_assert_uint_eq(site->n_requests, 2);
    ck_assert_uint_eq(site->requested_bytes, 8);
    ck_assert_uint_eq(site->n_frees, 1);
    ck_assert_uint_eq(site->n_temporary, 1);
    ck_assert_uint_eq(site->wait_ns, 4000);
    ck_assert_uint_eq(site->n_refused, 1);
    ck_assert_uint_eq(account.sums[0][1].live_bytes, 2);
    finish();
}

TEST(a_frame_is_found_in_the_module_that_came_last) {
    uint64_t offset = 0;
    recording_open(&recording, MUCH);
    for (uint64_t i = 0; i < 2; i++)
        cushim_trace_put(&recording.trace, &recording.writer,
                         &(struct cushim_trace_event){.code = CUSHIM_TRACE_MODULE,
                                                      .time_ns = 1000,
                                                      .address = 0x4000 + 0x100 * i,
                                                      .n_bytes = 0x1000,
                                                      .number = 0x200,
                                                      .text = i ? "second" : "first",
                                                      .text_bytes = i ? 6 : 5});
    take_all();
    ck_assert_str_eq(cushim_trace_account_module(&account, 0x4010, &offset)->path, "first");
    ck_assert_uint_eq(offset, 0x210);
    ck_assert_str_eq(cushim_trace_account_module(&account, 0x4110, &offset)->path, "second");
    ck_assert_ptr_null(cushim_trace_account_module(&account, 0x3fff, &offset));
    ck_assert_ptr_null(cushim_trace_account_module(&account, 0x5100, &offset));
    finish();
}

static void add_up(const struct cushim_trace_segment *segment, void *sum_bytes) {
    *(uint64_t *)sum_bytes += segment->n_bytes;
}

static uint64_t segment_bytes(void) {
    uint64_t sum_bytes = 0;
    cushim_trace_account_each_segment(&account, add_up, &sum_bytes);
    return sum_bytes;
}

/* A base that goes from one pool to another is the other one's. */
TEST(a_pool_takes_along_the_segments_that_it_has_now) {
    for (uint64_t gone = 1; gone <= 3; gone++) {
        recording_open(&recording, MUCH);
        for (uint64_t pool = 1; pool <= 2; pool++) {
            at(0, 0, pool);
            put(CUSHIM_TRACE_SEGMENT, 0, 16, 4096 * pool);
            put(CUSHIM_TRACE_SEGMENT, 0, 16 + 16 * pool, 1);
        }
        put(CUSHIM_TRACE_GONE, 0, 0, gone);
        ck_assert_uint_eq(take_all(), 0);
        uint64_t due = gone == 1 ? 8193 : gone == 2 ? 1 : 8194;
        ck_assert_uint_eq(segment_bytes(), due);
        ck_assert_uint_eq(account.sums[0][0].held_bytes, due);
        finish();
    }
}

/* Code that walks all blocks at the end of a pool would exceed the time of the test. */
TEST(the_end_of_a_pool_costs_what_the_pool_has) {
    enum { N = 100000 };
    recording_open(&recording, MUCH);
    at(0, 0, 1);
    for (uint64_t i = 1; i <= N; i++) {
        put(CUSHIM_TRACE_ALLOC, 0, i, 1);
        put(CUSHIM_TRACE_SEGMENT, 0, i, 2);
    }
    for (uint64_t i = 1; i <= N; i++)
        put(CUSHIM_TRACE_GONE, 0, 0, N + i); /* pools that have nothing */
    ck_assert_uint_eq(take_all(), 0);
    ck_assert_uint_eq(account.sums[0][0].n_live, N);
    ck_assert_uint_eq(account.sums[0][0].held_bytes, 2 * N);
    finish();
}

SUITE() {
    return tests_run("account");
}
