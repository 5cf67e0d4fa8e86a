"use strict";
/* Shows a recording.  All texts of the recording become text nodes. */

const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
/* What the address of the page has, and how large its numbers may be. */
const preset = { r: 0, s: 0, d: -1, t: null, v: "peak", q: "", i: 0, l: 0, a: 0, b: 1 };
const limits = { r: data.recordings.length - 1, s: 64, d: data.recordings.length - 1, t: Infinity, i: 1, l: 1, a: 1, b: 1 };
const state = { ...preset, root: null, sort: "peak_bytes", up: false, all: {} };

/* ---- building ---- */

const el = (tag, properties, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "on") for (const [event, run] of Object.entries(value)) node.addEventListener(event, run);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
};
const shape = (tag, properties, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
};

/* ---- numbers ---- */

const scaled = (n, step, units) => {
  let unit = 0;
  for (; n >= step && unit + 1 < units.length; unit++) n /= step;
  return n.toFixed(unit === 0 ? 0 : n < 10 ? 2 : n < 100 ? 1 : 0) + " " + units[unit];
};
const bytes = (n) => scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
/* A round number of nanoseconds without its zeros. */
const tick = (n) => time(n).replace(/\.0+ /, " ").replace(/(\.\d*?)0+ /, "$1 ");
const time = (n) => (n >= 120e9 ? Math.floor(n / 60e9) + " min " + Math.floor((n % 60e9) / 1e9) + " s" : scaled(n, 1000, ["ns", "us", "ms", "s"]));
const count = (n) => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",");
/* "1 block", "2,000 blocks" */
const some = (n, one) => count(n) + " " + one + (n === 1 ? "" : "s");
const share = (part, all) => (all ? (Math.floor((part * 1000) / all) / 10).toFixed(1) + " %" : "-");

/* ---- the chosen recording ---- */

let recording, scope, sites, byId;

const sitesOf = (scope) => {
  const all = scope.frames.map(([name, line, module]) => ({ name, line, module }));
  return scope.sites.map(([numbers, frames, library]) => {
    const site = { frames: frames.map((number) => all[number]), library };
    scope.columns.forEach((name, i) => { site[name] = numbers[i]; });
    return site;
  });
};
const choose = () => {
  recording = data.recordings[state.r] || data.recordings[0];
  scope = recording && (recording.scopes[state.s] || recording.scopes[0]);
  sites = scope ? sitesOf(scope) : [];
  byId = new Map(sites.map((site) => [site.id, site]));
};
/* The same memory in another recording of the page. */
const twinOf = (one) => one && one !== recording && one.scopes.find((twin) => twin.name === scope.name);
const languageOf = (frame) => {
  if (/^py::|\.py(:|$)/.test(frame.name + " " + frame.line) || frame.line.includes(".py:")) return "python";
  if (frame.name.includes("::") || frame.name.includes("(") || /\.(cc|cpp|cxx|cu|hpp|hh):/.test(frame.line)) return "cxx";
  return /\+0x[0-9a-f]+$|^0x/.test(frame.name) ? "none" : "c";
};
/* The name without its arguments. */
const shortOf = (name) => name.replace(/(?<=\w|>)\(.*\)( const)?$/, "");
const titleOf = (site) => {
  if (!site.frames.length) return "no frame of the program";
  const frames = site.frames, ours = frames.filter((frame) => !/^(std::|__libc_|_start$)/.test(frame.name));
  const shown = (ours.length ? ours : frames).slice(0, 2);
  return shown.map((frame) => shortOf(frame.name) + (frame.line ? " " + frame.line : "")).join(" < ");
};
const momentAt = (t) => {
  let found = null; /* before the first request */
  for (const moment of scope.moments) if (moment.ns <= t) found = moment;
  return found;
};

/* ---- address ---- */

const fromAddress = () => {
  const words = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(limits)) {
    const value = words.has(name) ? Number(words.get(name)) : NaN;
    state[name] = value >= (name === "b" ? state.a : 0) && value <= limits[name] ? value : preset[name];
  }
  state.v = views.some((view) => view.id === words.get("v")) ? words.get("v") : state.t === null ? "peak" : "moment";
  state.q = words.get("q") || "";
};
const toAddress = () => {
  const words = new URLSearchParams();
  for (const name of Object.keys(preset)) if (state[name] !== preset[name]) words.set(name, state[name]);
  history.replaceState(null, "", "#" + words);
};
const change = (what) => {
  Object.assign(state, what);
  toAddress();
  draw();
};

/* ---- 1: the head ---- */

const nameOfRecording = (one) => "process " + one.pid + rankOf(one) + "  " + (one.arguments || one.program).slice(0, 48);
const rankOf = (one) => one.rank === undefined ? "" : ", rank " + one.rank;
const tabs = () => {
  const out = [];
  if (data.recordings.length > 1)
    out.push(el("select", { "aria-label": "process", on: { change: (event) => change({ r: event.target.selectedIndex, s: 0, d: -1, t: null, a: 0, b: 1, root: null, v: "peak" }) } },
      data.recordings.map((one, i) => el("option", { selected: i === state.r ? "" : null }, nameOfRecording(one)))));
  if (recording.scopes.length > 1)
    out.push(...recording.scopes.map((one, i) => el("button", { "aria-pressed": String(one === scope), on: { click: () => change({ s: i, root: null, t: null, v: "peak" }) } }, one.name)));
  return out.length ? el("div", { class: "tabs" }, out) : null;
};
const key = (name, text) => el("span", { class: "legend" }, el("span", { class: "key " + name }), text);
const card = (id, name, value, more) => el("div", { class: "card", id }, el("span", { class: "soft" }, name), el("b", {}, value), el("span", { class: "soft" }, more));

const head = () => {
  const title = recording.arguments || recording.program;
  document.title = "cushim: " + title;
  const date = recording.start_wall_ns ? new Date(recording.start_wall_ns / 1e6).toISOString().slice(0, 16).replace("T", " ") + " UTC" : "";
  const device = scope && scope.device && scope.device + (scope.device_bytes ? ", " + bytes(scope.device_bytes) + " to use" : "");
  const facts = [device, "process " + recording.pid + rankOf(recording), recording.host && "on " + recording.host, date, "recorded " + time(recording.recorded_ns) + (recording.is_software ? " (no GPU)" : ""),
    scope && scope.blocks_before && some(scope.blocks_before, "block") + ", " + bytes(scope.bytes_before) + " lived when the recording began",
    some(recording.events, "event"), el("b", { class: /status 0$/.test(recording.end) ? null : "bad" }, recording.end), "frees: " + recording.free, "cushim " + recording.cushim].filter(Boolean);
  return [el("h1", {}, title), el("p", { class: "facts" }, facts.flatMap((fact, i) => (i ? [" \u00b7 ", fact] : [fact]))), tabs()];
};

const verdict = () => {
  const leaks = sites.filter((site) => site.grows);
  const out = [el("p", {}, share(scope.no_call, scope.requests) + " of " + some(scope.requests, "request") + " made no driver call.")];
  const refused = scope.marks.filter((mark) => mark.site >= 0);
  for (const mark of refused.slice(0, 4)) {
    const site = byId.get(mark.site), [, live] = bucketAt(mark.ns);
    out.push(el("p", { class: "bad" }, "A request for " + bytes(mark.bytes) + " found no memory after " + time(mark.ns) + ", with " + bytes(live) + " live: ", el("code", {}, site ? titleOf(site).slice(0, 160) : "a stack that is not known"), "."));
  }
  if (scope.refused > 4) out.push(el("p", { class: "bad" }, some(scope.refused, "request") + " found no memory in all: red in the timeline."));
  if (leaks.length)
    out.push(el("p", { class: "bad" }, some(leaks.length, "site") + " may leak: what is live there grew in each quarter of the events, and until the end. ",
      el("a", { href: "#alive", class: "bad", on: { click: (event) => { event.preventDefault(); document.getElementById("alive").scrollIntoView(); } } }, "Alive at the end"), " names them."));
  if (scope.wait_ns * 100 >= recording.run_ns && scope.waits >= 100 && recording.free === "exact")
    out.push(el("p", {}, "Frees waited " + time(scope.wait_ns) + " of " + time(recording.run_ns) + " for the GPU. ", el("code", {}, "--free=relaxed"), " takes away at most that."));
  return out;
};
const cards = () => el("div", { class: "cards" },
  card("peak-live", "peak live", bytes(scope.peak_bytes), "after " + time(scope.peak_ns)),
  card("peak-held", "peak held", scope.held_bytes ? bytes(scope.held_bytes) : "-", "from the driver"),
  card("waits-total", "frees waited", time(scope.wait_ns), some(scope.waits, "free")),
  card("live-end", "live at the end", bytes(scope.live_bytes), some(scope.live_blocks, "block")));

/* ---- 2: the timeline ---- */

/* The range of live bytes, the lowest of them by kind, and the highest held bytes, of a range of buckets. */
const fold = (from, to) => {
  let low = scope.buckets[from], most = 0, held = 0;
  for (const one of scope.buckets.slice(from, to)) {
    if (one[0] < low[0]) low = one;
    most = Math.max(most, one[1]);
    held = Math.max(held, one[2]);
  }
  return { least: low[0], kinds: low.slice(3), most, held };
};
const columnsOf = (n) => {
  const first = state.a * scope.buckets.length, span = (state.b - state.a) * scope.buckets.length;
  return Array.from({ length: n }, (_, i) => {
    const from = Math.min(Math.floor(first + (span * i) / n), scope.buckets.length - 1);
    const to = Math.min(Math.max(Math.floor(first + (span * (i + 1)) / n), from + 1), scope.buckets.length);
    return fold(from, to);
  });
};
const upTo = (from, most, step) => {
  const out = [];
  for (let value = Math.ceil(from / step) * step; value <= most; value += step) out.push(value);
  return out;
};
/* Bytes in powers of two, and moments at round times, a few of each. */
const bytesSteps = (most) => upTo(0, most, 2 ** Math.ceil(Math.log2(Math.max(most / 4, 1))));
const timeSteps = (from, to, n) => {
  const least = (to - from) / n || 1, ten = 10 ** Math.floor(Math.log10(least));
  return upTo(from, to, ten * [1, 2, 5, 10].find((digit) => digit * ten >= least * 0.999));
};
const bucketAt = (t) => scope.buckets[Math.min(Math.floor((t / (recording.run_ns || 1)) * (scope.buckets.length - 1)), scope.buckets.length - 1)];

/* " (device 2.00 MiB, mapped 86.0 MiB)", if there are several kinds. */
const kindsText = (bucket) => {
  const parts = scope.kinds.map((name, i) => bucket[3 + i] && name + " " + bytes(bucket[3 + i])).filter(Boolean);
  return parts.length ? " (" + parts.join(", ") + ")" : "";
};
const nowText = () => {
  const t = state.t === null ? scope.peak_ns : state.t;
  const bucket = bucketAt(t);
  if (state.t === null) return "at the peak, after " + time(t) + ": live " + bytes(scope.peak_bytes) + kindsText(scope.peak) + ", held " + bytes(bucket[2]);
  return textAt(t);
};
const textAt = (t) => {
  const bucket = bucketAt(t), [low, high] = [bytes(bucket[0]), bytes(bucket[1])];
  return "after " + time(t) + ": live " + low + kindsText(bucket) + (low === high ? "" : " to " + high) + ", held " + bytes(bucket[2]);
};

const timeline = () => {
  const bands = scope.kinds.length ? scope.kinds : ["live"];
  const box = el("div", { id: "timeline" });
  const svg = shape("svg", { tabindex: "0", role: "slider", "aria-label": "the moment that is looked at", "aria-valuemin": 0, "aria-valuemax": recording.run_ns,
    "aria-valuenow": state.t === null ? scope.peak_ns : state.t, "aria-valuetext": nowText() });
  box.append(svg);
  const paint = () => {
    const width = box.clientWidth || 800, height = width < 500 ? 200 : 240, left = 70, bottom = 22, top = 18, right = 8;
    svg.setAttribute("viewBox", "0 0 " + width + " " + height);
    svg.style.height = height + "px";
    svg.replaceChildren();
    const n = Math.max(Math.floor(width - left - right), 50), columns = columnsOf(n);
    const twins = data.recordings.map((one) => ({ one, twin: twinOf(one) })).filter(({ twin }) => twin);
    const most = Math.max(1, ...columns.map((one) => Math.max(one.most, one.held)), ...twins.map(({ twin }) => twin.peak_bytes));
    const x = (i) => left + ((width - left - right) * i) / n, y = (value) => height - bottom - ((height - bottom - top) * value) / most;
    const xOf = (t) => left + ((t / (recording.run_ns || 1) - state.a) / (state.b - state.a || 1)) * (width - left - right);
    for (const value of bytesSteps(most))
      svg.append(shape("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }), shape("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, bytes(value)));
    for (const t of timeSteps(state.a * recording.run_ns, state.b * recording.run_ns, width < 500 ? 4 : 8)) {
      const at = xOf(t);
      svg.append(shape("line", { class: "grid", x1: at, x2: at, y1: height - bottom, y2: height - bottom + 4 }),
        shape("text", { x: at, y: height - 5, "text-anchor": at < left + 20 ? "start" : at > width - 30 ? "end" : "middle" }, t ? tick(t) : "0"));
    }
    const path = (pick) => columns.map((one, i) => (i ? "H" + x(i).toFixed(1) + "V" : "M" + left + " ") + y(pick(one)).toFixed(1)).join("") + "H" + (width - right);
    const close = "V" + y(0).toFixed(1) + "H" + left + "Z";
    const under = (one, i) => one.kinds.slice(i + 1).reduce((rest, above) => rest - above, one.least);
    svg.append(shape("path", { class: "spikes", d: path((one) => one.most) + close }),
      ...bands.map((name, i) => shape("path", { class: "band " + name, d: path((one) => under(one, i)) + close })).reverse());
    if (scope.held_bytes) svg.append(shape("path", { class: "held", d: path((one) => one.held) }));
    for (const { one, twin } of twins) {
      const points = twin.buckets.map(([, high], i) => [(i / twin.buckets.length) * one.run_ns, high]).filter(([t]) => t >= state.a * recording.run_ns && t <= state.b * recording.run_ns);
      const line = shape("path", { class: "twin" + (data.recordings[state.d] === one ? " chosen" : ""), d: points.map(([t, high], i) => (i ? "L" : "M") + xOf(t).toFixed(1) + " " + y(high).toFixed(1)).join("") });
      line.append(shape("title", {}, nameOfRecording(one) + ": peak " + bytes(twin.peak_bytes)));
      svg.append(line);
    }
    const taken = [];
    for (const mark of scope.marks.slice().sort((a, b) => (b.site >= 0) - (a.site >= 0) || a.ns - b.ns)) {
      const at = xOf(mark.ns);
      if (at < left || at > width - right) continue;
      const refused = mark.site >= 0;
      svg.append(shape("line", { class: refused ? "refused" : "mark", x1: at, x2: at, y1: top - 2, y2: height - bottom }));
      const text = refused ? bytes(mark.bytes) + " refused" : mark.text;
      const isLate = at > width - 120, wide = 10 + 7 * text.length;
      const [from, to] = isLate ? [at - wide, at] : [at, at + wide];
      if (taken.some(([start, end]) => from < end && to > start)) continue;
      taken.push([from, to]);
      svg.append(shape("text", { class: refused ? "refused-text" : "mark-text", x: at + (isLate ? -3 : 3), y: 12, "text-anchor": isLate ? "end" : "start" }, text));
    }
    const at = xOf(state.t === null ? scope.peak_ns : state.t);
    if (at >= left && at <= width - right) svg.append(shape("line", { class: "moment", x1: at, x2: at, y1: top, y2: height - bottom }));
    const shareAt = (event) => {
      const box = svg.getBoundingClientRect();
      const part = ((event.clientX - box.left) * (width / box.width) - left) / (width - left - right);
      return state.a + Math.min(Math.max(part, 0), 1) * (state.b - state.a);
    };
    let from = null;
    const drag = shape("rect", { class: "drag", y: top, height: height - bottom - top, width: 0 });
    svg.onpointerdown = (event) => {
      if (event.button) return;
      from = shareAt(event);
      svg.append(drag);
      svg.setPointerCapture(event.pointerId);
    };
    const hair = shape("line", { class: "hair", y1: top, y2: height - bottom, x1: -9, x2: -9 });
    svg.append(hair);
    const tell = (x, text) => {
      hair.setAttribute("x1", x);
      hair.setAttribute("x2", x);
      document.getElementById("now").textContent = text;
    };
    svg.onpointerleave = () => tell(-9, nowText());
    svg.onpointermove = (event) => {
      if (from === null) {
        const t = shareAt(event) * recording.run_ns;
        tell(xOf(t), textAt(t));
        return;
      }
      const [a, b] = [from, shareAt(event)].sort((one, two) => one - two).map((part) => xOf(part * recording.run_ns));
      drag.setAttribute("x", a);
      drag.setAttribute("width", b - a);
    };
    svg.onpointerup = (event) => {
      if (from === null) return;
      const [a, b] = [from, shareAt(event)].sort((one, two) => one - two);
      from = null;
      if (b - a > (state.b - state.a) / 100) change({ a, b });
      else change({ t: Math.round(a * recording.run_ns), v: "moment", root: null });
    };
    svg.onpointercancel = () => { from = null; drag.remove(); }; /* a finger scrolls */
  };
  const keys = { ArrowLeft: -0.01, ArrowRight: 0.01, Home: -Infinity, End: Infinity };
  svg.addEventListener("keydown", (event) => {
    const run = recording.run_ns || 1, now = state.t === null ? scope.peak_ns : state.t, span = state.b - state.a;
    const around = (t, wide) => {
      const a = Math.min(Math.max(t / run - wide / 2, 0), 1 - wide);
      return { a, b: a + wide };
    };
    if (keys[event.key]) {
      const t = Math.round(Math.min(Math.max(now + keys[event.key] * span * run, 0), recording.run_ns));
      const isSeen = t / run >= state.a && t / run <= state.b;
      change({ t, v: "moment", root: null, ...(isSeen ? {} : around(t, span)) });
    } else if (event.key === "+") change(around(now, Math.max(span / 2, 1 / 2048)));
    else if (event.key === "-") change(around(now, Math.min(span * 2, 1)));
    else if (event.key === "0") change({ a: 0, b: 1 });
    else return;
    event.preventDefault();
  });
  painters.push(paint);
  return [el("h2", {}, "Memory over time"),
    el("p", { class: "soft" }, bands.map((name) => key("band " + name, name)), key("spike", "live, at times"), scope.held_bytes ? key("line", "held") : null,
      data.recordings.some(twinOf) ? key("other", "live in the other recordings, from their start") : null),
    box,
    el("div", { class: "tools" }, el("span", { id: "now" }, nowText()),
      state.t !== null && el("button", { on: { click: () => change({ t: null, v: "peak" }) } }, "to the peak"),
      (state.a > 0 || state.b < 1) && el("button", { on: { click: () => change({ a: 0, b: 1 }) } }, "whole run"),
      el("span", { class: "soft" }, "Click for a moment, drag to zoom; keys: arrows, Home, End, +, -, 0")),
    scope.more_marks ? el("p", { class: "soft" }, count(scope.more_marks) + " later marks are not shown.") : null];
};
/* What depends on how wide the page is. */
let painters = [];

/* ---- 3: the flame graph ---- */

const views = [
  { id: "moment", name: "at the moment", unit: bytes, of: () => weightsAt(state.t === null ? scope.peak_ns : state.t) },
  { id: "peak", name: "at the peak", unit: bytes, column: "peak_bytes", of: () => weightsOf("peak_bytes") },
  { id: "alive", name: "alive at the end", unit: bytes, column: "live_bytes", of: () => weightsOf("live_bytes") },
  { id: "all", name: "all that was asked for", unit: bytes, column: "bytes", of: () => weightsOf("bytes") },
  { id: "temporary", name: "temporary", unit: (n) => some(n, "block"), column: "temporary", of: () => weightsOf("temporary") },
  { id: "waits", name: "waits", unit: time, column: "wait_ns", of: () => weightsOf("wait_ns") },
];
const weightsOf = (name, all = sites) => all.map((site) => [site, site[name]]);
/* What the flame graph shows of the recording to compare with; null if there is none, or the view is of a moment. */
const othersOf = (view) => {
  const twin = twinOf(data.recordings[state.d]);
  return twin && view.column ? weightsOf(view.column, sitesOf(twin)) : null;
};
const weightsAt = (t) => {
  const moment = momentAt(t), out = [];
  if (!moment) return out;
  let rest = moment.rest;
  for (let i = 0; i < moment.of.length; i += 2) {
    const site = byId.get(moment.of[i]);
    if (site) out.push([site, moment.of[i + 1]]);
    else rest += moment.of[i + 1];
  }
  if (rest) out.push([null, rest]);
  return out;
};

/* A node has the weight of this recording, and of the one to compare with (`was`); it is as wide as its leaves are in the larger. */
const treeOf = (weights, others) => {
  const root = { name: "all", children: new Map(), weight: 0, was: 0, depth: 0, path: "" };
  const rows = weights.map(([site, weight]) => [site, weight, 0]).concat((others || []).map(([site, weight]) => [site, 0, weight]));
  for (const [site, weight, was] of rows) {
    if (!weight && !was) continue;
    root.weight += weight;
    root.was += was;
    let node = root;
    const frames = site ? (state.i ? site.frames : site.frames.slice().reverse()) : [];
    const names = frames.length ? frames.slice() : [{ name: site ? "(no frame of the program)" : "(rest)", line: "", module: "" }];
    if (state.l && site) names.unshift({ name: site.library || "(no library)", line: "", module: "" });
    for (const frame of names) {
      const key = frame.name + " " + frame.line;
      if (!node.children.has(key)) node.children.set(key, { ...frame, children: new Map(), weight: 0, was: 0, depth: node.depth + 1, path: node.path + "\u0000" + key });
      node = node.children.get(key);
      node.weight += weight;
      node.was += was;
    }
  }
  const widen = (node) => {
    node.width = node.children.size ? [...node.children.values()].reduce((sum, child) => sum + widen(child), 0) : Math.max(node.weight, node.was);
    return node.width;
  };
  widen(root);
  return root;
};
const nodeAt = (root, path) => {
  let node = root;
  for (const key of (path || "").split("\u0000").slice(1)) node = (node && node.children.get(key)) || null;
  return node || root;
};
const matcher = () => {
  if (!state.q) return null;
  try {
    return new RegExp(state.q, "i");
  } catch (error) {
    return error;
  }
};

const flame = () => {
  const view = views.find((one) => one.id === state.v) || views[1];
  const others = othersOf(view), root = treeOf(view.of(), others), top = nodeAt(root, state.root);
  const changeOf = (node) => (node.weight < node.was ? "-" : "+") + view.unit(Math.abs(node.weight - node.was));
  const kind = (node) => (others ? (node.weight > node.was ? "more" : node.weight < node.was ? "less" : "none") : node === root ? "none" : languageOf({ line: "", ...node }));
  const box = el("div", { class: "flame", id: "flame", "data-total": root.weight }), told = el("span", { id: "found" });
  const resting = "Point at a frame to read it; click to enlarge it.", hint = el("p", { class: "soft", id: "hint" }, resting);
  const paint = () => {
    const match = matcher(), isWrong = match instanceof Error;
    let deepest = 0, found = 0;
    const add = (node, from, width, isIn) => {
      const level = node.depth - top.depth;
      deepest = Math.max(deepest, level);
      const isFound = match && !isWrong && match.test(node.name + " " + node.line);
      if (isFound && !isIn) found += node.weight;
      const text = node.name + (node.line ? "  " + node.line : "");
      const said = text + "\n" + view.unit(node.weight) + (others ? ", was " + view.unit(node.was) + ", " + changeOf(node) : ", " + share(node.weight, root.weight)) + (node.module ? "\n" + node.module : "");
      const button = el("button", { class: "frame " + kind(node) + (isFound ? " found" : "") + (width < 1.2 ? " thin" : "") + (node.name === "(rest)" ? " rest" : ""),
        title: said,
        on: { click: () => change({ root: node === top ? null : node.path }), pointerenter: () => { hint.textContent = said.replace(/\n/g, "  "); }, pointerleave: () => { hint.textContent = resting; } } },
      width < 1.2 ? "" : (node === root ? "all  " + view.unit(root.weight) : text) + (others && node.weight !== node.was ? "  " + changeOf(node) : ""));
      button.style.left = from + "%";
      button.style.width = width + "%";
      button.style.top = 21 * level + "px";
      box.append(button);
      let at = from, rest = 0;
      for (const child of [...node.children.values()].sort((a, b) => b.width - a.width)) {
        const part = (width * child.width) / node.width;
        if (part < 0.02 || child.depth > 80) {
          rest += child.width;
          continue;
        }
        add(child, at, part, isIn || isFound);
        at += part;
      }
      if (rest && (width * rest) / node.width > 0.05)
        add({ name: "(rest)", line: "", weight: rest, was: rest, width: rest, depth: node.depth + 1, children: new Map(), path: node.path }, at, (width * rest) / node.width, isIn);
    };
    box.replaceChildren();
    if (root.width) add(top, 0, 100, false);
    box.style.height = 21 * (deepest + 1) + "px";
    told.setAttribute("class", isWrong ? "bad" : "");
    told.textContent = isWrong ? "no regular expression" : match ? "found " + view.unit(found) + ", " + share(found, root.weight) : "";
  };
  paint();
  const search = (q) => {
    state.q = q;
    toAddress();
    paint();
  };
  const field = el("input", { type: "search", id: "search", placeholder: "search, a regular expression", "aria-label": "search for frames", value: state.q, autocomplete: "off",
    on: { input: () => search(field.value), keydown: (event) => { if (event.key === "Escape") { field.value = ""; search(""); } } } });
  const moment = view.id === "moment" && momentAt(state.t === null ? scope.peak_ns : state.t);
  return [el("h2", {}, "Stacks"),
    el("div", { class: "tools" }, views.map((one) => el("button", { "aria-pressed": String(one === view), "data-view": one.id, on: { click: () => change({ v: one.id, root: null }) } }, one.name))),
    el("div", { class: "tools" }, field,
      data.recordings.some(twinOf) && el("select", { "aria-label": "compare with", on: { change: (event) => change({ d: event.target.selectedIndex - 1, root: null }) } },
        ["compare with ..."].concat(data.recordings.map(nameOfRecording)).map((text, i) => el("option", { selected: i === state.d + 1 ? "" : null }, i ? "against " + text : text))),
      el("button", { "aria-pressed": String(!!state.i), on: { click: () => change({ i: state.i ? 0 : 1, root: null }) } }, "inverted"),
      el("button", { "aria-pressed": String(!!state.l), "data-by": "library", on: { click: () => change({ l: state.l ? 0 : 1, root: null }) } }, "by library"),
      state.root && el("button", { on: { click: () => change({ root: null }) } }, "whole graph"), told),
    moment ? el("p", { class: "soft", id: "kept" }, "As it was after " + time(moment.ns) + ": of the moments that this page keeps, the last before the one that you chose.") : null,
    root.width ? box : el("p", { class: "soft" }, "Nothing: " + (view.id === "waits" ? "no free waited for the GPU." : "no such memory was recorded.")),
    root.width ? hint : null,
    root.width ? el("p", { class: "soft" }, others ? [key("more", "more than in the other recording"), key("less", "less"), key("none", "the same")]
      : [key("c", "C"), key("cxx", "C++"), key("python", "Python"), key("none", "no name known")]) : null];
};

/* ---- 4: the fragmentation map ---- */

const mapAt = (t) => {
  const mapped = scope.moments.filter((moment) => moment.map);
  return mapped.filter((moment) => moment.ns <= t).pop() || mapped[0];
};
const fragmentation = () => {
  const moment = mapAt(state.t === null ? scope.peak_ns : state.t);
  if (!moment) return [el("h2", {}, "Segments"), el("p", { class: "soft" }, "Nothing was held from the driver.")];
  const map = moment.map, cells = 64, high = 16, label = 150;
  /* Segments that look alike are one row. */
  const alike = new Map();
  for (const row of map.rows) {
    const key = state.all.map ? alike.size : [row[1], row[2], row[6]].join();
    if (alike.has(key)) alike.get(key).n++;
    else alike.set(key, { row, n: 1 });
  }
  const rows = [...alike.values()];
  const svg = shape("svg", { id: "map", role: "img", "aria-label": "what of each segment is live", "data-rows": rows.length });
  const longest = Math.max(...map.rows.map((row) => row[1]));
  svg.style.height = high * rows.length + "px";
  const paint = () => {
    const all = svg.clientWidth || 800, wide = all - label;
    svg.setAttribute("viewBox", "0 0 " + all + " " + high * rows.length);
    svg.replaceChildren();
    rows.forEach(({ row: [base, size, live, hole, blocks, site, text], n }, i) => {
      const group = shape("g", {}), width = Math.max((wide * size) / longest, 6);
      const who = byId.get(site);
      group.append(shape("title", {}, base + ", " + bytes(size) + ": " + bytes(live) + " live in " + some(blocks, "block") + ", largest hole " + bytes(hole) + (who ? "\nlargest block: " + titleOf(who) : "")),
        shape("text", { x: label - 6, y: high * i + 12, "text-anchor": "end" }, (n > 1 ? count(n) + " x " : "") + bytes(size) + ", " + (live === size ? "full" : live ? share(live, size) : "empty")),
        shape("rect", { class: "hole", x: label, y: high * i + 1, width, height: high - 2 }));
      for (let from = 0; from < cells; ) {
        let to = from + 1;
        while (to < cells && text[to] === text[from]) to++;
        if (text[from] !== "0")
          group.append(shape("rect", { class: "full", x: label + (width * from) / cells, y: high * i + 1, width: (width * (to - from)) / cells, height: high - 2, "fill-opacity": Number(text[from]) / 9 }));
        from = to;
      }
      svg.append(group);
    });
  };
  painters.push(paint);
  return [el("h2", {}, "Segments"),
    el("p", { id: "map-sum" }, "After " + time(moment.ns) + ": " + bytes(map.held) + " held in " + some(map.segments, "segment") + ", " + bytes(map.live) + " of it live, " +
      bytes(map.idle) + " in segments without a block; the largest hole has " + bytes(map.hole) + "."),
    el("p", { class: "soft" }, key("full", "live"), key("hole", "free, or what blocks are rounded by")), svg,
    rows.length < map.rows.length ? el("button", { on: { click: () => { state.all.map = true; draw(); } } }, "each segment") : null,
    map.segments > map.rows.length ? el("p", { class: "soft" }, map.rows.length + " of " + map.segments + " segments are shown: those with blocks, and of these with most free bytes.") : null];
};

/* ---- 5: tables of sites ---- */

const stackOf = (site) => el("ol", {}, site.frames.map((frame) => {
  return el("li", {}, frame.name, frame.line ? "  " + frame.line : "", el("span", { class: "soft" }, frame.module ? "  " + frame.module : ""));
}));
const table = (id, rows, columns, sortable) => {
  const shown = state.all[id] ? rows : rows.slice(0, 20);
  const header = columns.map((one) => {
    const isSorted = sortable && state.sort === one.key;
    return el("th", { "aria-sort": isSorted ? (state.up ? "ascending" : "descending") : null, scope: "col" },
      sortable && one.key ? el("button", { "data-key": one.key, on: { click: () => change({ sort: one.key, up: isSorted ? !state.up : false }) } }, one.name + (isSorted ? (state.up ? " \u25b4" : " \u25be") : "")) : one.name);
  });
  const body = shown.map((site) => {
    const row = el("tr", {}, columns.map((one, i) => {
      const shown = i && one.text(site);
      if (i) return el("td", { "data-name": one.name, class: /^(-|0|0 B|0\.0 %)$/.test(shown) && "no" }, shown);
      const name = el("button", { class: "name", "aria-expanded": "false", title: titleOf(site) }, titleOf(site));
      name.addEventListener("click", () => {
        const isOpen = name.getAttribute("aria-expanded") === "true";
        name.setAttribute("aria-expanded", String(!isOpen));
        if (isOpen) row.nextSibling.remove();
        else row.after(el("tr", { class: "stack" }, el("td", { colspan: columns.length }, stackOf(site))));
      });
      return el("td", {}, name);
    }));
    return row;
  });
  return [el("div", { class: "wide" }, el("table", { id, "data-rows": rows.length }, el("thead", {}, el("tr", {}, header)), el("tbody", {}, body))),
    shown.length < rows.length && el("p", {}, el("button", { on: { click: () => { state.all[id] = true; draw(); } } }, "all " + count(rows.length) + " sites"))];
};
const valueOf = (site, key) => (key === "mean_life" ? (site.frees ? site.life_ns / site.frees : 0) : key === "temporary" ? (site.requests ? site.temporary / site.requests : 0) : site[key]);

const siteTable = () => {
  const rows = sites.slice().sort((a, b) => (valueOf(b, state.sort) - valueOf(a, state.sort)) * (state.up ? -1 : 1) || a.id - b.id);
  return [el("h2", {}, "Sites"), table("sites", rows, [
    { name: "site" },
    { name: "at the peak", key: "peak_bytes", text: (site) => bytes(site.peak_bytes) },
    { name: "blocks", key: "peak_blocks", text: (site) => count(site.peak_blocks) },
    { name: "requests", key: "requests", text: (site) => count(site.requests) },
    { name: "mean life", key: "mean_life", text: (site) => (site.frees ? time(site.life_ns / site.frees) : "-") },
    { name: "temporary", key: "temporary", text: (site) => share(site.temporary, site.requests) },
    { name: "alive", key: "live_bytes", text: (site) => bytes(site.live_bytes) },
    { name: "waits", key: "wait_ns", text: (site) => (site.wait_ns ? time(site.wait_ns) : "-") }], true),
  el("p", { class: "soft" }, "Temporary: freed before the same thread's next request.")];
};
const aliveTable = () => {
  const rows = sites.filter((site) => site.live_bytes).sort((a, b) => b.grows - a.grows || b.live_bytes - a.live_bytes);
  return [el("h2", { id: "alive" }, "Alive at the end"),
    rows.length ? table("alive-sites", rows, [
      { name: "site" },
      { name: "bytes", text: (site) => bytes(site.live_bytes) },
      { name: "blocks", text: (site) => count(site.live_blocks) },
      { name: "oldest", text: (site) => time(recording.run_ns - site.oldest_ns) },
      { name: "", text: (site) => (site.grows ? el("span", { class: "tag" }, "leak") : "") }]) : el("p", { class: "soft" }, "All blocks were freed."),
    rows.length ? el("p", { class: "soft" }, "Leak: what was live there grew in each quarter of the events, and until the end. What is alive need not be a fault.") : null];
};

/* ---- 6: waits and copies ---- */

const plainTable = (id, names, rows) => el("div", { class: "wide" }, el("table", { id }, el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col" }, name)))),
  el("tbody", {}, rows.map((row) => el("tr", {}, row.map((text, i) => el("td", i ? { "data-name": names[i] } : {}, text)))))));
const copies = () => {
  if (!scope.copies.length) return [el("h2", {}, "Large copies"), el("p", { class: "soft" }, "No copy of pageable memory was large enough to be recorded.")];
  const rows = scope.copies.slice().sort((a, b) => b.bytes - a.bytes).map((row) => [row.to_host ? "to the host" : "to the device",
    row.by_driver ? "the driver" : "staged by cushim", row.why || "-", count(row.n), bytes(row.bytes), row.ns ? time(row.ns) : "-", row.ns ? (row.timed_bytes / row.ns).toFixed(1) + " GB/s" : "-"]);
  return [el("h2", {}, "Large copies"), plainTable("copies", ["direction", "by", "not staged for", "copies", "bytes", "time", "rate"], rows),
    el("p", { class: "soft" }, "Of pageable memory, of all devices. Pinned memory needs no staging copy.")];
};

/* ---- 7: missing data ---- */

const gaps = () => {
  const rows = [[recording.lost, "event", "not written"], [recording.damaged, "piece", "of the file that cannot be read"], [recording.strange, "impossible event", "skipped"],
    [recording.foreign, "free", "of memory whose request was not recorded"], [recording.disorder, "block", "whose address was live already"],
    [recording.newer, "file", "changed since: lines may be wrong"]].filter(([n]) => n);
  const foot = "Not recorded: memory that nodes of graphs allocate, that other processes made, and that contexts and modules take; kernels, and small copies. Moments: " + count(scope ? scope.moments.length : 0) + ", evenly spread, and the peak.";
  return [el("h2", {}, "Missing data"), rows.length ? el("ul", { id: "gaps" }, rows.map(([n, one, text]) => el("li", {}, some(n, one) + " " + text))) : el("p", { id: "gaps" }, "No event is known to be missing."), el("p", { class: "soft" }, foot)];
};

/* ---- all of it ---- */

/* All controls in order, and the name by which a control is found when the page is drawn again. */
const places = () => [...main.querySelectorAll("button, a, input, select, svg")];
const nameOf = (node) => node.id || node.getAttribute("aria-label") || node.getAttribute("data-key") || node.title || node.textContent;

const draw = () => {
  choose();
  painters = [];
  const before = places().indexOf(document.activeElement), name = before >= 0 && nameOf(document.activeElement);
  if (!recording) main.replaceChildren(el("h1", {}, "cushim"), el("p", {}, "There is no recording on this page."));
  else if (!scope) main.replaceChildren(...[...head(), el("p", {}, "No memory was requested."), ...gaps()].filter(Boolean));
  else main.replaceChildren(...[head(), cards(), verdict(), timeline(), flame(), fragmentation(), siteTable(), aliveTable(), copies(), gaps()].flat(3).filter(Boolean));
  for (const paint of painters) paint();
  if (before < 0) return;
  const after = places();
  (after.find((node) => nameOf(node) === name) || after[Math.min(before, after.length - 1)]).focus({ preventScroll: true });
};
fromAddress();
draw();
window.addEventListener("resize", () => { for (const paint of painters) paint(); });
window.addEventListener("hashchange", () => { fromAddress(); draw(); });
