/**
 * ELMo in the browser: the package's own model folder to vectors, next words and explanations.
 *
 * Every function gives what its namesake in Python gives (`Elmo.embed`, `Elmo.predict_next`), to rounding.
 */
import { TokenEncoder } from "./encoder.js";
import { Kernel } from "./kernel.js";
import { LstmLayer } from "./lstm.js";
import { logSoftmax, Softmax } from "./softmax.js";
import { tokenize } from "./tokenizer.js";

// As `elmokit.embed.engine.WARM_UP`: published weights were trained with a state that never was zero.
export const WARM_UP = [
  "The history of the city goes back to the early part of the last century .",
  "He said that they would meet again on Monday , but nobody believed him .",
  "In the first half of the year , sales rose by 12 percent to $ 3.4 billion .",
  "What do you think about it ?",
];
const TYPICAL_WORDS = 500;  // frequent words by which a filter's answer is called strong or weak
const NEIGHBOR_WORDS = 5000;  // frequent words among which neighbors are looked for
const AT_ONCE = 64;  // words encoded before somebody else may have a turn

export class Elmo {
  constructor({ options, tensors, vocabulary = null, alphabet = null, simd = true }) {
    this.options = options;
    this.kernel = new Kernel({ simd });
    this.vocabulary = vocabulary;
    this.encoder = new TokenEncoder({ options, tensors, kernel: this.kernel, alphabet, vocabulary });
    const stack = (direction) => Array.from({ length: options.lstm.n_layers ?? 1 }, (_, k) => (
      new LstmLayer({ name: `${direction}_layers.${k}`, options, tensors, kernel: this.kernel })
    ));
    this.stacks = { forward: stack("forward"), backward: stack("backward") };
    this.size = options.lstm.projection_dim;
    this.dim = 2 * this.size;
    this.nLayers = this.stacks.forward.length + 1;
    this.softmax = null;
    this.start = null;
  }

  /** One direction over token vectors in lockstep order: every layer's output, (N, D) each, and the states at the end. */
  run(direction, x, counts, states = null) {
    const outputs = [], ends = [];
    this.stacks[direction].forEach((layer, k) => {
      const input = k ? outputs[k - 1] : x;
      const { m, end } = layer.run(input, counts, states?.[k] ?? layer.zero());
      if (k && this.options.lstm.use_skip_connections) for (let i = 0; i < m.length; i++) m[i] += input[i];
      outputs.push(m);
      ends.push(end);
    });
    return { outputs, ends };
  }

  /** Where every sentence starts: after its begin mark (forward) or its end mark (backward). */
  startStates() {
    if (this.start) return this.start;
    const { begin, end } = this.encoder;
    let states = { forward: null, backward: null };
    const read = (direction, words) => {
      const inOrder = direction === "forward" ? words : [...words].reverse();
      return this.run(direction, this.encoder.encode(inOrder), inOrder.map(() => 1), states[direction]).ends;
    };
    if ((this.options.elmokit?.state ?? "warm") !== "reset") {
      for (const text of WARM_UP) {
        const words = [begin, ...text.split(" "), end];
        states = { forward: read("forward", words), backward: read("backward", words) };
      }
    }
    this.start = { forward: read("forward", [begin]), backward: read("backward", [end]) };
    return this.start;
  }

  /** Lists of tokens to arrays (L + 1, n, 2D), flat. */
  embed(sentences) {
    const { size, dim, nLayers } = this;
    const start = this.startStates();
    const order = sentences.map((_, k) => k).sort((a, b) => sentences[b].length - sentences[a].length);
    const longest = order.length ? sentences[order[0]].length : 0;
    const counts = Array.from({ length: longest }, (_, t) => order.filter((k) => sentences[k].length > t).length);
    const firsts = counts.map(() => 0);
    for (let t = 1; t < longest; t++) firsts[t] = firsts[t - 1] + counts[t - 1];
    const inLockstep = (word) => counts.flatMap((count, t) => order.slice(0, count).map((k) => word(sentences[k], t)));
    const forwardX = this.encoder.encode(inLockstep((sentence, t) => sentence[t]));
    const backwardX = this.encoder.encode(inLockstep((sentence, t) => sentence[sentence.length - 1 - t]));
    const forward = this.run("forward", forwardX, counts, start.forward).outputs;
    const backward = this.run("backward", backwardX, counts, start.backward).outputs;
    const results = sentences.map((sentence) => new Float32Array(nLayers * sentence.length * dim));
    order.forEach((k, b) => {
      const n = sentences[k].length;
      for (let t = 0; t < n; t++) {
        const ahead = (firsts[t] + b) * size, behind = (firsts[n - 1 - t] + b) * size;
        for (let layer = 0; layer < nLayers; layer++) {
          const at = (layer * n + t) * dim;
          const [f, g, from] = layer ? [forward[layer - 1], backward[layer - 1], behind] : [forwardX, forwardX, ahead];
          results[k].set(f.subarray(ahead, ahead + size), at);
          results[k].set(g.subarray(from, from + size), at + size);
        }
      }
    });
    return results;
  }

  loadSoftmax(tensors) {
    this.softmax = new Softmax({ tensors, kernel: this.kernel });
    if (!this.vocabulary || this.vocabulary.length !== this.softmax.nWords) {
      throw new Error(`softmax: expected a vocabulary of ${this.softmax.nWords} words, found ${this.vocabulary?.length ?? "none"}`);
    }
  }

  /** The likeliest words after a text, before it ("backward"), or at its gap from both sides ("gap"). */
  predictNext({ text, direction = "forward", top = 10, gap = "___" }) {
    const manyLangs = this.encoder.wordTable && this.encoder.characters;
    const [begin, end, unknown] = manyLangs ? ["<bos>", "<eos>", "<oov>"] : ["<S>", "</S>", "<UNK>"];
    const hidden = new Set([unknown, ""]);
    let scores;
    if (direction === "gap") {
      const sides = text.split(gap);
      if (sides.length !== 2) throw new Error(`gap: expected one ${gap} in the text, found ${sides.length - 1}`);
      hidden.add(begin).add(end);
      scores = this.after(sides[0]);
      const right = this.before(sides[1]);
      for (let k = 0; k < scores.length; k++) scores[k] += right[k];
    } else scores = direction === "forward" ? this.after(text) : this.before(text);
    this.vocabulary.forEach((word, k) => { if (hidden.has(word)) scores[k] = -Infinity; });
    if (direction === "gap") logSoftmax(scores);
    return best(scores, top).map((k) => ({ word: this.vocabulary[k], probability: Math.exp(scores[k]) }));
  }

  after(text) {
    return this.lastWord("forward", [this.encoder.begin, ...tokenize(text).tokens]);
  }

  before(text) {
    return this.lastWord("backward", [this.encoder.end, ...tokenize(text).tokens.reverse()]);
  }

  lastWord(direction, words) {
    const { outputs } = this.run(direction, this.encoder.encode(words), words.map(() => 1));
    return this.softmax.logProbabilities(outputs.at(-1).slice(-this.size));
  }

  /** The frequent words of the vocabulary that are whole words. */
  frequentWords(n) {
    const marks = new Set(["<S>", "</S>", "<UNK>", "<bos>", "<eos>", "<oov>", "<pad>"]);
    const words = (this.vocabulary ?? []).slice(0, 2 * n + 10).filter((word) => /\p{L}/u.test(word) && !marks.has(word));
    return words.slice(0, n);
  }

  /** The frequent words whose context-free vectors (layer 0) are nearest to that of a word, by cosine. */
  async neighbors({ word, top = 10 }) {
    const words = this.frequentWords(NEIGHBOR_WORDS);
    for (let first = 0; first < words.length; first += AT_ONCE) {
      const part = words.slice(first, first + AT_ONCE);
      if (part.every((other) => this.encoder.cache.has(other))) continue;
      this.encoder.encode(part);
      await new Promise((resolve) => { setTimeout(resolve); });  // questions that came meanwhile are answered first
    }
    const [own] = [this.encoder.encode([word])];
    const others = this.encoder.encode(words);
    const scores = Float32Array.from(words, (other, k) => (
      other === word ? -Infinity : cosine(own, others.subarray(k * this.size, (k + 1) * this.size))
    ));
    return {
      source: `layer 0, among the ${words.length.toLocaleString("en")} most frequent words`,
      neighbors: best(scores, top).map((k) => ({ word: words[k], similarity: scores[k] })),
    };
  }

  /** What every filter of the token encoder found in a word: see `explain` in backend.js. */
  explain({ word }) {
    const { encoder } = this;
    if (!encoder.characters) throw new Error("this model reads whole words: it has no character filters to explain");
    const { values, starts } = encoder.pool(word);
    const { mean, deviation } = this.typicalAnswers();
    return {
      word,
      symbols: encoder.characters.symbols(word),
      widths: Uint8Array.from(encoder.filters.flatMap(([width, count]) => Array(count).fill(width))),
      starts,
      activations: values,
      strengths: values.map((value, f) => (value - mean[f]) / deviation[f]),
    };
  }

  typicalAnswers() {
    if (!this.typical) {
      const words = this.frequentWords(TYPICAL_WORDS);
      const n = this.encoder.nFilters, mean = new Float32Array(n), square = new Float32Array(n);
      for (const word of words) {
        const { values } = this.encoder.pool(word);
        for (let f = 0; f < n; f++) { mean[f] += values[f] / words.length; square[f] += values[f] ** 2 / words.length; }
      }
      const deviation = square.map((s, f) => (words.length ? Math.max(Math.sqrt(Math.max(s - mean[f] ** 2, 0)), 1e-3) : 1));
      this.typical = { mean, deviation };
    }
    return this.typical;
  }
}

export function cosine(a, b) {
  let ab = 0, aa = 0, bb = 0;
  for (let i = 0; i < a.length; i++) { ab += a[i] * b[i]; aa += a[i] * a[i]; bb += b[i] * b[i]; }
  return aa && bb ? ab / Math.sqrt(aa * bb) : 0;
}

/** The places of the largest numbers, the largest first; equal ones in order. */
function best(scores, n) {
  const chosen = [];
  for (let k = 0; k < scores.length; k++) {
    if (scores[k] === -Infinity || (chosen.length === n && scores[k] <= scores[chosen[n - 1]])) continue;
    let at = chosen.length;
    while (at > 0 && scores[chosen[at - 1]] < scores[k]) at--;
    chosen.splice(at, 0, k);
    if (chosen.length > n) chosen.pop();
  }
  return chosen;
}
