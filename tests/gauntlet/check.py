"""The small clients of the gauntlet, without cushim and under the preload with its defaults.

    check.py BUILD FOLDER

FOLDER keeps what pip fetches.  A client that cannot be fetched is a skip.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import client
import compare
import tap

CUSHIM = pathlib.Path(sys.argv[1]).resolve() / "tools/cushim/cushim"
CACHE = pathlib.Path(sys.argv[2]).resolve()


def check(one):
    try:
        client.install(one, CACHE, is_offline=False)
    except client.Absent as why:
        tap.skip(str(why))
    native, exact = (client.run(one, CACHE, CUSHIM, mode) for mode in ("native", "exact"))
    differs = compare.differing(native.outcomes, exact.outcomes)
    again = client.run(one, CACHE, CUSHIM, "again") if differs else native  # shows which outcomes vary without cushim
    table = compare.Table(one, native, again)
    said = table.add("exact", exact)
    print("# " + said.splitlines()[0], flush=True)
    assert table.passed, table.native_text()
    assert not table.rows[-1]["differ"], said


def test_of(one):
    def test():
        check(one)
    test.__name__ = f"{one} has the same outcome under the preload as natively"
    return test


for small in client.clients():
    if small.is_small:
        tap.test(test_of(small))


@tap.test
def a_lock_has_the_packages_of_its_client():
    for one in client.clients():
        rows = [line.split() for line in one.lock().read_text().splitlines() if "==" in line]
        versions = dict(row[0].split("==") for row in rows)
        assert all(word.split("==")[0] in versions for word in one.needs), one
        assert all(versions.get(name) == version for name, version in (word.split("==") for word in one.packages)), one


@tap.test
def a_mode_that_changes_an_outcome_is_reported():
    one = client.Client("a client", "1", [], [])
    native, other = ({"first": "ok", "second": what, compare.STATUS: "0"} for what in ("ok", "error"))
    runs = [client.Run(outcomes, "", 0) for outcomes in (native, native, other)]
    table = compare.Table(one, *runs[:2])
    assert "second: natively ok, here error" in table.add("exact", runs[2]) and table.rows[-1]["differ"] == 1
    assert table.add("relaxed", runs[0]).startswith("a client 1 relaxed: = 2")
    varying = compare.Table(one, runs[0], runs[2])
    assert varying.add("exact", runs[2]).startswith("a client 1 exact: = 1")


@tap.test
def a_row_that_no_longer_differs_is_reported():
    one = client.Client("PyTorch", "1", [], [])
    run = client.Run({"tensor_of_another_process": "ok", compare.STATUS: "0"}, "", 0)
    table = compare.Table(one, run, run)
    assert "says that it differs" in table.add("vmm", run) and table.rows[-1]["differ"] == 1


@tap.test
def a_program_that_dies_differs():
    one = client.Client("a client", "1", [], [])
    native, dead = ({"first": "ok", compare.STATUS: status} for status in ("0", "-11"))
    table = compare.Table(one, client.Run(native, "", 0), client.Run(native, "", 0))
    assert "exit status: natively 0, here -11" in table.add("exact", client.Run(dead, "", 0))


tap.run()
