"""The page that `cushim report` writes, as a browser shows it.

    page.py CUSHIM PRELOAD SIM_FOLDER HOLDER MAPPER TRAINER CC...

HOLDER is holder.c, MAPPER mapper.c, TRAINER trainer.cpp.
"""
import base64
import functools
import hashlib
import html
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import urllib.parse
import zlib

HOLDER, MAPPER, TRAINER = (os.path.abspath(sys.argv.pop(4)) for _ in range(3))

from browser import Hands, browse, browser, need_browser  # noqa: E402
from fixture import CUSHIM, SIM, build_named, cushim, scratch, tap, valid  # noqa: E402

MIB = 1 << 20
MOST_BYTES = 3 * MIB


def recorded(program):
    folder = scratch / f"{os.path.basename(program)}.cushim"
    if not folder.exists():
        result = cushim("record", "-o", str(folder), program, LD_LIBRARY_PATH=str(SIM))
        assert f"cushim: {folder}: 1 process, " in result.stderr, result
    return folder


@functools.cache
def page_of(recording, *words):
    page = scratch / f"{recording.name}{''.join(words)}.html"
    result = cushim("report", *words, "-o", str(page), str(recording))
    assert result.returncode == 0 and result.stderr == "" and result.stdout == "", result
    return page


def data_of(page):
    return valid(json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL).group(1)))


def drawn(page, *words, where=""):
    """What the page's script draws, run by node, which takes a second less than a browser; else by a browser."""
    if not shutil.which("node"):
        return browse(page, "--dump-dom", where=where)
    done = subprocess.run(["node", os.path.join(os.path.dirname(os.path.abspath(__file__)), "dom.js"), page, where or "#", *words], text=True, capture_output=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def text_of(dom, pattern):
    found = re.search(pattern, dom, re.DOTALL)
    assert found, (pattern, dom[-2000:])
    return re.sub(r"<[^>]*>", "", found.group(1))


def total(dom):
    return int(re.search(r'id="flame" data-total="(\d+)"', dom).group(1))


@tap.test
def names_of_templates_fit_the_terminal_and_keep_the_function():
    for words in [], ["--at=peak", "--by=site"], ["--at=end", "--by=site"]:
        text = cushim("report", *words, str(recorded(TRAINER))).stdout
        assert all(len(line) <= 80 for line in text.splitlines()), text
        assert re.search(r"^ +model::Tensor<float>::Tensor.* trainer\.cpp:\d+\n +< model::\S*::(step|forward)\S* \S* ?trainer\.cpp:\d+$", text, re.MULTILINE), text


@tap.test
def the_page_is_one_small_file_that_may_ask_for_nothing():
    text = page_of(recorded(TRAINER)).read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy and len(text) < MOST_BYTES, policy
    for tag, rule in ("style", "style-src"), ("script", "script-src"):
        inner = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL).group(1)
        hashed = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{rule} 'sha256-{hashed}'" in policy, (tag, policy)
    urls = set(re.findall(r"\b(?:https?:)?//[\w.]+", re.sub(r'id="data">.*?</script>', "", text, flags=re.DOTALL)))
    assert urls <= {"http://www.w3.org"}, urls  # the name of SVG


@tap.test
def its_data_are_those_of_the_recording():
    folder = recorded(TRAINER)
    one, = data_of(page_of(folder))["recordings"]
    summary, = json.loads(cushim("report", "--format=json", str(folder)).stdout)
    device, told = one["scopes"][0], summary["memory"][0]
    assert (one["events"], one["pid"], one["run_ns"]) == (summary["events"], summary["pid"], summary["run_ns"])
    for ours, theirs in {"requests": "requests", "peak_bytes": "peak_live_bytes", "peak_ns": "peak_ns", "held_bytes": "peak_held_bytes", "live_bytes": "live_bytes",
                         "wait_ns": "wait_ns", "refused": "refused"}.items():
        assert device[ours] == told[theirs], (ours, device[ours], told)
    rows = [dict(zip(device["columns"], numbers)) for numbers, *_ in device["sites"]]
    assert sum(row["peak_bytes"] for row in rows) == device["peak_bytes"] and sum(row["live_bytes"] for row in rows) == device["live_bytes"], rows
    least, most, held = zip(*device["buckets"])
    assert max(most) == device["peak_bytes"] and max(held) == device["held_bytes"] and all(map(lambda low, high: low <= high, least, most))
    known = {row["id"] for row in rows}
    for moment in device["moments"]:
        assert set(moment["of"][::2]) <= known, moment
    peak, = [moment for moment in device["moments"] if moment["peak"]]
    assert sum(peak["of"][1::2]) + peak["rest"] == device["peak_bytes"] and peak["ns"] == device["peak_ns"], peak
    end = device["moments"][-1]
    assert sum(end["of"][1::2]) + end["rest"] == device["live_bytes"] and end["ns"] == one["run_ns"], end
    assert [mark["text"] for mark in device["marks"]] == ["epoch 0", "epoch 1", "epoch 2", ""] and device["marks"][-1]["bytes"] == 1 << 46, device["marks"]


def check_map(moment):
    drawn = moment["map"]
    assert 0 < drawn["live"] <= drawn["held"] and 0 <= drawn["idle"] <= drawn["held"] - drawn["live"], moment
    assert len(drawn["rows"]) == drawn["segments"] and sum(row[1] for row in drawn["rows"]) == drawn["held"], drawn
    assert sum(row[2] for row in drawn["rows"]) == drawn["live"] == sum(moment["of"][1::2]) + moment["rest"], moment
    for base, size, live, hole, blocks, site, cells in drawn["rows"]:
        assert len(cells) == 64 and live + hole <= size and bool(blocks) == (site >= 0) == (live > 0) == (cells != "0" * 64), (base, cells)
        least, most = (sum(max(int(cell) - 1, 0) for cell in cells) / 9 / 64 * size, sum(min(int(cell) + 1, 9) for cell in cells if cell != "0") / 9 / 64 * size)
        assert least <= live <= most, (base, live, cells)


@tap.test
def a_moment_is_right_until_the_next_change():
    """What is live then is in the buckets of that time, also where nothing happened for long after it."""
    one, = data_of(page_of(recorded(TRAINER)))["recordings"]
    device = one["scopes"][0]
    moments, buckets = device["moments"], device["buckets"]
    live = [sum(moment["of"][1::2]) + moment["rest"] for moment in moments]
    assert [moment["ns"] for moment in moments] == sorted(moment["ns"] for moment in moments)
    bucket_at = lambda ns: ns * (len(buckets) - 1) // one["run_ns"]  # noqa: E731
    for moment, n_bytes in zip(moments, live):
        low, high, _ = buckets[bucket_at(moment["ns"])]
        assert low <= n_bytes <= high, (moment["ns"], n_bytes, low, high)
    every = one["run_ns"] / max(len(moments) - 2, 1)
    quiet = [(before, n_bytes) for before, n_bytes, after in zip(moments, live, moments[1:]) if after["ns"] - before["ns"] > 3 * every]
    for before, n_bytes in quiet:
        low, high, _ = buckets[bucket_at(before["ns"]) + 2]
        assert low == high == n_bytes, (before["ns"], n_bytes, low, high)


@tap.test
def segments_are_drawn_as_they_were_filled():
    device = data_of(page_of(recorded(TRAINER)))["recordings"][0]["scopes"][0]
    mapped = [moment for moment in device["moments"] if "map" in moment]
    assert 3 <= len(mapped) <= 64 and device["moments"][-1] in mapped, len(mapped)
    assert max(moment["map"]["held"] for moment in mapped) <= device["held_bytes"]
    for moment in mapped:
        check_map(moment)
    refused, = [mark for mark in device["marks"] if mark["bytes"]]
    assert any(moment["ns"] == refused["ns"] and moment["peak"] == 0 for moment in mapped), (refused, [moment["ns"] for moment in mapped])


@tap.test
def the_segments_of_the_moment_are_drawn():
    page = page_of(recorded(TRAINER))
    mapped = [moment for moment in data_of(page)["recordings"][0]["scopes"][0]["moments"] if "map" in moment]
    for moment in (mapped[0], mapped[len(mapped) // 2], mapped[-1]):
        dom = drawn(page, where=f"#t={moment['ns']}&v=moment")
        wanted = moment["map"]
        n_rows = len({(row[1], row[2], row[6]) for row in wanted["rows"]})  # those that look alike are one
        assert f'data-rows="{n_rows}"' in re.search(r"<svg id=\"map\"[^>]*>", dom).group(0), wanted
        assert dom.count('class="hole"') == n_rows and bool(dom.count('class="full"')) == (wanted["live"] > 0), wanted
        held = wanted["held"] / MIB
        assert f": {held:.{2 if held < 10 else 1 if held < 100 else 0}f} MiB held in {wanted['segments']} segment" in text_of(dom, r'id="map-sum">(.*?)</p>'), wanted


@tap.test
def the_text_has_any_moment_by_any_group():
    folder = recorded(TRAINER)
    summary, = json.loads(cushim("report", "--format=json", str(folder)).stdout)
    device = summary["memory"][0]
    for at in ("peak", "end"):
        n_bytes = device["peak_live_bytes" if at == "peak" else "live_bytes"]
        for group, wanted in {"site": r"model::", "size": r"up to ", "thread": r"thread \d+$", "context": r"pool 0x[0-9a-f]+$"}.items():
            text = cushim("report", f"--at={at}", f"--by={group}", str(folder)).stdout
            assert text.startswith("device 0 after ") and ", the " + at in text.splitlines()[0], text
            rows = re.findall(r"^ +[\d.]+ % +[\d.]+ [KMG]?i?B +([\d,]+) blocks?\s+(.*(?:\n +< .*)?)$", text, re.MULTILINE)
            assert rows and all(re.search(wanted, label) for _, label in rows), (group, text)
            if at == "end":
                assert sum(int(n.replace(",", "")) for n, _ in rows) == device["live_blocks"], text
            assert f" {n_bytes / MIB:.1f} MiB live in " in text or f" {n_bytes / 1024:.0f} KiB live in " in text, (n_bytes, text)
            assert re.search(r"^held      [\d.]+ MiB in \d+ segments: live ", text, re.MULTILINE) and re.search(r"^  0x[0-9a-f]+ .* blocks? +\[[ .o#]{32}\]$", text, re.MULTILINE), text
    text = cushim("report", "--at=end", "--range=epoch 1", str(folder)).stdout
    assert re.search(r" live in 20 blocks of the range epoch 1$", text, re.MULTILINE), text
    early, late = (cushim("report", f"--at={at}", "--by=size", str(folder)).stdout for at in ("1us", "1min"))
    assert " 0 B live in 0 blocks" in early and f" live in {device['live_blocks']} blocks" in late, (early, late)
    for words, code in (("--at=soon", 2), ("--at=-1s", 2), ("--by=stream", 2), ("--range=none", 1)):
        result = cushim("report", words, str(folder))
        assert result.returncode == code and result.stderr.count("\n") == 1 and result.stdout == "", (words, result)
    assert result.stderr.endswith(": it has no mark of that name; --format=trace-text shows its marks\n"), result
    assert "epoch 1" in cushim("report", "--format=trace-text", str(folder)).stdout
    assert cushim("report", "--at=peak", "--format=json", str(folder)).returncode == 2


@tap.test
def names_of_templates_are_those_of_the_source():
    device = data_of(page_of(recorded(TRAINER)))["recordings"][0]["scopes"][0]
    names = {name for name, _, _ in device["frames"]}
    for name in ("model::Tensor<float>::Tensor(unsigned long)", "model::Layer<float>::forward(unsigned long)", "model::Network<float>::step(unsigned long)", "main"):
        assert name in names, (name, names)
    leaks = [frames for numbers, frames, _ in device["sites"] if dict(zip(device["columns"], numbers))["grows"]]
    lines = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "trainer.cpp")).read().splitlines()
    line = next(i for i, text in enumerate(lines, 1) if "// leaked" in text)
    assert [device["frames"][frames[1]][1] for frames in leaks] == [f"trainer.cpp:{line}"], leaks


@tap.test
def the_page_shows_each_part():
    page = page_of(recorded(TRAINER))
    summary, = json.loads(cushim("report", "--format=json", str(recorded(TRAINER))).stdout)
    device = summary["memory"][0]
    dom = drawn(page)
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", dom)
    assert headings == ["Memory over time", "Stacks", "Segments", "Sites", "Alive at the end", "Large copies", "Missing data"], headings
    peak = device["peak_live_bytes"]
    assert text_of(dom, r'id="peak-live">(.*?)</div>').startswith(f"peak live{peak / (1 << 20):.1f} MiB"), dom
    assert total(dom) == peak
    assert int(re.search(r'id="sites" data-rows="(\d+)"', dom).group(1)) == len(device["sites"])
    assert int(re.search(r'id="alive-sites" data-rows="(\d+)"', dom).group(1)) == 1 and dom.count('class="tag">leak<') == 1
    assert dom.count('<line class="mark"') == 3 and dom.count('<line class="refused"') == 1 and ">64.0 TiB refused</text>" in dom, dom
    assert "No event is known to be missing." in text_of(dom, r'id="gaps">(.*?)</p>')
    took, = re.findall(r"^  recorded ([^,]*),", cushim("report", "--format=text", str(recorded(TRAINER))).stdout, re.MULTILINE)
    assert took.endswith(" (no GPU)") and f"recorded {took} " in text_of(dom, r'class="facts">(.*?)</p>'), (took, dom)


@tap.test
def the_head_says_what_lived_when_the_recording_began():
    folder = scratch / "late.cushim"
    env = {**os.environ, "CUSHIM_LIVE_DIR": str(scratch / "live-pages"), "LD_LIBRARY_PATH": str(SIM), "RANK": "3"}
    with subprocess.Popen([CUSHIM, "run", "--control", HOLDER, "pause"], env=env, text=True, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == "ready\n" and cushim("snapshot", "-o", str(folder), "holder").returncode == 0
        finally:
            holder.kill()
    assert [scope["blocks_before"] for scope in data_of(page_of(folder))["recordings"][0]["scopes"]] == [204, 1]
    for where, before in ("", "204 blocks, 4.19 MiB"), ("#s=1", "1 block, 64.0 KiB"):
        facts = text_of(drawn(page_of(folder), where=where), r'class="facts">(.*?)</p>')
        assert f" \u00b7 {before} lived when the recording began \u00b7 " in facts and ", rank 3 \u00b7 " in facts, facts
    assert "began" not in drawn(page_of(recorded(HOLDER)))


@tap.test
def the_curve_has_a_band_for_each_kind():
    page = page_of(recorded(MAPPER))
    device, = data_of(page)["recordings"][0]["scopes"]
    assert device["kinds"] == ["device", "mapped", "array"] and device["peak"][3:] == [2 * MIB, 86 * MIB, 4 * MIB], device
    assert all(sum(kinds) == least for least, _, _, *kinds in device["buckets"])
    dom = drawn(page)
    for kind in device["kinds"]:
        assert dom.count(f'<path class="band {kind}"') == dom.count(f'"key band {kind}"></span>{kind}<') == 1, (kind, dom)
    assert "live 92.0 MiB (device 2.00 MiB, mapped 86.0 MiB, array 4.00 MiB), held " in text_of(dom, r'id="now">(.*?)</span>'), dom
    assert re.search(r"live 12\.0 MiB \(mapped 12\.0 MiB\)(?: to |, held )", text_of(drawn(page, where="#t=1e18"), r'id="now">(.*?)</span>')), dom
    tops = list(zip(*([float(y) for y in re.findall(r"[V ]([\d.]+)", re.search(rf'class="band {kind}" d="([^"]*)"', dom).group(1))] for kind in device["kinds"])))
    assert all(low >= middle >= high for low, middle, high in tops) and any(low > middle > high for low, middle, high in tops), tops[::50]
    one = drawn(page_of(recorded(HOLDER)))
    assert one.count('<path class="band ') == one.count('<path class="band live"') == 1 and "MiB (" not in text_of(one, r'id="now">(.*?)</span>'), one


@tap.test
def one_is_not_told_as_many():
    dom = drawn(page_of(recorded(HOLDER)), where="#s=1")  # of pinned memory it asks once
    assert "of 1 request made no driver call" in dom and ">1 block<" in dom
    assert not re.findall(r"(?<![\d.,])1 (?:block|free|request|segment|place)s\b", dom)


@tap.test
def a_browser_draws_what_node_draws():
    """By what the tests ask for: texts, and how much of each shape."""
    page = page_of(recorded(TRAINER))
    if not shutil.which("node"):
        tap.skip("no node")
    for where in ("", "#v=all&q=forward"):
        seen, ours = (re.search(r"<main.*</main>", dom, re.DOTALL).group(0) for dom in (browse(page, "--dump-dom", where=where), drawn(page, where=where)))
        for pattern in (r"<h[12][^>]*>.*?</h", r"<td[^>]*>[^<]*</td>", r'<button class="frame[^>]*>[^<]*<', r'data-(?:rows|total)="\d+"', r'class="(?:hole|full|mark|refused)"'):
            assert re.findall(pattern, re.sub(r' style="[^"]*"', "", seen)) == re.findall(pattern, re.sub(r' style="[^"]*"', "", ours)), (where, pattern)


@tap.test
def each_button_does_something_and_none_breaks_the_page():
    if not shutil.which("node"):
        tap.skip("no node")
    for program in (TRAINER, HOLDER):
        dom = drawn(page_of(recorded(program)), "--click")
        assert dom.count("<h2") == 7 and 'class="stack"' in dom, dom[:3000]


@tap.test
def the_address_says_what_is_looked_at():
    page = page_of(recorded(TRAINER))
    device = data_of(page)["recordings"][0]["scopes"][0]
    for moment in (device["moments"][0], device["moments"][len(device["moments"]) // 2]):
        dom = drawn(page, where=f"#t={moment['ns']}&v=moment")
        assert total(dom) == sum(moment["of"][1::2]) + moment["rest"], moment
    dom = drawn(page, where="#v=all&q=forward")
    found = [text for text in re.findall(r'<button class="frame [^"]*found[^"]*"[^>]*>(.*?)</button>', dom) if text]
    assert found and all("forward" in text for text in found) and 'id="found" class="">found ' in dom, found
    assert "no regular expression" in drawn(page, where="#q=(")
    empty = drawn(page, where="#r=9&s=-1&t=x&v=nonsense&a=2")
    assert total(empty) == device["peak_bytes"]


def hostile_page():
    folder = recorded(HOLDER)
    data = bytearray(next(folder.glob("*.trace")).read_bytes())
    at = data.index(HOLDER.encode()[-28:], 0, 4096)
    hostile = b'</script><img src=x onerror=1>'[:28]
    data[at:at + len(hostile)] = hostile
    file = scratch / "hostile.trace"
    file.write_bytes(data)
    return page_of(file), hostile


@tap.test
def names_of_others_are_text_on_the_page():
    page, hostile = hostile_page()
    assert hostile not in page.read_bytes() and hostile.decode() in data_of(page)["recordings"][0]["arguments"]
    dom = drawn(page)
    assert "&lt;/script&gt;&lt;img src=x" in text_of(dom, r"<h1>(.*?)</h1>") and "<img" not in dom.split("<main")[1].split("</main>")[0]


HOSTILE = "<img src=x onerror=alert(1)>"


@functools.cache
def hostile_frames():
    """The name of a file in quotes, that of a function too long for a line, and a mark."""
    program = build_named("hostile", HOSTILE, "much" * 5000, HOSTILE)
    return page_of(recorded(str(program)))


@tap.test
def names_in_a_program_are_text_on_the_page():
    page = hostile_frames()
    assert HOSTILE not in page.read_text()
    dom = drawn(page)
    assert dom.count("&lt;img src=x onerror=alert(1)&gt;") >= 2 and "<img" not in dom and "muchmuch" in dom, frames(dom)


# ---- hands ----

def by_hand(test):
    """A test of what steps lead to: hands(page, step...) is the page after them, in one browser, or by dom.js if there is none."""
    def by_browser_or_node():
        if browser():
            test(lambda page, *steps, where="": one_browser().open(page, where).do(steps))
        elif shutil.which("node"):
            test(lambda page, *steps, where="": drawn(page, "--steps", json.dumps(steps), where=where))
        else:
            tap.skip("no node")
    by_browser_or_node.__name__ = test.__name__
    tap.test(by_browser_or_node)
    return test


@functools.cache
def one_browser():
    return Hands()


def address(dom):
    return dict(urllib.parse.parse_qsl(re.search(r"<!-- #?(.*) -->$", dom).group(1)))


def pressed(dom):
    return re.findall(r'<button aria-pressed="true"[^>]*>([^<]*)</button>', dom)


def frames(dom):
    return [html.unescape(title).splitlines()[0] for title in re.findall(r'<button class="frame [^"]*" title="([^"]*)"', dom)]


@by_hand
def a_frame_is_zoomed_and_left_again(hands):
    page = page_of(recorded(TRAINER))
    whole = frames(hands(page))
    step = next(title for title in whole if "::step(" in title)
    zoomed = hands(page, ("press", step))
    assert frames(zoomed)[0] == step and len(frames(zoomed)) < len(whole) and ">whole graph</button>" in zoomed, zoomed
    for back in step, "whole graph":
        assert frames(hands(page, ("press", step), ("press", back))) == whole, back
    assert frames(hands(page, ("press", step), ("press", "all that was asked for")))[0] == "all"


@by_hand
def a_search_marks_what_it_finds_while_it_is_typed(hands):
    page = page_of(recorded(TRAINER))
    for text, told in (("forward", r"found [\d.]+ MiB, [\d.]+ %"), ("(", "no regular expression"), ("nowhere", r"found 0 B, 0\.0 %")):
        dom = hands(page, ("type", text))
        found = re.findall(r'<button class="frame [^"]*found[^"]*"[^>]*>([^<]*)</button>', dom)
        assert address(dom) == {"q": text} and re.search(rf'id="found"[^>]*>{told}</span>', dom), (text, dom)
        assert bool(found) == (text == "forward") and all("forward" in one or not one for one in found), found
    dom = hands(page, ("type", "forward"), ("key", "Escape"))
    assert address(dom) == {} and not re.search(r'class="frame [^"]*found', dom), dom


@by_hand
def what_is_pressed_after_typing_is_done(hands):
    page = page_of(recorded(TRAINER))
    dom = hands(page, ("type", "forward"), ("press", "all that was asked for"))
    assert address(dom) == {"q": "forward", "v": "all"} and pressed(dom) == ["all that was asked for"], dom
    dom = hands(page, ("type", "step"), ("press", "inverted"), ("press", "temporary"))
    assert address(dom) == {"q": "step", "v": "temporary", "i": "1"} and pressed(dom) == ["temporary", "inverted"], dom


@by_hand
def the_graph_is_by_library_if_that_is_wanted(hands):
    page = page_of(recorded(TRAINER))
    dom = hands(page, ("press", "by library"))
    assert address(dom) == {"l": "1"} and "by library" in pressed(dom), dom
    assert re.search(r'<button class="frame [^"]*"[^>]*>the program itself</button>', dom), dom


@by_hand
def a_click_on_the_timeline_chooses_a_moment(hands):
    page = page_of(recorded(TRAINER))
    one, = data_of(page)["recordings"]
    moments = one["scopes"][0]["moments"]
    assert min(moment["ns"] for moment in moments) < one["run_ns"] / 2
    for share in 0.5, 0.9:
        dom = hands(page, ("drag", share, share))
        at = int(address(dom)["t"])
        assert abs(at / one["run_ns"] - share) < 0.01 and address(dom)["v"] == "moment" and pressed(dom) == ["at the moment"], (share, dom)
        moment = [moment for moment in moments if moment["ns"] <= at][-1]
        assert total(dom) == sum(moment["of"][1::2]) + moment["rest"] and "As it was after " in text_of(dom, r'id="kept">(.*?)</p>'), moment
    dom = hands(page, ("drag", 0.5, 0.5), ("press", "to the peak"))
    assert address(dom) == {} and pressed(dom) == ["at the peak"], dom


@by_hand
def a_drag_on_the_timeline_zooms(hands):
    page = page_of(recorded(TRAINER))
    for begin, end in (0.2, 0.6), (0.6, 0.2):
        dom = hands(page, ("drag", begin, end))
        assert abs(float(address(dom)["a"]) - 0.2) < 0.01 and abs(float(address(dom)["b"]) - 0.6) < 0.01 and "t" not in address(dom), dom
    twice = address(hands(page, ("drag", 0.2, 0.6), ("drag", 0.5, 1)))
    assert abs(float(twice["a"]) - 0.4) < 0.01 and abs(float(twice["b"]) - 0.6) < 0.01, twice
    assert address(hands(page, ("drag", 0.2, 0.6), ("press", "whole run"))) == {}


@by_hand
def keys_move_and_zoom_the_timeline(hands):
    page = page_of(recorded(TRAINER))
    one, = data_of(page)["recordings"]
    run_ns, peak_ns = one["run_ns"], one["scopes"][0]["peak_ns"]
    to = lambda *keys: address(hands(page, ("focus", "#timeline svg"), *(("key", key) for key in keys)))  # noqa: E731
    left = lambda ns: math.floor(ns - 0.01 * run_ns + 0.5)  # noqa: E731  (halves go up in the script, and to the even number by round())
    assert to("ArrowLeft", "ArrowLeft") == {"t": str(left(left(peak_ns))), "v": "moment"}
    assert to("Home") == {"t": "0", "v": "moment"} and to("End") == {"t": str(run_ns), "v": "moment"}
    assert to("Home", "+") == {"t": "0", "v": "moment", "b": "0.5"} and to("Home", "+", "-") == to("Home") == to("Home", "+", "0")
    deep = to("Home", *["+"] * 30)
    assert 1e-4 < float(deep["b"]) < 1e-3, deep
    moved = to("Home", "+", "End")
    assert moved == {"t": str(run_ns), "v": "moment", "a": "0.5"}, moved  # the moment stays in sight


@by_hand
def a_table_is_sorted_and_its_rows_open(hands):
    page = page_of(recorded(TRAINER))
    device = data_of(page)["recordings"][0]["scopes"][0]
    rows = [dict(zip(device["columns"], numbers)) for numbers, *_ in device["sites"]]
    wanted = sorted((row["requests"] for row in rows), reverse=True)
    column = lambda dom: [int(text) for text in re.findall(r"<tr><td>.*?</td><td[^>]*>.*?</td><td[^>]*>.*?</td><td[^>]*>([\d]+)</td>", dom.split('id="sites"')[1].split("</table>")[0])]  # noqa: E731
    assert column(hands(page, ("press", "requests"))) == wanted
    dom = hands(page, ("press", "requests"), ("press", "requests \u25be"))
    assert column(dom) == wanted[::-1] and 'aria-sort="ascending"' in dom, dom
    title = next(html.unescape(text) for text in re.findall(r'class="name"[^>]*title="([^"]*)"', dom))
    opened = hands(page, ("press", title))
    assert opened.count('<tr class="stack">') == 1 and opened.count('aria-expanded="true"') == 1, opened
    assert '<tr class="stack">' not in hands(page, ("press", title), ("press", title))


@by_hand
def each_kind_of_memory_has_a_tab(hands):
    page = page_of(recorded(HOLDER))
    device, pinned = data_of(page)["recordings"][0]["scopes"]
    dom = hands(page, ("press", "pinned memory"))
    assert address(dom) == {"s": "1"} and pressed(dom)[0] == "pinned memory" and total(dom) == pinned["peak_bytes"], dom
    assert total(hands(page, ("press", "pinned memory"), ("press", "device 0"))) == device["peak_bytes"]


@tap.test
def the_console_of_the_browser_says_nothing():
    need_browser()
    with one_browser():
        pass


@tap.test
def keys_alone_reach_all_and_keep_their_place():
    page = page_of(recorded(HOLDER))
    seen, label = [], "const one = document.activeElement; return one === document.body ? '' : one.id || one.getAttribute('aria-label') || one.textContent || ''"
    with Hands() as one:
        one.open(page)
        for _ in range(one.value("places().length") + 2):
            one.key("Tab")
            seen.append(one.value(f"(() => {{ {label} }})()"))
        for wanted in ("pinned memory", "the moment that is looked at", "at the moment", "waits", "search", "inverted", "requests"):
            assert any(wanted in text for text in seen), (wanted, seen)
        # what is pressed stays chosen, so that the next Tab goes on from there
        for label in ("at the moment", "inverted", "pinned memory", "requests"):
            one.value(f"{one.named(label)}.focus()")
            one.key("Enter")
            assert one.value("document.activeElement.textContent").startswith(label), (label, one.value("document.activeElement.outerHTML"))
        one.value("document.querySelector('#timeline svg').focus()")
        one.key("ArrowLeft"), one.key("ArrowLeft")
        assert one.value("document.activeElement.getAttribute('role')") == "slider"
        one.press("to the peak")  # which is gone then
        assert one.value("main.contains(document.activeElement)")


@tap.test
def what_a_mouse_hovers_over_says_more():
    with Hands() as one:
        one.open(page_of(recorded(TRAINER)))
        for node, cursor in ("document.querySelector('#timeline svg')", "crosshair"), ("document.querySelector('.frame')", "pointer"), ("document.querySelector('#map')", "auto"):
            x, y = one.place(node)
            one.mouse("mouseMoved", x, y)
            assert one.value(f"getComputedStyle({node}).cursor") == cursor and one.value(f"{node}.matches(':hover')"), node
        assert one.value("[...document.querySelectorAll('.frame, .name')].every((node) => node.title.length > 3)")
        assert one.value("[...document.querySelectorAll('#map g')].every((node) => node.firstChild.textContent.includes(' live in '))")
        x, y = one.place("document.querySelector('.frame')")
        one.mouse("mouseMoved", x, y)
        assert one.value("document.querySelector('#hint').textContent === document.querySelector('.frame').title.replace(/\\n/g, '  ')")
        x, y = one.place("document.querySelector('#timeline svg')")
        one.mouse("mouseMoved", x, y)
        before = one.dom
        assert re.search(r'id="now">after [^<]* live [^<]* held ', before) and 'id="hint">Point at' in before, before
        one.at(x, y, button="right")
        assert one.dom == before
        one.mouse("mouseMoved", x, y - 300)
        assert 'id="now">at the peak, ' in one.dom


@tap.test
def moments_on_the_axis_are_round():
    dom = drawn(page_of(recorded(TRAINER)), where="#a=0.2&b=0.6")
    ticks = [float(text.split()[0]) for text in re.findall(r'<text [^>]*text-anchor="(?:start|middle|end)"[^>]*>([\d.]+ (?:ns|us|ms|s))</text>', dom)]
    steps = {f"{b - a:.6g}" for a, b in zip(ticks, ticks[1:])}
    assert len(ticks) > 2 and len(steps) == 1 and re.fullmatch(r"0*\.?0*[125]0*", steps.pop().replace("0.", ".")), ticks


@functools.cache
def difference():
    page = scratch / "difference.html"
    assert cushim("report", "-o", str(page), str(recorded(TRAINER)), str(recorded(HOLDER))).returncode == 0
    return page


@tap.test
def two_recordings_are_laid_over_each_other_and_their_difference_is_a_flame_graph():
    page = difference()
    one, other = data_of(page)["recordings"]
    ours, theirs = one["scopes"][0]["peak_bytes"], other["scopes"][0]["peak_bytes"]
    dom = drawn(page, where="#d=1")
    assert dom.count('class="twin chosen"') == 1 and dom.count('class="twin') == 1 and "in the other recordings" in dom, dom
    titles = [html.unescape(title) for title in re.findall(r'<button class="frame more" title="([^"]*)"', dom)]
    gone = [html.unescape(title) for title in re.findall(r'<button class="frame less[^"]*" title="([^"]*)"', dom)]
    assert any("forward" in title and "was 0 B" in title for title in titles) and any("hold_much" in title for title in gone), (titles, gone)
    assert total(dom) == ours and ours > theirs
    assert 'class="frame more' not in drawn(page) and 'class="twin"' in drawn(page)


@tap.test
def a_telephone_shows_all_of_it():
    """390 px: nothing is wider than the screen but what scrolls by itself, and words in pictures can be read."""
    for page, where in (page_of(recorded(TRAINER)), ""), (hostile_frames(), ""), (difference(), "#d=1"):
        with Hands(width=390, height=800) as one:
            one.open(page, where)
            assert one.value("document.documentElement.scrollWidth") == 390
            wide = one.value("[...main.querySelectorAll('*')].filter((node) => !node.closest('.wide') && node.getBoundingClientRect().right > 391).map((node) => node.outerHTML.slice(0, 200))")
            assert not wide, wide
            small = one.value("[...main.querySelectorAll('svg text')].filter((node) => node.getBoundingClientRect().height < 11).length")
            assert small == 0, small
            assert one.value("getComputedStyle(document.querySelector('#map')).touchAction") == "auto"  # a finger on it scrolls
            assert one.value("getComputedStyle(document.querySelector('#timeline svg')).touchAction") == "pan-y"


@tap.test
def a_browser_runs_nothing_of_others():
    for page in hostile_frames(), hostile_page()[0]:
        with Hands() as one:  # which asks for nothing, and whose console says nothing
            one.open(page)
            for steps in (("type", "img"),), (("press", "all that was asked for"),), (("drag", 0.5, 0.5),):
                one.do(steps)
            assert one.value("document.querySelectorAll('img, iframe, main script').length") == 0
            assert "<img" in one.value("main.textContent")


def pixels(png):
    """(width, rows of RGB triples) of a PNG of 8 bits without interlace."""
    data, at, packed = png.read_bytes(), 8, b""
    while at < len(data):
        n, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack_from(">IIBB", data, at + 8)
        packed += data[at + 8:at + 8 + n] if kind == b"IDAT" else b""
        at += 12 + n
    size = {2: 3, 6: 4}[colour]
    assert depth == 8
    raw, before, rows = zlib.decompress(packed), bytes(width * size), []
    for y in range(height):
        kind, line = raw[y * (width * size + 1)], bytearray(raw[y * (width * size + 1) + 1:(y + 1) * (width * size + 1)])
        for i in range(len(line)):
            a, b, c = (line[i - size] if i >= size else 0), before[i], (before[i - size] if i >= size else 0)
            near = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            line[i] = line[i] + (0, a, b, (a + b) // 2, near)[kind] & 255
        rows.append([tuple(line[i:i + 3]) for i in range(0, len(line), size)])
        before = bytes(line)
    return width, rows


@tap.test
def a_picture_of_it_has_the_colours_of_live_and_held_memory():
    page, png = page_of(recorded(TRAINER)), scratch / "page.png"
    for scheme, paper, live in (("light", (255, 255, 255), (0x3b, 0x82, 0xc4)), ("dark", (0x14, 0x18, 0x1c), (0x4a, 0x90, 0xd0))):
        words = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
        browse(page, *words, f"--screenshot={png}", "--window-size=375,900")
        width, rows = pixels(png)
        colours = {colour for row in rows for colour in row}
        assert width == 375 and rows[0][0] == paper and live in colours and len(colours) > 30, (scheme, rows[0][0], len(colours))


@tap.test
def a_folder_of_several_processes_is_one_page():
    folder = scratch / "two.cushim"
    result = cushim("record", "-o", str(folder), "sh", "-c", f"{HOLDER} & {TRAINER}; wait", LD_LIBRARY_PATH=str(SIM))
    assert f"{folder}: 2 processes" in result.stderr, result
    result = cushim("report", str(folder))
    page = scratch / "two.html"
    assert result.returncode == 0 and result.stdout.endswith(f"\nwrote     {page}\n") and result.stdout.count("cushim 0.1.0: ") == 2, result
    names = {os.path.basename(one["program"]) for one in data_of(page)["recordings"]}
    assert names == {"holder", "trainer"}, names
    dom = drawn(page, where="#r=1")
    assert dom.count("<option") == 5 and text_of(dom, r"<h1>(.*?)</h1>") == data_of(page)["recordings"][1]["arguments"]


@tap.test
def what_is_redacted_is_not_there():
    text = page_of(recorded(HOLDER), "--redact").read_text()
    one, = data_of(page_of(recorded(HOLDER), "--redact"))["recordings"]
    assert one["arguments"] == one["host"] == "" and os.path.dirname(HOLDER) not in text and "holder" in one["program"], one


tap.run()
