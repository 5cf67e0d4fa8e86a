/*
 * The page's script without a browser: node runs it on a document that has just what it asks for.
 *
 *     node dom.js PAGE.html [#ADDRESS] [--click] [--steps JSON]
 *
 * Prints what a browser's --dump-dom has of <main>, and the address.  With --click each button is pressed once before, wherever that
 * leads.  Steps are those of Hands in browser.py: ["press", label], ["type", text], ["key", name], ["focus", what], ["drag", from, to].
 */
"use strict";
const fs = require("fs");
const vm = require("vm");

const page = fs.readFileSync(process.argv[2], "utf8");
const address = process.argv.slice(3).find((word) => word.startsWith("#")) || "";
const between = (begin, end) => page.slice(page.indexOf(begin) + begin.length, page.indexOf(end, page.indexOf(begin)));

const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

class Text {
  constructor(text) { this.text = String(text); }
  get textContent() { return this.text; }
  toString() { return escaped(this.text); }
}
class Element {
  constructor(tag) {
    Object.assign(this, { tag, attributes: new Map(), children: [], parent: null, style: {}, listeners: {}, clientWidth: 800 });
  }
  get id() { return this.attributes.get("id") || ""; }
  get textContent() { return this.children.map((child) => child.textContent).join(""); }
  set textContent(text) { this.replaceChildren(String(text)); }
  get nextSibling() { return this.parent.children[this.parent.children.indexOf(this) + 1] || null; }
  setAttribute(name, value) { this.attributes.set(name, String(value)); }
  getAttribute(name) { return this.attributes.has(name) ? this.attributes.get(name) : null; }
  append(...nodes) { for (const node of nodes) this.insert(this.children.length, node); }
  insert(at, node) {
    const child = node instanceof Element || node instanceof Text ? node : new Text(node);
    if (child.parent) child.remove();
    child.parent = this;
    this.children.splice(at, 0, child);
  }
  after(node) { this.parent.insert(this.parent.children.indexOf(this) + 1, node); }
  remove() { this.parent.children.splice(this.parent.children.indexOf(this), 1); this.parent = null; }
  replaceChildren(...nodes) {
    for (const child of this.children) child.parent = null;
    this.children = [];
    this.append(...nodes);
  }
  addEventListener(event, run) { (this.listeners[event] = this.listeners[event] || []).push(run); }
  contains(node) { return [...this.all()].includes(node); }
  get title() { return this.getAttribute("title") || ""; }
  get value() { return this.typed === undefined ? this.getAttribute("value") || "" : this.typed; }
  set value(text) { this.typed = text; }
  fire(event, more) { for (const run of this.listeners[event] || []) run({ preventDefault() {}, target: this, ...more }); }
  press() { this.focus(); this.fire("click"); }
  querySelectorAll(tags) { return [...this.all()].filter((node) => tags.split(", ").includes(node.tag)); }
  getBoundingClientRect() { return { left: 0, width: this.clientWidth }; }
  focus() { document.activeElement = this; }
  scrollIntoView() {}
  setPointerCapture() {}
  *all() { yield this; for (const child of this.children) if (child instanceof Element) yield* child.all(); }
  toString() {
    const style = Object.entries(this.style).map(([name, value]) => name + ": " + value + ";").join(" ");
    const attributes = [...this.attributes, ...(style ? [["style", style]] : [])];
    return "<" + this.tag + attributes.map(([name, value]) => " " + name + '="' + escaped(value).replace(/"/g, "&quot;") + '"').join("") + ">" + this.children.join("") + "</" + this.tag + ">";
  }
}

const main = new Element("main");
main.setAttribute("id", "main");
const data = new Element("script");
data.append(between('<script type="application/json" id="data">', "</script>"));
const document = {
  title: "", activeElement: null,
  createElement: (tag) => new Element(tag),
  createElementNS: (space, tag) => new Element(tag),
  getElementById: (id) => (id === "data" ? data : [...main.all()].find((node) => node.id === id) || null),
  querySelector: (tag) => [...main.all()].find((node) => node.tag === tag) || null,
};
const location = { hash: address };
const context = { document, location, history: { replaceState: (state, title, to) => { location.hash = to; } }, URLSearchParams, window: { addEventListener() {} } };
vm.runInNewContext(between("<script>", "</script>"), context, { filename: "page.js" });
if (process.argv.includes("--click")) {
  const buttons = () => [...main.all()].filter((node) => node.tag === "button");
  for (let i = 0; i < buttons().length && i < 400; i++) buttons()[i].press();
}
const named = (label) => {
  const found = main.querySelectorAll("button, a, input, select").find((node) => node.textContent === label || node.title.split("\n")[0] === label);
  if (!found) throw new Error("nothing is called " + label);
  return found;
};
const hands = {
  press: (label) => named(label).press(),
  focus: (what) => [...main.all()].find((node) => what === "#timeline svg" ? node.tag === "svg" : node.id === what.slice(1)).focus(),
  key: (key) => document.activeElement.fire("keydown", { key }),
  type: (text) => {
    const field = document.getElementById("search");
    for (const one of text) {
      field.value += one;
      field.fire("input");
    }
    field.focus();
  },
  drag: (from, to) => {
    const svg = [...main.all()].find((node) => node.tag === "svg"), at = (part) => ({ button: 0, pointerId: 1, clientX: 70 + 722 * part });
    svg.onpointerdown(at(from));
    svg.onpointermove(at(to));
    svg.onpointerup(at(to));
  },
};
if (process.argv.includes("--steps"))
  for (const [what, ...words] of JSON.parse(process.argv[process.argv.indexOf("--steps") + 1])) hands[what](...words);
process.stdout.write("<title>" + escaped(document.title) + "</title>" + main + "<!-- " + location.hash + " -->");
