#include "companion/context/address_map.h"
#include "companion/context/pressure.h"
#include "base/lock.h"

#include <stdlib.h>

/* A treap: ordered by start, and a heap by priority, which is a hash of the start. */
struct cushim_address_map_node {
    struct cushim_address_map_row row;
    uint64_t priority;
    struct cushim_address_map_node *left, *right;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cushim_address_map_node *root;
static size_t n_rows;
static uint64_t freed[CUSHIM_ADDRESS_N_FREED]; /* a ring; 0 is no address */
static size_t n_freed;                         /* ever put in */

/* ---- the tree, under the lock ---- */

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Everything below `start` to the left, the others to the right. */
static void split(struct cushim_address_map_node *tree, uint64_t start,
                  struct cushim_address_map_node **left, struct cushim_address_map_node **right) {
    while (tree) {
        if (tree->row.start < start) {
            *left = tree;
            left = &tree->right;
            tree = tree->right;
        } else {
            *right = tree;
            right = &tree->left;
            tree = tree->left;
        }
    }
    *left = *right = NULL;
}

static struct cushim_address_map_node *merge(struct cushim_address_map_node *left,
                                             struct cushim_address_map_node *right) {
    struct cushim_address_map_node *tree, **at = &tree;
    while (left && right) {
        if (left->priority > right->priority) {
            *at = left;
            at = &left->right;
            left = left->right;
        } else {
            *at = right;
            at = &right->left;
            right = right->left;
        }
    }
    *at = left ? left : right;
    return tree;
}

static void insert(struct cushim_address_map_node *node) {
    struct cushim_address_map_node **at = &root;
    while (*at && (*at)->priority >= node->priority)
        at = node->row.start < (*at)->row.start ? &(*at)->left : &(*at)->right;
    split(*at, node->row.start, &node->left, &node->right);
    *at = node;
    n_rows++;
}

/* The row with the highest start that is at most `address`, or NULL. */
static struct cushim_address_map_node *find_below(uint64_t address) {
    struct cushim_address_map_node *best = NULL;
    for (struct cushim_address_map_node *at = root; at;) {
        bool is_below = at->row.start <= address;
        if (is_below)
            best = at;
        at = is_below ? at->right : at->left;
    }
    return best;
}

static struct cushim_address_map_node *find_covering(uint64_t address) {
    struct cushim_address_map_node *node = find_below(address);
    return node && address - node->row.start < node->row.bytes ? node : NULL;
}

static struct cushim_address_map_node *take_out(uint64_t start) {
    struct cushim_address_map_node **at = &root;
    while (*at && (*at)->row.start != start)
        at = start < (*at)->row.start ? &(*at)->left : &(*at)->right;
    struct cushim_address_map_node *node = *at;
    if (node) {
        *at = merge(node->left, node->right);
        n_rows--;
    }
    return node;
}

/* ---- the freed, under the lock ---- */

static void put_freed(uint64_t start) {
    freed[n_freed++ % CUSHIM_ADDRESS_N_FREED] = start;
}

static bool is_freed(uint64_t start) {
    for (size_t i = 0; i < CUSHIM_ADDRESS_N_FREED; i++) {
        if (freed[i] == start)
            return start != 0;
    }
    return false;
}

/* ---- rows ---- */

static void keep(const struct cushim_address_map_row *row) {
    cushim_object_keep(row->context);
    cushim_object_keep(row->owner);
}

/*
 * Take out the stale rows that overlap `row`: those of a dead context, and those of memory that was
 * freed without us (a graph's nodes, a foreign free).  They go to *stale, linked by `left`; false:
 * a row that is not stale overlaps.
 */
static bool make_way(const struct cushim_address_map_row *row,
                     struct cushim_address_map_node **stale) {
    uint64_t last = row->start + (row->bytes - 1);
    /* the driver has just handed the other kinds out, so no other row can own that memory */
    bool is_fresh = row->kind != CUSHIM_MEMORY_REGISTERED && row->kind != CUSHIM_MEMORY_ADOPTED &&
                    row->kind != CUSHIM_MEMORY_IPC && row->kind != CUSHIM_MEMORY_GLOBAL;
    struct cushim_address_map_node *in_way;
    while ((in_way = find_below(last)) != NULL &&
           row->start <= in_way->row.start + (in_way->row.bytes - 1)) {
        if (!is_fresh && !cushim_context_is_dead(in_way->row.context))
            return false;
        take_out(in_way->row.start);
        in_way->left = *stale;
        *stale = in_way;
    }
    return true;
}

enum cushim_status cushim_address_map_record(const struct cushim_address_map_row *row) {
    struct cushim_address_map_node *node = malloc(sizeof *node);
    if (!node)
        return CUSHIM_NOMEM;
    struct cushim_address_map_node *stale = NULL;
    node->row = *row;
    node->row.node = NULL;
    node->priority = mix(row->start);
    pthread_mutex_lock(&lock);
    bool has_way = make_way(row, &stale);
    if (has_way) {
        keep(row);
        insert(node);
    }
    pthread_mutex_unlock(&lock);
    while (stale) {
        struct cushim_address_map_node *next = stale->left;
        struct cushim_address_map_row gone = stale->row;
        gone.node = stale;
        cushim_address_map_drop(&gone);
        stale = next;
    }
    if (!has_way)
        free(node);
    return has_way ? CUSHIM_OK : CUSHIM_STATE;
}

enum cushim_status cushim_address_map_erase(uint64_t start, struct cushim_address_map_row *row) {
    *row = (struct cushim_address_map_row){0};
    CUSHIM_LOCKED(&lock);
    struct cushim_address_map_node *node = take_out(start);
    if (!node)
        /* An inner address of a row was never handed out, even if an older block began there. */
        return is_freed(start) && !find_covering(start) ? CUSHIM_DOUBLEFREE : CUSHIM_UNKNOWNPTR;
    put_freed(start);
    *row = node->row;
    row->node = node;
    return CUSHIM_OK;
}

void cushim_address_map_restore(struct cushim_address_map_row *row) {
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < CUSHIM_ADDRESS_N_FREED; i++)
        freed[i] = freed[i] == row->start ? 0 : freed[i];
    insert(row->node);
    pthread_mutex_unlock(&lock);
    *row = (struct cushim_address_map_row){0};
}

bool cushim_address_map_find(uint64_t address, struct cushim_address_map_row *row) {
    *row = (struct cushim_address_map_row){0};
    pthread_mutex_lock(&lock);
    struct cushim_address_map_node *node = find_covering(address);
    if (node) {
        *row = node->row;
        keep(row);
    }
    pthread_mutex_unlock(&lock);
    return node || cushim_pressure_find(address, row);
}

bool cushim_address_map_was_freed(uint64_t start) {
    CUSHIM_LOCKED(&lock);
    return is_freed(start);
}

void cushim_address_map_note_freed(uint64_t start) {
    CUSHIM_LOCKED(&lock);
    put_freed(start);
}

void cushim_address_map_drop(struct cushim_address_map_row *row) {
    free(row->node);
    cushim_object_release(row->owner);
    cushim_object_release(row->context);
    *row = (struct cushim_address_map_row){0};
}

size_t cushim_address_map_count(void) {
    CUSHIM_LOCKED(&lock);
    return n_rows;
}
