/**
 * A WebAssembly SIMD kernel for matrix products, assembled here byte by byte: no build step, no binary file.
 *
 * Weights stand in panels of 16 columns, (panels, nIn, 16), so that one pass over a panel reads memory in order:
 *
 *     function rows1(w, x, out, nIn, panels)    out[0..16 panels] += x[0..nIn] W
 *     function rows3(w, x, out, nIn, panels)    the same for three rows of x and out, which reads W once instead of thrice
 *
 * All arguments are byte addresses or counts; rows of x are nIn floats apart, rows of out 16 * panels floats.
 */

const I32 = 0x7f, V128 = 0x7b;
const LOOP = 0x03, END = 0x0b, BR_IF = 0x0d, VOID = 0x40;
const GET = 0x20, SET = 0x21, CONST = 0x41, ADD = 0x6a, SUB = 0x6b, MUL = 0x6c, LT_U = 0x49;
const COLUMNS = 4;  // vectors of four floats in a panel

const unsigned = (n) => {
  const bytes = [];
  do { bytes.push((n & 0x7f) | (n > 0x7f ? 0x80 : 0)); n >>>= 7; } while (n);
  return bytes;
};
const signed = (n) => {  // of small positive constants: one more bit keeps them positive
  const bytes = [];
  while (n > 0x3f) { bytes.push((n & 0x7f) | 0x80); n >>>= 7; }
  return [...bytes, n];
};
const simd = (code) => [0xfd, ...unsigned(code)];
const LOAD = simd(0), SPLAT = simd(9), STORE = simd(11), F_ADD = simd(0xe4), F_MUL = simd(0xe6);
const section = (id, bytes) => [id, ...unsigned(bytes.length), ...bytes];
const list = (items) => [...unsigned(items.length), ...items.flat()];
const text = (string) => list([...new TextEncoder().encode(string)]);

function body(rows) {
  const W = 0, X = 1, OUT = 2, N_IN = 3, PANELS = 4;
  const END_X = 5, X_BYTES = 6, OUT_BYTES = 7;
  const xAt = (r) => 8 + r, outAt = (r) => 8 + rows + r;
  const vectors = 8 + 2 * rows;
  const sum = (r, c) => vectors + r * COLUMNS + c;
  const splat = (r) => vectors + rows * COLUMNS + r;
  const weight = vectors + rows * COLUMNS + rows;
  const code = [];
  const get = (n) => code.push(GET, ...unsigned(n));
  const set = (n) => code.push(SET, ...unsigned(n));
  const advance = (n, bytes) => { get(n); code.push(CONST, ...signed(bytes), ADD); set(n); };
  const each = (n, f) => { for (let k = 0; k < n; k++) f(k); };

  get(N_IN); code.push(CONST, ...signed(4), MUL); set(X_BYTES);
  get(PANELS); code.push(CONST, ...signed(64), MUL); set(OUT_BYTES);
  get(X); get(X_BYTES); code.push(ADD); set(END_X);
  each(rows, (r) => {
    get(r ? outAt(r - 1) : OUT);
    if (r) { get(OUT_BYTES); code.push(ADD); }
    set(outAt(r));
  });
  code.push(LOOP, VOID);  // panels
  each(rows, (r) => {
    get(r ? xAt(r - 1) : X);
    if (r) { get(X_BYTES); code.push(ADD); }
    set(xAt(r));
    each(COLUMNS, (c) => { get(outAt(r)); code.push(...LOAD, 2, 16 * c); set(sum(r, c)); });
  });
  code.push(LOOP, VOID);  // inputs
  each(rows, (r) => { get(xAt(r)); code.push(...SPLAT, 2, 0); set(splat(r)); });
  each(COLUMNS, (c) => {
    get(W); code.push(...LOAD, 2, 16 * c); set(weight);
    each(rows, (r) => { get(weight); get(splat(r)); code.push(...F_MUL); get(sum(r, c)); code.push(...F_ADD); set(sum(r, c)); });
  });
  advance(W, 64);
  each(rows, (r) => advance(xAt(r), 4));
  get(xAt(0)); get(END_X); code.push(LT_U, BR_IF, 0, END);
  each(rows, (r) => {
    each(COLUMNS, (c) => { get(outAt(r)); get(sum(r, c)); code.push(...STORE, 2, 16 * c); });
    advance(outAt(r), 64);
  });
  get(PANELS); code.push(CONST, 1, SUB); set(PANELS);
  get(PANELS); code.push(BR_IF, 0, END, END);
  const locals = list([[...unsigned(3 + 2 * rows), I32], [...unsigned(rows * COLUMNS + rows + 1), V128]]);
  return [...unsigned(locals.length + code.length), ...locals, ...code];
}

/** The bytes of the module; it imports `js.memory`. */
export function assemble() {
  return new Uint8Array([
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    ...section(1, list([[0x60, ...list([I32, I32, I32, I32, I32].map((t) => [t])), 0]])),  // the one signature
    ...section(2, list([[...text("js"), ...text("memory"), 2, 0, 1]])),
    ...section(3, list([[0], [0]])),
    ...section(7, list([[...text("rows1"), 0, 0], [...text("rows3"), 0, 1]])),
    ...section(10, list([body(1), body(3)])),
  ]);
}
