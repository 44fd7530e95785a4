/** The browser back end: ELMo in a worker, so that typing never stutters. Speaks { id, call, argument } and { id, result }. */
import { Elmo } from "./elmo/elmo.js";
import { readSafetensors } from "./elmo/safetensors.js";
import { tokenize } from "./elmo/tokenizer.js";

let elmo = null, manifest = null, base = null;

async function read(name) {
  const response = await fetch(new URL(name, base));
  if (!response.ok) throw new Error(`${name}: expected a file beside the page, found status ${response.status}`);
  return response;
}

/** A large file, with reports of how much of it has come. */
async function download(name) {
  const response = await read(name);
  const total = manifest.files[name] ?? 0, parts = [];
  let bytes = 0;
  for (const reader = response.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    bytes += value.length;
    postMessage({ progress: { name, bytes, total } });
  }
  return new Blob(parts).arrayBuffer();
}

async function load({ url, simd = true }) {
  base = url;
  manifest = await (await read("manifest.json")).json();
  const has = (name) => name in manifest.files;
  const [options, vocabulary, alphabet, weights] = await Promise.all([
    read("options.json").then((response) => response.json()),
    has("vocabulary.txt") ? read("vocabulary.txt").then((response) => response.text()) : null,
    has("alphabet.json") ? read("alphabet.json").then((response) => response.json()) : null,
    download("weights.safetensors"),
  ]);
  elmo = new Elmo({
    options, alphabet, simd, tensors: readSafetensors(weights, "weights.safetensors"),
    vocabulary: vocabulary === null ? null : vocabulary.replace(/^\ufeff/, "").split("\n").slice(0, -1),
  });
  return {
    backend: "browser", kernel: elmo.kernel.name,
    model: {
      name: manifest.name, language: manifest.language, parameters: manifest.parameters, n_layers: elmo.nLayers,
      dim: elmo.dim, has_softmax: has("softmax.safetensors"), has_characters: Boolean(elmo.encoder.characters),
    },
    tasks: [], index: false, umap: false,
  };
}

let softmax = null;
function needSoftmax() {
  softmax ??= download("softmax.safetensors").then((file) => elmo.loadSoftmax(readSafetensors(file, "softmax.safetensors")));
  return softmax;
}

const CALLS = {
  load,
  tokenize: ({ texts }) => texts.map(tokenize),
  embedAll({ texts, select = null }) {
    const read = texts.map((text) => (typeof text === "string" ? tokenize(text) : { tokens: text, offsets: null }));
    const layers = elmo.embed(read.map(({ tokens }) => tokens));
    return read.map(({ tokens, offsets }, k) => {
      const chosen = select?.[k] ?? tokens.map((_, t) => t);
      const { nLayers, dim } = elmo, vectors = new Float32Array(nLayers * chosen.length * dim);
      for (let layer = 0; layer < nLayers; layer++) {
        chosen.forEach((t, n) => {
          const from = (layer * tokens.length + t) * dim;
          vectors.set(layers[k].subarray(from, from + dim), (layer * chosen.length + n) * dim);
        });
      }
      return { tokens, offsets, shape: [nLayers, chosen.length, dim], vectors };
    });
  },
  async predictNext(argument) {
    await needSoftmax();
    return elmo.predictNext(argument);
  },
  neighbors: (argument) => elmo.neighbors(argument),
  explain: (argument) => elmo.explain(argument),
};

onmessage = async ({ data: { id, call, argument } }) => {
  try {
    postMessage({ id, result: await CALLS[call](argument) });
  } catch (error) {
    postMessage({ id, error: error.message });
  }
};
