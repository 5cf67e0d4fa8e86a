"""The compiler refuses swapped arguments in calls of the companion.

    misuse.py INCLUDE CC...

Correct code compiles without a message: a kind of memory is the same type for all calls. A constant of another enum is refused, by C++ and by C with
-Wextra.
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
import tap

INCLUDE, CC = sys.argv[1], sys.argv[2:]
LANGUAGES = {"C11": ["-x", "c", "-std=c11"], "C++17": ["-x", "c++", "-std=c++17"]}
BEFORE = """#include <cushim/cushim.h>
int call(struct cushim_pool *p, struct cushim_arena *a, struct cushim_stream *s, struct cushim_memory_info *info);
int call(struct cushim_pool *p, struct cushim_arena *a, struct cushim_stream *s, struct cushim_memory_info *info) {
    cushim_devptr q;
    (void)p, (void)a, (void)s, (void)info, (void)q;
"""
ENUM = re.compile(r"^enum (cushim_\w+) \{(.*?)^\};", re.MULTILINE | re.DOTALL)
CONSTANT = re.compile(r"^ *(CUSHIM_[A-Z0-9_]+)\b", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)

RIGHT = {
    "kinds of memory in pools and arenas": """
    if (cushim_pool_alloc(p, -1, CUSHIM_MEMORY_MANAGED, 4, s, &q)) return 1;
    if (cushim_arena_alloc(a, -1, CUSHIM_MEMORY_DEVICE, 4, s, &q, NULL)) return 1;
    if (info->kind == CUSHIM_MEMORY_DEVICE && cushim_pool_alloc(p, -1, info->kind, 4, s, &q)) return 1;
    return cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &s);""",
    "one array of arguments for every launch": """
    struct cushim_launch launch;
    const void *const args[] = {p, a};
    float ms;
    cushim_launch_default(&launch);
    if (cushim_function_launch(NULL, &launch, args, 2)) return 1;
    if (cushim_function_launch_timed(NULL, &launch, args, 2, &ms)) return 1;
    return cushim_prepared_launch(NULL, &launch, args);""",
}
WRONG = {
    "a policy as a kind": "return cushim_pool_alloc(p, -1, CUSHIM_POOL_POLICY_POW2, 4, s, &q);",
    "a state as a kind": "return cushim_pool_alloc(p, -1, CUSHIM_POOL_STATE_GRAPH, 4, s, &q);",
    "a flag as a stream": "return cushim_pool_free(p, -1, 1, 0, CUSHIM_STREAM_FLAG_NON_BLOCKING);",
    "a stream as a kind": "return cushim_pool_alloc(p, -1, CUSHIM_STREAM_ALL, 4, s, &q);",
    "a capture mode as a pool's behaviour in captures": "return cushim_pool_freeze(p, s, CUSHIM_GRAPH_MODE_RELAXED);",
    "an owner as a kind": "return cushim_pool_alloc(p, -1, CUSHIM_OWNER_CALLER, 4, s, &q);",
    "a place as a kind of copy": "return cushim_memory_copy(q, q, 4, CUSHIM_PLACE_DEVICE);",
    "a special stream as the stream that waits": "return cushim_pool_free(p, -1, 1, 0, CUSHIM_STREAM_BLOCKING);",
}


def say(body, language):
    done = subprocess.run([*CC, *LANGUAGES[language], "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{INCLUDE}", "-"],
                          input=BEFORE + body + "\n}\n", text=True, capture_output=True)
    return done.stderr if done.returncode else ""


@tap.test
def one_kind_of_memory_fits_every_call():
    for name, body in RIGHT.items():
        for language in LANGUAGES:
            said = say(body, language)
            assert not said, f"{name} as {language}: {said}"


@tap.test
def swapped_arguments_do_not_compile():
    passed = [f"{name} as {language}" for name, body in WRONG.items() for language in LANGUAGES if not say(body, language)]
    assert not passed, passed


@tap.test
def no_two_enums_share_a_prefix():
    sets = {}
    for path in sorted(pathlib.Path(INCLUDE, "cushim").glob("*.h")):
        for name, body in ENUM.findall(COMMENT.sub("", path.read_text())):
            constants = CONSTANT.findall(body)
            first, rest = constants[0], constants[1:]
            while not all(one.startswith(first) for one in rest):
                first = first[:-1]
            sets[name] = first[:first.rindex("_") + 1] if rest else first
    sets.pop("cushim_status")  # CUSHIM_: the common prefix, which is no enum of its own
    assert sets, "no enum was found"
    shared = [(a, b) for a in sets for b in sets if a != b and sets[a] == sets[b]]
    assert not shared, shared
    unnamed = [name for name in sets if name.endswith("_flag") and "_FLAG_" not in sets[name]]
    assert not unnamed, unnamed


tap.run()
