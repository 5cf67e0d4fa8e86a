"""The real libcudart against a fake libcuda: every look-up is answered, ours are routed, none is misrouted."""
import stage
import tap
import revisions
from stage import BUILD, CUDA, DRIVER, HERE, HOOKS, OURS, WORK, probe, run

ROWS = revisions.read(CUDA / "include")
FIXTURE = HERE / "cudart-13.0.requests"


def requests(path):
    """(symbol, version, flags) of each line, and the rest of the line."""
    for line in path.read_text().splitlines():
        symbol, version, flags, *rest = line.split()
        yield ("" if symbol == "-" else symbol, int(version), int(flags)), rest


def expected(symbol, version, flags):
    """Who holds the answer, and under which name."""
    abi = revisions.answer(ROWS, symbol, version, flags)
    if abi is None:
        return "none"
    return f"{OURS if abi in HOOKS else DRIVER} {abi}"


def user(linkage):
    program = BUILD / f"user_{linkage}"
    if not program.exists():
        tap.skip(f"the toolkit has no {linkage} runtime")
    return program


def witnessed(linkage):
    log = WORK / f"witness.{linkage}"
    run(user(linkage), preload=[BUILD / "libwitness.so", stage.PRELOAD], WITNESS_LOG=log)
    seen = list(requests(log))
    assert len(seen) >= 400, len(seen)
    return seen


def check_witnessed(linkage):
    wrong = [(asked, rest) for asked, rest in witnessed(linkage)
             if " ".join(rest).replace("none none", "none") != expected(*asked)]
    assert not wrong, wrong


@tap.test
def a_static_runtime_gets_our_hooks_for_hook_rows_and_the_drivers_own_for_all_else():
    check_witnessed("static")


@tap.test
def a_shared_runtime_gets_our_hooks_for_hook_rows_and_the_drivers_own_for_all_else():
    check_witnessed("shared")


@tap.test
def the_runtime_makes_the_same_look_ups_as_without_us():
    for linkage in "static", "shared":
        logs = []
        for preload in [], [stage.PRELOAD]:
            log = WORK / f"driver.{linkage}.{len(preload)}"
            run(user(linkage), preload=preload, FAKE_CUDA_LOG=log)
            logs.append([asked for asked, _ in requests(log)])
        native, ours = logs
        ours.remove(("cuMemAlloc", 3020, 0))  # our own question, once (B14)
        assert native == ours


@tap.test
def the_runtime_of_the_fixtures_toolkit_makes_the_look_ups_of_the_fixture():
    version = (CUDA / "include/cuda_runtime_api.h").read_text()
    if "#define CUDART_VERSION 13000" not in version.replace("  ", " "):
        tap.skip("the toolkit is not 13.0")
    log = WORK / "fixture"
    run(user("static"), preload=[], FAKE_CUDA_LOG=log)
    assert log.read_text() == FIXTURE.read_text()


@tap.test
def the_fixture_replayed_through_both_resolvers_is_routed_by_row():
    lines = probe(f"open:{DRIVER}", f"replay:{FIXTURE}")
    asked = [request for request, _ in requests(FIXTURE)]
    assert len(lines) == 2 * len(asked) > 800
    for request, four, five in zip(asked, lines[0::2], lines[1::2]):
        want = expected(*request)
        assert four.split(" ", 2)[2] == want, (request, four)
        assert five.split(" ", 2)[2] == want, (request, five)
        assert four.startswith("0 -1" if want != "none" else "500 -1"), (request, four)


@tap.test
def every_revision_of_every_symbol_is_routed_by_row():
    every = WORK / "every"
    asked = [(row.symbol, row.since, flags) for row in ROWS for flags in (0, 1, 2)]
    asked += [(row.symbol, row.since - 10, flags) for row in ROWS for flags in (0, 2)]
    every.write_text("".join(f"{s} {v} {f}\n" for s, v, f in asked))
    lines = probe(f"open:{DRIVER}", f"replay:{every}")
    for request, four, five in zip(asked, lines[0::2], lines[1::2]):
        want = expected(*request)
        assert four.split(" ", 2)[2] == want, (request, four)
        assert five.split(" ", 2)[2] == want, (request, five)


def listed_driver():
    """The rows of the driver's functions as far as these headers go."""
    newest = max(row.since for row in ROWS if row.since < 99000)
    return [row for row in stage.SYMBOLS if row[1] == "DRV" and int(row[4]) <= newest]


@tap.test
def the_list_of_symbols_agrees_with_the_toolkits_headers_and_has_every_revision():
    rows = {row.abi: row for row in ROWS}
    driver = listed_driver()
    for role, api, abi, symbol, since in driver:
        assert (rows[abi].symbol, rows[abi].since) == (symbol, int(since)), (abi, rows[abi])
    listed = {abi for role, api, abi, symbol, since in driver}
    hooked = {symbol for role, api, abi, symbol, since in driver if role == "HOOK"}
    missing = [row.abi for row in ROWS
               if row.symbol in hooked and row.abi not in listed and row.since < 99000]
    assert not missing, missing


@tap.test
def thunks_are_routed_by_name_and_only_where_the_rows_leave_no_doubt():
    every = WORK / "thunks"
    asked = [(row.symbol, row.since, flags) for row in ROWS for flags in (0, 2)]
    every.write_text("".join(f"{s} {v} {f}\n" for s, v, f in asked))
    lines = probe(f"open:{DRIVER}", f"replay:{every}", FAKE_CUDA_THUNKS=1)
    routed = set()
    for (symbol, version, flags), five in zip(asked, lines[1::2]):
        per_thread = [row.since for row in ROWS if row.symbol == symbol and row.per_thread]
        in_doubt = flags == revisions.PER_THREAD and per_thread and version < min(per_thread)
        want = expected(symbol, version, flags)
        if want.startswith(OURS) and not in_doubt:
            assert five.endswith(want), (symbol, version, flags, five)
            routed.add(want.split()[1])
        else:
            assert five.split(" ", 2)[2].startswith(DRIVER), (symbol, version, flags, five)
    assert routed == {row[2] for row in listed_driver() if row[0] == "HOOK"}


tap.run()
