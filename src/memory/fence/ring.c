#include "memory/fence/ring.h"

void cushim_mem_ring_init(struct cushim_mem_ring *ring) {
    pthread_mutex_init(&ring->lock, NULL);
}

/* The k-th row from the oldest on; the one behind the youngest where k is n_rows. */
static struct cushim_mem_row *row_at(struct cushim_mem_ring *ring, unsigned k) {
    return &ring->rows[(ring->first + k) % CUSHIM_MEM_RING_ROWS];
}

void cushim_mem_ring_publish(struct cushim_mem_ring *ring, const struct cushim_mem_record *record,
                             uint64_t epoch) {
    pthread_mutex_lock(&ring->lock);
    *row_at(ring, atomic_load(&ring->n_rows)) =
        (struct cushim_mem_row){.epoch = epoch, .record = *record};
    atomic_fetch_add(&ring->n_rows, 1);
    pthread_mutex_unlock(&ring->lock);
}

/* Under the lock. */
static struct cushim_mem_row *find(struct cushim_mem_ring *ring, uint64_t done, uint64_t epoch) {
    unsigned n_rows = atomic_load(&ring->n_rows);
    for (unsigned k = 0; k < n_rows; k++) {
        struct cushim_mem_row *row = row_at(ring, k);
        if (!row->is_leaving && row->epoch > done && row->epoch >= epoch)
            return row;
    }
    return NULL;
}

bool cushim_mem_ring_covers(struct cushim_mem_ring *ring, uint64_t epoch) {
    pthread_mutex_lock(&ring->lock);
    bool is_covered = find(ring, 0, epoch);
    pthread_mutex_unlock(&ring->lock);
    return is_covered;
}

struct cushim_mem_row *cushim_mem_ring_pin(struct cushim_mem_ring *ring, uint64_t done,
                                           uint64_t epoch) {
    pthread_mutex_lock(&ring->lock);
    struct cushim_mem_row *row = find(ring, done, epoch);
    if (row)
        row->n_pins++;
    pthread_mutex_unlock(&ring->lock);
    return row;
}

void cushim_mem_ring_unpin(struct cushim_mem_ring *ring, struct cushim_mem_row *row) {
    pthread_mutex_lock(&ring->lock);
    row->n_pins--;
    pthread_mutex_unlock(&ring->lock);
}

/* The oldest row where it may leave, for the caller alone. */
static struct cushim_mem_row *take_oldest(struct cushim_mem_ring *ring, uint64_t done) {
    struct cushim_mem_row *row = NULL;
    pthread_mutex_lock(&ring->lock);
    if (atomic_load(&ring->n_rows))
        row = row_at(ring, 0);
    if (row && (row->is_leaving || row->n_pins || row->epoch > done))
        row = NULL;
    if (row)
        row->is_leaving = true;
    pthread_mutex_unlock(&ring->lock);
    return row;
}

void cushim_mem_ring_recycle(struct cushim_mem_ring *ring, uint64_t done) {
    struct cushim_mem_row *row;
    while ((row = take_oldest(ring, done))) {
        cushim_mem_record_release(&row->record, NULL);
        pthread_mutex_lock(&ring->lock);
        ring->first = (ring->first + 1) % CUSHIM_MEM_RING_ROWS;
        atomic_fetch_sub(&ring->n_rows, 1);
        pthread_mutex_unlock(&ring->lock);
    }
}
