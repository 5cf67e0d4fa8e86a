"""The benchmark finds ggml, and computes the same with it.

    peers.py LIBCUSHIM LIBCUSHIM_KERNELS [FOLDER]     FOLDER has ggml's libraries, and Python has PyTorch
"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
import tap

COMPANION, LIBRARY, *FOLDER = sys.argv[1:]
SHAPES = [f"gemm_{word}_f32/8B-{shape}" for word in ("q4_0", "q5_0", "q8_0", "q4k", "q5k", "q6k") for shape in ("gate-224x4096x2", "o-")] + \
    ["softmax_f32/32x4096", "rms_norm_f32/4x4096", "gather_f32_i64/1x4096", "attention_cached_f32/f16-1x32x8x128-64"]


def bench(*arguments):
    return subprocess.run([sys.executable, ROOT / "kernels" / "bench" / "kernels.py", "--library", LIBRARY, "--companion", COMPANION, *arguments],
                          capture_output=True, text=True)


@tap.test
def a_folder_without_ggml_is_answered_in_one_line():
    with tempfile.TemporaryDirectory() as folder:
        done = bench("--ggml", folder)
        assert done.returncode == 1 and done.stderr == f"kernels.py: {folder} has no libggml-base.so and libggml-cuda.so, and is no " \
            "source of ggml (https://github.com/ggml-org/ggml)\n", done


if FOLDER:
    @tap.test
    def ggml_computes_what_the_references_do():
        done = bench("--references", "--ggml", *FOLDER, "--only", ",".join(SHAPES))
        lines = [line for line in done.stdout.splitlines() if " by ggml: " in line]
        assert done.returncode == 0 and all(any(shape in line for line in lines) for shape in SHAPES), done


tap.run()
