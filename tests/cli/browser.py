"""A page in a browser: what it draws, and hands that move the mouse and press keys on it.

The hands speak the browser's own protocol over two pipes (--remote-debugging-pipe), so nothing listens anywhere.
"""
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

from fixture import scratch, tap

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# No window, which the headless shell alone lacks by itself; no network, no sandbox within a container's.
WORDS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={scratch / 'browser'}")
KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Escape": 27, "Tab": 9, "Home": 36, "End": 35, "Backspace": 8, " ": 32, "+": 187, "-": 189, "0": 48}
PATIENCE_S = 120


def browser():
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def need_browser():
    if not browser():
        tap.skip("no chromium-headless-shell")


def browse(page, *words, where=""):
    """What a browser does with the page, without a network; its console says nothing."""
    need_browser()
    done = subprocess.run([browser(), *WORDS, "--virtual-time-budget=5000", "--enable-logging=stderr", *words, f"file://{page}{where}"],
                          text=True, capture_output=True, timeout=PATIENCE_S, errors="replace")
    assert done.returncode == 0 and "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


class Hands:
    """A browser with one tab; `with Hands() as hands`.  At the end the page's console must have said nothing."""

    def __init__(self, width=1000, height=900):
        need_browser()
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (theirs_in, theirs_out)]
        os.close(theirs_in), os.close(theirs_out)
        start = f'exec "$0" "$@" 3</dev/fd/{high[0]} 4>/dev/fd/{high[1]}'
        self.process = subprocess.Popen(["sh", "-c", start, browser(), *WORDS, "--remote-debugging-pipe", f"--window-size={width},{height}", "about:blank"],
                                        pass_fds=high, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in high:
            os.close(fd)
        self.out, self.into, self.pending, self.number, self.session, self.said = ours_out, ours_in, b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)

    def open(self, page, where=""):
        self.call("Page.navigate", url="about:blank")  # else a new address of the same page loads nothing
        self.until("location.href === 'about:blank' && document.readyState === 'complete'")
        self.call("Page.navigate", url=f"file://{page}{where}")
        self.until("document.readyState === 'complete' && document.querySelector('main h1') !== null")
        return self

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.out), os.close(self.into)
        assert kind or not self.said, self.said

    def message(self):
        end = time.monotonic() + PATIENCE_S
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.into], [], [], end - time.monotonic())
            more = os.read(self.into, 1 << 16) if ready else b""
            assert more, "the browser is gone" if ready else "the browser does not answer"
            self.pending += more
        one, _, self.pending = self.pending.partition(b"\0")
        return json.loads(one)

    def call(self, method, **words):
        self.number += 1
        told = {"id": self.number, "method": method, "params": words, **({"sessionId": self.session} if self.session else {})}
        left = json.dumps(told).encode() + b"\0"
        while left:
            left = left[os.write(self.out, left):]
        while (answer := self.message()).get("id") != self.number:
            if answer["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                self.said.append(answer["params"])
            if answer["method"] == "Network.requestWillBeSent" and not answer["params"]["request"]["url"].startswith("file:"):
                self.said.append(answer["params"]["request"])
        assert "result" in answer, (method, words, answer)
        return answer["result"]

    def value(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, (script, answer)
        return answer["result"].get("value")

    def until(self, script):
        end = time.monotonic() + PATIENCE_S
        while not self.value(script):
            assert time.monotonic() < end, (script, self.value("document.body.innerText"))
            time.sleep(0.01)

    @property
    def dom(self):
        return self.value("'<title>' + document.title + '</title>' + main.outerHTML + '<!-- ' + location.hash + ' -->'")

    def mouse(self, kind, x, y, button="left"):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="none" if kind == "mouseMoved" and not self.down else button, buttons=self.down, clickCount=1)

    down = 0

    def at(self, x, y, button="left"):
        self.mouse("mouseMoved", x, y)
        self.down = 2 if button == "right" else 1
        self.mouse("mousePressed", x, y, button)
        self.down = 0
        self.mouse("mouseReleased", x, y, button)

    def place(self, node, across=0.5):
        """Where a node is on the screen, once it is there."""
        return self.value(f"(() => {{ const node = {node}; node.scrollIntoView({{block: 'center'}}); const box = node.getBoundingClientRect();"
                          f" return [box.left + Math.min(box.width * {across}, box.width - 1), box.top + box.height / 2]; }})()")

    def named(self, label):
        """The first button, link or field of that text, or whose title begins with it."""
        return ("[...main.querySelectorAll('button, a, input, select')].find((node) => node.textContent === %s || (node.title || '').split('\\n')[0] === %s)"
                % ((json.dumps(label),) * 2))

    # -- what a person does; dom.js has the same steps without a browser --

    def press(self, label):
        assert self.value(f"Boolean({self.named(label)})"), (label, self.dom)
        self.at(*self.place(self.named(label)))

    def key(self, name):
        text = {"Enter": "\r"}.get(name, name if len(name) == 1 else None)
        words = {"key": name, "code": name, "windowsVirtualKeyCode": KEYS.get(name) or (ord(name.upper()) if name.isalnum() else 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", **words, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **words)

    def focus(self, what):
        self.value(f"document.querySelector({json.dumps(what)}).focus()")

    def type(self, text):
        self.at(*self.place("document.getElementById('search')"))
        for one in text:
            self.key(one)

    def drag(self, begin, end):
        """On the timeline, from one share of what it shows to another; the same share twice is a click."""
        left, top, width = self.value("(() => { const svg = document.querySelector('#timeline svg'); svg.scrollIntoView({block: 'center'});"
                                      " const box = svg.getBoundingClientRect(); return [box.left, box.top, box.width]; })()")
        x1, x2 = (left + 70 + (width - 78) * share for share in (begin, end))
        self.mouse("mouseMoved", x1, top + 100)
        self.down = 1
        self.mouse("mousePressed", x1, top + 100)
        for step in range(1, 5):
            if begin != end:
                self.mouse("mouseMoved", x1 + (x2 - x1) * step / 4, top + 100)
        self.down = 0
        self.mouse("mouseReleased", x2, top + 100)

    def do(self, steps):
        for what, *words in steps:
            getattr(self, what)(*words)
        return self.dom
