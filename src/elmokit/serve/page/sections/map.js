/** Where does it stand? All occurrences of a word on a map that the layer weights move. */
import { barChart, captioned, scatter, wide } from "../draw/charts.js";
import { choice, h, latest, message, number } from "../draw/dom.js";
import { figure, legend, legendItems } from "../draw/figure.js";
import { clusters, components, grams, mixGram, purity, shuffledPurity } from "../draw/pca.js";
import { tokenize } from "../elmo/tokenizer.js";
import { declare } from "../state.js";

const MOST = 200;  // occurrences on a map
const FIRST = "bank";  // the word at the start
const COLLAPSED = 0.05;  // of the widest layer: a mix that spreads less is not enlarged further
const SOURCES = { yours: "your sentence", "your corpus": "from the indexed corpus", other: "no annotated sense" };
const AHEAD = 6;  // sentences that are computed ahead at a time, so that a click never waits for many

/** The sentences that ship with the page: [{word, sense, text}]. */
async function readSentences() {
  const lines = (await (await fetch("data/occurrences.tsv")).text()).split("\n").filter((line) => line && !line.startsWith("#"));
  return lines.map((line) => { const [word, sense, text] = line.split("\t"); return { word, sense, text }; });
}

const softmax = (scores) => {
  const powers = scores.map((score) => Math.exp(score - Math.max(...scores)));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / sum);
};

export async function mount(content, backend) {
  const [info, sentences] = await Promise.all([backend.info(), readSentences()]);
  const words = [...new Set(sentences.map(({ word }) => word))];
  const nLayers = info.model.n_layers;
  const state = declare("map", { word: words.includes(FIRST) ? FIRST : words[0], s: Array(nLayers).fill("0").join(","), gamma: "1", k: "2", color: "cluster", own: "", method: "pca" });
  const known = new Map(), key = ({ tokens, at }) => `${at} ${tokens.join(" ")}`;
  let ahead = false, found = null, all = null, before = null, widest = 1, chart = null, picked = 0;
  let mixed = null;  // inner products of the mix
  let drawn = null;  // what the map shows: {method, points, limit, shares}; a point at the frame is `limit` from the middle
  const numbers = () => { const s = state.get("s").split(",").map(Number); return Array.from({ length: nLayers }, (_, k) => s[k] || 0); };

  const wordInput = h("input", { type: "text", id: "map-word", value: state.get("word"), maxlength: 60, spellcheck: "false", autocomplete: "off" });
  const ownInput = h("input", { type: "text", id: "map-own", value: state.get("own"), maxlength: 400, placeholder: "Another sentence with the word", spellcheck: "false" });
  const wordChoice = choice("Word", words.map((word) => [word, word]), state.get("word"), (word) => { wordInput.value = word; setWord(word, run.now); });
  const sliders = h("div", { class: "sliders" });
  const outputs = [];
  const slider = (label, id, min, max, value, onmove) => {
    const output = h("output", { for: id });
    outputs.push(output);
    sliders.append(h("label", { for: id }, label), h("input", { type: "range", id, min, max, step: 0.05, value, oninput: ({ target }) => { onmove(Number(target.value)); redraw(); } }), output);
  };
  for (let k = 0; k < nLayers; k++) {
    slider(`s${k} (layer ${k})`, `map-s${k}`, -5, 5, numbers()[k], (value) => { const s = numbers(); s[k] = value; state.set({ s: s.join(",") }); });
  }
  slider("gamma", "map-gamma", 0.1, 2, Number(state.get("gamma")), (value) => state.set({ gamma: value }));
  const presets = h("div", { class: "choice", role: "group", "aria-label": "Presets" }, h("span", { class: "choice-label" }, "Presets"),
    [["equal weights", Array(nLayers).fill(0)], ...Array.from({ length: nLayers }, (_, k) => [`layer ${k} only`, Array.from({ length: nLayers }, (_, j) => (j === k ? 5 : -5))])].map(([label, s]) => h("button", {
      type: "button",
      onclick: () => {
        state.set({ s: s.join(","), gamma: 1 });
        s.forEach((value, k) => { sliders.querySelector(`#map-s${k}`).value = value; });
        sliders.querySelector("#map-gamma").value = 1;
        redraw();
      },
    }, label)));
  const reading = h("div", { class: "reading", "aria-live": "polite" }, "…");
  const mapPlace = h("div"), layerPlace = h("div"), staticPlace = h("div"), colors = legend([]), facts = h("span");
  if (!["en", null, undefined].includes(info.model.language) && !info.index) {
    content.append(h("p", { class: "note" }, `The sentences below are English; this model reads another language (${info.model.language}). For a map of its words, serve it with an index of a corpus: elmo serve --index.`));
  }
  content.append(
    wordChoice,
    h("div", { class: "columns" },
      h("div", { class: "sentence" }, h("label", { for: "map-word" }, "Or any word of the sentences"), wordInput),
      h("div", { class: "sentence" }, h("label", { for: "map-own" }, "Put a sentence of your own on the map"), ownInput)),
    h("div", { class: "wide-left" },
      h("div", {}, reading, mapPlace),
      h("div", { class: "beside" }, sliders, presets,
        choice("Clusters", ["2", "3", "4"].map((k) => [k, k]), state.get("k"), (k) => { state.set({ k }); recolor(); }),
        choice("Color by", [["cluster", "cluster"], ["sense", "sense"]], state.get("color"), (color) => { state.set({ color }); recolor(); }),
        info.umap ? choice("Map by", [["pca", "PCA"], ["umap", "UMAP"]], state.get("method"), (method) => { state.set({ method }); redraw(); }) : null,
        staticPlace),
      layerPlace),
  );
  wordInput.addEventListener("input", () => { wordChoice.select(wordInput.value); if (wordInput.value.trim()) setWord(wordInput.value.trim()); });
  ownInput.addEventListener("input", () => { state.set({ own: ownInput.value }); load(state.get("word")); });

  function setWord(word, ask) {
    state.set({ word });
    load(word, ask);
  }

  async function work(word) {
    const lower = word.toLowerCase();
    const own = ownInput.value.trim() ? [{ text: ownInput.value, sense: "yours" }] : [];
    const places = [...own, ...sentences.filter(({ text }) => text.toLowerCase().includes(lower))].flatMap(({ text, sense, word: of }) => {
      const { tokens } = tokenize(text);
      const at = tokens.findIndex((token) => token.toLowerCase() === lower);
      return at < 0 ? [] : [{ tokens, at, sense: of === undefined || of === lower ? sense : "other" }];
    });
    if (info.index) {
      for (const { tokens, position } of await backend.occurrences({ word, limit: MOST })) places.push({ tokens, at: position, sense: "your corpus" });
    }
    const occurrences = places.slice(0, MOST);
    if (occurrences.length < 3) throw new Error(`“${word}” occurs ${occurrences.length} times in the sentences; a map needs three occurrences. Try ${words.slice(0, 3).join(", ")}.`);
    await embed(occurrences);
    const dim = known.get(key(occurrences[0])).length / nLayers;
    const layers = Array.from({ length: nLayers }, (_, k) => occurrences.map((one) => known.get(key(one)).subarray(k * dim, (k + 1) * dim)));
    return { word, occurrences, all: grams(layers) };
  }

  /** Vectors of occurrences, (L + 1, 2D) each, into `known`. */
  async function embed(occurrences) {
    const fresh = occurrences.filter((one) => !known.has(key(one)));
    if (!fresh.length) return;
    const answers = await backend.embedAll({ texts: fresh.map(({ tokens }) => tokens), select: fresh.map(({ at }) => [at]) });
    fresh.forEach((one, k) => known.set(key(one), answers[k].vectors));
  }

  /** In the browser, the other words' maps are computed ahead, so that the next click is answered at once. */
  async function computeAhead() {
    for (let first = 0; info.backend === "browser" && first < sentences.length; first += AHEAD) {
      await embed(sentences.slice(first, first + AHEAD).map(({ word, text }) => {
        const { tokens } = tokenize(text);
        return { tokens, at: tokens.indexOf(word) };
      }));
    }
  }

  function show(result) {
    content.classList.remove("busy");
    ({ all } = result);
    found = result;
    before = null;
    picked = 0;
    widest = (Math.max(...all.flatMap((row, k) => components(row[k]).points.flat().map(Math.abs))) || 1);
    chart = null;
    drawn = null;
    redraw();
    drawLayers();
    showNeighbors(result.word);
    if (!ahead) computeAhead().catch(() => {});  // a failure is reported when the word is chosen
    ahead = true;
  }

  const bySense = () => {
    const senses = [...new Set(found.occurrences.map(({ sense }) => sense))];
    return found.occurrences.map(({ sense }) => Math.min(3, senses.indexOf(sense)));
  };

  const sentence = ({ tokens, at }) => `${tokens.slice(0, at).join(" ")} [${tokens[at]}] ${tokens.slice(at + 1).join(" ")}`;

  function point(k) {
    picked = k;
    const { tokens, at, sense } = found.occurrences[k];
    reading.replaceChildren(`${tokens.slice(0, at).join(" ")} `, h("mark", {}, tokens[at]), ` ${tokens.slice(at + 1).join(" ")}`, h("small", {}, SOURCES[sense] ?? `annotated sense: ${sense}`));
    chart.querySelectorAll(".dot").forEach((dot, j) => dot.classList.toggle("chosen", j === k));
  }

  /** Purity: how many annotated occurrences have the sense that is the majority of their cluster, and whether chance does as well. */
  function agreement(of) {
    const annotated = found.occurrences.flatMap(({ sense }, k) => (sense in SOURCES ? [] : [k]));
    if (!annotated.length) return "";
    const senses = annotated.map((k) => found.occurrences[k].sense), own = annotated.map((k) => of[k]);
    const right = purity(own, senses), shuffled = shuffledPurity(own, senses);
    const average = shuffled.reduce((sum, one) => sum + one, 0) / shuffled.length, near = right <= shuffled[Math.floor(0.95 * shuffled.length)];
    return `${right} of the ${annotated.length} occurrences with an annotated sense (${(100 * right / annotated.length).toFixed(0)}%) fall into the majority sense of their cluster; with shuffled senses it would be ${average.toFixed(0)}. `
      + (near ? "That is near chance: these clusters do not follow the senses. " : "");
  }

  /** Move the points: after another word, mix or method. */
  function redraw() {
    if (!found) return;
    const s = numbers(), weights = softmax(s), gamma = Number(state.get("gamma"));
    weights.forEach((weight, k) => { outputs[k].textContent = `${number(s[k], 1)} → ${(100 * weight).toFixed(0)}%`; });
    outputs[nLayers].textContent = number(gamma);
    mixed = mixGram(all, weights);
    const { points, shares } = components(mixed, before), umap = state.get("method") === "umap" && info.umap;
    before = points;
    if (!umap || drawn?.method !== "UMAP") {  // UMAP takes a moment: until it answers, the last map stays
      const spread = Math.max(COLLAPSED * widest, ...points.flat().map(Math.abs));
      drawn = { method: "PCA", shares, points: points.map(([x, y]) => [gamma * x, gamma * y]), limit: 1.05 * Math.max(1, gamma) * spread };
    }
    paint();
    if (umap) moveByServer(weights, gamma);
  }

  /** Colors, legend and caption of what is drawn. */
  function paint() {
    const grouped = clusters(mixed, Number(state.get("k"))), byCluster = state.get("color") === "cluster", of = byCluster ? grouped : bySense();
    place(of);
    const senses = [...new Set(found.occurrences.map(({ sense }) => sense))];
    const labels = byCluster ? [...new Set(of)].sort().map((c) => `cluster ${c + 1} (${of.filter((o) => o === c).length})`) : senses.slice(0, 4).map((sense) => SOURCES[sense] ?? sense);
    colors.replaceChildren(...legendItems(labels.map((label, c) => [`k${c}`, label])));
    const how = drawn.method === "PCA" ? `The two axes (PCA) explain ${(100 * (drawn.shares[0] + drawn.shares[1])).toFixed(0)}% of the variance.`
      : "Drawn by UMAP, which keeps neighbors together; its axes have no unit.";
    facts.textContent = `${found.occurrences.length} occurrences. ${agreement(grouped)}${how} `;
  }

  function recolor() {
    if (!found) return;
    paint();
    drawLayers();
  }

  function place(of) {
    const { limit } = drawn;
    const moved = drawn.points.map(([x, y], k) => ({ x: x / limit, y: y / limit, kind: `k${of[k]}`, title: sentence(found.occurrences[k]) }));
    if (chart) chart.move(moved);
    else {
      chart = scatter(`Map of ${found.word}: ${found.occurrences.length} occurrences. Arrow keys move from point to point.`, moved, { onpoint: point });
      const exported = () => {
        const grouped = clusters(mixed, Number(state.get("k")));
        return found.occurrences.map(({ tokens, at, sense }, k) => ({
          sentence: tokens.join(" "), position: at, sense, cluster: grouped[k] + 1, method: drawn.method, x: drawn.points[k][0], y: drawn.points[k][1],
        }));
      };
      mapPlace.replaceChildren(figure({
        name: `elmo-map-${found.word}`, title: `Occurrences of “${found.word}”`, picture: chart, legend: colors, note: [facts, "Each point is one sentence. Hover, tap, or use the arrow keys to read it."],
        data: () => ({ word: found.word, method: drawn.method, s: numbers(), gamma: Number(state.get("gamma")), points: exported() }),
        rows: () => [["sentence", "position", "sense", "cluster", "method", "x", "y"], ...exported().map(Object.values)],
      }));
    }
    chart.setEdge(drawn.method === "PCA" ? String(Number(limit.toPrecision(2))) : "");
    point(picked);
  }

  const moveByServer = latest(
    (weights, gamma) => backend.project({ texts: found.occurrences.map(({ tokens }) => tokens), select: found.occurrences.map(({ at }) => [at]), weights, gamma }),
    (points) => {
      if (state.get("method") !== "umap") return;
      const middle = [0, 1].map((axis) => { const on = points.map((one) => one[axis]); return (Math.min(...on) + Math.max(...on)) / 2; });
      const centered = points.map(([x, y]) => [x - middle[0], y - middle[1]]);
      drawn = { method: "UMAP", points: centered, limit: 1.05 * (Math.max(...centered.flat().map(Math.abs)) || 1), shares: null };
      paint();
    },
    (error) => reading.replaceChildren(message(error)),
  );

  function drawLayers() {
    const byCluster = state.get("color") === "cluster";
    const small = Array.from({ length: nLayers }, (_, k) => {
      const gram = all[k][k], { points } = components(gram);
      const flat = gram.reduce((sum, row, i) => sum + row[i], 0) < 1e-6 * gram.length;
      const most = 1.1 * (Math.max(...points.flat().map(Math.abs)) || 1), of = byCluster ? clusters(gram, Number(state.get("k"))).map((c) => (flat ? 0 : c)) : bySense();
      return { k, points: points.map(([x, y], i) => ({ x: flat ? 0 : x / most, y: flat ? 0 : y / most, kind: `k${of[i]}` })) };
    });
    const picture = h("div", { class: "thirds" }, small.map(({ k, points }) => h("div", {}, captioned(`Layer ${k}`, scatter(`Map of layer ${k}`, points, { size: 240, radius: 4 })))));
    layerPlace.replaceChildren(figure({
      name: `elmo-layers-${found.word}`, title: "The layers one by one", picture,
      note: `By PCA. Layer 0 depends on the spelling alone, so all its points coincide. Colors are ${byCluster ? "the clusters of each layer" : "the senses, as in the map above"}.`,
      data: small.map(({ k, points }) => ({ layer: k, points: points.map(({ x, y }) => [x, y]) })),
      rows: [["layer", "occurrence", "x", "y"], ...small.flatMap(({ k, points }) => points.map(({ x, y }, i) => [k, i, x, y]))],
    }));
  }

  const showNeighbors = latest(
    (word) => backend.neighbors({ word, top: 8 }).then((answer) => ({ word, ...answer })),
    ({ word, source, neighbors }) => staticPlace.replaceChildren(figure({
      name: `elmo-static-${word}`, title: "Static neighbors: the same in every sentence",
      picture: barChart(`Words nearest to ${word} in any sentence`, neighbors.map(({ word: label, similarity }) => ({ label, value: similarity, kind: "layer0" })), { width: wide(400), labelWidth: 110 }),
      note: `Cosine similarity; ${source}. The sliders cannot move these.`, data: { word, source, neighbors }, rows: [["word", "similarity"], ...neighbors.map(({ word: label, similarity }) => [label, similarity])],
    })),
    (error) => staticPlace.replaceChildren(message(error)), 0,
  );

  const run = latest(work, show, (error) => { content.classList.remove("busy"); reading.replaceChildren(message(error)); });
  function load(word, ask = run) {
    content.classList.add("busy");
    ask(word);
  }
  load(state.get("word"), run.now);
}
