// Verification of Ed25519 signatures (RFC 8032), over public numbers only.
// Its own few lines: browsers on locked-down machines are old, and many have no Ed25519.

const P = 2n ** 255n - 19n;
const L = 2n ** 252n + 27742317777372353535851937790883648493n;

/** @param {bigint} a @param {bigint} m @returns {bigint} */
const mod = (a, m = P) => ((a % m) + m) % m;

/** @param {bigint} base @param {bigint} power @returns {bigint} */
function raised(base, power) {
  let found = 1n;
  for (base = mod(base); power; power >>= 1n, base = (base * base) % P) if (power & 1n) found = (found * base) % P;
  return found;
}

/** @param {bigint} a @returns {bigint} */
const inverse = (a) => raised(a, P - 2n);
const D = mod(-121665n * inverse(121666n));
const ROOT = raised(2n, (P - 1n) / 4n); // of -1

/** X, Y, Z and T = XY / Z. @typedef {[bigint, bigint, bigint, bigint]} Point */

/** @param {Point} one @param {Point} other @returns {Point} */
function sum([x1, y1, z1, t1], [x2, y2, z2, t2]) {
  const a = (y1 - x1) * (y2 - x2), b = (y1 + x1) * (y2 + x2), c = 2n * t1 * t2 * D, d = 2n * z1 * z2;
  const e = mod(b - a), f = mod(d - c), g = mod(d + c), h = mod(b + a);
  return [mod(e * f), mod(g * h), mod(f * g), mod(e * h)];
}

/** @param {bigint} times @param {Point} point @returns {Point} */
function multiple(times, point) {
  /** @type {Point} */
  let found = [0n, 1n, 1n, 0n];
  for (; times; times >>= 1n, point = sum(point, point)) if (times & 1n) found = sum(found, point);
  return found;
}

/** @param {Uint8Array} bytes @returns {bigint} little-endian */
const number = (bytes) => [...bytes].reduceRight((sum_, byte) => (sum_ << 8n) | BigInt(byte), 0n);

/** @param {Uint8Array} bytes @returns {Point | null} */
function point(bytes) {
  const all = number(bytes), sign = all >> 255n, y = mod(all & (2n ** 255n - 1n));
  const square = mod((y * y - 1n) * inverse(D * y * y + 1n));
  let x = raised(square, (P + 3n) / 8n);
  if (mod(x * x - square)) x = mod(x * ROOT);
  if (mod(x * x - square) || (!x && sign)) return null;
  if ((x & 1n) !== sign) x = P - x;
  return [x, y, 1n, mod(x * y)];
}

/** @param {Point} at @returns {bigint} as it is written in 32 bytes */
function encoded([x, y, z]) {
  const one = inverse(z);
  return mod(y * one) | ((mod(x * one) & 1n) << 255n);
}

const BASE = /** @type {Point} */ (point(Uint8Array.from({ length: 32 }, (_, i) => (i ? 0x66 : 0x58))));

/** The first 64 bits of the fraction of a root. @param {bigint} n @param {bigint} k @returns {bigint} */
function rootBits(n, k) {
  const wanted = n << (64n * k);
  let low = 0n, high = 1n << 80n;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** k <= wanted) low = middle;
    else high = middle;
  }
  return low & (2n ** 64n - 1n);
}

const PRIMES = Array.from({ length: 410 }, (_, n) => n).filter((n) => n > 1 && !Array.from({ length: 19 }, (_, k) => k + 2).some((k) => k < n && n % k === 0));

/** @param {Uint8Array} data @returns {Uint8Array} */
export function sha512(data) {
  const WORD = 2n ** 64n - 1n, turn = (/** @type {bigint} */ x, /** @type {bigint} */ n) => ((x >> n) | (x << (64n - n))) & WORD;
  const rounds = PRIMES.slice(0, 80).map((p) => rootBits(BigInt(p), 3n)), state = PRIMES.slice(0, 8).map((p) => rootBits(BigInt(p), 2n));
  const padded = new Uint8Array(Math.ceil((data.length + 17) / 128) * 128), view = new DataView(padded.buffer);
  padded.set(data);
  padded[data.length] = 128;
  view.setBigUint64(padded.length - 8, BigInt(data.length) * 8n);
  for (let at = 0; at < padded.length; at += 128) {
    const w = Array.from({ length: 16 }, (_, i) => view.getBigUint64(at + 8 * i));
    for (let i = 16; i < 80; i++) {
      const x = w[i - 15], y = w[i - 2];
      w[i] = (w[i - 16] + (turn(x, 1n) ^ turn(x, 8n) ^ (x >> 7n)) + w[i - 7] + (turn(y, 19n) ^ turn(y, 61n) ^ (y >> 6n))) & WORD;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 80; i++) {
      const one = h + (turn(e, 14n) ^ turn(e, 18n) ^ turn(e, 41n)) + ((e & f) ^ (~e & WORD & g)) + rounds[i] + w[i];
      const two = (turn(a, 28n) ^ turn(a, 34n) ^ turn(a, 39n)) + ((a & b) ^ (a & c) ^ (b & c));
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) & WORD, c, b, a, (one + two) & WORD];
    }
    [a, b, c, d, e, f, g, h].forEach((one, i) => { state[i] = (state[i] + one) & WORD; });
  }
  const out = new DataView(new ArrayBuffer(64));
  state.forEach((one, i) => out.setBigUint64(8 * i, one));
  return new Uint8Array(out.buffer);
}

/** @param {string} hex @returns {Uint8Array | null} */
export function fromHex(hex) {
  return /^(?:[0-9a-fA-F]{2})*$/.test(hex) ? Uint8Array.from({ length: hex.length / 2 }, (_, i) => parseInt(hex.slice(2 * i, 2 * i + 2), 16)) : null;
}

/** @param {Uint8Array} data @param {string} signature @param {string} key both in hexadecimal digits @returns {boolean} */
export function isSigned(data, signature, key) {
  const signed = fromHex(signature), known = fromHex(key);
  if (signed?.length !== 64 || known?.length !== 32) return false;
  const owner = point(known), s = number(signed.subarray(32)), first = signed.subarray(0, 32);
  if (!owner || s >= L) return false;
  const all = new Uint8Array(64 + data.length);
  all.set(first);
  all.set(known, 32);
  all.set(data, 64);
  const k = mod(number(sha512(all)), L);
  const [x, y, z, t] = owner;
  return encoded(sum(multiple(s, BASE), multiple(k, [P - x, y, z, P - t]))) === number(first);
}
