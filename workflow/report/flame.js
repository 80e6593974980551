// Flamegraphs: a canvas that draws only what can be seen, so the number of frames hardly matters.
// Data, from flamegraph.py: columns of frames in the order of a walk, callers before callees.
for (const part of document.querySelectorAll("[data-flame]")) startFlame(part);

function startFlame(part) {
  const ROW = 20;
  const LEAST_PX = 0.4; // narrower is not drawn, nor anything below it
  const find = (selector) => part.querySelector(selector);
  const data = JSON.parse(find("script").textContent);
  const { names, name, depth, a, b, unit, pale, labels } = data;
  const count = name.length;
  const differs = labels.length > 1;
  const view = find(".flame-view"), canvas = find("canvas"), space = find(".flame-space"), tip = find(".flame-tip");
  const status = find(".flame-status"), found = find(".flame-found"), search = find("input[type=search]");
  const width = find("select"), every = find("input[type=checkbox]"), tabs = find(".flame-tabs");
  const context = canvas.getContext("2d");

  // The tree. last[i]: the last frame below i. only[i]: i's one callee, with the same times as i.
  const parent = new Int32Array(count).fill(-1), last = new Int32Array(count);
  const only = new Uint8Array(count), callees = new Uint32Array(count);
  const path = [];
  for (let i = 0; i < count; i++) {
    for (let level = depth[i]; level < path.length; level++) last[path[level]] = i - 1;
    path.length = depth[i];
    if (depth[i]) { parent[i] = path[depth[i] - 1]; callees[parent[i]]++; }
    path.push(i);
  }
  for (const i of path) last[i] = count - 1;
  for (let i = 0; i < count - 1; i++) only[i] = callees[i] === 1 && a[i] === a[i + 1] && b[i] === b[i + 1];
  const groups = [];
  for (let i = 1; i < count; i = last[i] + 1) groups.push(i);

  let zoom = groups[0] ?? 0, at = zoom, pointed = -1, matches = null, rows = [], bottom = 0;
  const row = new Int32Array(count), weight = new Float64Array(count), left = new Float64Array(count);

  // A chain of frames with one callee each shows its first, its last and those that were searched for.
  // The levels above the frames (group of threads, running or waiting, phase) are always shown.
  const hidden = (i) => !every.checked && depth[i] > 3 && only[parent[i]] && only[i] && !(matches && matches[name[i]]);
  function layOut() {
    const next = new Float64Array(count);
    for (let i = 0; i < count; i++) {
      weight[i] = width.value === "a" ? a[i] : width.value === "b" ? b[i] : a[i] + b[i];
      const up = parent[i];
      left[i] = up < 0 ? 0 : left[up] + next[up];
      if (up >= 0) next[up] += weight[i];
      row[i] = up <= 0 ? 0 : row[up] + (hidden(i) ? 0 : 1);
    }
  }

  const seconds = (units) => {
    const s = units * unit, size = Math.abs(s);
    const [value, name] = size < 1e-3 ? [s * 1e6, "µs"] : size < 1 ? [s * 1e3, "ms"] : [s, "s"];
    return `${Number(value.toPrecision(3)).toLocaleString("en-US", { maximumFractionDigits: 20 }).replace("-", "−")} ${name}`;
  };
  const signed = (units) => (units > 0 ? "+" : "") + seconds(units);
  const share = (part, whole) => whole ? `${(100 * part / whole).toFixed(1)}%` : "–";
  function times(x, y, group) {
    if (!differs) return `${seconds(x)} a step (${share(x, a[group])})`;
    const ratio = x > 0 ? `, ${Number((y / x).toPrecision(3))}×` : "";
    return `${labels[0]}: ${seconds(x)} (${share(x, a[group])}); ${labels[1]}: ${seconds(y)} (${share(y, b[group])}); `
      + `${signed(y - x)} a step${ratio}`;
  }
  const groupOf = (i) => groups.findLast((group) => group <= i) ?? 0;
  function describe(i) {
    let folded = 0;
    for (let below = i + 1; below < count && hidden(below) && parent[below] === below - 1; below++) folded++;
    const strong = document.createElement("b");
    strong.textContent = names[name[i]] + (folded ? `, and ${folded} more in a row` : "");
    return [strong, times(a[i], b[i], groupOf(i))];
  }

  // Colours come from the style, so they follow the theme.
  let palette;
  function readPalette() {
    const style = getComputedStyle(part);
    const read = (key) => style.getPropertyValue(`--flame-${key}`).trim();
    palette = Object.fromEntries(["more", "less", "even", "python", "native"].map((key) => [key, channels(read(key))]));
    palette.ink = style.getPropertyValue("--ink").trim();
    palette.surface = style.getPropertyValue("--surface").trim();
    palette.font = `12px ${style.fontFamily}`;
  }
  const channels = (hex) => [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
  function fill(i) {
    if (!differs) {
      const text = names[name[i]];
      if (/^(?:phase: |thread: |waiting )|^(?:trainer|running|other threads.*|child processes)$/.test(text)) return palette.even;
      return /(\.py|>)\)$/.test(text) ? palette.python : palette.native;
    }
    const heat = a[i] + b[i] ? (b[i] - a[i]) / (a[i] + b[i] + pale) : 0; // the tests repeat it
    const end = heat > 0 ? palette.more : palette.less;
    const strength = Math.min(1, Math.abs(heat));
    return palette.even.map((from, k) => Math.round(from + (end[k] - from) * strength));
  }
  const luminance = (rgb) => {
    const [r, g, blue] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * blue;
  };

  // The part of a frame's name that fits: the file is cut off first, then C++ namespaces.
  function fit(text, room) {
    const own = text.replace(/(?<=.) \([^()]*\)$/, ""), last = own.split("::").slice(-2).join("::");
    for (const shown of [text, own, last]) if (context.measureText(shown).width <= room) return shown;
    const kept = Math.floor(last.length * room / context.measureText(last).width) - 1;
    return kept > 1 ? `${last.slice(0, kept)}…` : "";
  }

  // Calls visit(i, x, width) for the frames that can be seen at this zoom: callers, then those below.
  function walkVisible(pixels, visit) {
    for (let i = zoom; i > 0; i = parent[i]) if (i === zoom || !hidden(i)) visit(i, 0, pixels);
    const scale = weight[zoom] ? pixels / weight[zoom] : 0;
    for (let i = zoom + 1; i <= last[zoom]; i++) {
      if (weight[i] * scale < LEAST_PX) { i = last[i]; continue; }
      if (!hidden(i)) visit(i, (left[i] - left[zoom]) * scale, weight[i] * scale);
    }
  }

  function draw() {
    const pixels = view.clientWidth;
    if (!pixels) return; // in a part of the page that is folded
    if (!palette) readPalette();
    bottom = 0;
    walkVisible(pixels, (i) => { bottom = Math.max(bottom, row[i]); });
    const height = Math.min((bottom + 1) * ROW, Math.max(12 * ROW, Math.min(36 * ROW, 0.72 * innerHeight)));
    const ratio = devicePixelRatio || 1;
    view.style.height = `${height}px`;
    space.style.height = `${(bottom + 1) * ROW - height}px`;
    canvas.style.width = `${pixels}px`;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(pixels * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = palette.font;
    context.textBaseline = "middle";
    const top = view.scrollTop;
    rows = [];
    walkVisible(pixels, (i, x, size) => {
      (rows[row[i]] ??= []).push([x, size, i]);
      const y = row[i] * ROW - top;
      if (y > -ROW && y < height) drawFrame(i, x, y, size);
    });
    for (const line of rows) line?.sort((one, other) => one[0] - other[0]);
  }
  function drawFrame(i, x, y, size) {
    const dim = (matches && !matches[name[i]]) || (i < zoom && i !== at);
    const rgb = fill(i);
    const gap = size > 3 ? 1 : 0;
    context.globalAlpha = dim ? 0.35 : 1;
    context.fillStyle = `rgb(${rgb})`;
    context.fillRect(x, y, size - gap, ROW - 1);
    context.globalAlpha = 1;
    if (size > 34) {
      context.fillStyle = dim ? palette.ink : luminance(rgb) > 0.179 ? "#000000" : "#ffffff";
      let room = size - 10;
      const difference = differs && size > 220 ? signed(b[i] - a[i]) : "";
      if (difference) {
        const wide = context.measureText(difference).width;
        context.fillText(difference, x + size - 6 - wide, y + ROW / 2);
        room -= wide + 10;
      }
      const text = fit(names[name[i]], room);
      if (text) context.fillText(text, x + 5, y + ROW / 2);
    }
    if (i === pointed || (i === at && document.activeElement === view)) {
      context.strokeStyle = palette.ink;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, Math.max(1, size - gap - 2), ROW - 3);
    }
  }

  function say(i) {
    const [strong, numbers] = describe(i);
    status.replaceChildren(strong, ` ${numbers}`);
  }
  function show(i) { // scroll a frame's row into the view
    const y = row[i] * ROW;
    if (y < view.scrollTop + ROW) view.scrollTop = Math.max(0, y - 2 * ROW);
    else if (y > view.scrollTop + view.clientHeight - 2 * ROW) view.scrollTop = y - view.clientHeight + 3 * ROW;
  }
  function focusOn(i) { at = i; draw(); show(i); draw(); say(i); }
  function zoomTo(i) {
    zoom = i || groups[0] || 0;
    for (const [place, button] of [...tabs.children].entries()) button.setAttribute("aria-pressed", groups[place] === groupOf(zoom));
    focusOn(zoom);
    tellMatches();
  }

  // Search for a part of a frame's name. Matches keep their colour; all else turns pale.
  function tellMatches() {
    if (!matches) { found.textContent = ""; return; }
    const group = groupOf(zoom);
    let frames = 0, x = 0, y = 0, covered = -1;
    for (let i = group; i <= last[group]; i++) {
      if (!matches[name[i]]) continue;
      frames++;
      if (i > covered) { x += a[i]; y += b[i]; covered = last[i]; } // a match below another counts once
    }
    found.textContent = frames ? `${frames.toLocaleString("en-US")} found. ${times(x, y, group)}` : "Nothing found";
  }
  function searchFor(text) {
    const wanted = text.trim().toLowerCase();
    pointed = -1;
    tip.hidden = true;
    matches = wanted ? names.map((one) => one.toLowerCase().includes(wanted)) : null;
    layOut();
    draw();
    tellMatches();
  }
  function nextMatch(step) {
    if (!matches) return;
    const group = groupOf(zoom), size = last[group] - group + 1;
    for (let tried = 1; tried <= size; tried++) {
      const i = group + (at - group + step * tried + size * tried) % size;
      if (matches[name[i]] && weight[i] > 0) {
        while (!isIn(i, zoom)) zoom = parent[zoom];
        if (weight[i] / weight[zoom] * view.clientWidth < 40) zoom = i;
        focusOn(i);
        return;
      }
    }
  }
  const isIn = (i, top) => i >= top && i <= last[top];

  function pick(event) {
    const box = view.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top + view.scrollTop;
    const line = rows[Math.floor(y / ROW)] ?? [];
    return line.find(([start, size]) => x >= start && x < start + Math.max(size, 1))?.[2] ?? -1;
  }
  view.addEventListener("pointermove", (event) => {
    const i = pick(event);
    if (i !== pointed) { pointed = i; draw(); }
    tip.hidden = i < 0 || event.pointerType === "touch";
    if (tip.hidden) return;
    const [strong, numbers] = describe(i);
    tip.replaceChildren(strong, ...numbers.split("; ").flatMap((line) => [document.createElement("br"), line]));
    const x = Math.min(event.clientX + 14, document.documentElement.clientWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18;
    tip.style.left = `${Math.max(8, x)}px`;
    tip.style.top = `${below + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : below}px`;
  });
  view.addEventListener("pointerleave", () => { pointed = -1; tip.hidden = true; draw(); });
  view.addEventListener("click", (event) => { const i = pick(event); if (i >= 0) zoomTo(i); });
  view.addEventListener("scroll", draw, { passive: true });
  view.addEventListener("focus", () => { draw(); say(at); });
  view.addEventListener("blur", draw);
  view.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const line = rows[row[at]] ?? [];
    const place = line.findIndex((entry) => entry[2] === at);
    let to = -1;
    switch (event.key) {
      case "ArrowUp": to = callerOf(at); break;
      case "ArrowDown": to = widestBelow(at); break;
      case "ArrowLeft": to = line[place - 1]?.[2] ?? -1; break;
      case "ArrowRight": to = line[place + 1]?.[2] ?? -1; break;
      case "Enter": case " ": zoomTo(at); break;
      case "Escape": case "Backspace": zoomTo(Math.max(callerOf(zoom), groupOf(zoom))); break;
      case "Home": zoomTo(groupOf(zoom)); break;
      case "/": search.focus(); break;
      default: return;
    }
    event.preventDefault();
    if (to > 0) focusOn(to);
  });
  function callerOf(i) {
    let up = parent[i];
    while (up > 0 && hidden(up)) up = parent[up];
    return up;
  }
  function widestBelow(i) {
    let best = -1;
    for (let below = i + 1; below <= last[i]; below = last[below] + 1) if (best < 0 || weight[below] > weight[best]) best = below;
    return best > 0 && hidden(best) ? widestBelow(best) : best;
  }

  for (const group of groups) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button";
    button.textContent = `${names[name[group]]} ${differs ? `${seconds(a[group])} → ${seconds(b[group])}` : seconds(a[group])}`;
    button.addEventListener("click", () => zoomTo(group));
    tabs.append(button);
  }
  tabs.hidden = groups.length < 2;
  search.addEventListener("input", () => searchFor(search.value));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); nextMatch(event.shiftKey ? -1 : 1); }
  });
  width.addEventListener("change", () => { layOut(); draw(); });
  every.addEventListener("change", () => { layOut(); draw(); });
  find("[data-reset]").addEventListener("click", () => {
    search.value = "";
    every.checked = false;
    width.value = "both";
    searchFor("");
    view.scrollTop = 0;
    zoomTo(groups[0]);
    status.textContent = status.dataset.help;
  });
  const repaint = () => { palette = null; draw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  find(".flame-tools").hidden = false;
  layOut();
  for (const [place, button] of [...tabs.children].entries()) button.setAttribute("aria-pressed", place === 0);
  let known = -1; // draw sets the height; only a new width, as with a scrollbar of the page, is drawn anew
  new ResizeObserver(() => { if (view.clientWidth !== known) { known = view.clientWidth; draw(); } }).observe(view);
}
