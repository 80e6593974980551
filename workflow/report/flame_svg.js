"use strict";
// Zoom, search, reset and keyboard of a flamegraph that is a file of its own.
const XHTML = "http://www.w3.org/1999/xhtml";
const tools = document.getElementById("tools");
const make = (name, attributes) => Object.assign(tools.appendChild(document.createElementNS(XHTML, name)), attributes);
const search = make("input", { type: "search", placeholder: "Find part of a name", size: 28 });
const reset = make("button", { type: "button", textContent: "Reset" });
const status = make("output", { textContent: "Press a frame to zoom in. Tab and arrows move, Enter zooms in, Escape out." });
search.setAttribute("aria-label", "Find part of a name");
const LETTER = 6.7, LEAST_TEXT = 30;

const panels = [...document.querySelectorAll("svg.p")].map((panel) => {
  const width = panel.width.baseVal.value;
  const frames = [...panel.querySelectorAll(".f")].map((element) => {
    const rect = element.querySelector("rect"), text = element.querySelector("text");
    const [title, numbers] = element.querySelector("title").textContent.split("\n");
    const read = (name) => Number(rect.getAttribute(name));
    return { element, rect, text, title, numbers, x: read("x"), y: read("y"), width: read("width"), shown: [0, width] };
  });
  return { width, frames, zoomed: frames[0] };
});

function fit(name, letters) { // as fit in flame_svg.py
  const own = name.replace(/(?<=.) \([^()]*\)$/, ""), last = own.split("::").slice(-2).join("::");
  return [name, own, last].find((text) => text.length <= letters) ?? `${last.slice(0, letters - 1)}…`;
}
const covers = (upper, lower) => upper.y < lower.y && upper.x <= lower.x + 0.01 && upper.x + upper.width >= lower.x + lower.width - 0.01;
function zoom(panel, frame) {
  panel.zoomed = frame;
  const scale = panel.width / frame.width;
  for (const one of panel.frames) {
    const above = one !== frame && covers(one, frame);
    const inside = one === frame || covers(frame, one);
    one.element.classList.toggle("gone", !above && !inside);
    if (!above && !inside) continue;
    const x = above ? 0 : (one.x - frame.x) * scale, width = above ? panel.width : one.width * scale;
    one.rect.setAttribute("x", x);
    one.rect.setAttribute("width", width);
    one.text.setAttribute("x", x + 4);
    one.text.textContent = width < LEAST_TEXT ? "" : fit(one.title.replace(/, and \d+ more in a row$/, ""), Math.floor((width - 8) / LETTER));
  }
  focusOn(panel, frame);
}
function focusOn(panel, frame) {
  for (const one of panel.frames) one.element.removeAttribute("tabindex");
  frame.element.setAttribute("tabindex", "0");
  status.textContent = `${frame.title}: ${frame.numbers}`;
}
function find(text) {
  const wanted = text.trim().toLowerCase();
  let found = 0;
  for (const panel of panels) {
    for (const one of panel.frames) {
      const matches = one.title.toLowerCase().includes(wanted);
      one.element.classList.toggle("pale", wanted !== "" && !matches);
      found += matches;
    }
  }
  status.textContent = wanted ? `${found.toLocaleString("en-US")} found` : "";
}
function callersOf(panel, frame) { return panel.frames.filter((one) => covers(one, frame)).sort((a, b) => b.y - a.y); }
function neighbour(panel, frame, key) {
  const seen = panel.frames.filter((one) => !one.element.classList.contains("gone"));
  switch (key) {
    case "ArrowUp": return callersOf(panel, frame)[0];
    case "ArrowDown": return seen.filter((one) => covers(frame, one)).sort((a, b) => a.y - b.y || b.width - a.width)[0];
    case "ArrowLeft": return seen.filter((one) => one.y === frame.y && one.x < frame.x).sort((a, b) => b.x - a.x)[0];
    case "ArrowRight": return seen.filter((one) => one.y === frame.y && one.x > frame.x).sort((a, b) => a.x - b.x)[0];
    default: return undefined;
  }
}
for (const panel of panels) {
  for (const frame of panel.frames) {
    frame.element.setAttribute("role", "button");
    frame.element.setAttribute("aria-label", `${frame.title}: ${frame.numbers}`);
    frame.element.addEventListener("click", () => { zoom(panel, frame); frame.element.focus(); });
    frame.element.addEventListener("focus", () => { status.textContent = `${frame.title}: ${frame.numbers}`; });
    frame.element.addEventListener("pointerenter", () => { status.textContent = `${frame.title}: ${frame.numbers}`; });
    frame.element.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") zoom(panel, frame);
      else if (event.key === "Escape") zoom(panel, callersOf(panel, panel.zoomed)[0] ?? panel.frames[0]);
      else {
        const to = neighbour(panel, frame, event.key);
        if (!to) return;
        focusOn(panel, to);
        to.element.focus();
      }
      event.preventDefault();
    });
  }
  panel.frames[0].element.setAttribute("tabindex", "0");
}
search.addEventListener("input", () => find(search.value));
reset.addEventListener("click", () => {
  search.value = "";
  find("");
  for (const panel of panels) zoom(panel, panel.frames[0]);
});
