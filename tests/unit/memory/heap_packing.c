/*
 * How much more than the live bytes a heap holds in steady churn, compared with the driver alone,
 * which carves blocks up to 1 MiB from pages of 2 MiB and rounds larger ones up to whole pages.
 */
#include "memory/state/heap_state.h"

#include <math.h>
#include <stdlib.h>

#include "memory/reclaim.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

static const size_t mib = 1 << 20;

/* A workload: its sizes, and its highest total of live bytes. */
struct load {
    size_t (*size)(const struct load *load);
    size_t largest_bytes;
    double exponent;
    size_t live_bytes;
    unsigned n_steps;
    size_t device_bytes; /* 0: no limit */
};

static uint64_t seed;

static uint64_t draw(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

/* 1 .. largest whole MiB, as RMM's random_allocations. */
static size_t whole_mib(const struct load *load) {
    return (1 + draw() % (load->largest_bytes / mib)) * mib;
}

static size_t any_bytes(const struct load *load) {
    return 1 + draw() % load->largest_bytes;
}

/* From 1 KiB up; smaller sizes are more frequent. */
static size_t power_law(const struct load *load) {
    double u = (double)(draw() >> 11) / 9007199254740992.0, a = -load->exponent;
    double low = pow(1024, a), high = pow((double)load->largest_bytes, a);
    return (size_t)pow(low + u * (high - low), 1 / a);
}

/* ---- the driver's model ---- */

struct driver {
    size_t small_bytes, large_bytes;
};

static void driver_add(struct driver *driver, size_t n_bytes, int sign) {
    size_t step = n_bytes > mib ? 2 * mib : 512;
    size_t cost_bytes = (n_bytes + step - 1) / step * step;
    *(n_bytes > mib ? &driver->large_bytes : &driver->small_bytes) += (size_t)sign * cost_bytes;
}

static size_t driver_bytes(const struct driver *driver) {
    return driver->large_bytes + (driver->small_bytes + 2 * mib - 1) / (2 * mib) * (2 * mib);
}

/* ---- the run ---- */

struct block {
    uint64_t address;
    size_t n_bytes;
};

struct peaks {
    /* cut_bytes: as the heap rounds blocks */
    size_t live_bytes, cut_bytes, held_bytes, driver_bytes;
};

static void raise(size_t *peak, size_t now) {
    if (now > *peak)
        *peak = now;
}

/* Nine tenths of the maximum stay live; the blocks above that come and go. */
static struct peaks run(const struct load *load) {
    struct fixture *fixture = fixture_create(NULL);
    if (load->device_bytes)
        fake_limit(load->device_bytes);
    struct block *blocks = calloc(load->n_steps, sizeof *blocks);
    struct driver driver = {0};
    struct peaks peaks = {0};
    size_t n = 0, live_bytes = 0;
    seed = 88172645463325252u;
    for (unsigned i = 0; i < load->n_steps; i++) {
        size_t n_bytes = load->size(load);
        bool is_more = n == 0 || live_bytes < load->live_bytes / 10 * 9 || draw() % 2;
        if (live_bytes + n_bytes <= load->live_bytes && is_more) {
            blocks[n++] = (struct block){fixture_take(fixture, n_bytes), n_bytes};
            live_bytes += n_bytes;
            driver_add(&driver, n_bytes, 1);
        } else {
            size_t k = draw() % n;
            fixture_give(fixture, blocks[k].address);
            live_bytes -= blocks[k].n_bytes;
            driver_add(&driver, blocks[k].n_bytes, -1);
            blocks[k] = blocks[--n];
        }
        raise(&peaks.live_bytes, live_bytes);
        raise(&peaks.cut_bytes, fixture->heaps[0].live_bytes);
        raise(&peaks.held_bytes, fake_used_bytes());
        raise(&peaks.driver_bytes, driver_bytes(&driver));
    }
    fixture_check(fixture);
    free(blocks);
    fixture_destroy(fixture);
    return peaks;
}

/* Beside the blocks, rounded as by the driver, 5/16 of their bytes and 32 MiB may be free, or live
 * blocks may be 7/16 larger than they need. */
static void check(const struct load *load) {
    struct peaks peaks = run(load);
    size_t bound_bytes = peaks.cut_bytes + peaks.cut_bytes / 16 * 7 + 32 * mib;
    ck_assert_msg(peaks.held_bytes <= bound_bytes,
                  "sizes to %zu MiB: live %zu, held %zu (%.3f), by the driver alone %zu",
                  load->largest_bytes / mib, peaks.live_bytes, peaks.held_bytes,
                  (double)peaks.held_bytes / (double)peaks.live_bytes, peaks.driver_bytes);
}

static const size_t largest_mib[] = {1, 2, 4, 8, 16, 64, 200, 1000};
enum { N_LARGEST = sizeof largest_mib / sizeof *largest_mib };

/* 16 GiB, as in RMM's benchmark. */
TEST(random_allocations_hold_at_most_half_of_the_live_bytes_beside_them) {
    for (int i = 0; i < N_LARGEST; i++)
        check(&(struct load){whole_mib, largest_mib[i] * mib, 0, 16384 * mib, 30000, 0});
}

TEST(sizes_of_any_number_of_bytes_stay_within_the_bound) {
    for (int i = 0; i < N_LARGEST; i++)
        check(&(struct load){any_bytes, largest_mib[i] * mib, 0, 16384 * mib, 30000, 0});
}

TEST(sizes_of_a_power_law_stay_within_the_bound) {
    for (int i = 3; i < 7; i++) {
        check(&(struct load){power_law, largest_mib[i] * mib, 0.5, 16384 * mib, 60000, 0});
        check(&(struct load){power_law, largest_mib[i] * mib, 1, 4096 * mib, 100000, 0});
    }
}

TEST(a_working_set_of_a_quarter_of_the_device_stays_within_the_bound) {
    for (int i = 0; i < 6; i++)
        check(&(struct load){any_bytes, largest_mib[i] * mib, 0, 1024 * mib, 20000, 4096 * mib});
}

/* The driver alone takes up to 1,296 MiB. */
TEST(a_nearly_full_device_serves_as_much_as_without_cushim) {
    for (int i = 1; i < 6; i++)
        check(&(struct load){any_bytes, largest_mib[i] * mib, 0, 1024 * mib, 20000, 1400 * mib});
}

SUITE() {
    return tests_run("pool_packing");
}
