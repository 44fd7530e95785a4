/** Where does it stand? All occurrences of a word on a map that the layer weights move. */
import { barChart, captioned, scatter, wide } from "../draw/charts.js";
import { choice, h, latest, message, number } from "../draw/dom.js";
import { figure } from "../draw/figure.js";
import { clusters, components, grams, mixGram } from "../draw/pca.js";
import { tokenize } from "../elmo/tokenizer.js";
import { declare } from "../state.js";

const MOST = 200;  // occurrences on a map
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
  const state = declare("map", { word: words[0], s: Array(nLayers).fill("0").join(","), gamma: "1", k: "2", color: "cluster", own: "", method: "pca" });
  const known = new Map(), key = ({ tokens, at }) => `${at} ${tokens.join(" ")}`;
  let ahead = false, found = null, all = null, before = null, scale = 1, chart = null, picked = 0;
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
  const mapPlace = h("div"), layerPlace = h("div"), staticPlace = h("div"), legend = h("ul", { class: "legend" }), facts = h("p", { class: "note" });
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
        choice("Clusters", ["2", "3", "4"].map((k) => [k, k]), state.get("k"), (k) => { state.set({ k }); redraw(); }),
        choice("Color by", [["cluster", "cluster"], ["sense", "sense"]], state.get("color"), (color) => { state.set({ color }); redraw(); }),
        info.umap ? choice("Map by", [["pca", "PCA"], ["umap", "UMAP"]], state.get("method"), (method) => { state.set({ method }); redraw(); }) : null,
        legend, facts, staticPlace),
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
    // one scale for all mixes, so that sliders move points and not the axes: a mix spreads no further than its widest layer
    scale = 1.1 * (Math.max(...all.flatMap((row, k) => components(row[k]).points.flat().map(Math.abs))) || 1);
    chart = null;
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

  /** How many annotated occurrences have the sense that is the majority of their cluster (purity); "" without annotation. */
  function agreement(of) {
    const clusters = new Map();
    let annotated = 0;
    found.occurrences.forEach(({ sense }, k) => {
      if (sense in SOURCES) return;
      const senses = clusters.get(of[k]) ?? clusters.set(of[k], new Map()).get(of[k]);
      senses.set(sense, (senses.get(sense) ?? 0) + 1);
      annotated++;
    });
    const right = [...clusters.values()].reduce((sum, senses) => sum + Math.max(...senses.values()), 0);
    return annotated ? ` Of the ${annotated} with an annotated sense, ${right} are in a cluster where that sense is the majority.` : "";
  }

  function redraw() {
    if (!found) return;
    const s = numbers(), weights = softmax(s), gamma = Number(state.get("gamma"));
    weights.forEach((weight, k) => { outputs[k].textContent = `${number(s[k], 1)} → ${(100 * weight).toFixed(0)}%`; });
    outputs[nLayers].textContent = number(gamma);
    const gram = mixGram(all, weights), { points, shares } = components(gram, before);
    before = points;
    const grouped = clusters(gram, Number(state.get("k"))), of = state.get("color") === "cluster" ? grouped : bySense();
    place(points.map(([x, y]) => [gamma * x / scale, gamma * y / scale]), of);
    if (state.get("method") === "umap" && info.umap) moveByServer(weights, gamma, of);
    const senses = [...new Set(found.occurrences.map(({ sense }) => sense))];
    const labels = state.get("color") === "cluster" ? [...new Set(of)].sort().map((c) => `cluster ${c + 1} (${of.filter((o) => o === c).length})`) : senses.slice(0, 4);
    legend.replaceChildren(...labels.map((label, c) => h("li", {}, h("span", { class: `swatch k${c}` }), label)));
    facts.textContent = `${found.occurrences.length} occurrences.${agreement(grouped)} The two axes explain ${(100 * (shares[0] + shares[1])).toFixed(0)}% of the variance.`;
  }

  function place(points, of) {
    const moved = points.map(([x, y], k) => ({ x, y, kind: `k${of[k]}`, title: sentence(found.occurrences[k]) }));
    if (chart) chart.move(moved);
    else {
      chart = scatter(`Map of ${found.word}: ${found.occurrences.length} occurrences. Arrow keys move from point to point.`, moved, { onpoint: point });
      const exported = () => {
        const of = clusters(mixGram(all, softmax(numbers())), Number(state.get("k"))), gamma = Number(state.get("gamma"));
        return found.occurrences.map(({ tokens, at, sense }, k) => ({
          sentence: tokens.join(" "), position: at, sense, cluster: of[k] + 1, x: gamma * before[k][0], y: gamma * before[k][1],
        }));
      };
      mapPlace.replaceChildren(figure({
        name: `elmo-map-${found.word}`, title: `Occurrences of “${found.word}”`, picture: chart, note: "Each point is one sentence. Hover, tap, or use the arrow keys to read it.",
        data: () => ({ word: found.word, s: numbers(), gamma: Number(state.get("gamma")), points: exported() }),
        rows: () => [["sentence", "position", "sense", "cluster", "x", "y"], ...exported().map(Object.values)],
      }));
    }
    point(picked);
  }

  const moveByServer = latest(
    (weights, gamma, of) => backend.project({ texts: found.occurrences.map(({ tokens }) => tokens), select: found.occurrences.map(({ at }) => [at]), weights, gamma }).then((points) => ({ points, of })),
    ({ points, of }) => {
      const most = Math.max(...points.flat().map(Math.abs)) || 1;
      place(points.map(([x, y]) => [x / most, y / most]), of);
    },
    (error) => reading.replaceChildren(message(error)),
  );

  function drawLayers() {
    const small = Array.from({ length: nLayers }, (_, k) => {
      const gram = all[k][k], { points, shares } = components(gram);
      const flat = gram.reduce((sum, row, i) => sum + row[i], 0) < 1e-6 * gram.length;
      const most = 1.1 * (Math.max(...points.flat().map(Math.abs)) || 1), of = clusters(gram, Number(state.get("k")));
      return { k, shares, points: points.map(([x, y], i) => ({ x: flat ? 0 : x / most, y: flat ? 0 : y / most, kind: `k${flat ? 0 : of[i]}` })) };
    });
    const picture = h("div", { class: "thirds" }, small.map(({ k, points }) => h("div", {}, captioned(`Layer ${k}`, scatter(`Map of layer ${k}`, points, { size: 240, radius: 4 })))));
    layerPlace.replaceChildren(figure({
      name: `elmo-layers-${found.word}`, title: "The layers one by one", picture,
      note: "Layer 0 depends on the spelling alone, so all its points coincide. Colors are the clusters of each layer.",
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
