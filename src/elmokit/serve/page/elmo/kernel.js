/**
 * Matrix products on one growing memory: by SIMD where WebAssembly has it, else in plain JavaScript.
 *
 * Measured in headless Chromium (docs/explorer.md), the SIMD kernel is several times as fast as plain JavaScript, which
 * has no vectors of floats; it costs 2 kB of source and needs 'wasm-unsafe-eval' in a content policy. Where a policy or an
 * old browser refuses it, the plain loops give the same numbers.
 */
import { assemble } from "./simd.js";

const PANEL = 16;  // columns that stand together
const PAGE = 65536;  // bytes, the unit in which memory grows
const ROWS = 96;  // rows of input that are copied in at a time

/** A weight in memory: (nIn, nOut), in panels. */
class Matrix {
  constructor(at, nIn, nOut) {
    Object.assign(this, { at, nIn, nOut, panels: Math.ceil(nOut / PANEL) });
  }
}

export class Kernel {
  /** `simd: false` forces plain JavaScript, for comparison. */
  constructor({ simd = true } = {}) {
    this.top = 16;  // bytes in use
    this.scratch = { at: 0, bytes: 0 };
    this.wasm = null;
    try {
      if (!simd) throw new Error("not wanted");
      this.memory = new WebAssembly.Memory({ initial: 1 });
      this.wasm = new WebAssembly.Instance(new WebAssembly.Module(assemble()), { js: { memory: this.memory } }).exports;
    } catch {
      this.memory = new PlainMemory();
    }
    this.f32 = new Float32Array(this.memory.buffer);
  }

  get name() {
    return this.wasm ? "WebAssembly SIMD" : "plain JavaScript";
  }

  /** Room for so many floats; returns its byte address. */
  allocate(floats) {
    const at = this.top;
    this.top = Math.ceil((at + 4 * floats) / 64) * 64;
    const missing = this.top - this.memory.buffer.byteLength;
    if (missing > 0) {
      this.memory.grow(Math.ceil(missing / PAGE));
      this.f32 = new Float32Array(this.memory.buffer);
    }
    return at;
  }

  /** Keep a weight of shape (nIn, nOut); or (nOut, nIn), as output layers have it, if `transposed`. */
  matrix(data, nIn, nOut, transposed = false) {
    const matrix = new Matrix(this.allocate(Math.ceil(nOut / PANEL) * PANEL * nIn), nIn, nOut);
    const f32 = this.f32;
    let at = matrix.at / 4;
    for (let first = 0; first < nOut; first += PANEL) {
      const width = Math.min(PANEL, nOut - first);
      for (let i = 0; i < nIn; i++, at += PANEL) {
        for (let c = 0; c < width; c++) f32[at + c] = transposed ? data[(first + c) * nIn + i] : data[i * nOut + first + c];
      }
    }
    return matrix;
  }

  /**
   * x W + bias for rows of x, (rows, nIn), into `out`, (rows, nOut). Without a bias, what `out` holds is added to.
   */
  multiply(matrix, x, rows, out, bias = null) {
    const { nIn, nOut, panels } = matrix;
    const width = panels * PANEL;
    const bytes = 4 * Math.min(rows, ROWS) * (nIn + width);
    if (this.scratch.bytes < bytes) this.scratch = { at: this.allocate(bytes / 4), bytes };
    const xAt = this.scratch.at, outAt = xAt + 4 * Math.min(rows, ROWS) * nIn;
    for (let first = 0; first < rows; first += ROWS) {
      const n = Math.min(ROWS, rows - first);
      this.f32.set(x.subarray(first * nIn, (first + n) * nIn), xAt / 4);
      for (let r = 0; r < n; r++) {
        const row = bias ?? out.subarray((first + r) * nOut, (first + r + 1) * nOut);
        this.f32.set(row, outAt / 4 + r * width);
      }
      this.run(matrix, xAt, outAt, n);
      for (let r = 0; r < n; r++) {
        const from = outAt / 4 + r * width;
        out.set(this.f32.subarray(from, from + nOut), (first + r) * nOut);
      }
    }
    return out;
  }

  run({ at, nIn, panels }, xAt, outAt, rows) {
    let r = 0;
    if (this.wasm) {
      for (; r + 3 <= rows; r += 3) this.wasm.rows3(at, xAt + 4 * r * nIn, outAt + 64 * r * panels, nIn, panels);
      for (; r < rows; r++) this.wasm.rows1(at, xAt + 4 * r * nIn, outAt + 64 * r * panels, nIn, panels);
    } else {
      for (; r < rows; r++) plainRow(this.f32, at / 4, xAt / 4 + r * nIn, outAt / 4 + 16 * r * panels, nIn, panels);
    }
  }
}

/** One row of x times all panels, eight columns at a time: as many sums as a processor has registers for. */
function plainRow(f, w, x, out, nIn, panels) {
  for (let p = 0; p < panels; p++, w += PANEL * nIn) {
    for (let half = 0; half < PANEL; half += 8, out += 8) {
      let a = f[out], b = f[out + 1], c = f[out + 2], d = f[out + 3];
      let e = f[out + 4], g = f[out + 5], h = f[out + 6], k = f[out + 7];
      for (let i = 0, at = w + half; i < nIn; i++, at += PANEL) {
        const v = f[x + i];
        a += v * f[at]; b += v * f[at + 1]; c += v * f[at + 2]; d += v * f[at + 3];
        e += v * f[at + 4]; g += v * f[at + 5]; h += v * f[at + 6]; k += v * f[at + 7];
      }
      f[out] = a; f[out + 1] = b; f[out + 2] = c; f[out + 3] = d;
      f[out + 4] = e; f[out + 5] = g; f[out + 6] = h; f[out + 7] = k;
    }
  }
}

/** What WebAssembly.Memory is, where there is none. */
class PlainMemory {
  constructor() {
    this.buffer = new ArrayBuffer(PAGE);
  }

  grow(pages) {
    const bigger = new ArrayBuffer(this.buffer.byteLength + pages * PAGE);
    new Uint8Array(bigger).set(new Uint8Array(this.buffer));
    this.buffer = bigger;
  }
}
