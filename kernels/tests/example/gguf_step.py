"""docs/examples/gguf_step.c: the tokens of two small models equal those of a reference in double.

    gguf_step.py SOURCE COMMAND...

The models are made here: random weights in blocks of ggml's formats, which the reference decodes by
itself.  A llama has neighbours in its rotation, a qwen2 halves, biases and no head besides its embedding.
"""
import math
import operator
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests"))
import tap

SOURCE, COMMAND = pathlib.Path(sys.argv[1]), sys.argv[2:]
HIDDEN, FF, Q_HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 256, 512, 4, 2, 64, 96
EPS, PROMPT, NEXT, ALIGNMENT = 1e-5, [5, 17, 60], 4, 32
TYPES = {"F32": 0, "Q5_0": 6, "Q8_0": 8, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14}


# ---- blocks: random bytes with scales that give values near 1 / 16, and the values in them ----

def half(block, at):
    return struct.unpack_from("<e", block, at)[0]


def floats(draw, n, is_norm):
    block = struct.pack(f"<{n}f", *(draw.uniform(0.5, 1.5) if is_norm else draw.gauss(0, 1) / 16 for _ in range(n)))
    return block, list(struct.unpack(f"<{n}f", block))


def q5_0(draw):
    block = struct.pack("<e", 2**-7) + draw.randbytes(20)
    high, = struct.unpack_from("<I", block, 2)
    return block, [half(block, 0) * ((block[6 + i % 16] >> i // 16 * 4 & 15 | (high >> i & 1) << 4) - 16) for i in range(32)]


def q8_0(draw):
    block = struct.pack("<e", 2**-10) + draw.randbytes(32)
    return block, [half(block, 0) * q for q in struct.unpack_from("<32b", block, 2)]


def scale_and_minimum(s, j):
    if j < 4:
        return s[j] & 63, s[j + 4] & 63
    return s[j + 4] & 15 | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4


def q4_k(draw, has_high=False):
    middle = 15.5 if has_high else 7.5
    d = 2**-13 if has_high else 2**-12
    block = struct.pack("<ee", d, d * middle) + draw.randbytes(172 if has_high else 140)
    low, values = block[48:] if has_high else block[16:], []
    for j in range(8):
        scale, minimum = scale_and_minimum(block[4:16], j)
        for i in range(32):
            q = low[j // 2 * 32 + i] >> j % 2 * 4 & 15
            if has_high:
                q |= (block[16 + i] >> j & 1) << 4
            values.append(half(block, 0) * scale * q - half(block, 2) * minimum)
    return block, values


def q5_k(draw):
    return q4_k(draw, has_high=True)


def q6_k(draw):
    block, values = draw.randbytes(208) + struct.pack("<e", 2**-14), []
    scales = struct.unpack_from("<16b", block, 192)
    for i in range(256):
        part, quarter, at = i // 128, i % 128 // 32, i % 32
        q = block[64 * part + 32 * (quarter % 2) + at] >> quarter // 2 * 4 & 15
        q |= (block[128 + 32 * part + at] >> 2 * quarter & 3) << 4
        values.append(half(block, 208) * scales[i // 16] * (q - 32))
    return block, values


BLOCKS = {"Q5_0": (q5_0, 32), "Q8_0": (q8_0, 32), "Q4_K": (q4_k, 256), "Q5_K": (q5_k, 256), "Q6_K": (q6_k, 256)}


class Model:
    """Tensors as bytes of a file and as rows of values."""

    def __init__(self, architecture, n_layers, formats, has_biases, has_head):
        self.draw, self.data, self.rows = random.Random(48), {}, {}
        self.architecture, self.n_layers = architecture, n_layers
        self.add("token_embd.weight", VOCABULARY, HIDDEN, formats)
        self.add("output_norm.weight", 1, HIDDEN, formats)
        if has_head:
            self.add("output.weight", VOCABULARY, HIDDEN, formats)
        n_kv = KV_HEADS * HEAD_DIM
        for layer in range(n_layers):
            for name, rows, columns in (("attn_norm", 1, HIDDEN), ("attn_q", HIDDEN, HIDDEN), ("attn_k", n_kv, HIDDEN),
                                        ("attn_v", n_kv, HIDDEN), ("attn_output", HIDDEN, HIDDEN), ("ffn_norm", 1, HIDDEN),
                                        ("ffn_gate", FF, HIDDEN), ("ffn_up", FF, HIDDEN), ("ffn_down", HIDDEN, FF)):
                self.add(f"blk.{layer}.{name}.weight", rows, columns, formats)
            for name, columns in (("attn_q", HIDDEN), ("attn_k", n_kv), ("attn_v", n_kv)) if has_biases else ():
                self.add(f"blk.{layer}.{name}.bias", 1, columns, formats)

    def add(self, name, rows, columns, formats):
        word = name.split(".")[-2]
        form = "F32" if rows == 1 else formats.get(word, formats["others"])
        if form == "F32":
            blocks = [floats(self.draw, columns, "norm" in name) for _ in range(rows)]
        else:
            make, n = BLOCKS[form]
            blocks = [make(self.draw) for _ in range(rows * columns // n)]
        values = [value for _, part in blocks for value in part]
        self.data[name] = TYPES[form], (columns, rows), b"".join(block for block, _ in blocks)
        self.rows[name] = [values[i * columns:(i + 1) * columns] for i in range(rows)]

    # ---- the file ----

    def file(self, *more):
        a = self.architecture
        entries = [text("general.architecture") + struct.pack("<I", 8) + text(a),
                   text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 3) + text("a") + text("bc") + text("d"),
                   text("general.alignment") + struct.pack("<II", 4, ALIGNMENT),
                   text(f"{a}.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, EPS),
                   text(f"{a}.rope.freq_base") + struct.pack("<If", 6, 10000), *more]
        for name, value in (("block_count", self.n_layers), ("embedding_length", HIDDEN), ("feed_forward_length", FF),
                            ("attention.head_count", Q_HEADS), ("attention.head_count_kv", KV_HEADS)):
            entries.append(text(f"{a}.{name}") + struct.pack("<II", 4, value))
        infos, data = b"", b""
        for name, (form, shape, block) in self.data.items():
            axes = shape if shape[1] > 1 else shape[:1]
            infos += text(name) + struct.pack(f"<I{len(axes)}QIQ", len(axes), *axes, form, len(data))
            data += block + bytes(-len(block) % ALIGNMENT)
        head = struct.pack("<4sIQQ", b"GGUF", 3, len(self.data), len(entries)) + b"".join(entries) + infos
        return head + bytes(-len(head) % ALIGNMENT) + data

    # ---- the reference, in double ----

    def times(self, name, x):
        return [math.fsum(map(operator.mul, row, x)) for row in self.rows[name]]

    def norm(self, name, x):
        factor = 1 / math.sqrt(math.fsum(v * v for v in x) / len(x) + EPS)
        return [v * factor * w for v, w in zip(x, self.rows[name][0])]

    def turned(self, x, position):
        """Heads of a position: partners are neighbours in a llama, else half a head apart."""
        y, side_by_side = list(x), self.architecture == "llama"
        for first in range(0, len(x), HEAD_DIM):
            for i in range(HEAD_DIM // 2):
                left, right = (first + 2 * i, first + 2 * i + 1) if side_by_side else (first + i, first + i + HEAD_DIM // 2)
                angle = position * 10000 ** (-2 * i / HEAD_DIM)
                y[left] = x[left] * math.cos(angle) - x[right] * math.sin(angle)
                y[right] = x[right] * math.cos(angle) + x[left] * math.sin(angle)
        return y

    def projected(self, prefix, x):
        y, bias = self.times(f"{prefix}.weight", x), self.rows.get(f"{prefix}.bias")
        return list(map(operator.add, y, bias[0])) if bias else y

    def step(self, token, caches):
        h = self.rows["token_embd.weight"][token]
        for layer, (keys, values) in enumerate(caches):
            prefix, position = f"blk.{layer}", len(keys)
            x = self.norm(f"{prefix}.attn_norm.weight", h)
            q = self.turned(self.projected(f"{prefix}.attn_q", x), position)
            keys.append(self.turned(self.projected(f"{prefix}.attn_k", x), position))
            values.append(self.projected(f"{prefix}.attn_v", x))
            out = []
            for head in range(Q_HEADS):
                at = head // (Q_HEADS // KV_HEADS) * HEAD_DIM
                mine = q[head * HEAD_DIM:(head + 1) * HEAD_DIM]
                scores = [math.fsum(map(operator.mul, mine, key[at:at + HEAD_DIM])) / math.sqrt(HEAD_DIM) for key in keys]
                weights = [math.exp(score - max(scores)) for score in scores]
                out += [math.fsum(w * v[at + i] for w, v in zip(weights, values)) / math.fsum(weights) for i in range(HEAD_DIM)]
            h = list(map(operator.add, h, self.times(f"{prefix}.attn_output.weight", out)))
            x = self.norm(f"{prefix}.ffn_norm.weight", h)
            gate, up = self.times(f"{prefix}.ffn_gate.weight", x), self.times(f"{prefix}.ffn_up.weight", x)
            x = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
            h = list(map(operator.add, h, self.times(f"{prefix}.ffn_down.weight", x)))
        head = "output.weight" if "output.weight" in self.rows else "token_embd.weight"
        logits = self.times(head, self.norm("output_norm.weight", h))
        last, best = sorted(logits)[-2:]
        assert best - last > 1e-4 * abs(best), "the model is no test: two tokens are as likely"
        return logits.index(best)

    def tokens(self):
        caches, token, found = [([], []) for _ in range(self.n_layers)], None, []
        for i in range(len(PROMPT) + NEXT - 1):
            token = self.step(PROMPT[i] if i < len(PROMPT) else token, caches)
            if i >= len(PROMPT) - 1:
                found.append(token)
        return found


def text(string):
    return struct.pack("<Q", len(string)) + string.encode()


def llama():
    return Model("llama", 2, {"attn_v": "Q6_K", "ffn_down": "Q6_K", "output": "Q6_K", "others": "Q4_K"}, False, True)


def run(data, prompt=PROMPT):
    with tempfile.TemporaryDirectory(prefix="cushim-gguf-") as folder:
        path = pathlib.Path(folder, "model.gguf")
        path.write_bytes(data)
        return subprocess.run([*COMMAND, path, str(NEXT), *map(str, prompt)], text=True, capture_output=True, timeout=250)


def printed(data):
    done = run(data)
    assert done.returncode == 0 and done.stderr == "", f"{done.returncode}\n{done.stdout}{done.stderr}"
    return [int(word) for word in done.stdout.split()]


@tap.test
def a_llama_gives_the_tokens_of_the_reference():
    model = llama()
    found, wanted = printed(model.file()), model.tokens()
    assert found == wanted, (found, wanted)
    model.architecture = "qwen2"
    assert model.tokens() != wanted, "the model is no test: its rotation does not matter"
    shown = re.search(r"prints:\n \*\n \*   ([\d ]+)\n", SOURCE.read_text())
    assert shown and [int(word) for word in shown[1].split()] == wanted, ("the head shows others", wanted)


@tap.test
def a_qwen2_of_other_formats_gives_those_of_the_reference():
    formats = {"token_embd": "Q5_K", "attn_q": "Q5_0", "attn_k": "Q8_0", "attn_v": "Q6_K", "others": "Q5_K"}
    model = Model("qwen2", 1, formats, True, False)
    found, wanted = printed(model.file()), model.tokens()
    assert found == wanted, (found, wanted)


@tap.test
def what_is_no_model_gets_one_line():
    data = llama().file()
    for wrong, reason in ((b"", "the file ends too early"), (b"GGML" + data[4:], "this is no GGUF file"),
                          (data[:4] + b"\x01" + data[5:], "GGUF of version 1 is not taken"),
                          (data[:1000], "the file ends too early"), (data[:-100], "is beyond the end of the file"),
                          (data[:8] + b"\xff" * 8 + data[16:], "the file ends too early"),
                          (data.replace(b"llama", b"mamba"), "the architecture is neither llama nor qwen2"),
                          (llama().file(text("llama.rope.scaling.type") + struct.pack("<I", 8) + text("linear")),
                           "scaled angles are not taken"),
                          (data.replace(b"blk.1.ffn_up", b"blk.1.ffn_UP"), "blk.1.ffn_up.weight is missing")):
        done = run(wrong)
        assert done.returncode == 1 and done.stdout == "", (reason, done)
        assert done.stderr.startswith("gguf_step: ") and reason in done.stderr and done.stderr.count("\n") == 1, (reason, done.stderr)
    done = run(data, [VOCABULARY])
    assert done.returncode == 1 and done.stderr == "gguf_step: 96 is no token of this model\n", done


tap.run()
