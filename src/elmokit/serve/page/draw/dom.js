/** Elements without a framework. */

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/**
 * Only the last of many quick calls, as typing makes them, is made; `now` is for clicks, which do not wait. An answer that
 * is overtaken by a newer question is dropped.
 */
export function latest(work, show, fail, wait = 120) {
  let timer = 0, calls = 0;
  const run = async (own, given) => {
    try {
      const result = await work(...given);
      if (own === calls) show(result);
    } catch (error) {
      if (own === calls) fail(error);
    }
  };
  const now = (...given) => { clearTimeout(timer); run(++calls, given); };
  const soon = (...given) => { clearTimeout(timer); timer = setTimeout(run, wait, ++calls, given); };
  return Object.assign(soon, { now });
}

export const number = (value, digits = 2) => value.toFixed(digits).replace("-", "−");

/** A group of buttons of which one is pressed. `options`: [[value, label]]. */
export function choice(label, options, value, onchange) {
  const buttons = options.map(([key, text]) => h("button", {
    type: "button", "aria-pressed": String(key === value), onclick: () => { select(key); onchange(key); },
  }, text));
  function select(key) {
    options.forEach(([other], k) => buttons[k].setAttribute("aria-pressed", String(other === key)));
  }
  const group = h("div", { class: "choice", role: "group", "aria-label": label }, h("span", { class: "choice-label" }, label), buttons);
  return Object.assign(group, { select });
}

/** Tokens as buttons. `pressed`: the number of the chosen one. */
export function chips(label, tokens, pressed, onpress) {
  return h("div", { class: "chips", role: "group", "aria-label": label }, tokens.map((token, k) => h("button", {
    type: "button", class: "chip", "aria-pressed": String(k === pressed), onclick: () => onpress(k),
  }, token)));
}

export const message = (error) => h("p", { class: "message", role: "status" }, error.message ?? String(error));
