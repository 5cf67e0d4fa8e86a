/*
 * The relaxed fence (docs/internals/memory-engine.md, "Relaxed frees", src/memory/fence/fence.c) on
 * a machine with store buffers.
 *
 * Property: before the work that was submitted ahead of a free is done, its block is not reused,
 * and if that work has an effect on the host, the relaxed free does not return.
 *
 * Each process stores into its own buffer, which drains into memory in order at any time (TSO, as
 * on x86).  Loads read memory, because no process here loads what it stored without a fence in
 * between.  A full fence waits until the process's buffer is empty; an exchange is a fence and a
 * step.  Rings and `done` are under a lock or exchanged, so they are atomic here.
 *
 * One context with a stream for each of two workers, which submit and free.  A fencer closes epochs
 * and records; a record may fail.  A poller raises `done`; the device finishes work in the order of
 * each stream.
 *
 * Each of these makes a protocol with one mistake, in which spin must find an error:
 *   SWAPPED           the record is made before `open` is raised
 *   NO_FREE_FENCE     no fence between the submission and the load of `open`
 *   NO_RECORD_FENCE   `open` is raised by a plain store, no fence before the record
 *   DONE_FROM_OPEN    the barrier completes what `open` says when it ends
 *   SLOT_BEFORE_RECORD  a row is published first: an event never recorded queries as complete
 *   EFFECT_BEFORE_WORK  an effect is noted before its work is submitted
 *   ROW_OF_FAILED     a record that failed is published all the same
 */
#define N_WORKERS 2
#ifndef N_FENCES
#define N_FENCES  2
#endif
#ifndef N_ROUNDS
#define N_ROUNDS  2 /* of worker 0; the other has one */
#endif
#define OPEN      0 /* addresses in memory */
#define SUBMITTED 1 /* and 2: each stream has two pieces of work */
#define FENCER    2 /* buffers: 0 and 1 are the workers' */

byte memory[3];
chan buffer[3] = [3] of { byte, byte };

byte finished[N_WORKERS];
byte done;
byte effect; /* raised by worker 0 for its work, as a copy to the host would be */

typedef row_t {
    bool is_published;
    byte epoch;
    byte needs[N_WORKERS];
}
row_t rows[N_FENCES];

inline full_fence(who) {
    empty(buffer[who])
}

inline raise_to(counter, to) {
    d_step {
        if
        :: counter < to -> counter = to
        :: else
        fi
    }
}

/* After the load of `tag`: once that epoch is done, the work is done. */
inline reuse(who, tag, round) {
    atomic {
        if
        :: done >= tag -> assert(finished[who] >= round)
        :: true /* not now */
        fi
    }
}

proctype worker(byte me; byte n_rounds) {
    byte round = 1, tag, noted, first_tag;
    do
    :: round <= n_rounds ->
#ifdef EFFECT_BEFORE_WORK
        noted = memory[OPEN];
#endif
        buffer[me]!SUBMITTED + me, round;
#ifndef NO_FREE_FENCE
        full_fence(me);
#endif
#ifndef EFFECT_BEFORE_WORK
        noted = memory[OPEN];
#endif
        if
        :: me == 0 ->
            raise_to(effect, noted);
            reuse(me, effect, round) /* the free returns, and the host reads */
        :: else
        fi;
        atomic {
            noted = 0;
            tag = memory[OPEN];
            if
            :: round == 1 -> first_tag = tag
            :: else
            fi
        };
        reuse(me, tag, round);
        round++
    :: else -> break
    od;
    reuse(me, first_tag, 1);
    reuse(me, tag, n_rounds)
}

inline raise_epoch() {
    d_step {
        epoch = memory[OPEN];
        memory[OPEN] = epoch + 1
    }
}

inline raise_open() {
#ifdef NO_RECORD_FENCE
    epoch = memory[OPEN];
    buffer[FENCER]!OPEN, epoch + 1
#else
    full_fence(FENCER);
    raise_epoch();
#endif
}

/* The driver's step, under its own lock. */
inline record() {
    d_step {
        needs0 = memory[SUBMITTED];
        needs1 = memory[SUBMITTED + 1]
    }
}

inline publish() {
    d_step {
        rows[k].epoch = epoch;
        rows[k].is_published = true
    }
}

inline fill() {
    d_step {
        rows[k].needs[0] = needs0;
        rows[k].needs[1] = needs1
    }
}

proctype fencer() {
    byte k = 0, epoch, needs0, needs1;
    do
    :: k < N_FENCES ->
#ifdef SWAPPED
        record();
        raise_open();
#else
        raise_open();
#ifdef SLOT_BEFORE_RECORD
        publish();
#endif
        record();
#endif
        atomic {
            full_fence(FENCER); /* the ring's lock */
            if
            :: true -> fill(); publish()
            :: true -> /* the driver refused */
#ifdef ROW_OF_FAILED
                publish()
#else
                skip
#endif
            fi;
            k++;
            epoch = 0;
            needs0 = 0;
            needs1 = 0
        }
    :: else -> break
    od
}

/* Rows in order. A row without a record has nothing to wait for. */
proctype poller() {
    byte k = 0;
end:
    do
    :: k < N_FENCES && rows[k].is_published && rows[k].epoch > done &&
       finished[0] >= rows[k].needs[0] && finished[1] >= rows[k].needs[1] ->
        raise_to(done, rows[k].epoch);
        k++
    :: k < N_FENCES && rows[k].is_published && rows[k].epoch <= done -> k++
    :: k + 1 < N_FENCES && !rows[k].is_published && rows[k + 1].is_published -> k++ /* failed */
    od
}

/* The driver's barrier, used if no record is possible: it waits for all earlier work. */
proctype barrier() {
    byte epoch, needs0, needs1;
#ifndef DONE_FROM_OPEN
    raise_epoch();
#endif
    record();
    finished[0] >= needs0 && finished[1] >= needs1;
#ifdef DONE_FROM_OPEN
    raise_epoch();
#endif
    raise_to(done, epoch)
}

proctype device() {
end:
    do
    :: finished[0] < memory[SUBMITTED] -> finished[0]++
    :: finished[1] < memory[SUBMITTED + 1] -> finished[1]++
    od
}

proctype drain(byte who) {
    byte place, value;
end:
    do
    :: atomic { buffer[who]?place, value -> memory[place] = value; place = 0; value = 0 }
    od
}

init {
    atomic {
        memory[OPEN] = 1;
        run drain(0);
        run drain(1);
        run drain(FENCER);
        run device();
        run poller();
        run worker(0, N_ROUNDS);
        run worker(1, 1);
        run fencer();
#ifdef BARRIER
        run barrier()
#endif
    }
}
