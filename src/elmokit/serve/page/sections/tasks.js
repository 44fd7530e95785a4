/** Tasks of a server: entities, parts of speech, roles, coreference, sentiment, inference, answers, in the manner of displaCy. */
import { barChart, spanChart } from "../draw/charts.js";
import { choice, h, latest, message } from "../draw/dom.js";
import { figure } from "../draw/figure.js";
import { declare } from "../state.js";

export const EXAMPLES = {
  ner: "Ada Lovelace worked with Charles Babbage in London.",
  sst: "A slow start, but the last half hour is wonderful.",
  srl: "The committee gave the young painter a prize yesterday.",
  coref: "Anna met her brother at the station. He had forgotten his keys, so she gave him hers.",
  snli: "A man is playing a guitar on the street.\tSomebody makes music outside.",
  pos: "The old man saw a light in the present darkness.",
  upos: "The old man saw a light in the present darkness.",
  squad: JSON.stringify({ passage: "The bridge was built in 1894 by two engineers from Lyon. It carried trains until the war.", question: "When was the bridge built?" }),
};
const HINTS = { snli: "Premise, tab, hypothesis", squad: "JSON with passage and question" };

/** Tokens with labeled spans, as a figure. */
function marked(title, tokens, spans, answer) {
  return figure({
    name: "elmo-task", title, picture: spanChart(tokens, spans), data: answer, note: spans.length ? null : "Nothing found in this text.",
    rows: [["text", "start", "end", "label"], ...spans.map(({ start, end, label }) => [tokens.slice(start, end).join(" "), start, end, label])],
  });
}

const distribution = (answer, title) => {
  const bars = Object.entries(answer.probabilities).map(([label, value]) => ({ label, value, text: `${(100 * value).toFixed(1)}%` }));
  return figure({ name: "elmo-task", title, picture: barChart(title, bars, { labelWidth: 130 }), data: answer, rows: [["label", "probability"], ...bars.map(({ label, value }) => [label, value])] });
};

const tagged = (title) => (answer) => marked(title, answer.tokens, answer.tags.map((label, start) => ({ start, end: start + 1, label })), answer);

/** Any other answer: one row per field. */
function fields(task, answer) {
  const cell = (value) => (Array.isArray(value) && value.every((one) => typeof one !== "object") ? value.join(" ") : typeof value === "object" ? JSON.stringify(value) : String(value));
  const rows = Object.entries(answer).map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, cell(value))));
  return h("div", {}, h("p", { class: "note" }, `This page has no picture for the task ${task}; its answer:`),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Answer" }, h("table", { class: "fields" }, h("tbody", {}, rows))));
}

/** Pictures by task. Their names are those of `elmokit.tasks.shared.task_registry`. */
export const SHOW = {
  pos: tagged("Parts of speech: tags of the treebank"),
  upos: tagged("Parts of speech: universal tags"),
  ner: (answer) => marked("Named entities", answer.tokens, answer.entities, answer),
  srl: (answer) => (answer.propositions.length ? h("div", {}, answer.propositions.map(({ index, arguments: roles }) => marked(
    `Roles of “${answer.tokens[index]}”`, answer.tokens,
    [{ start: index, end: index + 1, label: "V" }, ...roles.map(({ start, end, role }) => ({ start, end, label: role }))], answer,
  ))) : h("p", { class: "note" }, "No predicate found.")),
  coref: (answer) => marked("Coreference: the same number is the same entity", answer.sentences.flat(),
    answer.clusters.flatMap((cluster, k) => cluster.map(({ start, end }) => ({ start, end, label: String(k + 1) }))), answer),
  sst: (answer) => distribution(answer, `Sentiment: ${answer.sentiment}`),
  snli: (answer) => distribution(answer, `Relation: ${answer.label}`),
  squad(answer) {
    const parts = answer.context.split("**").map((part) => part.split(/\s+/).filter(Boolean));
    const start = parts[0].length, spans = parts.length > 1 ? [{ start, end: start + parts[1].length, label: `answer, ${(100 * answer.score).toFixed(0)}%` }] : [];
    return marked(answer.question, parts.flat(), spans.filter(({ end }) => end > start), answer);
  },
};

export async function mount(content, backend) {
  const info = await backend.info();
  if (!info.tasks.length) {
    const why = info.backend === "server" ? "No task run is loaded on this server." : "This page runs in your browser; tasks need a server, because each has its own trained network on top of ELMo.";
    content.append(h("p", {}, `${why} Train one and serve it:`),
      h("pre", { tabindex: 0 }, h("code", {}, "elmo task ner train --train eng.train --dev eng.testa -o runs/ner\nelmo serve --task runs/ner")),
      h("p", { class: "note" }, "This section then shows entities (ner), parts of speech (pos, upos), semantic roles (srl), coreference (coref), sentiment (sst), inference (snli) and answers (squad)."));
    return;
  }
  const state = declare("tasks", { name: info.tasks[0].name, text: "" });
  const kind = () => (info.tasks.find(({ name }) => name === state.get("name")) ?? info.tasks[0]).task;
  const input = h("textarea", { id: "tasks-text", rows: 3, maxlength: 4000, oninput: () => { state.set({ text: input.value }); refresh(); } });
  const label = h("label", { for: "tasks-text" });
  const results = h("div", { "aria-live": "polite" });
  const start = () => { input.value = state.get("text") || (EXAMPLES[kind()] ?? EXAMPLES.ner); label.textContent = HINTS[kind()] ?? "Text"; };
  content.append(choice("Task", info.tasks.map(({ name }) => [name, name]), state.get("name"), (name) => { state.set({ name, text: "" }); start(); refresh(); }),
    h("div", { class: "sentence" }, label, input), results);
  const run = latest((name, text) => backend.task({ name, text }).then((answers) => ({ kind: kind(), answers })),
    ({ kind: task, answers }) => results.replaceChildren(...answers.map((answer) => (SHOW[task] ? SHOW[task](answer) : fields(task, answer)))), (error) => results.replaceChildren(message(error)), 300);
  const refresh = () => run(state.get("name"), input.value);
  start();
  refresh();
}
