// Bytes of the wire format: MessagePack in its one canonical form, CRC-32, SHA-256.

/** A value: integers are bigint, floats are number. @typedef {null | boolean | bigint | number | string | Uint8Array | Array<any> | Map<string, any>} Value */

const TEXT = new TextEncoder();

/** @param {Uint8Array[]} parts @returns {Uint8Array} */
export function joined(parts) {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** @param {number} code @param {number} size bytes @param {bigint} value @returns {Uint8Array} big-endian, after a code */
function sized(code, size, value) {
  const out = new Uint8Array(size + 1);
  out[0] = code;
  for (let i = size; i > 0; i--, value >>= 8n) out[i] = Number(value & 255n);
  return out;
}

/** @param {number} length @param {[number, number][]} codes by size in bytes @returns {Uint8Array} */
function headed(length, codes) {
  const [size, code] = /** @type {[number, number]} */ (codes.find(([bytes]) => length < 2 ** (8 * bytes)));
  return size ? sized(code, size, BigInt(length)) : Uint8Array.of(code);
}

/** @param {number} length @param {number} few @param {number} most @param {number} code of 16 bits; that of 32 is the next */
const container = (length, few, most, code) => (length < most ? Uint8Array.of(few | length) : headed(length, [[2, code], [4, code + 1]]));

/** @param {Value} value @returns {Uint8Array} */
export function packed(value) {
  if (value === null) return Uint8Array.of(0xc0);
  if (typeof value === "boolean") return Uint8Array.of(value ? 0xc3 : 0xc2);
  if (typeof value === "number") {
    const out = new Uint8Array(9);
    new DataView(out.buffer).setFloat64(1, value);
    out[0] = 0xcb;
    return out;
  }
  if (typeof value === "bigint") {
    if (value < 0n) {
      if (value >= -32n) return Uint8Array.of(Number(256n + value));
      const size = value >= -128n ? 1 : value >= -32768n ? 2 : value >= -2147483648n ? 4 : 8;
      return sized({ 1: 0xd0, 2: 0xd1, 4: 0xd2, 8: 0xd3 }[size] ?? 0, size, BigInt.asUintN(8 * size, value));
    }
    if (value < 128n) return Uint8Array.of(Number(value));
    const size = value < 256n ? 1 : value < 65536n ? 2 : value < 4294967296n ? 4 : 8;
    return sized({ 1: 0xcc, 2: 0xcd, 4: 0xce, 8: 0xcf }[size] ?? 0, size, value);
  }
  if (typeof value === "string") {
    const text = TEXT.encode(value);
    return joined([text.length < 32 ? Uint8Array.of(0xa0 | text.length) : headed(text.length, [[1, 0xd9], [2, 0xda], [4, 0xdb]]), text]);
  }
  if (value instanceof Uint8Array) return joined([headed(value.length, [[1, 0xc4], [2, 0xc5], [4, 0xc6]]), value]);
  if (value instanceof Map) return joined([container(value.size, 0x80, 16, 0xde), ...[...value].flatMap(([key, one]) => [packed(key), packed(one)])]);
  return joined([container(value.length, 0x90, 16, 0xdc), ...value.map(packed)]);
}

const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c;
});

/** @param {Uint8Array[]} parts @returns {number} */
export function crc32(parts) {
  let c = 0xffffffff;
  for (const part of parts) for (let i = 0; i < part.length; i++) c = CRC[(c ^ part[i]) & 255] ^ (c >>> 8);
  return (c ^ 0xffffffff) >>> 0;
}

/** @param {Float64Array} values @returns {Uint8Array} little-endian */
export function floatBytes(values) {
  const out = new Uint8Array(8 * values.length), view = new DataView(out.buffer);
  values.forEach((value, i) => view.setFloat64(8 * i, value, true));
  return out;
}

const PRIMES = (() => {
  const found = /** @type {number[]} */ ([]);
  for (let n = 2; found.length < 64; n++) if (found.every((p) => n % p)) found.push(n);
  return found;
})();
/** The first 32 bits of the fraction of a root. @param {number} root */
const bits = (root) => Math.floor((root - Math.floor(root)) * 4294967296) | 0;
const ROUNDS = Int32Array.from(PRIMES, (p) => bits(Math.cbrt(p)));
const START = Int32Array.from(PRIMES.slice(0, 8), (p) => bits(Math.sqrt(p)));

/** @param {Uint8Array} data @returns {string} in hexadecimal digits */
export function sha256(data) {
  const length = data.length, end = new Uint8Array(((length + 72) & ~63) - (length & ~63)), state = Int32Array.from(START), w = new Int32Array(64);
  end.set(data.subarray(length & ~63));
  end[length & 63] = 128;
  const view = new DataView(end.buffer);
  view.setUint32(end.length - 8, Math.floor(length / 2 ** 29));
  view.setUint32(end.length - 4, (length << 3) >>> 0);
  for (const part of [data.subarray(0, length & ~63), end]) {
    for (let at = 0; at < part.length; at += 64) compress(state, w, part, at);
  }
  return Array.from(state, (one) => (one >>> 0).toString(16).padStart(8, "0")).join("");
}

/** @param {Int32Array} state @param {Int32Array} w @param {Uint8Array} data @param {number} at */
function compress(state, w, data, at) {
  const turn = (/** @type {number} */ x, /** @type {number} */ n) => (x >>> n) | (x << (32 - n));
  for (let i = 0; i < 16; i++, at += 4) w[i] = (data[at] << 24) | (data[at + 1] << 16) | (data[at + 2] << 8) | data[at + 3];
  for (let i = 16; i < 64; i++) {
    const x = w[i - 15], y = w[i - 2];
    w[i] = w[i - 16] + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + w[i - 7] + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i++) {
    const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i] + w[i]) | 0;
    const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((one, i) => { state[i] = (state[i] + one) | 0; });
}
