#include "companion/context/address_map.h"
#include "companion/context/pressure.h"

#include "tests/unit/suite.h"

static struct cushim_context_object context;

static void finish(struct cushim_object *object) {
    (void)object;
    ck_abort_msg("the test's own reference is never dropped");
}

static enum cushim_status record_as(enum cushim_memory_kind kind, uint64_t start, size_t bytes) {
    if (!context.object.finish)
        cushim_object_init(&context.object, CUSHIM_KIND_CONTEXT, NULL, finish);
    return cushim_address_map_record(&(struct cushim_address_map_row){
        .start = start, .bytes = bytes, .kind = kind, .context = &context});
}

/* Record registered memory of the program; a row that is in the way refuses it. */
static enum cushim_status record(uint64_t start, size_t bytes) {
    return record_as(CUSHIM_MEMORY_REGISTERED, start, bytes);
}

static enum cushim_status erase(uint64_t start) {
    struct cushim_address_map_row row;
    enum cushim_status status = cushim_address_map_erase(start, &row);
    cushim_address_map_drop(&row);
    return status;
}

static uint64_t find(uint64_t address) {
    struct cushim_address_map_row row;
    uint64_t start = cushim_address_map_find(address, &row) ? row.start : 0;
    cushim_address_map_drop(&row);
    return start;
}

TEST(a_row_is_found_by_every_address_in_it_and_by_no_other) {
    ck_assert_int_eq(record(0x1000, 0x100), CUSHIM_OK);
    ck_assert_uint_eq(find(0x1000), 0x1000);
    ck_assert_uint_eq(find(0x10ff), 0x1000);
    ck_assert_uint_eq(find(0x1100), 0);
    ck_assert_uint_eq(find(0xfff), 0);
}

TEST(a_second_free_and_an_unknown_address_are_distinguished) {
    ck_assert_int_eq(record(0x1000, 0x100), CUSHIM_OK);
    ck_assert_int_eq(erase(0x1080), CUSHIM_UNKNOWNPTR);
    ck_assert_int_eq(erase(0x1000), CUSHIM_OK);
    ck_assert_int_eq(erase(0x1000), CUSHIM_DOUBLEFREE);
    ck_assert_int_eq(erase(0x5000), CUSHIM_UNKNOWNPTR);
    ck_assert_int_eq(erase(0), CUSHIM_UNKNOWNPTR);
}

TEST(the_last_4096_frees_are_remembered) {
    for (uint64_t i = 1; i <= CUSHIM_ADDRESS_N_FREED + 1; i++) {
        ck_assert_int_eq(record(i * 0x1000, 1), CUSHIM_OK);
        ck_assert_int_eq(erase(i * 0x1000), CUSHIM_OK);
    }
    ck_assert_int_eq(erase(0x1000), CUSHIM_UNKNOWNPTR);
    ck_assert_int_eq(erase(0x2000), CUSHIM_DOUBLEFREE);
}

TEST(a_restored_row_is_unchanged) {
    struct cushim_address_map_row row;
    ck_assert_int_eq(record(0x1000, 0x100), CUSHIM_OK);
    ck_assert_int_eq(cushim_address_map_erase(0x1000, &row), CUSHIM_OK);
    ck_assert_uint_eq(find(0x1000), 0);
    cushim_address_map_restore(&row);
    ck_assert_uint_eq(find(0x10ff), 0x1000);
    ck_assert(!cushim_address_map_was_freed(0x1000));
    ck_assert_int_eq(erase(0x1000), CUSHIM_OK);
}

TEST(rows_do_not_overlap) {
    ck_assert_int_eq(record(0x1000, 0x100), CUSHIM_OK);
    ck_assert_int_eq(record(0x1000, 1), CUSHIM_STATE);
    ck_assert_int_eq(record(0x10ff, 1), CUSHIM_STATE);
    ck_assert_int_eq(record(0xf00, 0x101), CUSHIM_STATE);
    ck_assert_int_eq(record(0xf00, 0x1000), CUSHIM_STATE);
    ck_assert_int_eq(record(0xf00, 0x100), CUSHIM_OK);
    ck_assert_int_eq(record(0x1100, 1), CUSHIM_OK);
    ck_assert_int_eq(record(UINT64_MAX, 1), CUSHIM_OK);
    ck_assert_uint_eq(cushim_address_map_count(), 4);
}

TEST(new_memory_from_the_driver_replaces_stale_rows) {
    ck_assert_int_eq(record(0x1000, 0x100), CUSHIM_OK);
    ck_assert_int_eq(record(0x1100, 0x100), CUSHIM_OK);
    ck_assert_int_eq(record(0x1300, 0x100), CUSHIM_OK);
    ck_assert_int_eq(record_as(CUSHIM_MEMORY_DEVICE, 0x1080, 0x200), CUSHIM_OK);
    ck_assert_uint_eq(find(0x1000), 0);
    ck_assert_uint_eq(find(0x1100), 0x1080);
    ck_assert_uint_eq(find(0x1300), 0x1300);
    ck_assert_uint_eq(cushim_address_map_count(), 2);
}

TEST(any_new_row_replaces_rows_of_a_dead_context) {
    ck_assert_int_eq(record_as(CUSHIM_MEMORY_DEVICE, 0x1000, 0x100), CUSHIM_OK);
    ck_assert_int_eq(record(0x1000, 0x1000), CUSHIM_STATE);
    atomic_store(&context.is_dead, true);
    ck_assert_int_eq(record(0x1000, 0x1000), CUSHIM_OK);
    ck_assert_uint_eq(cushim_address_map_count(), 1);
}

TEST(the_address_map_keeps_contexts_alive) {
    struct cushim_address_map_row row;
    ck_assert_int_eq(record(0x1000, 1), CUSHIM_OK);
    ck_assert_uint_eq(atomic_load(&context.object.n_references), 2);
    ck_assert(cushim_address_map_find(0x1000, &row));
    ck_assert_uint_eq(atomic_load(&context.object.n_references), 3);
    cushim_address_map_drop(&row);
    ck_assert_int_eq(erase(0x1000), CUSHIM_OK);
    ck_assert_uint_eq(atomic_load(&context.object.n_references), 1);
}

TEST(thousands_of_rows_agree_with_a_plain_array) {
    enum { N = 512 };
    static bool is_there[N];
    uint64_t seed = 3;
    for (unsigned turn = 0; turn < suite_steps(50000); turn++) {
        uint64_t i = suite_random(&seed) % N, start = 0x10000 + i * 0x100;
        ck_assert_uint_eq(find(start + 0x7f), is_there[i] ? start : 0);
        if (is_there[i])
            ck_assert_int_eq(erase(start), CUSHIM_OK);
        else
            ck_assert_int_eq(record(start, 0x80), CUSHIM_OK);
        is_there[i] = !is_there[i];
    }
}

static bool find_block(uint64_t address, struct cushim_address_map_row *row) {
    if (address != 0x777)
        return false;
    *row = (struct cushim_address_map_row){.start = address, .bytes = 1};
    return true;
}

TEST(modules_are_asked_if_there_is_no_row) {
    static struct cushim_pressure pressure = {.find = find_block};
    cushim_pressure_add(&pressure);
    cushim_pressure_add(&pressure);
    ck_assert_uint_eq(find(0x777), 0x777);
    ck_assert_uint_eq(find(0x778), 0);
    ck_assert_int_eq(erase(0x777), CUSHIM_UNKNOWNPTR);
    cushim_address_map_note_freed(0x777);
    ck_assert_int_eq(erase(0x777), CUSHIM_DOUBLEFREE);
}

SUITE() {
    return tests_run("address");
}
