/** What comes next? The likeliest words from the left, from the right, and in a gap from both sides. */
import { barChart } from "../draw/charts.js";
import { h, latest, message } from "../draw/dom.js";
import { figure } from "../draw/figure.js";
import { declare } from "../state.js";

const GAP = "___";
const EXAMPLES = {
  en: ["The children sat on the bank of the ___ and watched the boats.", "She opened the ___ and read it twice.", "Let's stick to the", "He was born in the city of"],
  ko: ["밤새 하얀 ___ 내렸다 .", "그는 서울에서"],
  zh: ["她 在 银行 ___ 工作 。", "中国 的 首都 是"],
};
const MARKS = { "</S>": "end of sentence", "<S>": "start of sentence", "<eos>": "end of sentence", "<bos>": "start of sentence" };

export async function mount(content, backend) {
  const info = await backend.info();
  if (!info.model.has_softmax) {
    content.append(h("p", { class: "note" }, "This model has no softmax weights, so it cannot predict words. The model packaged with elmokit can."));
    return;
  }
  const examples = EXAMPLES[info.model.language] ?? EXAMPLES.en;
  const state = declare("next", { text: examples[0] });
  const results = h("div", { class: "columns", "aria-live": "polite" });
  const input = h("input", {
    type: "text", id: "next-text", value: state.get("text"), maxlength: 1000, spellcheck: "false", oninput: () => { state.set({ text: input.value }); refresh(); },
  });
  const use = (text) => { input.value = text; state.set({ text }); refresh(run.now); };
  content.append(
    h("div", { class: "choice", role: "group", "aria-label": "Examples" }, h("span", { class: "choice-label" }, "Examples"),
      examples.map((text) => h("button", { type: "button", onclick: () => use(text) }, text))),
    h("div", { class: "sentence" }, h("label", { for: "next-text" }, "Text"), input), results);

  async function work(text) {
    const gaps = text.split(GAP).length - 1;
    if (gaps > 1) throw new Error("Expected one gap (___), found several.");
    const ask = (part, direction) => backend.predictNext({ text: part, direction, gap: GAP, top: 10 });
    const [left, right = text] = text.split(GAP);
    const questions = gaps ? [
      ["Left side only", "Forward language model", ask(left, "forward")], ["Right side only", "Backward language model", ask(right, "backward")],
      ["Both sides", "Product of both probabilities", ask(text, "gap")],
    ] : [["After the text", "Forward language model", ask(text, "forward")], ["Before the text", "Backward language model", ask(text, "backward")]];
    const answers = await Promise.all(questions.map(([, , answer]) => answer));
    return { text, parts: questions.map(([title, how], k) => [title, how, answers[k]]) };
  }

  function show({ text, parts }) {
    content.classList.remove("busy");
    results.replaceChildren(...parts.map(([title, how, words], k) => {
      const top = Math.max(words[0]?.probability ?? 1, 0.05);
      const bars = words.map(({ word, probability }) => ({ label: MARKS[word] ?? word, word, value: probability, text: `${(100 * probability).toFixed(1)}%`, kind: k === 2 ? "mix" : k ? "other" : "" }));
      const pick = ({ word }) => { if (!(word in MARKS)) use(text.includes(GAP) ? text.replace(GAP, word) : k ? `${word} ${text}` : `${text.trimEnd()} ${word}`); };
      return figure({
        name: `elmo-next-${title.toLowerCase().replaceAll(" ", "-")}`, title, note: `${how}. Click a word to insert it.`,
        picture: barChart(`${title}: ${bars.slice(0, 3).map(({ label, text: p }) => `${label} ${p}`).join(", ")}`, bars, { top, width: 350, labelWidth: 140, onpick: pick }),
        data: { text, direction: title, words }, rows: [["word", "probability"], ...words.map(({ word, probability }) => [word, probability])],
      });
    }));
  }

  const run = latest(work, show, (error) => { content.classList.remove("busy"); results.replaceChildren(message(error)); });
  function refresh(ask = run) {
    content.classList.add("busy");
    ask(input.value);
  }
  refresh(run.now);
}
