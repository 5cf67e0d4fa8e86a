"""Limits that several processes have together, or that another process changes.

    limits.py CUSHIM PRELOAD SIM_FOLDER MEMBER KILLS CC...

MEMBER is member.c, KILLS how many members of a group, and commands that change its limit, are killed at a
random moment, or TEST_KILLS of the environment.
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

MEMBER, KILLS = pathlib.Path(sys.argv.pop(4)).resolve(), int(os.environ.get("TEST_KILLS", sys.argv.pop(4)))

from fixture import CUSHIM, SIM, cushim, scratch, tap, valid  # noqa: E402

DEVICE = scratch / "device"  # all processes share it


class Member:
    """A process that takes and gives back as it is told; a context that ends it."""

    env = {k: v for k, v in os.environ.items() if not k.startswith("CUSHIM") and k != "LD_PRELOAD"}
    env |= {"CUSHIM_LIVE_DIR": str(scratch / "live-pages"), "CUSHIM_SIM_SHARED": str(DEVICE), "CUSHIM_SIM_MEMORY": "1G", "LD_LIBRARY_PATH": str(SIM)}

    def __init__(self, *options, prefix=(), program=(MEMBER,), **more):
        self.process = subprocess.Popen([*prefix, CUSHIM, "run", *options, *program], env=self.env | more, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def told(self):
        free, _, total = self.ask("told").split()
        return int(free), int(total)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def limited(limit="100M", group="team", **more):
    return Member(f"--limit={limit}", f"--limit-group={group}", **more)


@tap.test
def members_of_a_group_have_its_limit_together():
    for kind in ("alloc", "async", "mapped"):
        with limited() as first, limited() as second, Member() as stranger:
            assert first.told() == second.told() == (100, 100)
            assert first.ask(f"{kind} 60") == "had" and second.ask(f"{kind} 50") == "refused", kind
            assert second.ask("alloc 40") == "had" and first.ask("alloc 2") == "refused", kind
            assert first.told() == second.told() == (0, 100), kind
            assert stranger.ask("alloc 300") == "had"
            assert second.ask("free") == "done" and first.told() == (40, 100), kind


@tap.test
def those_that_hold_a_full_device_are_named_by_their_live_pages():
    with Member() as large, Member() as small, Member() as third, Member("--live=off") as unseen:
        assert large.ask("alloc 500") == small.ask("async 60") == third.ask("alloc 10") == unseen.ask("alloc 300") == "had"
        assert third.ask("alloc 200") == unseen.ask("alloc 200") == "refused"
        told, = json.loads(cushim("stat", "--json", str(third.process.pid)).stdout)["out_of_memory"]
        assert [(other["pid"], other["bytes"] >> 20, other["program"]) for other in told["others"]] == [
            (large.process.pid, 500, "member"), (small.process.pid, 60, "member")], told
        text = cushim("stat", "--oom", str(third.process.pid)).stdout
        assert f"\n  others     500 MiB held by member, process {large.process.pid}\n             60.0 MiB held by member, process {small.process.pid}\n" in text, text
        _, text = unseen.process.communicate()
        assert "out of memory #1" in text and " others " not in text, text
        late = "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); cuda.cuInit(0); cuda.sim_fail_at(ctypes.c_ulong(1), 2)\n" \
               "exit(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0))"
        with Member(program=(sys.executable, "-c", late)) as refused:
            _, text = refused.process.communicate(timeout=60)
        assert "of context memory for device 0\n  others     500 MiB held by member, process" in text and "; `others` has some\n" in text, text


@tap.test
def a_member_that_is_killed_leaves_its_memory_to_the_others():
    with limited() as first, limited() as second:
        assert first.ask("alloc 80") == "had" and second.ask("alloc 30") == "refused"
        first.kill()
        assert second.told() == (100, 100) and second.ask("alloc 100") == "had"


@tap.test
def a_member_without_a_limit_has_the_groups_and_the_first_to_name_one_sets_it():
    with limited() as first, Member("--limit-group=team") as second, limited("500M") as third:
        assert first.told()[1] == second.told()[1] == third.told()[1] == 100
        assert second.ask("alloc 101") == "refused" and third.ask("alloc 101") == "refused"
    with limited("500M") as alone:
        assert alone.told() == (500, 500)


@tap.test
def a_group_may_be_a_file_that_processes_of_other_folders_and_namespaces_see():
    file = scratch / "shared"
    with Member("--limit=100M", f"--limit-group={file}") as first:
        assert first.ask("alloc 60") == "had"
        prefix = ("unshare", "-Urmpf", "--mount-proc") if subprocess.run(["unshare", "-Urmpf", "--mount-proc", "true"], capture_output=True).returncode == 0 else ()
        with Member(f"--limit-group={file}", prefix=prefix, CUSHIM_LIVE_DIR=str(scratch / "elsewhere")) as second:
            assert second.told() == (40, 100) and second.ask("alloc 41") == "refused" and second.ask("alloc 40") == "had"
            assert first.told() == (0, 100)
        if not prefix:
            tap.skip("no namespaces here")


FORKER = """import ctypes, os, signal
cuda, n, context, block = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t(), ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuMemGetInfo_v2(ctypes.byref(n), ctypes.byref(n))  # not initialised, but cushim has read its options
if os.fork() == 0:
    assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) and not cuda.cuCtxSetCurrent(context)
    assert not cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(60 << 20))
    print(os.getpid(), flush=True)
signal.pause()
"""


@tap.test
def a_forked_child_is_a_member_of_its_own():
    with limited() as other, Member("--limit-group=team", program=(sys.executable, "-c", FORKER)) as parent:
        child = int(parent.process.stdout.readline())
        try:
            assert other.told() == (40, 100)
            parent.process.send_signal(signal.SIGKILL)
            parent.process.wait()
            assert other.told() == (40, 100)
        finally:
            os.kill(child, signal.SIGKILL)
        for _ in range(100):
            if other.told() == (100, 100):
                return
            time.sleep(0.1)
        assert False, other.told()


@tap.test
def an_idle_member_gives_back_when_another_is_refused():
    with Member("--limit=300M", "--limit-group=team", "--reserve=200M") as idle, limited("300M") as wants:
        assert [idle.ask(line) for line in ("alloc 40", "alloc 80", "free")] == ["had", "had", "done"]
        assert wants.ask("alloc 250") == "refused"  # the idle one has made no call yet
        assert idle.ask("wait") == "done" and wants.ask("alloc 250") == "had"


@tap.test
def an_idle_member_with_a_thread_of_ours_gives_back_without_a_call():
    with Member("--limit=300M", "--limit-group=team", "--reserve=200M", "--control") as idle, limited("300M") as wants:
        assert [idle.ask(line) for line in ("alloc 40", "alloc 80", "free")] == ["had", "had", "done"]
        for _ in range(100):
            if wants.ask("alloc 250") == "had":
                return
            time.sleep(0.1)
        assert False, wants.told()


def limit(*words, **more):
    return cushim("limit", *words, **more)


def shown(process):
    """The limit that the process is shown with, in MiB."""
    (device,) = valid(json.loads(cushim("stat", "--json", str(process), CUSHIM_LIVE_DIR=str(scratch / "live-pages")).stdout))["devices"]
    n_bytes = device.get("limit_bytes", 0)
    metrics = cushim("metrics", CUSHIM_LIVE_DIR=str(scratch / "live-pages")).stdout
    assert re.search(rf'cushim_limit_bytes{{pid="{process}",.*kind="device",.*}} {n_bytes}\n', metrics), (n_bytes, metrics)
    if n_bytes:
        stat = cushim("stat", str(process), CUSHIM_LIVE_DIR=str(scratch / "live-pages")).stdout
        assert re.search(rf"\n  limit +{n_bytes >> 20}(\.0)? MiB of the device\n", stat), stat
    return n_bytes >> 20 or None


@tap.test
def a_limit_of_a_running_process_is_changed_in_both_directions():
    for options in ((), ("--limit=100M",)):
        with Member(*options) as member:
            number = str(member.process.pid)
            assert member.ask("alloc 60") == "had"
            for word, size, there, refused, had in ((number, "50M", (0, 50), "alloc 2", None), ("member", "0", (964, 1024), None, "async 200"),
                                                    (number, "50%", (252, 512), "async 260", "mapped 200"), (number, "0:400M,7:1G", (0, 400), "alloc 2", None),
                                                    (number, str(50 << 20), (0, 50), "alloc 2", None)):
                done = limit(word, size)
                told = "no limit" if size == "0" else f"{size} bytes" if size.isdigit() else size
                assert done.returncode == 0 and done.stderr == f"cushim: process {number} (member): {told} from its next request on\n", done
                assert member.told() == there, (size, member.told())
                assert shown(number) == (None if there[1] == 1024 else there[1])
                assert not refused or member.ask(refused) == "refused", size
                assert not had or member.ask(had) == "had", size


@tap.test
def the_text_of_a_refused_request_has_the_command_that_raises_the_limit():
    for member in Member("--limit=100M"), limited():
        with member:
            assert member.ask("alloc 60") == "had" and member.ask("alloc 60") == "refused"
            text = ""
            while "  lines by " not in text:  # its last line
                text += member.process.stderr.readline()
            command = re.search(r"`cushim limit (\S+) SIZE`", text)
            assert command and limit(command[1], "200M").returncode == 0 and member.ask("alloc 60") == "had", text


@tap.test
def a_limit_of_a_running_group_is_changed_for_all_its_processes():
    file = scratch / "shared"
    for group, of in (("team", "team"), (str(file), str(file))):
        with limited(group=group) as first, limited(group=group) as second:
            assert first.ask("alloc 60") == "had" and second.ask("alloc 60") == "refused"
            done = limit(of, "200M")
            assert done.returncode == 0 and done.stderr == f"cushim: group {of}: 200M from the next request of each process on\n", done
            assert second.ask("alloc 60") == "had" and first.told() == second.told() == (80, 200)
            assert shown(first.process.pid) == shown(second.process.pid) == 200
            assert limit(of, "10%").returncode == 0 and first.told() == second.told() == (0, 102)
            assert first.ask("alloc 2") == "refused" and first.ask("free") == "done" and second.ask("alloc 40") == "had"
            assert limit(of, "0").returncode == 0 and first.told()[1] == 1024 and first.ask("alloc 300") == "had"


@tap.test
def a_group_shows_its_limit_and_what_each_process_has_of_it():
    with limited() as first, limited() as second, limited() as third:
        assert first.ask("alloc 60") == "had" and second.ask("alloc 20") == "had" and third.ask("alloc 10") == "had"
        third.kill()
        rows = [line.split() for line in limit("team").stdout.splitlines()]
        assert rows[0][0].startswith("GPU-") and rows[3:] == ["80.0 MiB of 100 MiB for group team".split()], rows
        assert sorted(rows[1:3]) == sorted(f"{n} MiB process {member.process.pid}".split() for n, member in (("60.0", first), ("20.0", second))), rows
        assert limit("team", "0").returncode == 0 and limit("team").stdout.endswith("80.0 MiB  of 1.00 GiB for group team\n"), limit("team")
    done = limit("team")
    assert done.returncode == 2 and "there is no group team, and a process needs a size" in done.stderr, done


@tap.test
def a_process_gives_back_what_is_idle_when_its_limit_is_changed():
    with Member("--reserve=500M") as idle, Member() as wants:
        assert [idle.ask(line) for line in ("alloc 100", "alloc 200", "free")] == ["had", "had", "done"]
        assert wants.ask("alloc 800") == "refused"
        assert limit(str(idle.process.pid), "600M").returncode == 0
        assert idle.ask("wait") == "done" and wants.ask("alloc 800") == "had"


@tap.test
def what_cannot_be_changed_is_told_in_a_line():
    with limited() as member:
        number = str(member.process.pid)
        for words, code, said in ((("nothing", "8G"), 1, "no process, program or group nothing runs with cushim"), (("0", "8G"), 1, "no process, program or group 0 runs"),
                                  ((number, "8Q"), 2, "8Q is not a size such as 512M or 1.5G; try `cushim help limit`"), ((number, "0:1G,0:2G"), 2, "names a device twice"),
                                  ((), 2, "limit needs a process, program or group, and a size"), ((number,), 2, f"there is no group {number}, and a process needs a size"), ((number, "1G", "2G"), 2, "limit takes a process, program or group, and a size, and not also `2G`"),
                                  (("team", "0:8G"), 2, "a group has one size for all devices"), (("/nowhere/group", "8G"), 1, "no group /nowhere/group: no process of it runs"),
                                  ((number, "8G"), 1, f"process {number} (member) has the limit of its group: `cushim limit team 8G`")):
            done = limit(*words)
            assert done.returncode == code and said in done.stderr and done.stderr.count("\n") == 1, done
        assert member.told() == (100, 100)
    done = limit(number, "8G")
    assert done.returncode == 1 and "no process, program or group" in done.stderr, done


@tap.test
def what_contexts_take_is_charged_if_that_is_asked_for():
    for options, (free, total) in ((("--limit=200M",), (200, 200)), (("--limit=200M", "--limit-counts=all"), (136, 200)),
                                   (("--limit=200M", "--limit-counts=all", "--limit-group=team"), (136, 200))):
        with Member(*options, CUSHIM_SIM_INTERNAL="64M") as member:
            assert member.ask("renew 100") == "done"  # its new context takes 64 MiB
            time.sleep(1.1)  # NVML is asked once in a second
            assert member.told() == (free, total), (options, member.told())
            assert member.ask(f"alloc {free + 2}") == "refused" and member.ask(f"alloc {free}") == "had" and member.told() == (0, total), options
            assert member.ask("free") == "done" and member.told() == (free, total), options


@tap.test
def what_is_no_group_is_told_in_a_line_and_the_limit_is_the_process_own():
    file = scratch / "text"
    file.write_text("a text")
    with Member("--limit=100M", f"--limit-group={file}") as alone:
        assert alone.told() == (100, 100) and alone.ask("alloc 101") == "refused" and alone.ask("alloc 100") == "had"
        said = alone.process.stderr.readline()
    assert "no group" in said and "not a group's" in said, said
    assert file.read_text() == "a text"


@tap.test
def members_go_on_when_the_file_of_their_group_is_cut():
    file = scratch / "cut"
    file.write_text("")
    os.chmod(file, 0o666)
    os.chmod(scratch, 0o755)
    user = (["setpriv", "--reuid=65534", "--clear-groups"],) if os.geteuid() == 0 and shutil.which("setpriv") else ()
    for prefix in ([], *user):
        os.truncate(file, 0)
        with Member("--limit=100M", f"--limit-group={file}", prefix=prefix, CUSHIM_SIM_SHARED="") as member:
            if prefix and member.process.poll() is not None:
                tap.skip("another user cannot run what was built")
            assert member.ask("alloc 60") == "had" and member.ask("alloc 60") == "refused"
            os.truncate(file, 0)
            assert member.ask("alloc 30") == "had" and member.ask("free") == "done" and member.ask("alloc 50") == "refused", prefix


@tap.test
def kills_at_random_moments_leave_no_account_wrong():
    draw, members = random.Random(1), []
    host = {"CUSHIM_SIM_HOST_MEMORY": "120M"}
    try:
        with limited(**host) as survivor, Member("--limit=1", "--spill=120M", **host) as spiller:
            assert survivor.ask("alloc 30") == "had"
            for i in range(KILLS):
                if len(members) == 6:
                    members.pop(draw.randrange(6)).kill()
                members.append(Member("--limit=100M", "--limit-group=team", f"--spill={i % 2 * 20}M", **host))
                members[-1].process.stdin.write("alloc 3\nchurn 40\n")
                members[-1].process.stdin.flush()
                if draw.random() < 0.2:
                    members[-1].process.stdout.readline()
                tool = subprocess.Popen([CUSHIM, "limit", "team", f"{60 + i % 80}M"], env=Member.env, stderr=subprocess.DEVNULL)
                time.sleep(draw.random() * 0.01)
                tool.kill()
                tool.wait()
            for member in members:
                member.kill()
            assert limit("team", "100M").returncode == 0
            assert survivor.told() == (70, 100) and survivor.ask("alloc 71") == "refused" and survivor.ask("alloc 70") == "had"
            assert spiller.ask("mapped 60") == "had" and spiller.ask("alloc 60") == "had"  # all that the host has for devices
    finally:
        for member in members:
            member.kill()


tap.run()
