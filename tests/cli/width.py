"""No line that a person reads is wider than 80 columns or moves the cursor, whatever names and numbers it is made of.

    width.py CUSHIM PRELOAD SIM_FOLDER SEEDS CC...

Reports, live pages, recordings and logs are those of golden/, with other names and numbers; a failure names its seed.
"""
import json
import lzma
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys

SEEDS = int(sys.argv.pop(4))

from fixture import CUSHIM, SIM, build_named, scratch, tap  # noqa: E402

KEPT = pathlib.Path(__file__).resolve().parent / "golden"
COLUMNS = 80
BUILD = SIM.resolve().parents[1]
PIECES = ["a", "much", "/opt/some folder/", "::Tensor<float, std::allocator<int> >", "(unsigned long)", "\x1b[31m", "\n", "\t", "\r", "\x7f", '"', "'", "\\", "%s", "<b>",
          "\u00e9", "\u6f22\u5b57", "\u202e", "\u0007", " ", "-", "9" * 20]


def name(rng, most=300):
    text = "".join(rng.choice(PIECES) for _ in range(rng.choice([0, 1, 3, 20, 200])))
    return text[:rng.randrange(most + 1)]


def number(rng):
    return rng.choice([0, 1, 999, 1023, 1 << 20, (1 << 40) - 1, 1 << 53, 1 << 62, (1 << 63) - 1, (1 << 64) - 1, rng.getrandbits(rng.randrange(1, 65))])


def told(*words, folder, **more):
    done = subprocess.run([CUSHIM, *words], cwd=folder, capture_output=True, timeout=120,
                          env={"PATH": "/nowhere", "CUSHIM_LIVE_DIR": str(folder / "live"), "LD_LIBRARY_PATH": str(SIM), "XDG_CACHE_HOME": str(folder / "cache"), **more})
    assert done.returncode >= 0, done
    return done.stdout, done.stderr


def wrong(texts):
    """Lines that no terminal should see; a complaint may name a file whose name is long.  doctor shows paths whole, to be
    copied: where this build lies is left out of a line's width."""
    screen, complaints = (text.decode(errors="replace").split("\n") for text in texts)
    wide = [line for line in screen if len(line.replace(str(BUILD), "")) > COLUMNS]
    return wide + [line for line in screen + complaints if re.search("[\x00-\x1f\x7f-\x9f\ufffd]", line)]


def others(document, rng, share=0.5):
    """The document with other numbers and names; keys that a reader looks for are kept."""
    if isinstance(document, dict):
        return {key: value if key in ("schema", "source", "kind") else others(value, rng, share) for key, value in document.items()}
    if isinstance(document, list):
        return [others(one, rng, share) for one in document] * rng.choice([1, 1, 1, 3])
    if rng.random() > share or isinstance(document, bool):
        return document
    return name(rng) if isinstance(document, str) else number(rng)


def report(rng, path):
    document = others(json.loads((KEPT / path.name).read_text()), rng)
    document["sites"] = [{"live_bytes": number(rng), "blocks": number(rng), "peak_live_bytes": number(rng), "error_bytes": number(rng), "is_growing": rng.random() < 0.5,
                          "stack": [{"file": name(rng), "offset": number(rng), "function": name(rng), "line": name(rng)} for _ in range(rng.randrange(4))]} for _ in range(rng.randrange(4))]
    document["pid"] = rng.choice([1, 4194304, (1 << 31) - 1])
    path.write_text(json.dumps(document))


def page(rng, path):
    """Its head, the counters of its devices and its sites; texts fill their fields."""
    data = bytearray(lzma.decompress((KEPT / "4194000-1000.page.xz").read_bytes()))

    def fill(at, size, most=None):
        text = (name(rng, 600).encode() or b"x")[:most or size]
        data[at:at + size] = text.ljust(size, b"\0")[:size]
    for at, size in ((112, 64), (176, 64), (240, 64), (368, 256), (648, 1024)):
        if rng.random() < 0.5:
            fill(at, size)
    if rng.random() < 0.5:
        struct.pack_into("<qq", data, 64, rng.choice([-1, 0, 1 << 40]), rng.choice([-1, 1, 1 << 62]))
    devices = data.index(b"cushim software device")
    for at in range(4096, devices, 8):
        if struct.unpack_from("<Q", data, at)[0] and rng.random() < 0.5:
            struct.pack_into("<Q", data, at, number(rng))
    fill(devices, 64)
    for found in list(re.finditer(rb"/opt/train/+holder|/lib/x86_64-linux-gnu/libc\.so\.6", data)):
        if rng.random() < 0.5:
            fill(found.start(), 128)
            fill(found.start() + 128, 56)
    asked = data.index(struct.pack("<Q", 1 << 46))  # of a request that found no memory: its numbers follow
    for at in range(asked, asked + 8 * 27, 8):
        if rng.random() < 0.5:
            struct.pack_into("<Q", data, at, number(rng))
    path.write_bytes(data)
    path.chmod(0o600)


def trace(rng, path):
    """What its head says of the process."""
    data = bytearray(lzma.decompress((KEPT / "4194000-1000.trace.xz").read_bytes()))
    for text, size in (b"./holder kill", 1024), (b"node7", 64), (b"holder\0", 64), (b"0.1.0\0", 64):
        if rng.random() < 0.7:
            at = data.index(text, 0, 4096)
            data[at:at + size] = (name(rng, 2000).encode() or b"x").ljust(size, b"\0")[:size]
    path.write_bytes(data)


@tap.test
def tables_of_reports_fit():
    folder = scratch / "reports"
    folder.mkdir()
    for seed in range(SEEDS):
        rng = random.Random(seed)
        for path in ("before.json", "after.json"):
            report(rng, folder / path)
        for words in (["merge", "before.json", "after.json"], ["diff", "before.json", "after.json"], ["diff", "before.json", "after.json", "--fail-if", "peak_held>+5%, refused>0, live_bytes>1"]):
            bad = wrong(told(*words, folder=folder))
            assert not bad, (seed, words, bad)


@tap.test
def screens_of_live_pages_fit():
    folder = scratch / "pages"
    (folder / "live").mkdir(mode=0o700, parents=True)
    for seed in range(SEEDS):
        page(random.Random(seed), folder / "live" / "4194000-1000.page")
        for words in (["stat"], ["stat", "4194000"], ["stat", "--sites", "4194000"], ["top", "--once"], ["merge", "4194000"]):
            bad = wrong(told(*words, folder=folder))
            assert not bad, (seed, words, bad)


@tap.test
def texts_of_recordings_fit():
    folder = scratch / "recordings"
    folder.mkdir()
    for seed in range(SEEDS):
        rng = random.Random(seed)
        trace(rng, folder / "one.trace")
        for words in (["report"], ["report", "--at=peak", "--by=site"], ["report", "--at=end", "--by=size"], ["report", f"--range={name(rng)}"], ["replay", "--plan"], ["merge"]):
            bad = wrong(told(*words, "one.trace", folder=folder))
            assert not bad, (seed, words, bad)


@tap.test
def screens_of_a_program_with_long_names_fit():
    """Long names, which end where a character does not."""
    folder = scratch / "some folder"
    (folder / "cache").mkdir(parents=True)
    program = build_named("program", "my file" + "\u00e9" * 100, "x" + "\u00e9" * 300, "step " + "\u00e9" * 100)
    shutil.move(program, folder / "a program whose name is long enough to be cut somewhere")
    more = ["./a program whose name is long enough to be cut somewhere", "-x" * 200, "a\x1b[31mb", "\n"]
    for words in (["run", "--stats=stdout"], ["run", "--stats=stdout", "--sites=1", "--oom=full"], ["run", "--stats=stdout", "--check=frees"], ["record", "-o", "taken"],
                  ["run", "--stats=one.json", "--sites=1"], ["doctor", "--"], ["report", "taken"], ["report", "--at=peak", "--by=site", "taken"], ["report", "--range=step " + "\u00e9" * 100, "taken"],
                  ["replay", "--plan", "taken"], ["merge", "taken"], ["merge", "one.json"], ["diff", "one.json", "one.json"], ["diff", "taken", "taken"]):
        screen, complaints = told(*words, *(more if words[0] in ("run", "record", "doctor") else []), folder=folder, PATH=os.environ["PATH"])
        assert not wrong((screen, complaints)), (words, wrong((screen, complaints)))
        assert screen or words[0] == "record" or "--stats=one.json" in words, (words, complaints)


@tap.test
def plans_of_logs_fit():
    folder = scratch / "logs"
    folder.mkdir()
    for seed in range(SEEDS):
        rng = random.Random(seed)
        path = folder / ("x" * rng.choice([1, 30, 200]) + ".csv")
        rows = ["Thread,Time,Action,Pointer,Size,Stream"]
        for i in range(rng.randrange(1, 20)):
            rows.append(f"1,00:00:{i:02}:000000,allocate,0x{0x10000 * (i + 1):x},{number(rng)},0x0")
        path.write_text("\n".join(rows) + "\n")
        for words in (["replay", "--plan"], ["replay", "--plan", "--with=native,exact,relaxed,exact:keep=0:limit=1T", "--least-limit"]):
            bad = wrong(told(*words, path.name, folder=folder))
            assert not bad, (seed, words, bad)
        path.unlink()


tap.run()
