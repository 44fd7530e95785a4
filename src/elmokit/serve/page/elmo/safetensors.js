/** Reads safetensors files (F16, BF16, F32) as float32: a JSON header, then the numbers in little-endian order. */

const HEADER_LIMIT = 1 << 24;

/** An ArrayBuffer to a map of names to { shape, data: Float32Array }; nothing is converted before it is asked for. */
export function readSafetensors(buffer, label = "safetensors") {
  const damaged = (found) => new Error(`${label}: expected a safetensors file, found ${found}`);
  if (buffer.byteLength < 8) throw damaged(`${buffer.byteLength} bytes`);
  const size = Number(new DataView(buffer).getBigUint64(0, true));
  if (size > HEADER_LIMIT || 8 + size > buffer.byteLength) throw damaged("a header that does not fit");
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, size)));
  const names = Object.keys(header).filter((name) => name !== "__metadata__");
  return {
    names,
    has: (name) => name in header,
    get(name) {
      if (!(name in header)) throw new Error(`${label}: expected a tensor ${name}, found none`);
      const { dtype, shape, data_offsets: [first, last] } = header[name];
      const count = shape.reduce((product, n) => product * n, 1);
      const read = READERS[dtype];
      if (!read) throw new Error(`${label}: expected F16, BF16 or F32 in ${name}, found ${dtype}`);
      if (last - first !== count * read.bytes || 8 + size + last > buffer.byteLength) throw damaged(`${name} cut short`);
      return { shape, data: read(buffer.slice(8 + size + first, 8 + size + last), count) };
    },
  };
}

let halves = null;  // float32 of every half, made when a file first has any

function halfTable() {
  const table = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    if (exponent === 0) table[bits] = sign * fraction * 2 ** -24;
    else if (exponent === 31) table[bits] = fraction ? NaN : sign * Infinity;
    else table[bits] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }
  return table;
}

function readHalf(buffer, count) {
  halves ??= halfTable();
  const bits = new Uint16Array(buffer), data = new Float32Array(count);
  for (let i = 0; i < count; i++) data[i] = halves[bits[i]];
  return data;
}

function readBrain(buffer, count) {  // the upper half of a float32
  const bits = new Uint16Array(buffer), words = new Uint32Array(count);
  for (let i = 0; i < count; i++) words[i] = bits[i] << 16;
  return new Float32Array(words.buffer);
}

const readFull = (buffer) => new Float32Array(buffer);
const READERS = {
  F16: Object.assign(readHalf, { bytes: 2 }),
  BF16: Object.assign(readBrain, { bytes: 2 }),
  F32: Object.assign(readFull, { bytes: 4 }),
};
