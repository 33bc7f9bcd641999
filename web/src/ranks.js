// Ranks that a site sends; they follow from the number of scores and alpha, in whole numbers.

import { UNIT } from "./decimal.js";

export const POINTS = 100;
const LEVEL = 2n ** 30n;

/** @param {bigint} a @param {bigint} b above 0 @returns {bigint} */
const floored = (a, b) => (a >= 0n ? a / b : -((-a + b - 1n) / b));

/** A fraction. @typedef {readonly [bigint, bigint]} Share */

/** @param {Share} centre @param {number} count @returns {bigint[]} levels that crowd around one */
function around([c, unit], count) {
  const h = BigInt(count);
  return Array.from({ length: count }, (_, k) => {
    // t = 2i/h - 1 runs up to 1; its signed square crowds around 0, that is around the centre.
    const t = 2n * BigInt(k + 1) - h, side = t > 0n ? unit - c : c;
    return floored((c * h * h + t * (t < 0n ? -t : t) * side) * LEVEL, unit * h * h);
  });
}

/** @param {number} points @param {bigint | null} alpha in multiples of 1e-15 @param {Share | null} lower @returns {bigint[]} */
function levels(points, alpha, lower) {
  const crowd = alpha === null ? 0 : Math.floor(points / 2), even = lower ? Math.max(1, points - crowd - 1) : points - crowd, a = alpha ?? 0n;
  const found = Array.from({ length: even }, (_, i) => (BigInt(i + 1) * LEVEL) / BigInt(even));
  if (!lower) return [...found, ...around([UNIT - a, UNIT], crowd)];
  const [part, whole] = lower, unit = UNIT * whole, missed = a * part, less = Math.floor(crowd / 2);
  return [0n, ...found, ...around([unit - a * whole + missed, unit], crowd - less), ...around([missed, unit], less)];
}

/**
 * @param {number} n @param {number} points @param {bigint | null} alpha @param {Share | null} [lower] of alpha, if a lower end may miss it
 * @returns {number[]} ascending, the last one n
 */
export function scheduledRanks(n, points, alpha, lower = null) {
  if (n <= points) return Array.from({ length: n }, (_, i) => i + 1);
  const ranks = levels(points, alpha, lower).map((level) => Math.max(1, Number((BigInt(n) * level + LEVEL - 1n) / LEVEL)));
  return [...new Set(ranks)].sort((a, b) => a - b);
}
