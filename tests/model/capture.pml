/*
 * Records and captures (preload/state/captures.c): a record in a context invalidates the open
 * captures of that context.
 *
 * Property: no record is made between a begin and its end, and every begin completes: in the end no
 * process waits.
 *
 * Two threads record, and two begin and end captures, repeatedly; begins take a lock and hold it
 * around the driver's lock. Atomic counters are sequentially consistent.
 *
 * Each of these makes a protocol with one mistake, in which spin must find an error:
 *   LOOK_FIRST    a recorder looks for captures before it is counted
 *   OPEN_LATE     a begin waits for recorders before it marks the capture as open
 *   NO_WAIT       a begin does not wait for recorders
 *   EARLY_LEAVE   a recorder leaves before it has recorded
 */
#define N_THREADS 2
#define N_TURNS   2

byte n_open, n_recorders, n_capturing, n_ended;
bool is_locked;

inline lock() {
    atomic { !is_locked -> is_locked = true }
}

active [N_THREADS] proctype recorder() {
    byte turn;
    bool is_open;
    do
    :: turn < N_TURNS ->
#ifdef LOOK_FIRST
        is_open = n_open > 0;
        n_recorders++;
#else
        n_recorders++;
        is_open = n_open > 0;
#endif
#ifdef EARLY_LEAVE
        n_recorders--;
#endif
        if
        :: !is_open -> assert(n_capturing == 0) /* finished: the record */
        :: else
        fi;
#ifndef EARLY_LEAVE
        n_recorders--;
#endif
        turn++
    :: else -> break
    od;
    n_ended++
}

active [N_THREADS] proctype capturer() {
    byte turn;
    do
    :: turn < N_TURNS ->
        lock();
#ifdef OPEN_LATE
        n_recorders == 0;
        n_open++;
#else
        n_open++;
#ifndef NO_WAIT
        n_recorders == 0;
#endif
#endif
        if
        :: n_capturing++;
            is_locked = false;
            lock();
            n_capturing--;
            n_open--
        :: n_open-- /* the driver refused */
        fi;
        is_locked = false;
        turn++
    :: else -> break
    od;
    n_ended++
}
