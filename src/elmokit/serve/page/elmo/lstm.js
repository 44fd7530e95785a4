/**
 * One direction of one layer: an LSTM with projection and two clips (Sak et al. 2014, as the published biLM has it).
 *
 *     i, f, o = sigmoid(x W + m' U + b);  j = tanh(x W + m' U + b)
 *     c = clip(f c' + i j);  m = clip((o tanh(c)) P)
 */
import { sigmoid } from "./encoder.js";

export class LstmLayer {
  constructor({ name, options, tensors, kernel }) {
    const { dim, projection_dim: size, cell_clip: cellClip, proj_clip: projClip } = options.lstm;
    Object.assign(this, { kernel, dim, size, cellClip: cellClip || Infinity, projClip: projClip || Infinity });
    this.input = kernel.matrix(tensors.get(`${name}.input.weight`).data, size, 4 * dim);
    this.state = kernel.matrix(tensors.get(`${name}.state.weight`).data, size, 4 * dim);
    this.bias = tensors.get(`${name}.bias`).data;
    const projection = `${name}.projection.weight`;
    this.projection = tensors.has(projection) ? kernel.matrix(tensors.get(projection).data, dim, size) : null;
  }

  zero() {
    return { output: new Float32Array(this.size), cell: new Float32Array(this.dim) };
  }

  /**
   * Read sentences in step, the longest first.
   *
   * x: (N, D), step after step: the first tokens of all sentences, then the second ones, and so on; `counts`: how many
   * sentences have a token at each step. `start`: the state that every sentence starts from.
   * Returns m, (N, D) in the same order, and the state after the last token of the first sentence.
   */
  run(x, counts, start) {
    const { kernel, dim, size } = this;
    const n = x.length / size, most = counts[0] ?? 0;
    const gatesIn = kernel.multiply(this.input, x, n, new Float32Array(n * 4 * dim), this.bias);
    const m = new Float32Array(n * size);
    const before = new Float32Array(most * size), cell = new Float32Array(most * dim);
    for (let b = 0; b < most; b++) {
      before.set(start.output, b * size);
      cell.set(start.cell, b * dim);
    }
    const hidden = new Float32Array(most * dim);
    let first = 0;
    for (const rows of counts) {
      const gates = gatesIn.subarray(first * 4 * dim, (first + rows) * 4 * dim);
      kernel.multiply(this.state, before, rows, gates);
      for (let b = 0; b < rows; b++) this.step(gates, 4 * dim * b, cell, dim * b, hidden);
      const out = m.subarray(first * size, (first + rows) * size);
      if (this.projection) {
        kernel.multiply(this.projection, hidden, rows, out);  // m is zero until here
        const clip = this.projClip;
        for (let i = 0; i < out.length; i++) out[i] = out[i] > clip ? clip : out[i] < -clip ? -clip : out[i];
      } else out.set(hidden.subarray(0, rows * dim));
      before.set(out);
      first += rows;
    }
    return { m, end: { output: before.slice(0, size), cell: cell.slice(0, dim) } };
  }

  step(gates, at, cell, cellAt, hidden) {
    const { dim, cellClip: clip } = this;
    for (let k = 0; k < dim; k++) {
      const i = sigmoid(gates[at + k]), f = sigmoid(gates[at + dim + k]), o = sigmoid(gates[at + 2 * dim + k]);
      const j = 2 * sigmoid(2 * gates[at + 3 * dim + k]) - 1;  // tanh, by the faster exponential
      let c = f * cell[cellAt + k] + i * j;
      c = c > clip ? clip : c < -clip ? -clip : c;
      cell[cellAt + k] = c;
      hidden[cellAt + k] = o * (2 * sigmoid(2 * c) - 1);
    }
  }
}
