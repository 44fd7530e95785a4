/** Charts as SVG. Colors come from classes, so that light and dark are matters of the style sheet alone. */
import { h, number, s } from "./dom.js";

/** As wide as a large figure can be on this screen, so that text keeps its size on a phone. */
export const wide = (most = 760) => Math.max(300, Math.min(most, innerWidth - 72));

const svg = (width, height, label, ...children) => s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...children);

let pen = null;

/** The width of a text, in units of the picture; by default of a label. */
function textWidth(text, size = 13, weight = 400) {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

/** A picture below its caption, which an export keeps. */
export function captioned(caption, picture) {
  picture.dataset.caption = caption;
  return [h("p", { class: "caption" }, caption), picture];
}

/** Labels beside their marks, in a column at most `labelWidth` wide; above them where the longest would not fit. */
function rowLayout(rows, labelWidth) {
  const needed = Math.max(48, 12 + Math.max(0, ...rows.map(({ label }) => textWidth(label))));
  return needed <= labelWidth
    ? { height: 30, left: needed, down: 0, labelAt: { x: needed - 10, y: 19, "text-anchor": "end" } }
    : { height: 50, left: 8, down: 17, labelAt: { x: 8, y: 16 } };
}

/** Horizontal bars. `bars`: [{label, value, text, kind}] with `kind` a class; values from 0 to `top`. */
export function barChart(label, bars, { top = 1, labelWidth = 110, width = 520, onpick = null } = {}) {
  const { height, left, labelAt, down } = rowLayout(bars, labelWidth), room = width - left - 76;
  const chart = svg(width, bars.length * height, label, bars.map((bar, k) => {
    const size = Math.max(0, Math.min(bar.value / top, 1)) * room;
    const row = s("g", { transform: `translate(0 ${k * height})`, class: `bar ${bar.kind ?? ""}` },
      s("text", { ...labelAt, class: "bar-label" }, bar.label),
      s("rect", { x: left, y: 5 + down, width: room, height: 20, rx: 3, class: "track" }),
      s("rect", { x: left, y: 5 + down, width: size.toFixed(2), height: 20, rx: 3, class: "mark" }),
      s("text", { x: left + room + 8, y: 19 + down, class: "value" }, bar.text ?? number(bar.value)));
    if (onpick) pickable(row, `Use ${bar.label}`, () => onpick(bar));
    return row;
  }));
  if (onpick) chart.setAttribute("role", "group");  // an image has no parts to press
  return chart;
}

/** Make a part of a picture a button, for pointers and keys. */
function pickable(element, label, onpress) {
  for (const [name, value] of Object.entries({ role: "button", tabindex: 0, "aria-label": label })) element.setAttribute(name, value);
  element.classList.add("pickable");
  element.addEventListener("click", onpress);
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onpress();
  });
}

/** Cosines of all pairs: rows and columns are words. `marked`: [row, column]. Not drawn smaller than its digits can be read. */
export function heatMap(label, rows, columns, value, marked, onpick) {
  const longest = (words) => Math.max(...words.map((word) => textWidth(word, 13, 700)));  // a chosen word is bold
  const cell = 34, left = 14 + longest(rows), top = 22 + 0.71 * longest(columns);  // columns are turned by 45 degrees
  const ends = columns.map((word, j) => left + j * cell + 22 + 0.71 * textWidth(word, 13, 700));
  const width = Math.max(320, left + cell * columns.length + 4, ...ends), height = top + cell * rows.length + 4;
  const cells = rows.flatMap((row, i) => columns.map((column, j) => {
    const v = value(i, j);
    const group = s("g", { transform: `translate(${left + j * cell} ${top + i * cell})`, class: "pickable" },
      s("rect", { width: cell - 2, height: cell - 2, rx: 3, class: v < 0 ? "heat negative" : "heat", "fill-opacity": Math.min(1, Math.abs(v)).toFixed(3) }),
      s("text", { x: cell / 2 - 1, y: cell / 2 + 3, "text-anchor": "middle", class: v > 0.6 ? "on-heat" : "in-heat" }, number(v).replace(/^(−?)0/, "$1")),
      s("title", {}, `${row} / ${column}: ${number(v, 3)}`));
    group.addEventListener("click", () => onpick(i, j));
    return group;
  }));
  const chart = svg(width, height, label,
    rows.map((word, i) => s("text", { x: left - 8, y: top + i * cell + 20, "text-anchor": "end", class: i === marked[0] ? "word chosen" : "word" }, word)),
    columns.map((word, j) => s("text", { transform: `translate(${left + j * cell + 14} ${top - 8}) rotate(-45)`, class: j === marked[1] ? "word chosen" : "word" }, word)),
    cells,
    s("rect", { x: left + marked[1] * cell - 1, y: top + marked[0] * cell - 1, width: cell, height: cell, rx: 4, class: "frame" }));
  chart.style.minWidth = `${Math.round(0.9 * width)}px`;
  return chart;
}

/** Points in a square. `points`: [{x, y, kind, title}] within -1 to 1; one can be reached by keys at a time. */
export function scatter(label, points, { size = 480, radius = 6, onpoint = null } = {}) {
  const place = (v) => size / 2 + Math.max(-1, Math.min(1, v)) * (size / 2 - 16);  // a point beyond the frame stays at it
  const dots = points.map((point, k) => s("circle", {
    cx: place(point.x).toFixed(2), cy: place(-point.y).toFixed(2), r: radius, class: `dot ${point.kind}`, "data-k": k,
    tabindex: onpoint ? (k ? -1 : 0) : null, role: onpoint ? "img" : null, "aria-label": onpoint ? point.title : null,
  }));
  const edge = s("text", { x: size - 10, y: size / 2 - 6, "text-anchor": "end", class: "value" });  // the value at the frame
  const chart = svg(size, size, label, s("rect", { x: 1, y: 1, width: size - 2, height: size - 2, rx: 8, class: "field" }),
    s("path", { d: `M${size / 2} 12V${size - 12}M12 ${size / 2}H${size - 12}`, class: "axis" }), edge, dots);
  if (onpoint) {
    chart.setAttribute("role", "group");
    dots.forEach((dot, k) => {
      dot.addEventListener("pointerenter", () => onpoint(k));
      dot.addEventListener("focus", () => onpoint(k));
      dot.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (!step) return;
        event.preventDefault();
        const next = dots[(k + step + dots.length) % dots.length];
        dot.setAttribute("tabindex", -1);
        next.setAttribute("tabindex", 0);
        next.focus();
      });
    });
  }
  chart.setEdge = (text) => { edge.textContent = text; };
  /** Move the points without drawing anew, so that they keep their focus. */
  chart.move = (moved) => moved.forEach((point, k) => {
    dots[k].setAttribute("cx", place(point.x).toFixed(2));
    dots[k].setAttribute("cy", place(-point.y).toFixed(2));
    dots[k].setAttribute("class", `dot ${point.kind}`);
  });
  return chart;
}

/** Vectors as strips of colors, one per row: [{label, values}]. Blue is negative, orange positive. */
export function strips(label, rows, width = wide()) {
  const left = 70, height = 34;
  const most = rows.map(({ values }) => Math.max(...values.map(Math.abs)) || 1);
  return svg(width, rows.length * (height + 8), label, rows.map(({ label: name, values }, r) => {
    const step = (width - left) / values.length;
    return s("g", { transform: `translate(0 ${r * (height + 8)})` }, s("text", { x: 0, y: 22, class: "bar-label" }, name),
      Array.from(values, (v, k) => s("rect", {
        x: (left + k * step).toFixed(2), width: (step + 0.3).toFixed(2), height, class: v < 0 ? "below" : "above", "fill-opacity": Math.min(1, Math.sqrt(Math.abs(v) / most[r])).toFixed(2),
      })));
  }));
}

/** Two scores per row joined by a line: [{label, from, to, kind, text}]. */
export function dumbbells(label, rows, { low, high, width = 640, labelWidth = 130 }) {
  const { height, left, labelAt, down } = rowLayout(rows, labelWidth), room = width - left - 70, middle = 15 + down;
  const at = (v) => left + (Math.min(high, Math.max(low, v)) - low) / (high - low) * room;
  const step = (high - low > 30 ? 10 : 5) * (width < 500 ? 2 : 1), ticks = Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, k) => low + k * step);
  const bottom = rows.length * height;
  return svg(width, bottom + 26, label,
    ticks.map((tick) => [s("path", { d: `M${at(tick)} 0V${bottom}`, class: "axis" }), s("text", { x: at(tick), y: bottom + 18, "text-anchor": "middle", class: "value" }, String(Math.round(tick)))]),
    rows.map((row, k) => s("g", { transform: `translate(0 ${k * height})`, class: row.kind },
      s("text", { ...labelAt, class: "bar-label" }, row.label),
      row.from === null ? null : s("path", { d: `M${at(row.from)} ${middle}H${at(row.to)}`, class: "link" }),
      row.from === null ? null : s("circle", { cx: at(row.from), cy: middle, r: 5, class: "hollow" }),
      s("circle", { cx: at(row.to), cy: middle, r: 6, class: "mark" }),
      s("text", { x: left + room + 14, y: 20 + down, class: "value" }, row.text))));
}

/** Parts of a whole, one bar per row: [{label, values}]; colors are those of the layers. */
export function stackedBars(label, rows, { width = wide(), labelWidth = 130 } = {}) {
  const { height, left, labelAt, down } = rowLayout(rows, labelWidth), room = width - left - 120;
  return svg(width, rows.length * height, label, rows.map(({ label: name, values }, k) => {
    const sum = values.reduce((a, b) => a + b);  // of rounded values not quite 1
    let x = left;
    return s("g", { transform: `translate(0 ${k * height})` }, s("text", { ...labelAt, class: "bar-label" }, name),
      values.map((value, layer) => {
        const part = s("g", { class: `bar layer${Math.min(layer, 2)}` }, s("rect", { x: x.toFixed(2), y: 5 + down, width: Math.max(0, value / sum * room - 1).toFixed(2), height: 20, class: "mark" }, s("title", {}, `layer ${layer}: ${number(value)}`)));
        x += value / sum * room;
        return part;
      }),
      s("text", { x: left + room + 8, y: 19 + down, class: "value" }, values.map((value) => number(value)).join("  ")));
  }));
}

/** The lowest free row of every span, the shortest spans next to the text, so that nested and overlapping ones all show. */
export function spanRows(spans) {
  const rows = spans.map(() => 0);
  const order = spans.map((_, k) => k).sort((a, b) => (spans[a].end - spans[a].start) - (spans[b].end - spans[b].start) || spans[a].start - spans[b].start);
  order.forEach((k, n) => {
    const taken = new Set(order.slice(0, n).filter((j) => spans[j].start < spans[k].end && spans[k].start < spans[j].end).map((j) => rows[j]));
    while (taken.has(rows[k])) rows[k]++;
  });
  return rows;
}

/** Text with labeled spans, [{start, end, label}] in tokens: bars below the words, in the manner of displaCy. */
export function spanChart(tokens, spans, width = wide()) {
  const kinds = [...new Set(spans.map(({ label }) => label))].sort(), rows = spanRows(spans);
  const lineHeight = 30 + 21 * Math.max(0, ...rows.map((row) => row + 1));
  const widths = tokens.map((token) => textWidth(token, 16));
  spans.forEach(({ start, end, label }) => {  // a span is at least as wide as its label
    const missing = textWidth(label, 11) + 6 - widths.slice(start, end).reduce((sum, w) => sum + w + 6, -6);
    if (missing > 0) widths[end - 1] += missing;
  });
  let x = 0, line = 0;
  const places = tokens.map((_, t) => {
    if (x && x + widths[t] > width) { x = 0; line++; }
    const place = { x, line };
    x += widths[t] + 6;
    return place;
  });
  const top = (t) => 20 + places[t].line * lineHeight;
  const bars = spans.flatMap(({ start, end, label }, k) => {
    const parts = [];  // one per line
    for (let t = start; t < end; t++) {
      const last = parts.at(-1);
      if (last && places[last.to].line === places[t].line) last.to = t;
      else parts.push({ from: t, to: t });
    }
    return parts.map(({ from, to }) => s("g", { class: `mark-${kinds.indexOf(label) % 4}` },
      s("rect", { x: places[from].x, y: top(from) + 7 + 21 * rows[k], width: places[to].x + widths[to] - places[from].x, height: 4, rx: 2 }),
      s("text", { x: places[from].x, y: top(from) + 22 + 21 * rows[k], class: "span-label" }, label)));
  });
  const said = spans.map(({ start, end, label }) => `${tokens.slice(start, end).join(" ")}: ${label}`).join("; ");
  return svg(width, 4 + (line + 1) * lineHeight, said || "Nothing was marked.", tokens.map((token, t) => s("text", { x: places[t].x, y: top(t), class: "token" }, token)), bars);
}
