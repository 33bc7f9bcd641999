// One number in [0, 1) from a row and a seed, the same on every machine: a multilinear hash, then a finaliser.
// 64 bits are four limbs of 16, so that products and their sums are whole numbers that float64 holds.

const MASK = 2n ** 64n - 1n;

/** @param {bigint} state @returns {bigint} */
function mixed(state) {
  state = (state + 0x9e3779b97f4a7c15n) & MASK;
  state = ((state ^ (state >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  state = ((state ^ (state >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return state ^ (state >> 31n);
}

/**
 * Multiply two numbers of 64 bits, given as halves, modulo 2^64.
 * @param {number} high @param {number} low @param {number} h @param {number} l @returns {[number, number]}
 */
function times(high, low, h, l) {
  const a0 = low & 0xffff, a1 = low >>> 16, b0 = l & 0xffff, b1 = l >>> 16;
  const middle = a0 * b1 + a1 * b0 + Math.floor((a0 * b0) / 65536);
  const top = a1 * b1 + Math.floor(middle / 65536);
  return [(Math.imul(high, l) + Math.imul(low, h) + (top | 0)) >>> 0, (((middle % 65536) << 16) | ((a0 * b0) & 0xffff)) >>> 0];
}

/** @param {number} high @param {number} low @returns {number} the finaliser, as a number in [0, 1) */
function finished(high, low) {
  low += 0x7f4a7c15;
  high = (high + 0x9e3779b9 + (low > 0xffffffff ? 1 : 0)) >>> 0;
  low >>>= 0;
  [high, low] = times((high ^ (high >>> 30)) >>> 0, (low ^ ((low >>> 30) | (high << 2))) >>> 0, 0xbf58476d, 0x1ce4e5b9);
  [high, low] = times((high ^ (high >>> 27)) >>> 0, (low ^ ((low >>> 27) | (high << 5))) >>> 0, 0x94d049bb, 0x133111eb);
  low = (low ^ ((low >>> 31) | (high << 1))) >>> 0;
  high = (high ^ (high >>> 31)) >>> 0;
  return (high * 2 ** 21 + (low >>> 11)) * 2 ** -53;
}

/**
 * @param {number} classes @param {bigint} seed
 * @returns {(probs: Float32Array | Float64Array, at: number) => number} from where a row begins to its U
 */
export function draws(classes, seed) {
  const start = mixed(seed), limbs = new Float64Array(4 * classes);
  for (let k = 0; k < classes; k++) {
    const key = mixed((start + BigInt(k)) & MASK);
    for (let i = 0; i < 4; i++) limbs[4 * k + i] = Number((key >> BigInt(16 * i)) & 0xffffn);
  }
  return (probs, at) => {
    let r0 = 0, r1 = 0, r2 = 0, r3 = 0;
    for (let k = 0; k < classes; k++) {
      const v = (probs[at + k] + 6144 - 6144) * 2 ** 40; // a whole number below 2^41
      const v2 = Math.floor(v / 4294967296), rest = v - v2 * 4294967296, v1 = Math.floor(rest / 65536), v0 = rest - v1 * 65536;
      const i = 4 * k, k0 = limbs[i], k1 = limbs[i + 1], k2 = limbs[i + 2];
      r0 += v0 * k0;
      r1 += v0 * k1 + v1 * k0;
      r2 += v0 * k2 + v1 * k1 + v2 * k0;
      r3 += v0 * limbs[i + 3] + v1 * k2 + v2 * k1;
    }
    r1 += Math.floor(r0 / 65536);
    r2 += Math.floor(r1 / 65536);
    r3 += Math.floor(r2 / 65536);
    return finished(((r3 % 65536) * 65536 + (r2 % 65536)) >>> 0, ((r1 % 65536) * 65536 + (r0 % 65536)) >>> 0);
  };
}
