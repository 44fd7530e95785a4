/** A picture with its caption and its exports: PNG, SVG, JSON and CSV. */
import { h, s } from "./dom.js";

const INLINED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline"];

const now = (value) => (typeof value === "function" ? value() : value);

/**
 * `name`: of the exported files. `data`: what JSON exports; `rows`: what CSV exports, the first row being the header;
 * each may be a function, for pictures that move.
 * `picture`: an svg element, or an element with one or more of them, each with its own heading in `data-caption`.
 * `legend`: what `legend` below returns; exported pictures have it, too. `scrolls`: whether a wide picture keeps its size.
 */
export function figure({ name, title, note = null, picture, legend: key = null, scrolls = false, data, rows }) {
  const svgs = () => (picture.matches("svg") ? [picture] : [...picture.querySelectorAll("svg")]);
  const save = {
    PNG: async () => download(`${name}.png`, await toPng(...joined(title, svgs(), key))),
    SVG: () => download(`${name}.svg`, new Blob([joined(title, svgs(), key)[0]], { type: "image/svg+xml" })),
    JSON: () => download(`${name}.json`, new Blob([JSON.stringify(now(data), null, 1)], { type: "application/json" })),
    CSV: () => download(`${name}.csv`, new Blob([toCsv(now(rows))], { type: "text/csv" })),
  };
  const menu = h("div", { class: "exports", role: "group", "aria-label": `Export ${title}` }, h("span", {}, "Export"),
    Object.entries(save).map(([kind, run]) => h("button", { type: "button", onclick: run }, kind)));
  return h("figure", {}, h("figcaption", {}, h("span", { class: "figure-title" }, title), menu), h("div", { class: "canvas", ...(scrolls ? { tabindex: 0, role: "region", "aria-label": title } : {}) }, picture),
    key, note ? h("p", { class: "note" }, note) : null);
}

/** A list of colors and their meanings: [[class of the color, or null, text]]. */
export const legend = (entries) => h("ul", { class: "legend" }, legendItems(entries));
export const legendItems = (entries) => entries.map(([kind, text]) => h("li", {}, kind ? h("span", { class: `swatch ${kind}` }) : null, text));

const toCsv = (rows) => rows.map((row) => row.map((cell) => {
  const text = String(cell ?? "");
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}).join(",")).join("\r\n") + "\r\n";

/** The title and all pictures with their captions, one below the other, then the legend, in the colors of the page: [SVG, width, height]. */
function joined(title, svgs, key) {
  const parts = svgs.map((svg) => {
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const copy = svg.cloneNode(true);
    const originals = [svg, ...svg.querySelectorAll("*")], copies = [copy, ...copy.querySelectorAll("*")];
    originals.forEach((element, k) => {
      const style = getComputedStyle(element);
      for (const property of INLINED) copies[k].setAttribute(property, style.getPropertyValue(property));
      for (const attribute of ["class", "style", "tabindex", "role"]) copies[k].removeAttribute(attribute);
    });
    return { copy, width, height };
  });
  const margin = 16, { backgroundColor, color, fontFamily } = getComputedStyle(document.body);
  const width = Math.max(...parts.map((part) => part.width)) + 2 * margin;
  const whole = s("svg", {});
  const write = (text, y, size, weight, x = margin) => whole.append(s("text", { x, y, "font-family": fontFamily, "font-size": size, "font-weight": weight, fill: color }, text));
  let top = margin;
  write(title, top + 16, 16, 600);
  top += 32;
  for (const { copy, width: own, height } of parts) {
    if (copy.dataset.caption) {
      write(copy.dataset.caption, top + 12, 13, 400);
      top += 22;
    }
    for (const [key, value] of Object.entries({ x: margin, y: top, width: own, height })) copy.setAttribute(key, value);
    whole.append(copy);
    top += height + margin;
  }
  for (const item of key?.children ?? []) {
    const swatch = item.querySelector(".swatch");
    if (swatch) whole.append(s("circle", { cx: margin + 5, cy: top + 8, r: 5, fill: getComputedStyle(swatch).backgroundColor }));
    write(item.textContent, top + 12, 13, 400, swatch ? margin + 18 : margin);
    top += 20;
  }
  if (key) top += margin / 2;
  for (const [key, value] of Object.entries({ viewBox: `0 0 ${width} ${top}`, width, height: top })) whole.setAttribute(key, value);
  whole.prepend(s("rect", { width, height: top, fill: backgroundColor }));
  return [new XMLSerializer().serializeToString(whole), width, top];
}

async function toPng(svg, width, height) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  context.drawImage(image, 0, 0, width, height);
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
}

function download(name, blob) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
