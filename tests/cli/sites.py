"""Places that hold memory: in reports of programs that ended, whatever ended them, and of those that run.

    sites.py CUSHIM PRELOAD SIM_FOLDER LIVE HOLDER CC...

LIVE is live.c, HOLDER holder.c.
"""
import json
import os
import re
import shutil
import sys

LIVE, HOLDER = sys.argv.pop(4), sys.argv.pop(4)

import fixture  # noqa: E402
from fixture import scratch, tap  # noqa: E402
from live_fixture import HEAD, report_of, run, started, stat  # noqa: E402


def sites_of(report):
    """{function that asked: site}, of places whose memory is on the device or pinned."""
    return {site["stack"][0]["function"]: site for site in report["sites"] if site["stack"]}


HOLDER_SOURCE = (fixture.ROOT / "tests/cli/holder.c").read_text().splitlines()
HOLDER_LINES = {what: next(i for i, text in enumerate(HOLDER_SOURCE, 1) if f"/* {what} */" in text)
                for what in ("held", "churned", "leaked", "pinned")}


@tap.test
def places_have_what_is_theirs_whatever_ends_the_program():
    """Each byte is a sample, so all is counted; and a mean in which nothing but large blocks is."""
    for free in ("exact", "relaxed"):
        result, report = report_of("--sites=1", HOLDER, "kill", CUSHIM_FREE=free)
        assert result.returncode == -9 and report["ended"] == "ended by SIGKILL", (result, report)
        fixture.valid(report)
        found = sites_of(report)
        for function, what, blocks, live, peak in (("hold_much", "held", 4, 4 << 20, 4 << 20), ("leak_some", "leaked", 200, 200000, 200000),
                                                   ("churn", "churned", 0, 0, 4000), ("pin_some", "pinned", 1, 1 << 16, 1 << 16)):
            site = found[function]
            assert (site["live_blocks"], site["live_bytes"], site["peak_live_bytes"], site["error_bytes"]) == (blocks, live, peak, 0), \
                (free, function, site)
            assert site["stack"][0]["line"] == f"holder.c:{HOLDER_LINES[what]}", site
        assert not found["hold_much"]["grows"] and not found["churn"]["grows"], found
        assert report["sample_bytes"] == 1 and report["lost_samples"] == 0, report
        _, report = report_of("--sites=1M", HOLDER, "kill", CUSHIM_FREE=free)
        site = sites_of(report)["hold_much"]
        assert (site["live_blocks"], site["live_bytes"], site["error_bytes"]) == (4, 4 << 20, 0), site
        _, report = report_of(HOLDER, "kill", CUSHIM_FREE=free)
        assert "sites" not in report and "sample_bytes" not in report, report


@tap.test
def a_place_is_one_site_whatever_serves_its_requests():
    """What the pool has is served by our cudaMalloc, and what it lacks by our cuMemAlloc, which the runtime calls."""
    program = fixture.build("remember", "-g", "-O0", "-ldl", source="""
        #include <dlfcn.h>
        int (*allocate)(void **, unsigned long);
        __attribute__((noinline)) int remember(void) {
            void *block;
            return allocate(&block, 1 << 20);
        }
        int main(void) {
            void *runtime = dlopen("libcudart.so.13", RTLD_NOW);
            allocate = (int (*)(void **, unsigned long))dlsym(runtime, "cudaMalloc");
            int n_refused = 0;
            for (int i = 0; i < 60; i++)
                n_refused += remember() != 0;
            return n_refused;
        }
    """)
    result, report = report_of("--sites=1", str(program))
    kind = report["devices"][0]["kinds"]["device"]
    assert result.returncode == 0 and 0 < kind["no_call"] < kind["requests"] == 60, (result, kind)
    assert [site["live_blocks"] for site in report["sites"] if site["live_blocks"]] == [60], report["sites"]


@tap.test
def places_are_told_to_people_also_after_a_normal_end():
    for words, code in ((("kill",), -9), ((), 0)):
        result = run("--stats", "--sites=1", HOLDER, *words)
        assert result.returncode == code, result
        for pattern in (r"^alive            blocks      live  \+- error  peak live  \(sampled each 1 B\)$",
                        r"^  site 1              4  4\.00 MiB   counted   4\.00 MiB$",
                        rf"^ +hold_much  holder\.c:{HOLDER_LINES['held']}$", rf"^ +leak_some  holder\.c:{HOLDER_LINES['leaked']}$"):
            assert re.search(pattern, result.stderr, re.MULTILINE), (pattern, result.stderr)
    assert "alive" not in run("--stats", HOLDER).stderr


@tap.test
def who_looks_sees_the_places_of_a_program_that_runs():
    process = started("--sites=1", LIVE, "pause")
    text = stat(str(process.pid)).stdout
    process.kill()
    process.communicate(timeout=60)
    stat("--clean")
    assert re.search(r"^  site 1              3  2\.93 KiB   counted   2\.93 KiB", text, re.MULTILINE), text
    assert "keep_some  live.c:" in text, text


@tap.test
def each_file_is_asked_once_for_all_its_lines():
    """An addr2line that counts its calls, in front of the one that answers."""
    real = shutil.which("addr2line")
    if not real:
        tap.skip("no addr2line here")
    bin_folder, calls = scratch / "bin", scratch / "calls"
    bin_folder.mkdir()
    (bin_folder / "addr2line").write_text(f'#!/bin/sh\necho "$4" >>{calls}\nexec {real} "$@"\n')
    (bin_folder / "addr2line").chmod(0o755)
    path = f"{bin_folder}:{os.environ['PATH']}"
    process = started("--sites=1", HOLDER, "pause")
    result = stat("--sites", str(process.pid), PATH=path)
    asked = calls.read_text().splitlines()
    bare, both = stat("--sites", PATH=path), stat("--sites", "--json", "live", PATH=path)
    process.kill()
    process.communicate(timeout=60)
    stat("--clean")
    assert result.returncode == 0 and result.stdout.startswith(f"{HEAD}holder, process {process.pid}, "), result
    assert "  site 1  " in result.stdout and "hold_much  holder.c:" in result.stdout and "verdict" not in result.stdout, result
    assert len(asked) == len(set(asked)) >= 1, asked
    assert bare.returncode == both.returncode == 2, (bare, both)
    calls.unlink()
    run("--stats", "--sites=1", HOLDER, "kill", PATH=path)
    asked = calls.read_text().splitlines()
    assert len(asked) == len(set(asked)) >= 1, asked
    process = started(LIVE, "pause")
    result = stat("--sites", "live")
    process.kill()
    process.communicate(timeout=60)
    stat("--clean")
    assert "start it with --sites" in result.stdout, result


tap.run()
