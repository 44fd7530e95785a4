/** The paper, reproduced: its figures and ours, from data/paper.json. */
import { barChart, captioned, dumbbells, stackedBars, wide } from "../draw/charts.js";
import { choice, h, number } from "../draw/dom.js";
import { figure, legend } from "../draw/figure.js";
import { declare } from "../state.js";

const caption = (title) => title.replace(/^(?:Table \d: )?(.)/, (_, first) => first.toUpperCase());
const mean = (score) => (score ? score[0] : null);
const written = (score) => (score ? `${score[0]}${score[1] ? ` ± ${score[1]}` : ""}` : "");
const gain = (a, b) => (a && b ? `${b[0] >= a[0] ? "+" : "−"}${Math.abs(b[0] - a[0]).toFixed(2)}` : "");
const table = (header, rows) => h("details", {}, h("summary", {}, "Table"), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Figures" }, h("table", {},
  h("thead", {}, h("tr", {}, header.map((cell) => h("th", { scope: "col" }, cell)))),
  h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell ?? ""))))))));
const sources = () => legend([["theirs", "paper"], ["ours", "elmokit"]]);
const TASKS = { squad: "SQuAD", snli: "SNLI", srl: "SRL", coref: "Coref", ner: "NER", sst: "SST-5" };
const NEAREST = "The paper: GloVe mixes all senses of a word. The biLM’s nearest neighbors of a play in baseball are about sports, those of a play in a theater about the theater. Below, the nearest occurrences for our model: [brackets] mark the word that is compared.";
const slug = (title) => title.slice(0, 7).toLowerCase().replace(" ", "-");

export async function mount(content) {
  const data = await (await fetch("data/paper.json")).json();
  const views = {
    tasks: ["Six tasks", () => sixTasks(data.tasks)],
    ...Object.fromEntries(data.studies.map((study, k) => [`study${k}`, [caption(study.title), () => [].concat(oneStudy(study))]])),
    ...(data.neighbors.length ? { neighbors: ["Nearest neighbors", () => [h("p", { class: "note" }, NEAREST), h("div", {}, data.neighbors.map(nearest))]] } : {}),
    ...Object.fromEntries(data.scores.map((scores, k) => [`scores${k}`, [named(scores), () => sideBySide(scores)]])),
    ...Object.fromEntries(data.less_data.map((less, k) => [`less${k}`, [`Less data: ${less.title.split(":")[0]}`, () => lessData(less)]])),
    ...(data.layer_weights.length ? { weights: ["Layer weights", () => layerWeights(data.layer_weights)] } : {}),
    ...(data.perplexity.length ? { perplexity: ["Perplexity", () => perplexity(data.perplexity)] } : {}),
  };
  const state = declare("paper", { view: "tasks" });
  const place = h("div");
  const show = (view) => place.replaceChildren(...[views[view] ?? views.tasks].flatMap(([, draw]) => draw()));
  content.append(choice("Show", Object.entries(views).map(([key, [label]]) => [key, label]), state.get("view"), (view) => { state.set({ view }); show(view); }), place,
    h("p", { class: "note" }, "Models, training text and in part the data differ: compare the gains, not the absolute scores. The report in the documentation lists every command."));
  show(state.get("view"));
}

function sixTasks(tasks) {
  const rows = tasks.flatMap(({ task, metric, paper, ours }) => [[`${task}, paper`, paper, "theirs"], [`${task}, ours`, ours, "ours"]].filter(([, { elmo }]) => elmo).map(([label, { baseline, elmo }, kind]) => (
    { label, kind, from: mean(baseline), to: mean(elmo), text: gain(baseline, elmo), metric }
  )));
  const header = ["task", "metric", "paper: no ELMo", "paper: ELMo", "gain", "ours: no ELMo", "ours: ELMo", "gain"];
  const cells = tasks.map(({ task, metric, paper, ours }) => [task, metric, written(paper.baseline), written(paper.elmo), gain(paper.baseline, paper.elmo), written(ours.baseline), written(ours.elmo), gain(ours.baseline, ours.elmo)]);
  return [figure({
    name: "elmo-six-tasks", title: "Table 1: what ELMo brings to six tasks", data: tasks, rows: [header, ...cells],
    picture: dumbbells(`Scores without and with ELMo of ${tasks.map(({ task }) => task).join(", ")}`, rows, { low: 40, high: 100, width: wide(), labelWidth: 120 }),
    legend: legend([["theirs", "paper"], ["ours", "elmokit"], [null, "open circle: without ELMo; full circle: with ELMo; right: the gain"]]),
    note: "Test scores in percent.",
  }), table(header, cells)];
}

function oneStudy({ title, columns, rows }) {
  const lines = rows.flatMap(({ task, source, values }) => values.map((value, k) => ({ task, source, value, column: columns[k] })).filter(({ value }) => value));
  const tasks = [...new Set(rows.map(({ task }) => task))];
  const cells = rows.map(({ task, source, values }) => [task, source, ...values.map(written)]);
  return [...tasks.map((task) => {
    const own = lines.filter((line) => line.task === task), known = own.map(({ value }) => value[0]);
    const [low, high] = [Math.floor(Math.min(...known) / 5) * 5 - 5, Math.ceil(Math.max(...known) / 5) * 5];
    return figure({
      legend: sources(), name: `elmo-${slug(title)}-${task.toLowerCase()}`, title: `${title}: ${task}`, data: own, rows: [["task", "source", "setting", "score"], ...own.map(({ source, column, value }) => [task, source, column, value[0]])],
      picture: dumbbells(`${title}, ${task}`, own.map(({ source, column, value }) => ({ label: `${column} (${source})`, from: null, to: value[0], text: String(value[0]), kind: source.startsWith("paper") ? "theirs" : "ours" })), { low, high, width: wide(), labelWidth: Math.min(270, wide() / 2) }),
    });
  }), table(["task", "source", ...columns], cells)];
}

/** Of Table 6 there are several: which tags we measured tells them apart. */
const named = ({ title, measured }) => (title.startsWith("Table 6") ? caption(measured.split(",")[0]) : caption(title));

function sideBySide(scores) {
  const { title, measured, rows } = scores, tags = title.startsWith("Table 6");
  const bars = rows.flatMap(({ label, paper, ours }) => [["paper", paper, "theirs"], ["ours", ours, "ours"]].filter(([, score]) => score).map(([who, score, kind]) => ({ label: `${label}, ${who}`, value: score[0], text: number(score[0], 1), kind })));
  return [figure({
    name: `elmo-${slug(title)}`, title: tags ? `${title}; ours: ${measured}` : title, data: scores, rows: [["", "paper", `ours: ${measured}`], ...rows.map(({ label, paper, ours }) => [label, mean(paper), mean(ours)])],
    picture: barChart(title, bars, { top: 100, width: wide(), labelWidth: Math.min(260, wide() / 2) }), legend: sources(),
    note: tags ? `The paper: Penn Treebank tags of the Wall Street Journal. Ours: ${measured}. Other tags and texts: compare the layers, not the scores.` : null,
  })];
}

/** A sentence with a [word], cut on both sides between words to some characters. */
function around(sentence, most) {
  if (sentence.length <= most) return sentence;
  const middle = sentence.indexOf("[") + 4, from = Math.max(0, Math.min(middle - most / 2, sentence.length - most)), to = from + most;
  const part = sentence.slice(from, to);
  return `${from > 0 ? part.replace(/^\S*/, "…") : part}`.replace(/\s\S*$/, (end) => (to < sentence.length ? " …" : end));
}

function nearest({ sentence, tokens, layers, static: words }) {
  const groups = Object.entries(layers), width = wide(440);
  const charts = groups.map(([layer, found]) => captioned(caption(layer), barChart(`Nearest in ${layer}: ${found.map(({ occurrence, cosine }) => `${occurrence} ${number(cosine)}`).join("; ")}`,
    found.map(({ occurrence, cosine }) => ({ label: around(occurrence, Math.floor(width / 7)), value: cosine, kind: `layer${Math.min(2, Number(layer.match(/\d+/)?.[0] ?? 2))}` })), { width, labelWidth: width / 2 })));
  return figure({
    name: `elmo-table-4-${sentence.match(/\[(.*?)\]/)?.[1] ?? "word"}`, title: `Table 4: nearest to ${sentence}`, picture: h("div", { class: "columns" }, charts.map((chart) => h("div", {}, chart))), data: { sentence, layers, static: words },
    rows: [["layer", "occurrence", "cosine"], ...groups.flatMap(([layer, found]) => found.map(({ occurrence, cosine }) => [layer, occurrence, cosine]))],
    note: `Cosine similarity, among the ${tokens} tokens of a small corpus. ${words.length ? `Static vectors (GloVe), in any sentence: ${words.join(", ")}.` : ""}`,
  });
}

function layerWeights(rows) {
  const lines = rows.map(({ task, place, weights }) => ({ label: `${TASKS[task] ?? task}, ${place}`, values: weights })), layers = rows[0].weights.map((_, k) => `layer ${k}`);
  return [figure({
    name: "elmo-layer-weights", title: "Figure 2: learned layer weights (ours)", data: rows, rows: [["task", "place", ...layers], ...rows.map(({ task, place, weights }) => [task, place, ...weights])],
    picture: stackedBars(`Learned layer weights: ${lines.map(({ label, values }) => `${label} ${values.join(" ")}`).join("; ")}`, lines, { labelWidth: Math.min(130, wide() / 3) }),
    legend: legend(layers.map((label, k) => [`layer${Math.min(k, 2)}`, label])),
    note: "Weights after the softmax, where ELMo enters at the input or the output of the task’s network. The paper prints its figure without numbers: at the input all tasks favor the first LSTM layer (layer 1), coreference and SQuAD most; at the output the weights are more balanced.",
  })];
}

function perplexity(rows) {
  const bars = rows.map(({ text, mean: [value], words }) => {
    const paper = text.startsWith("the paper");
    return { label: `${paper ? text.replace(/^the /, "") : `ours, ${text.replace(/^heldout-test\..*/, "held-out test text")}`}`, words, value, text: number(value, 1), kind: paper ? "theirs" : "ours" };
  });
  return [figure({
    name: "elmo-perplexity", title: "Perplexity of the language models, mean of both directions", data: rows, rows: [["text", "perplexity", "vocabulary"], ...rows.map(({ text, mean: [value], words }) => [text, value, words])],
    picture: barChart(bars.map(({ label, text }) => `${label}: ${text}`).join("; "), bars, { top: 1.1 * Math.max(...bars.map(({ value }) => value)), width: wide(), labelWidth: Math.min(330, wide() / 2) }), legend: sources(),
    note: `Lower is better, on the same text. Vocabularies: ${bars.map(({ label, words }) => `${label.split(",")[0]} ${words} words`).join(", ")}. Perplexities of different texts and vocabularies cannot be compared: a smaller vocabulary has more words that are all predicted as one unknown word.`,
  })];
}

function lessData({ title, rows }) {
  const bars = rows.flatMap(({ part, examples, baseline, elmo }) => [[baseline, "no ELMo", "theirs"], [elmo, "ELMo", "ours"]].filter(([score]) => score).map(([score, who, kind]) => ({ label: `${part} (${examples.toLocaleString("en")}), ${who}`, value: score[0], text: number(score[0], 1), kind })));
  return [figure({
    name: "elmo-less-data", title: "Figure 1: with less training data", data: rows, rows: [["part", "examples", "no ELMo", "ELMo"], ...rows.map(({ part, examples, baseline, elmo }) => [part, examples, mean(baseline), mean(elmo)])],
    picture: barChart(title, bars, { top: 100, width: wide(), labelWidth: Math.min(230, wide() / 2) }), legend: legend([["theirs", "no ELMo"], ["ours", "ELMo"]]),
    note: `${title}. Ours alone: the paper prints its figure without numbers.`,
  })];
}
