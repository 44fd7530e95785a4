/** One word, two sentences: cosine per layer, and of all pairs of words. */
import { barChart, captioned, heatMap, wide } from "../draw/charts.js";
import { chips, choice, h, latest, message, number } from "../draw/dom.js";
import { figure } from "../draw/figure.js";
import { cosine } from "../elmo/elmo.js";
import { declare } from "../state.js";

const EXAMPLES = {
  en: {
    present: ["I will buy you a present for your birthday.", "I bought him a present at the market.", "Live in the present, not the past."],
    play: ["The actor was praised in the play.", "She wrote her first play at the age of nineteen.", "Two runners scored on the same play."],
    bank: ["The bank refused to give the company a loan.", "She borrowed money from the bank.", "They sat on the bank and watched the boats."],
  },
  ko: { 눈이: ["밤새 하얀 눈이 많이 내렸다 .", "겨울이 되자 산 위에 눈이 쌓였다 .", "그녀는 오래 울어서 눈이 빨갛다 ."] },
  zh: { 花: ["花园 里 开 了 一 朵 红色 的 花 。", "她 送 给 我 一 束 花 。", "他 把 钱 都 花 在 书 上 。"] },
};
const NAMES = ["First sentence", "Second sentence", "Third sentence (optional)"];
const ordinal = (k) => ["first", "second", "third"][k];

export async function mount(content, backend) {
  const info = await backend.info();
  const examples = EXAMPLES[info.model.language] ?? EXAMPLES.en;
  const first = Object.keys(examples)[0];
  const state = declare("compare", { a: examples[first][0], b: examples[first][1], c: examples[first][2], word: first, chosen: "", layer: String(info.model.n_layers - 1), other: "2" });
  let chosen = state.get("chosen") ? state.get("chosen").split(",").map(Number) : null;  // a token of each sentence
  let read = [];

  const inputs = ["a", "b", "c"].map((name, k) => h("input", {
    type: "text", id: `compare-${name}`, value: state.get(name), maxlength: 600, spellcheck: "false",
    oninput: ({ target }) => { chosen = null; state.set({ [name]: target.value, chosen: "" }); exampleChoice.select(active()); refresh(); },
  }));
  const active = () => Object.keys(examples).find((word) => examples[word].every((text, k) => inputs[k].value === text)) ?? null;
  const exampleChoice = choice("Examples", Object.keys(examples).map((word) => [word, word]), active(), (word) => useExample(word));
  const lines = NAMES.map(() => h("div"));
  const results = h("div", { class: "wide-left" });
  content.append(
    exampleChoice,
    ...NAMES.map((name, k) => h("div", { class: "sentence" }, h("label", { for: inputs[k].id }, name), inputs[k], lines[k])), results,
  );

  function useExample(word) {
    chosen = null;
    examples[word].forEach((text, k) => { inputs[k].value = text; });
    const [a, b, c] = examples[word];
    state.set({ a, b, c, word, chosen: "" });
    refresh(run.now);
  }

  async function work() {
    return backend.embedAll({ texts: inputs.map((input) => input.value), select: null });
  }

  /** A word that all sentences have, the example's first; else the last word of each. */
  function startWords() {
    const filled = read.filter(({ tokens }) => tokens.length);
    const shared = (word) => filled.every(({ tokens }) => tokens.includes(word));
    const wanted = [state.get("word"), ...(filled[0]?.tokens ?? []).filter((token) => token.length > 3)].find(shared);
    return read.map(({ tokens }) => Math.max(0, wanted === undefined ? tokens.length - 1 : tokens.indexOf(wanted)));
  }

  function show(answer) {
    content.classList.remove("busy");
    read = answer;
    if (!chosen || read.some(({ tokens }, k) => chosen[k] >= Math.max(1, tokens.length))) chosen = startWords();
    read.forEach(({ tokens }, k) => lines[k].replaceChildren(chips(`Words of the ${NAMES[k].toLowerCase()}`, tokens, chosen[k], (t) => pick(k, t))));
    draw();
  }

  function pick(k, t, focus = true) {
    chosen[k] = t;
    state.set({ chosen: chosen.join(",") });
    show(read);
    if (focus) lines[k].querySelectorAll("button")[t]?.focus();
  }

  const vector = (k, t, layer) => {
    const [, n, dim] = read[k].shape;
    return read[k].vectors.subarray((layer * n + t) * dim, (layer * n + t + 1) * dim);
  };

  function draw() {
    const others = [1, 2].filter((k) => read[k].tokens.length);
    if (!read[0].tokens.length || !others.length) {
      results.replaceChildren(message("Write two sentences."));
      return;
    }
    const nLayers = read[0].shape[0], word = (k) => read[k].tokens[chosen[k]];
    const similarity = (k, layer) => cosine(vector(0, chosen[0], layer), vector(k, chosen[k], layer));
    const groups = others.map((k) => Array.from({ length: nLayers }, (_, layer) => ({
      label: `layer ${layer}`, value: similarity(k, layer), kind: `layer${Math.min(layer, 2)}`,
    })));
    const bars = h("div", {}, others.map((k, g) => captioned(
      `${word(0)} (first sentence) and ${word(k)} (${ordinal(k)} sentence)`,
      barChart(`Cosine of ${word(0)} with ${word(k)}: ${groups[g].map(({ label, value }) => `${label} ${number(value)}`).join(", ")}`, groups[g], { labelWidth: 70, width: wide(460) }),
    )));
    const rows = [["layer", ...others.map((k) => `first and ${ordinal(k)}`)], ...groups[0].map(({ label }, layer) => [label, ...groups.map((group) => group[layer].value)])];
    const similarities = figure({
      name: "elmo-similarity", title: "Similarity, layer by layer", picture: bars, rows,
      note: "Cosine similarity of the two vectors. Layer 0 depends on the spelling alone, so it is 1 for the same word; the layers above depend on the sentence.",
      data: { sentences: read.map(({ tokens }) => tokens), chosen, cosine: Object.fromEntries(others.map((k, g) => [NAMES[k], groups[g].map(({ value }) => value)])) },
    });
    results.replaceChildren(similarities, heat(others));
  }

  function heat(others) {
    const nLayers = read[0].shape[0];
    const layer = Math.min(Number(state.get("layer")), nLayers - 1);
    const other = others.includes(Number(state.get("other"))) ? Number(state.get("other")) : others[0];
    const [rows, columns] = [read[0].tokens, read[other].tokens];
    const table = rows.map((_, i) => columns.map((_, j) => cosine(vector(0, i, layer), vector(other, j, layer))));
    const picture = heatMap(`Cosine of every word of the first sentence with every word of the ${ordinal(other)} one, layer ${layer}`,
      rows, columns, (i, j) => table[i][j], [chosen[0], chosen[other]], (i, j) => { chosen[0] = i; pick(other, j, false); });
    const drawn = figure({
      name: `elmo-pairs-layer-${layer}`, title: `All pairs of words, layer ${layer}`, picture, scrolls: true,
      data: { layer, rows, columns, cosine: table }, rows: [["", ...columns], ...rows.map((word, i) => [word, ...table[i]])],
    });
    return h("div", {},
      choice("Layer", Array.from({ length: nLayers }, (_, k) => [String(k), String(k)]), String(layer), (value) => { state.set({ layer: value }); draw(); }),
      others.length > 1 ? choice("First sentence with the", others.map((k) => [String(k), ordinal(k)]), String(other), (value) => { state.set({ other: value }); draw(); }) : null, drawn);
  }

  const run = latest(work, show, (error) => { content.classList.remove("busy"); results.replaceChildren(message(error)); });
  function refresh(ask = run) {
    content.classList.add("busy");
    ask();
  }
  refresh(run.now);
}
