/** The page: opens a back end, names it, and fills each section when it comes into view. */
import { openBackend } from "./backend.js";
import { message } from "./draw/dom.js";
import * as compare from "./sections/compare.js";
import * as inside from "./sections/inside.js";
import * as map from "./sections/map.js";
import * as next from "./sections/next.js";
import * as paper from "./sections/paper.js";
import * as tasks from "./sections/tasks.js";
import { firstSection, setSection } from "./state.js";

const SECTIONS = { compare, map, next, inside, tasks, paper };
const status = document.getElementById("backend"), loading = document.getElementById("loading");
const links = [...document.querySelectorAll("nav a")];

function markCurrent(name) {
  links.forEach((link) => {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  });
}

let open = () => {};  // fills a section; does nothing before a back end answers
let anchored = null;  // the section that stays in view

// Sections fill when they come into view and then grow, which would push the chosen one away.
const anchor = new ResizeObserver(() => anchored?.scrollIntoView({ behavior: "instant" }));
anchor.observe(document.querySelector("main"));
for (const event of ["pointerdown", "wheel", "touchstart", "keydown"]) addEventListener(event, () => { anchored = null; }, { passive: true });

/** Go to a section and stay there while those above it grow, until the reader scrolls, clicks or types. */
function goTo(name) {
  anchored = document.getElementById(name);
  open(anchored);
  anchored.scrollIntoView({ behavior: "instant" });
  markCurrent(name);
}

links.concat(document.querySelector(".skip")).forEach((link) => link.addEventListener("click", (event) => {
  event.preventDefault();
  const name = link.hash.slice(1);
  setSection(name);
  goTo(name);
  document.getElementById(`${name}-title`).focus({ preventScroll: true });  // Tab continues inside the section
}));

document.getElementById("share").addEventListener("click", async ({ currentTarget: button }) => {
  try {
    await navigator.clipboard.writeText(location.href);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Copy it from the address bar";  // without https a page has no clipboard
  }
  setTimeout(() => { button.textContent = "Copy link"; }, 2500);
});

function describe({ backend, model, kernel, version }) {
  const size = model.parameters ? `, ${(model.parameters / 1e6).toFixed(1)} million parameters` : "";
  const who = backend === "server" ? `Computed by the server (elmokit ${version ?? ""})` : `Computed in your browser, ${kernel}`;
  return `${who} · model ${model.name}${size}`;
}

async function start() {
  const backend = await openBackend(({ bytes, total }) => { if (total) loading.value = Math.min(1, bytes / total); });
  const opened = new Set();
  open = (element) => {
    const name = element.id;
    if (opened.has(name)) return;
    opened.add(name);
    const content = element.querySelector(".content");
    SECTIONS[name].mount(content, backend).catch((error) => content.append(message(error)));
  };
  const seen = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (entry.isIntersecting) open(entry.target);
  }), { rootMargin: "300px" });
  const current = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (entry.isIntersecting) markCurrent(entry.target.id);
  }), { rootMargin: "-30% 0px -60% 0px" });
  document.querySelectorAll("main > section").forEach((element) => { seen.observe(element); current.observe(element); });
  if (anchored) open(anchored);
  else if (firstSection() in SECTIONS) goTo(firstSection());
  status.textContent = describe(await backend.info());
  loading.hidden = true;
}

start().catch((error) => {
  loading.hidden = true;
  status.textContent = `The model could not be loaded: ${error.message}`;
});
