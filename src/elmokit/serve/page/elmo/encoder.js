/** The token encoder: characters, convolutions, max-pooling, highways, projection; or a row of a word table; or both. */
import { ByteCharacters, CodePointCharacters } from "./characters.js";

const CACHE_WORDS = 20000;
export const sigmoid = (x) => 1 / (1 + Math.exp(-x));

export class TokenEncoder {
  constructor({ options, tensors, kernel, alphabet, vocabulary }) {
    this.kernel = kernel;
    this.dim = options.lstm.projection_dim;
    this.cache = new Map();  // word to vector, (D,)
    this.wordTable = tensors.has("token_encoder.word_embedding") ? tensors.get("token_encoder.word_embedding") : null;
    this.begin = "<S>";
    this.end = "</S>";
    const cnn = options.char_cnn;
    if (cnn) {
      const length = cnn.max_characters_per_token ?? 50;
      const bytes = (options.elmokit?.alphabet ?? "bytes") === "bytes";
      this.characters = bytes ? new ByteCharacters(length) : new CodePointCharacters(alphabet, length);
      ({ begin: this.begin, end: this.end } = this.characters);
      this.filters = cnn.filters;
      this.tanh = cnn.activation === "tanh";
      this.nFilters = cnn.filters.reduce((sum, [, count]) => sum + count, 0);
      this.embedding = tensors.get("token_encoder.char_embedding");
      this.convolutions = cnn.filters.map(([width, count], k) => ({
        width, count,
        weight: tensors.get(`token_encoder.convolutions.${k}.weight`).data,  // (width * e, count)
        bias: tensors.get(`token_encoder.convolutions.${k}.bias`).data,
        rows: new Map(),  // character id to (width, count): its part of every filter's answer
      }));
      this.highways = Array.from({ length: cnn.n_highway ?? 0 }, (_, k) => {
        const name = `token_encoder.highways.${k}`, n = this.nFilters;
        const square = (part) => kernel.matrix(tensors.get(`${name}.${part}.weight`).data, n, n);
        return {
          gate: square("gate"), gateBias: tensors.get(`${name}.gate_bias`).data,
          transform: square("transform"), transformBias: tensors.get(`${name}.transform_bias`).data,
        };
      });
    }
    if (tensors.has("token_encoder.projection.weight")) {
      const { data, shape: [nIn, nOut] } = tensors.get("token_encoder.projection.weight");
      this.projection = kernel.matrix(data, nIn, nOut);
      this.projectionBias = tensors.get("token_encoder.projection_bias").data;
    }
    if (this.wordTable) this.wordIds = wordIds(vocabulary, cnn ? this.characters.maxCharacters - 2 : null);
  }

  /** Vectors of words, (n, D), each computed once and kept. */
  encode(words) {
    const fresh = [...new Set(words)].filter((word) => !this.cache.has(word));
    if (fresh.length) {
      if (this.cache.size + fresh.length > CACHE_WORDS) this.cache.clear();
      const missing = [...new Set(words)].filter((word) => !this.cache.has(word));  // all of them after a clear
      const vectors = this.compute(missing);
      missing.forEach((word, k) => this.cache.set(word, vectors.slice(k * this.dim, (k + 1) * this.dim)));
    }
    const out = new Float32Array(words.length * this.dim);
    words.forEach((word, k) => out.set(this.cache.get(word), k * this.dim));
    return out;
  }

  compute(words) {
    const n = words.length;
    const wordDim = this.wordTable ? this.wordTable.shape[1] : 0, nFilters = this.nFilters ?? 0;
    let features = null;
    if (nFilters) {
      features = new Float32Array(n * nFilters);
      words.forEach((word, k) => features.set(this.pool(word).values, k * nFilters));
      for (const highway of this.highways) this.passHighway(highway, features, n);
    }
    let x = features;
    if (this.wordTable) {
      x = new Float32Array(n * (wordDim + nFilters));
      words.forEach((word, k) => {
        const id = this.wordIds(word);
        x.set(this.wordTable.data.subarray(id * wordDim, (id + 1) * wordDim), k * (wordDim + nFilters));
        if (features) x.set(features.subarray(k * nFilters, (k + 1) * nFilters), k * (wordDim + nFilters) + wordDim);
      });
    }
    if (!this.projection) return x;
    return this.kernel.multiply(this.projection, x, n, new Float32Array(n * this.dim), this.projectionBias);
  }

  /** y = g relu(x W_t + b_t) + (1 - g) x with g = sigmoid(x W_g + b_g), in place. */
  passHighway(highway, x, n) {
    const gate = this.kernel.multiply(highway.gate, x, n, new Float32Array(x.length), highway.gateBias);
    const other = this.kernel.multiply(highway.transform, x, n, new Float32Array(x.length), highway.transformBias);
    for (let i = 0; i < x.length; i++) x[i] += sigmoid(gate[i]) * (Math.max(other[i], 0) - x[i]);
  }

  /** What each filter found in a word: its largest answer, after the activation, and the place where it was. */
  pool(word) {
    const ids = this.characters.encode(word);
    const values = new Float32Array(this.nFilters), starts = new Uint16Array(this.nFilters);
    let length = ids.length;
    while (length > 0 && ids[length - 1] === this.characters.pad) length--;
    let first = 0;
    for (const layer of this.convolutions) {
      const { width, count, bias } = layer;
      const places = Math.min(ids.length, length + width) - width + 1;  // further padding says nothing new
      const best = values.subarray(first, first + count).fill(-Infinity), where = starts.subarray(first, first + count);
      const sums = new Float32Array(count);
      for (let place = 0; place < places; place++) {
        sums.set(bias);
        for (let k = 0; k < width; k++) {
          const row = this.row(layer, ids[place + k]);
          for (let f = 0, at = k * count; f < count; f++, at++) sums[f] += row[at];
        }
        for (let f = 0; f < count; f++) if (sums[f] > best[f]) { best[f] = sums[f]; where[f] = place; }
      }
      for (let f = 0; f < count; f++) best[f] = this.tanh ? Math.tanh(best[f]) : Math.max(best[f], 0);
      first += count;
    }
    return { values, starts };
  }

  /** One character times every filter of a width, at each of its places: (width, count). Made when it is first met. */
  row(layer, id) {
    let row = layer.rows.get(id);
    if (!row) {
      const { width, count, weight } = layer, e = this.embedding.shape[1];
      const vector = this.embedding.data.subarray(id * e, (id + 1) * e);
      row = new Float32Array(width * count);
      for (let k = 0; k < width; k++) {
        for (let d = 0; d < e; d++) {
          const v = vector[d];
          for (let f = 0, from = (k * e + d) * count; f < count; f++) row[k * count + f] += v * weight[from + f];
        }
      }
      layer.rows.set(id, row);
    }
    return row;
  }
}

/** A function from a word to its row of the word table; `longest`: words are cut, as ELMoForManyLangs does. */
function wordIds(vocabulary, longest) {
  const ids = new Map(vocabulary.map((word, id) => [word, id]));
  const [unknown, marks] = longest === null ? ["<UNK>", ["<S>", "</S>"]] : ["<oov>", ["<bos>", "<eos>"]];
  return (word) => {
    const cut = longest === null || marks.includes(word) || word === unknown ? word : [...word].slice(0, longest).join("");
    const id = ids.get(cut) ?? ids.get(unknown);
    if (id === undefined) throw new Error(`vocabulary: expected ${word} or ${unknown}, found neither`);
    return id;
  };
}
