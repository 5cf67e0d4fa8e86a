/* Rings of a page: the last records, each whole or not at all. */
#include "report/page_ring.h"

#include <pthread.h>
#include <string.h>

#include "tests/unit/suite.h"

enum { N_ROWS = 4, N_WORDS = 6 };

static atomic_uint_fast64_t rows[N_ROWS][N_WORDS + 2], n_records;
static atomic_bool is_over;

static void put(uint64_t value) {
    uint64_t record[N_WORDS];
    for (int i = 0; i < N_WORDS; i++)
        record[i] = value;
    cushim_page_ring_put(CUSHIM_PAGE_RING(rows), &n_records, record);
}

TEST(the_last_records_are_kept_in_order) {
    uint64_t record[N_WORDS];
    for (uint64_t n = 0; n < 10; n++) {
        ck_assert(!cushim_page_ring_get(CUSHIM_PAGE_RING(rows), n, N_ROWS, record));
        for (unsigned i = 0; i < N_ROWS; i++) {
            bool is_there = cushim_page_ring_get(CUSHIM_PAGE_RING(rows), n, i, record);
            ck_assert_int_eq(is_there, i < n);
            if (is_there)
                ck_assert_uint_eq(record[N_WORDS - 1], (n > N_ROWS ? n - N_ROWS : 0) + i);
        }
        put(n);
    }
}

static void *write_on(void *unused) {
    for (uint64_t n = 0; !atomic_load(&is_over); n++)
        put(n);
    return unused;
}

TEST(what_is_read_while_others_write_is_of_one_record) {
    pthread_t writer;
    unsigned n_whole = 0;
    atomic_store(&is_over, false);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_on, NULL), 0);
    for (unsigned k = 0; k < suite_turns(suite_steps(100000)) || !n_whole; k++) {
        uint64_t record[N_WORDS];
        uint64_t n = atomic_load(&n_records);
        for (unsigned i = 0; i < N_ROWS; i++) {
            if (!cushim_page_ring_get(CUSHIM_PAGE_RING(rows), n, i, record))
                continue;
            n_whole++;
            for (int word = 1; word < N_WORDS; word++)
                ck_assert_uint_eq(record[word], record[0]);
        }
    }
    atomic_store(&is_over, true);
    pthread_join(writer, NULL);
}

TEST(any_number_of_records_harms_no_reader) {
    const uint64_t numbers[] = {UINT64_MAX, UINT64_MAX - 1, (uint64_t)1 << 63, 5};
    uint64_t record[N_WORDS];
    for (unsigned k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        for (unsigned i = 0; i < 2 * N_ROWS; i++)
            ck_assert(!cushim_page_ring_get(CUSHIM_PAGE_RING(rows), numbers[k], i, record));
    }
}

SUITE() {
    return tests_run("page_ring");
}
