"""ucx_perftest between two processes, by each of UCX's transports for CUDA memory.

    ucx_steps.py SITE

The sizes are those of a block in a shared page, a block with its own pages, and a large block.
"""
import os
import pathlib
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import steps

LIBUCX = pathlib.Path(sys.argv[1]) / "libucx"
TESTS = ("tag_bw", "stream_bw", "ucp_put_bw", "ucp_get")
WAYS = {"cuda_ipc": "cuda_ipc,cuda_copy,posix,tcp", "cuda_copy": "cuda_copy,posix,tcp"}
SIZES = (1000, 200000, 4 << 20)
SECONDS = 300


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(way, words):
    environment = os.environ | {"UCX_TLS": WAYS[way], "UCX_NET_DEVICES": "lo", "UCX_LOG_LEVEL": "error",
                                "LD_LIBRARY_PATH": f"{os.environ['LD_LIBRARY_PATH']}:{LIBUCX / 'lib'}"}
    return subprocess.Popen([LIBUCX / "bin/ucx_perftest", *words], env=environment, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def is_listening(port):
    return any(f":{port:04X} 00000000:0000 0A" in line for line in pathlib.Path("/proc/net/tcp").read_text().splitlines())


def pair(test, way, size):
    port = free_port()
    words = ["-p", str(port), "-t", test, "-m", "cuda", "-s", str(size), "-n", "50", "-w", "5"]
    server = start(way, words)
    while not is_listening(port) and server.poll() is None:
        time.sleep(0.01)
    answers = [process.communicate(timeout=SECONDS) + (process.returncode,) for process in (start(way, ["127.0.0.1", *words]), server)]
    for _, complaints, status in answers:
        if status != 0:
            print(complaints, file=sys.stderr)
            raise ChildProcessError(status)


def step_of(test, way, size):
    def step():
        pair(test, way, size)
    step.__name__ = f"{test}-{way}-{size}"
    return step


if __name__ == "__main__":
    steps.run([step_of(test, way, size) for way in WAYS for test in TESTS for size in SIZES])
