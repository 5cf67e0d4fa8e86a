"""Undocumented behaviour of the driver: runs python/questions.py natively. Its answers are not judged; a question
without an answer fails."""
import json
import sys

import build

TIMEOUT_S = 120


def run(host):
    path = build.ROOT / "tests" / "gpu" / "python" / "questions.py"
    done = host.run([sys.executable, path], TIMEOUT_S)
    answers, parts = [], []
    for line in done.stdout.decode(errors="replace").splitlines():
        if line.startswith("{"):
            answers.append(json.loads(line))
    for answer in answers:
        fault = answer["answer"].get("error")
        parts.append({"name": answer["question"], "status": "fail" if fault else "pass", "faults": [fault] if fault else []})
    if done.rc != 0:
        parts.append({"name": "the end", "status": "fail", "faults": [f"exit status {done.rc}", done.stderr.decode(errors="replace")[-400:]]})
    host.save("questions.json", {"host": host.facts, "answers": answers, "parts": parts})
    return parts
