/*
 * The output that kernels print (docs/internals/memory-engine.md, "Exact frees",
 * src/memory/fence/record.h), and the call that flushes it.
 *
 * Property: when an exact free returns, the output of all earlier launches of its thread has been
 * flushed.
 *
 * Two threads of one context each launch and free repeatedly. A launch is one step, because the
 * driver has a lock that a record takes too. A record covers all earlier launches, and a
 * synchronise after it flushes their output. Atomic counters are sequentially consistent.
 *
 * Each of these makes a protocol with one mistake, in which spin must find an error:
 *   NOTE_BEFORE_LAUNCH   a launch is noted before the driver gets it
 *   PLAIN_NOTE           a note may lower the latest round
 *   RECORD_BEFORE_ROUND  the next round begins after the record
 *   PRINTED_TOO_EARLY    the fence marks all output as flushed before the synchronise
 */
#define N_THREADS 2
#define N_TURNS   5

byte round = 1, latest, printed;
byte n_launched[N_THREADS], n_out[N_THREADS];

inline raise_to(counter, to) {
    d_step {
        if
        :: counter < to -> counter = to
        :: else
        fi
    }
}

inline note() {
    seen = round;
#ifdef PLAIN_NOTE
    latest = seen;
#else
    raise_to(latest, seen);
#endif
}

/* The launches of both threads so far, which a record covers. */
inline record() {
    d_step {
        covers[0] = n_launched[0];
        covers[1] = n_launched[1]
    }
}

inline bring_out() {
    raise_to(n_out[0], covers[0]);
    raise_to(n_out[1], covers[1])
}

proctype thread(byte me) {
    byte turn, seen, due, has_printed, covers[N_THREADS];
    do
    :: turn < N_TURNS ->
#ifdef NOTE_BEFORE_LAUNCH
        note();
        n_launched[me]++;
#else
        n_launched[me]++;
        note();
#endif
        /* the free */
        seen = latest;
        has_printed = printed;
        if
        :: seen > has_printed ->
#ifdef RECORD_BEFORE_ROUND
            record();
#endif
            d_step {
                due = round;
                round++
            };
#ifndef RECORD_BEFORE_ROUND
            record();
#endif
#ifdef PRINTED_TOO_EARLY
            raise_to(printed, due);
            bring_out()
#else
            bring_out();
            raise_to(printed, due)
#endif
        :: else
        fi;
        assert(n_out[me] >= n_launched[me]);
        turn++
    :: else -> break
    od
}

init {
    atomic {
        run thread(0);
        run thread(1)
    }
}
