"""The targets of the allocator in the tables, by case.

A row: a pattern of the case, the field, and the goals of `exact` and of `relaxed` (None: none). Times are in
nanoseconds, by the runtime entry; held_by_live and other names with _by_ are ratios.
"""
import re

TARGETS = (
    (r"pair/(512|4K|64K|1M)", "ns", 400, 40),
    (r"pair/(2M|16M|256M|1G)", "ns", 500, 500),
    (r"pair/16-thread/.*", "ns", 2000, 150),
    (r"deep/free", "added_ns", 500, None),
    (r"pinned/1M", "ns", 60000, 100),
    (r"pinned/64M", "ns", 4000000, 100),
    (r"thrust/1M", "ns", 170000, 150000),
    (r"pack/.*", "held_by_live", 1.06, 1.06),
    (r"(random|power|trace)/.*", "held_by_live", 1.10, 1.10),
)
# Relaxed pairs up to 1 MiB by the driver's entry points, which the static runtime uses: 90 ns.
DRIVER_ENTRY = (r"pair/(512|4K|64K|1M)", "ns", 400, 90)
# The companion library, variant `companion` only.
COMPANION = (
    (r"pool/(512|64K|1M)", "ns", 40),
    (r"pool/16-thread/(512|64K|1M)", "ns", 80),
    (r"arena/.*", "ns", 15),
    (r"graph/.*", "time_by_native", 1.02),
    (r"launch/.*", "added_ns", 30),
    (r"mapped/write/64", "ns", 200),
    (r"copy/.*", "exposed_by_shorter", 0.1),
)


def target_of(case, variant, field):
    """The goal, or None."""
    if variant == "companion":
        return next((goal for pattern, of_field, goal in COMPANION if of_field == field and re.fullmatch(pattern, case)), None)
    if not variant.startswith("cushim "):
        return None
    rows = ((DRIVER_ENTRY,) if "driver entry" in variant else ()) + TARGETS
    for pattern, of_field, exact, relaxed in rows:
        if of_field == field and re.fullmatch(pattern, case):
            return relaxed if variant.startswith("cushim relaxed") else exact
    return None
