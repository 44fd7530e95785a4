/** The paper, reproduced: its figures and ours, from data/paper.json. */
import { barChart, dumbbells, wide } from "../draw/charts.js";
import { choice, h, number } from "../draw/dom.js";
import { figure } from "../draw/figure.js";
import { declare } from "../state.js";

const caption = (title) => title.replace(/^Table \d: (.)/, (_, first) => first.toUpperCase());
const mean = (score) => (score ? score[0] : null);
const written = (score) => (score ? `${score[0]}${score[1] ? ` ± ${score[1]}` : ""}` : "");
const gain = (a, b) => (a && b ? `${b[0] >= a[0] ? "+" : "−"}${Math.abs(b[0] - a[0]).toFixed(2)}` : "");
const table = (header, rows) => h("details", {}, h("summary", {}, "Table"), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Figures" }, h("table", {},
  h("thead", {}, h("tr", {}, header.map((cell) => h("th", { scope: "col" }, cell)))),
  h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell ?? ""))))))));
const legend = () => h("ul", { class: "legend" }, h("li", {}, h("span", { class: "swatch theirs" }), "paper"), h("li", {}, h("span", { class: "swatch ours" }), "elmokit"));

export async function mount(content) {
  const data = await (await fetch("data/paper.json")).json();
  const views = {
    tasks: ["Six tasks", () => sixTasks(data.tasks)],
    ...Object.fromEntries(data.studies.map((study, k) => [`study${k}`, [caption(study.title), () => [].concat(oneStudy(study))]])),
    ...Object.fromEntries(data.scores.map((scores, k) => [`scores${k}`, [`${caption(scores.title)} (${scores.column.replace(/^ours, /, "")})`, () => sideBySide(scores)]])),
    ...Object.fromEntries(data.less_data.map((less, k) => [`less${k}`, [`Less data: ${less.title.split(":")[0]}`, () => lessData(less)]])),
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
    note: "Open circle: without ELMo; full circle: with ELMo; right: the gain. Test scores in percent.",
  }), legend(), table(header, cells)];
}

function oneStudy({ title, columns, rows }) {
  const lines = rows.flatMap(({ task, source, values }) => values.map((value, k) => ({ task, source, value, column: columns[k] })).filter(({ value }) => value));
  const tasks = [...new Set(rows.map(({ task }) => task))];
  const cells = rows.map(({ task, source, values }) => [task, source, ...values.map(written)]);
  return [...tasks.map((task) => {
    const own = lines.filter((line) => line.task === task), known = own.map(({ value }) => value[0]);
    const [low, high] = [Math.floor(Math.min(...known) / 5) * 5 - 5, Math.ceil(Math.max(...known) / 5) * 5];
    return figure({
      name: `elmo-${title.slice(0, 7).toLowerCase().replace(" ", "-")}-${task.toLowerCase()}`, title: `${title}: ${task}`, data: own, rows: [["task", "source", "setting", "score"], ...own.map(({ source, column, value }) => [task, source, column, value[0]])],
      picture: dumbbells(`${title}, ${task}`, own.map(({ source, column, value }) => ({ label: `${column} (${source})`, from: null, to: value[0], text: String(value[0]), kind: source.startsWith("paper") ? "theirs" : "ours" })), { low, high, width: wide(), labelWidth: Math.min(270, wide() / 2) }),
    });
  }), legend(), table(["task", "source", ...columns], cells)];
}

function sideBySide({ title, column, rows }) {
  const bars = rows.flatMap(({ label, paper, ours }) => [["paper", paper, "theirs"], ["ours", ours, "ours"]].filter(([, score]) => score).map(([who, score, kind]) => ({ label: `${label}, ${who}`, value: score[0], text: number(score[0], 1), kind })));
  return [figure({
    name: `elmo-${title.slice(0, 7).toLowerCase().replace(" ", "-")}`, title: `${title} (${column})`, data: rows, rows: [["", "paper", "ours"], ...rows.map(({ label, paper, ours }) => [label, mean(paper), mean(ours)])],
    picture: barChart(title, bars, { top: 100, width: wide(), labelWidth: Math.min(260, wide() / 2) }),
  }), legend()];
}

function lessData({ title, rows }) {
  const bars = rows.flatMap(({ part, examples, baseline, elmo }) => [[baseline, "no ELMo", "theirs"], [elmo, "ELMo", "ours"]].filter(([score]) => score).map(([score, who, kind]) => ({ label: `${part} (${examples.toLocaleString("en")}), ${who}`, value: score[0], text: number(score[0], 1), kind })));
  return [figure({
    name: "elmo-less-data", title: "Figure 1: with less training data", data: rows, rows: [["part", "examples", "no ELMo", "ELMo"], ...rows.map(({ part, examples, baseline, elmo }) => [part, examples, mean(baseline), mean(elmo)])],
    picture: barChart(title, bars, { top: 100, width: wide(), labelWidth: Math.min(230, wide() / 2) }), note: `${title}. Ours alone: the paper prints its figure without numbers. Gray: no ELMo; orange: ELMo.`,
  })];
}
