/**
 * Who computes: a server (`elmo serve`) or this browser. Both have the same functions, and the page cannot tell them apart.
 *
 * | function                              | server                  | answer                                              |
 * |---------------------------------------|-------------------------|-----------------------------------------------------|
 * | info()                                | GET  info               | Info                                                |
 * | tokenize({texts})                     | POST tokenize           | [{tokens, offsets}]                                 |
 * | embedAll({texts, select})             | POST embed_all          | [{tokens, offsets, shape, vectors}]                 |
 * | predictNext({text, direction, gap, top}) | POST predict_next    | [{word, probability}]                               |
 * | neighbors({word, top})                | POST neighbors          | {source, neighbors: [{word, similarity}]}           |
 * | explain({word})                       | POST explain            | {word, symbols, widths, starts, activations, strengths} |
 * | occurrences({word, limit})            | POST occurrences        | [{tokens, position}]; only if info.index            |
 * | project({texts, select, weights, gamma}) | POST project         | [[x, y]]; only if info.umap                         |
 * | task({name, text})                    | POST task/{name}        | what `elmo task NAME predict --json` prints, as a list; only for info.tasks |
 *
 * The wire. Requests and answers are JSON; addresses are relative to the page, so that it may live under any path. A
 * request is the argument object as it stands here, with these additions:
 *
 * - Info is {backend: "server", version, model: {name, language, parameters, n_layers, dim, has_softmax, has_characters},
 *   tasks: [{name, task}], index: bool, umap: bool}. `name` is the run's name in the address, `task` one of ner, pos,
 *   upos, sst, snli, squad, srl, coref. `language` is the one of the model card ("en"), or null.
 * - `texts` are strings or lists of tokens. `offsets` are [start, end] in code points (null for lists of tokens).
 * - embed_all: `encoding_format: "base64"` is sent along; an answer then has `vectors` as base64 of little-endian float32,
 *   shape (layers, tokens, dim), and without it as nested lists. `select`, if not null, has for each text the numbers of
 *   the tokens whose vectors are wanted; `tokens` stays whole.
 * - predict_next: `direction` is "forward", "backward" or "gap".
 * - explain: one entry per filter of the token encoder. `widths`: its width. `starts`: the place of the n-gram that won the
 *   max-pooling, in `symbols`. `activations`: the winning answer, after the activation. `strengths`: that answer in standard
 *   deviations above the filter's mean over the 500 most frequent words (of letters) of the vocabulary. `symbols`: one per
 *   character id up to the end of the word, {text, char}: "^" (char -1) and "$" (char -2) are the marks of a word's begin
 *   and end; of a character of several bytes the first has its text, and all have its number.
 * - project: `weights` (after the softmax) and `gamma` mix the layers of the selected token of each text.
 * - task: `text` is a line as `elmo task NAME predict` reads it (snli: premise TAB hypothesis; squad: JSON with passage and
 *   question); a line may hold several examples, so the answer is a list.
 * - An error has a status of 400 or more and {error: "one line that says what to do"}.
 *
 * Content policy. The page needs no more than:
 *   default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; connect-src 'self';
 *   worker-src 'self'; base-uri 'none'; form-action 'none'
 * Without 'wasm-unsafe-eval' the browser back end falls back to plain JavaScript.
 */

class ServerBackend {
  constructor(info) {
    this.facts = info;
  }

  async post(path, body) {
    const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(answer.error ?? `the server answered with status ${response.status}`);
    return answer;
  }

  async info() { return this.facts; }
  tokenize(argument) { return this.post("tokenize", argument); }
  async embedAll(argument) {
    const answer = await this.post("embed_all", { ...argument, encoding_format: "base64" });
    return answer.map((sentence) => ({ ...sentence, vectors: decodeFloats(sentence.vectors) }));
  }
  predictNext(argument) { return this.post("predict_next", argument); }
  neighbors(argument) { return this.post("neighbors", argument); }
  explain(argument) { return this.post("explain", argument); }
  occurrences(argument) { return this.post("occurrences", argument); }
  project(argument) { return this.post("project", argument); }
  task({ name, text }) { return this.post(`task/${encodeURIComponent(name)}`, { text }); }
}

function decodeFloats(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

class BrowserBackend {
  constructor(onProgress) {
    this.worker = new Worker("worker.js", { type: "module" });
    this.waiting = new Map();
    this.calls = 0;
    this.worker.onmessage = ({ data: { id, result, error, progress } }) => {
      if (progress) return onProgress(progress);
      const { resolve, reject } = this.waiting.get(id);
      this.waiting.delete(id);
      return error === undefined ? resolve(result) : reject(new Error(error));
    };
    this.worker.onerror = (event) => {
      for (const { reject } of this.waiting.values()) reject(new Error(event.message ?? "the worker did not start"));
      this.waiting.clear();
    };
    const simd = new URLSearchParams(location.search).get("simd") !== "off";
    this.loaded = this.ask("load", { url: new URL("model/", location.href).href, simd });
  }

  ask(call, argument) {
    const id = this.calls++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, call, argument });
    });
  }

  async call(name, argument) {
    await this.loaded;
    return this.ask(name, argument);
  }

  info() { return this.loaded; }
  tokenize(argument) { return this.call("tokenize", argument); }
  embedAll(argument) { return this.call("embedAll", argument); }
  predictNext(argument) { return this.call("predictNext", argument); }
  neighbors(argument) { return this.call("neighbors", argument); }
  explain(argument) { return this.call("explain", argument); }
}

/**
 * The back end for this page. `<meta name="elmo-backend">` says "auto" (the server, if `info` answers, else the browser) or
 * "browser", which an exported folder has; `?backend=browser` and `?backend=server` in the address override it.
 */
export async function openBackend(onProgress) {
  const asked = new URLSearchParams(location.search).get("backend");
  const wanted = asked ?? document.querySelector("meta[name=elmo-backend]")?.content ?? "auto";
  if (wanted !== "browser") {
    const response = await fetch("info", { headers: { Accept: "application/json" } }).catch(() => null);
    if (response?.ok) return new ServerBackend(await response.json());
    if (wanted === "server") throw new Error("expected a server behind this page, found none");
  }
  return new BrowserBackend(onProgress);
}
