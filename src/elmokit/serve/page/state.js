/** What the page shows, kept in the address: `#map?map.word=play&map.s=0,0,1`, so that a link brings it back. */

const defaults = {};
const values = {};

function parse() {
  const [section, query = ""] = location.hash.slice(1).split("?");
  return { section: decodeURIComponent(section), given: new URLSearchParams(query) };
}

/** Declare the names of a section with their first values; what the address says is put in. All values are strings. */
export function declare(section, first) {
  const { given } = parse();
  for (const [name, value] of Object.entries(first)) {
    const key = `${section}.${name}`;
    defaults[key] = value;
    values[key] = given.get(key) ?? value;
  }
  const write = (changes) => {
    for (const [name, value] of Object.entries(changes)) values[`${section}.${name}`] = String(value);
    save(section);
  };
  return { get: (name) => values[`${section}.${name}`], set: write };
}

let current = parse().section;

function save(section = current) {
  current = section;
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) if (value !== defaults[key]) query.set(key, value);
  const text = query.toString();
  history.replaceState(null, "", `#${current}${text ? `?${text}` : ""}`);
}

export const setSection = (section) => { if (section !== current) save(section); };
export const firstSection = () => parse().section;

addEventListener("hashchange", () => location.reload());  // somebody followed another link into this page
