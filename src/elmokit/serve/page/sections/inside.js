/** Inside a sentence: vectors as strips, and the character n-grams that won the max-pooling of the token encoder. */
import { barChart, strips, wide } from "../draw/charts.js";
import { chips, h, latest, message, number, s } from "../draw/dom.js";
import { figure } from "../draw/figure.js";
import { cosine } from "../elmo/elmo.js";
import { declare } from "../state.js";

const STRONG = 1;  // standard deviations above a filter's mean; weaker winners are not shown
const SHOWN = 12;
const EXAMPLES = {  // sentence, number of the chosen word, word to compare its spelling with
  en: ["The pianist played beautifuly and the audience was beautifully silent.", "8", "beautiful"],
  ko: ["밤새 하얀 눈이 많이 내렸다 .", "4", "내린다"],
  zh: ["花园 里 开 了 一 朵 红色 的 花 。", "0", "花"],
};

/** n-grams with the filters that they won: [{text, chars, filters, strength}], the strongest first. */
export function winners({ symbols, widths, starts, strengths }) {
  const found = new Map();
  for (let f = 0; f < widths.length; f++) {
    if (strengths[f] < STRONG) continue;
    const part = symbols.slice(starts[f], starts[f] + widths[f]);
    const text = part.map((symbol) => symbol.text).join("");
    if (!text) continue;
    const entry = found.get(text) ?? { text, chars: [...new Set(part.map(({ char }) => char))], filters: [], strength: 0 };
    entry.filters.push(f);
    entry.strength += strengths[f];
    found.set(text, entry);
  }
  return [...found.values()].sort((a, b) => b.strength - a.strength);
}

export async function mount(content, backend) {
  const info = await backend.info();
  const [text, at, word] = EXAMPLES[info.model.language] ?? EXAMPLES.en;
  const state = declare("inside", { text, at, other: word });
  const input = h("input", { type: "text", id: "inside-text", value: state.get("text"), maxlength: 600, spellcheck: "false", oninput: () => { state.set({ text: input.value }); refresh(); } });
  const other = h("input", { type: "text", id: "inside-other", value: state.get("other"), maxlength: 60, spellcheck: "false", oninput: () => { state.set({ other: other.value }); refresh(); } });
  const words = h("div"), strip = h("div"), spelling = h("div", { class: "columns" });
  content.append(h("div", { class: "sentence" }, h("label", { for: "inside-text" }, "Sentence"), input, words), strip,
    h("div", { class: "sentence" }, h("label", { for: "inside-other" }, "Compare its spelling with"), other), spelling);

  let last = { key: null, answer: null };

  async function work() {
    const texts = [input.value, [other.value.trim() || "word"]], key = JSON.stringify(texts);
    if (last.key !== key) last = { key, answer: await backend.embedAll({ texts, select: null }) };  // a click needs no new vectors
    const [sentence, second] = last.answer;
    if (!sentence.tokens.length) throw new Error("Write a sentence.");
    const at = Math.min(Number(state.get("at")), sentence.tokens.length - 1);
    const explained = info.model.has_characters ? await Promise.all([sentence.tokens[at], second.tokens[0]].map((word) => backend.explain({ word }))) : null;
    return { sentence, second, at, explained };
  }

  function show({ sentence, second, at, explained }) {
    content.classList.remove("busy");
    const { tokens, shape: [nLayers, n, dim], vectors } = sentence;
    words.replaceChildren(chips("Words of the sentence", tokens, at, (k) => {
      state.set({ at: k });
      show({ sentence, second, at: k, explained: null });
      words.querySelectorAll("button")[k].focus();
      refresh(run.now);
    }));
    const rows = Array.from({ length: nLayers }, (_, k) => ({ label: `layer ${k}`, values: vectors.subarray((k * n + at) * dim, (k * n + at + 1) * dim) }));
    strip.replaceChildren(figure({
      name: `elmo-vector-${tokens[at]}`, title: `The vectors of “${tokens[at]}”`, picture: strips(`Vectors of ${tokens[at]}, ${nLayers} layers of ${dim} numbers`, rows),
      note: `${dim} numbers per layer, orange above zero and blue below. In the upper layers the left half is the forward LSTM, which has read the sentence up to this word; the right half is the backward LSTM.`,
      data: { tokens, position: at, layers: rows.map(({ values }) => Array.from(values)) }, rows: [["layer", ...Array.from({ length: dim }, (_, d) => d)], ...rows.map(({ values }, k) => [k, ...values])],
    }));
    if (explained) showSpelling(explained, cosine(rows[0].values, second.vectors.subarray(0, dim)));
    else if (!info.model.has_characters) spelling.replaceChildren(h("p", { class: "note" }, "This model reads whole words and has no character filters."));
  }

  function showSpelling([first, second], similarity) {
    const own = winners(first), others = new Map(winners(second).map((entry) => [entry.text, entry]));
    const top = own.slice(0, SHOWN);
    const shared = own.map((entry) => ({ ...entry, both: entry.filters.filter((f) => others.get(entry.text)?.filters.includes(f)).length })).filter(({ both }) => both).sort((a, b) => b.both - a.both);
    const most = Math.max(1, ...top.map(({ strength }) => strength));
    const list = (entries) => entries.map(({ text, filters, strength }) => [text, filters.length, strength]);
    const common = shared.slice(0, SHOWN), mostShared = Math.max(1, ...common.map(({ both }) => both));
    spelling.replaceChildren(
      figure({
        name: `elmo-spelling-${first.word}`, title: `What stands out in “${first.word}”`, picture: h("div", {}, letters(first, own),
          barChart(`Character n-grams of ${first.word}`, top.map(({ text, filters, strength }) => ({ label: text, value: strength, text: `${filters.length} filters` })), { top: most, width: wide(420), labelWidth: 110 })),
        note: "Character n-grams that won the max-pooling of filters with unusually strong activations (more than one standard deviation above the mean over frequent words). ^ and $ mark the start and end of the word.",
        data: { word: first.word, ngrams: own.map(({ text, filters, strength }) => ({ text, filters, strength })) }, rows: [["ngram", "filters", "strength"], ...list(own)],
      }),
      figure({
        name: `elmo-shared-${first.word}-${second.word}`, title: `Shared with “${second.word}”`, picture: h("div", {},
          barChart(`Cosine at layer 0: ${number(similarity)}`, [{ label: "cosine", value: similarity, kind: "layer1" }], { width: wide(420), labelWidth: 110 }),
          common.length ? barChart(`Shared n-grams of ${first.word} and ${second.word}`, common.map(({ text, both }) => ({ label: text, value: both, text: `${both} filters`, kind: "mix" })), { top: mostShared, width: wide(420), labelWidth: 110 }) : h("p", { class: "note" }, "No strong n-gram in common.")),
        note: common.length ? "The same n-gram won the same filters in both words: that is what makes their context-free vectors similar." : "Nothing in the spelling makes their context-free vectors similar.",
        data: { words: [first.word, second.word], cosine: similarity, shared: shared.map(({ text, both }) => ({ text, filters: both })) }, rows: [["ngram", "filters in common"], ...shared.map(({ text, both }) => [text, both])],
      }),
    );
  }

  /** The letters of the word, darker where stronger n-grams lie. */
  function letters({ word, symbols }, entries) {
    const texts = symbols.filter(({ text }) => text), heat = new Map();
    for (const { chars, strength } of entries) for (const char of chars) heat.set(char, (heat.get(char) ?? 0) + strength / chars.length);
    const most = Math.max(1, ...heat.values()), cell = Math.min(38, 420 / texts.length);
    return s("svg", { viewBox: "0 0 420 56", role: "img", "aria-label": `Letters of ${word}, shaded by what they contribute` }, texts.map(({ text, char }, k) => s("g", { transform: `translate(${k * cell} 0)` },
      s("rect", { width: cell - 2, height: 40, rx: 4, class: "heat", "fill-opacity": (0.08 + 0.6 * (heat.get(char) ?? 0) / most).toFixed(2) }),
      s("text", { x: cell / 2 - 1, y: 26, "text-anchor": "middle" }, text))));
  }

  const run = latest(work, show, (error) => { content.classList.remove("busy"); strip.replaceChildren(message(error)); });
  function refresh(ask = run) {
    content.classList.add("busy");
    ask();
  }
  refresh(run.now);
}
