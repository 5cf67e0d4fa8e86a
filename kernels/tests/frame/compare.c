/*
 * Compare outputs of a function with those of its reference, by the rules of struct
 * kernel_tolerance.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/tests/frame/frame.h"

enum { LEAST_FOR_NMSE = 256, MOST_TEXT = 128 };

/* ---- elements ---- */

static bool is_float(enum kernel_type type) {
    return type == TYPE_F32 || type == TYPE_F64 || type == TYPE_F16 || type == TYPE_BF16 ||
           type == TYPE_E4M3;
}

static uint64_t bits_at(enum kernel_type type, const void *values, size_t i) {
    uint64_t bits = 0;
    memcpy(&bits, (const unsigned char *)values + i * bytes_of(type), bytes_of(type));
    return bits;
}

void describe_element(const struct kernel_operand *operand, const void *values, size_t i,
                      char *text, size_t cap_bytes) {
    snprintf(text, cap_bytes, "%s[%zu] = %.17g (0x%0*llx)", operand->name, i,
             value_of(operand->type, values, i), 2 * (int)bytes_of(operand->type),
             (unsigned long long)bits_at(operand->type, values, i));
}

/* The number of a float among all of its type, in their order; both zeros are 0. */
static int64_t place_of(enum kernel_type type, uint64_t bits) {
    uint64_t sign = UINT64_C(1) << (8 * bytes_of(type) - 1);
    int64_t magnitude = (int64_t)(bits & (sign - 1));
    return bits & sign ? -magnitude : magnitude;
}

static double steps_between(enum kernel_type type, uint64_t a, uint64_t b) {
    int64_t place_a = place_of(type, a), place_b = place_of(type, b);
    return (double)(place_a > place_b ? (uint64_t)place_a - (uint64_t)place_b
                                      : (uint64_t)place_b - (uint64_t)place_a);
}

/* ---- verdicts ---- */

struct output {
    const struct kernel_case *c;
    int index;
    const struct kernel_operand *operand;
    const void *got, *want;
};

static bool has_rule_of_elements(const struct kernel_tolerance *t) {
    return t->ulps > 0 || t->relative > 0 || t->absolute > 0;
}

/* NaN and infinities are at the places of the reference's. */
static bool is_same_kind(double got, double want) {
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    return !(isinf(want) || isinf(got)) || got == want;
}

static bool is_within_bound(const struct output *o, size_t i, double got, double want) {
    double (*bound)(const struct kernel_case *c, int operand, size_t i) =
        o->c->subject->tolerance.bound;
    return bound && fabs(got - want) <= bound(o->c, o->index, i);
}

static bool is_right(const struct output *o, size_t i) {
    const struct kernel_tolerance *t = &o->c->subject->tolerance;
    enum kernel_type type = o->operand->type;
    uint64_t got_bits = bits_at(type, o->got, i), want_bits = bits_at(type, o->want, i);
    if (got_bits == want_bits)
        return true;
    double got = value_of(type, o->got, i), want = value_of(type, o->want, i);
    if (is_float(type)) {
        if (!is_same_kind(got, want))
            return false;
        if (isnan(want))
            return true;
        bool is_ulps_alone = !t->bound && t->relative <= 0 && t->absolute <= 0;
        if (got == 0 && want == 0 && is_ulps_alone)
            return signbit(got) == signbit(want);
        if (t->ulps > 0 && steps_between(type, got_bits, want_bits) <= t->ulps)
            return true;
    }
    if (t->relative > 0 || t->absolute > 0) {
        if (fabs(got - want) <= t->absolute + t->relative * fabs(want))
            return true;
    }
    return is_within_bound(o, i, got, want);
}

static bool refuse(const struct output *o, size_t i, const char *why, char *text,
                   size_t cap_bytes) {
    char got[MOST_TEXT], want[MOST_TEXT];
    describe_element(o->operand, o->got, i, got, sizeof got);
    describe_element(o->operand, o->want, i, want, sizeof want);
    snprintf(text, cap_bytes, "%s, the reference has %s%s", got, strchr(want, '=') + 2, why);
    return false;
}

/* ---- operands ---- */

static bool compare_each(const struct output *o, char *text, size_t cap_bytes) {
    size_t first = 0, n_wrong = 0;
    char why[MOST_TEXT];
    for (size_t i = 0; i < o->operand->n; i++) {
        if (is_right(o, i))
            continue;
        if (n_wrong++ == 0)
            first = i;
    }
    if (!n_wrong)
        return true;
    snprintf(why, sizeof why, "; %zu of %zu elements are wrong", n_wrong, o->operand->n);
    return refuse(o, first, why, text, cap_bytes);
}

/*
 * sum(error^2) and sum(reference^2) over finite elements; false if a NaN or an infinity is out of
 * place.
 */
static bool sum_squares(const struct output *o, double *error, double *whole, char *text,
                        size_t cap_bytes) {
    *error = *whole = 0;
    for (size_t i = 0; i < o->operand->n; i++) {
        double got = value_of(o->operand->type, o->got, i);
        double want = value_of(o->operand->type, o->want, i);
        if (!is_same_kind(got, want))
            return refuse(o, i, "", text, cap_bytes);
        if (!isfinite(want))
            continue;
        *error += (got - want) * (got - want);
        *whole += want * want;
    }
    return true;
}

static bool compare_by_nmse(const struct output *o, char *text, size_t cap_bytes) {
    const struct kernel_tolerance *t = &o->c->subject->tolerance;
    double error, whole;
    if (!sum_squares(o, &error, &whole, text, cap_bytes))
        return false;
    if (error > t->nmse * whole) {
        snprintf(text, cap_bytes, "%s: NMSE is %.3g, above %.3g", o->operand->name, error / whole,
                 t->nmse);
        return false;
    }
    for (size_t i = 0; t->bound && i < o->operand->n; i++) {
        if (!is_right(o, i))
            return refuse(o, i, ": beyond its bound", text, cap_bytes);
    }
    return true;
}

/* Few elements, and no rule for each: none may take the whole error of 256. */
static bool compare_few_by_nmse(const struct output *o, char *text, size_t cap_bytes) {
    double error, whole, n = (double)o->operand->n;
    if (!sum_squares(o, &error, &whole, text, cap_bytes))
        return false;
    double most = sqrt(LEAST_FOR_NMSE * o->c->subject->tolerance.nmse * whole / n);
    for (size_t i = 0; i < o->operand->n; i++) {
        double got = value_of(o->operand->type, o->got, i);
        double want = value_of(o->operand->type, o->want, i);
        if (isfinite(want) && fabs(got - want) > most)
            return refuse(o, i, ": beyond 16 sqrt(NMSE)", text, cap_bytes);
    }
    return true;
}

bool compare_outputs(const struct kernel_case *c, char *text, size_t cap_bytes) {
    const struct kernel_tolerance *t = &c->subject->tolerance;
    for (int i = 0; i < c->n_operands; i++) {
        struct output o = {c, i, &c->operands[i], c->got[i], c->host[i]};
        bool is_good, is_nmse = t->nmse > 0 && is_float(o.operand->type);
        if (o.operand->role != ROLE_OUT && o.operand->role != ROLE_BOTH)
            continue;
        if (is_nmse && o.operand->n >= LEAST_FOR_NMSE)
            is_good = compare_by_nmse(&o, text, cap_bytes);
        else if (is_nmse && o.operand->n && !has_rule_of_elements(t) && !t->bound)
            is_good = compare_few_by_nmse(&o, text, cap_bytes);
        else
            is_good = compare_each(&o, text, cap_bytes);
        if (!is_good)
            return false;
    }
    return true;
}
