// Which ranks a site sends: they follow from the number of scores and alpha, in whole numbers.

import { UNIT } from "./decimal.js";

export const POINTS = 100;
const LEVEL = 2n ** 30n;

/** @param {bigint} a @param {bigint} b above 0 @returns {bigint} */
const floored = (a, b) => (a >= 0n ? a / b : -((-a + b - 1n) / b));

/**
 * @param {number} points @param {bigint | null} alpha in multiples of 1e-15 @returns {bigint[]}
 */
function levels(points, alpha) {
  const crowd = alpha === null ? 0 : Math.floor(points / 2), even = points - crowd;
  const found = Array.from({ length: even }, (_, i) => (BigInt(i + 1) * LEVEL) / BigInt(even));
  const centre = UNIT - (alpha ?? 0n), h = BigInt(crowd);
  for (let i = 1n; i <= h; i++) {
    // t = 2i/h - 1 runs up to 1; its signed square crowds around 0, that is around the centre.
    const t = 2n * i - h, side = t > 0n ? UNIT - centre : centre;
    found.push(floored((centre * h * h + t * (t < 0n ? -t : t) * side) * LEVEL, UNIT * h * h));
  }
  return found;
}

/** @param {number} n @param {number} points @param {bigint | null} alpha @returns {number[]} ascending, the last one n */
export function scheduledRanks(n, points, alpha) {
  if (n <= points) return Array.from({ length: n }, (_, i) => i + 1);
  const ranks = levels(points, alpha).map((level) => Math.max(1, Number((BigInt(n) * level + LEVEL - 1n) / LEVEL)));
  return [...new Set(ranks)].sort((a, b) => a - b);
}
