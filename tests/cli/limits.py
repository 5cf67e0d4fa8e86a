"""Limits that several processes have together, or that another process changes.

    limits.py CUSHIM PRELOAD SIM_FOLDER MEMBER KILLS CC...

MEMBER is member.c, KILLS how many members of a group are killed at a random moment.
"""
import os
import pathlib
import random
import signal
import subprocess
import sys

MEMBER, KILLS = pathlib.Path(sys.argv.pop(4)).resolve(), int(sys.argv.pop(4))

from fixture import CUSHIM, SIM, cushim, scratch, tap  # noqa: E402

DEVICE = scratch / "device"  # all processes share it


class Member:
    """A process that takes and gives back as it is told; a context that ends it."""

    def __init__(self, *options, prefix=(), **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith("CUSHIM") and k != "LD_PRELOAD"}
        env |= {"CUSHIM_LIVE_DIR": str(scratch / "live-pages"), "CUSHIM_SIM_SHARED": str(DEVICE), "CUSHIM_SIM_MEMORY": "1G", "LD_LIBRARY_PATH": str(SIM)}
        self.process = subprocess.Popen([*prefix, CUSHIM, "run", *options, MEMBER], env=env | more, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
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


def limited(limit="100M", group="team"):
    return Member(f"--limit={limit}", f"--limit-group={group}")


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


@tap.test
def an_idle_member_gives_back_when_another_is_refused():
    with Member("--limit=300M", "--limit-group=team", "--reserve=200M") as idle, limited("300M") as wants:
        assert [idle.ask(line) for line in ("alloc 40", "alloc 80", "free")] == ["had", "had", "done"]
        assert wants.ask("alloc 250") == "refused"  # the idle one has made no call yet
        assert idle.ask("wait") == "done" and wants.ask("alloc 250") == "had"


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
def kills_at_random_moments_leave_no_account_wrong():
    draw, members = random.Random(1), []
    try:
        with limited() as survivor:
            assert survivor.ask("alloc 30") == "had"
            for i in range(KILLS):
                if len(members) == 6:
                    members.pop(draw.randrange(6)).kill()
                members.append(limited())
                members[-1].process.stdin.write("alloc 3\nchurn 40\n")
                members[-1].process.stdin.flush()
                if draw.random() < 0.2:
                    members[-1].process.stdout.readline()
            for member in members:
                member.kill()
            assert survivor.told() == (70, 100) and survivor.ask("alloc 71") == "refused" and survivor.ask("alloc 70") == "had"
    finally:
        for member in members:
            member.kill()


tap.run()
