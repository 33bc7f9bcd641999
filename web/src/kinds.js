// Invariants of the kinds of summaries.

import { MALFORMED, check, lowerShare, total } from "./checks.js";
import { alphaText, asAlpha } from "./decimal.js";
import { scheduledRanks } from "./ranks.js";
import { quoted } from "./text.js";
import { NOT_CANONICAL } from "./unpack.js";

/** @typedef {import("./bytes.js").Value} Value */
/** @typedef {import("./reader.js").Summary} Summary */
/** The fields of a message that depend on its kind. @typedef {{arrays: Uint8Array[], numbers: Value[], parameters: Value[]}} Content */
/** What a part of a summary says: columns of numbers under their titles. @typedef {{of: string, n: number, kind: string, columns: [string, ArrayLike<number>][], facts: [string, string][]}} Numbers */

const MOST_COUNT = 2 ** 52;
const LARGEST = Number.MAX_VALUE;

/** @param {Uint8Array} data @returns {Float64Array} */
function floats(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  return Float64Array.from({ length: data.length / 8 }, (_, i) => view.getFloat64(8 * i, true));
}

/** @param {Uint8Array} data @param {string} what @returns {Float64Array} */
function counts(data, what) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  return Float64Array.from({ length: data.length / 8 }, (_, i) => {
    const value = Number(view.getBigUint64(8 * i, true));
    check(value <= MOST_COUNT, `the summary's ${what} hold an impossible count`);
    return value;
  });
}

/** @param {Float64Array} values @returns {Float64Array} */
function ascending(values) {
  check(values.every(Number.isFinite), "the summary holds a score that is not finite");
  check(values.every((value, i) => !i || value >= values[i - 1]), "the summary's scores are not in ascending order");
  check(!values.some((value) => Object.is(value, -0)), NOT_CANONICAL);
  return values;
}

/** @param {Float64Array} values @returns {boolean} whether each is above the one before */
const rising = (values) => values.every((value, i) => !i || value > values[i - 1]);

/** @param {Value} smallest @param {Value} largest @param {number} n @returns {[number, number]} */
function extremes(smallest, largest, n) {
  check(typeof smallest === "number" && typeof largest === "number", MALFORMED);
  check(-LARGEST <= smallest && smallest <= largest && largest <= LARGEST && (n > 1 || smallest === largest), "the summary's smallest and largest score are not finite, or contradict each other");
  check(!Object.is(smallest, -0) && !Object.is(largest, -0), NOT_CANONICAL);
  return [smallest, largest];
}

/** @param {Float64Array} found @param {number} n */
function addUp(found, n) {
  check(found.every((count) => count >= 1) && total([...found]) === n, `the summary's counts are not positive, or do not add up to the ${n} scores that it claims`);
}

const KINDS = /** @type {Record<string, (content: Content, sizes: number[], whole: Summary) => Omit<Numbers, "of" | "n">>} */ ({ exact, ranks, ddsketch, tdigest, losses });

/** @param {Summary} whole @param {Content} content @param {number[]} sizes @param {string} of @returns {Numbers} */
export function readKind(whole, content, sizes, of) {
  check(Object.hasOwn(KINDS, whole.kind), `no summary kind is called ${quoted(whole.kind)}; update this page`);
  check((whole.kind === "losses") === whole.about.has("grid"), "the summary has losses and no grid, or a grid and no losses");
  return { of, n: total(sizes), ...KINDS[whole.kind](content, sizes, whole) };
}

/** @param {Content} content @param {number} arrays @param {number} numbers @param {number} [parameters] */
function expect(content, arrays, numbers, parameters = 0) {
  check(content.arrays.length === arrays && content.numbers.length === numbers && content.parameters.length === parameters, "the summary has too many or too few fields for its kind");
}

/** @param {Content} content @param {number[]} sizes @returns {Omit<Numbers, "of" | "n">} */
function exact(content, sizes) {
  expect(content, 1, 0);
  const values = ascending(floats(content.arrays[0]));
  check(values.length === total(sizes), `the summary claims ${total(sizes)} scores and holds ${values.length}`);
  return { kind: "exact", columns: [["score", values]], facts: [] };
}

/** @param {Content} content @param {number[]} sizes @param {Summary} whole @returns {Omit<Numbers, "of" | "n">} */
function ranks(content, sizes, whole) {
  const n = total(sizes), [points, alpha = null] = content.parameters;
  if (content.parameters.length) {
    check(typeof points === "bigint" && points >= 1n && points <= 4096n && (alpha === null || typeof alpha === "string") && content.parameters.length <= 2, MALFORMED);
    expect(content, 1, 0, content.parameters.length);
    check(sizes.length === 1, "the summary holds several sites and does not send its bounds");
    check(alpha === null || alphaText(asAlpha(alpha)) === alpha, NOT_CANONICAL);
    const values = ascending(floats(content.arrays[0])), lower = whole.columns.length || whole.byClass ? null : lowerShare(whole.score);
    const found = scheduledRanks(n, Number(points), alpha === null ? null : asAlpha(alpha), lower);
    check(values.length === found.length, `the summary holds ${values.length} scores, expected ${found.length} ranks`);
    return { kind: "ranks", columns: [["rank", found], ["score", values]], facts: [["ranks asked for", String(points)], ["alpha of the ranks", alpha ?? "not stated"]] };
  }
  expect(content, 3, 1);
  const [gap] = content.numbers, values = ascending(floats(content.arrays[0]));
  const lower = counts(content.arrays[1], "lower counts"), below = counts(content.arrays[2], "upper counts");
  check(typeof gap === "bigint", MALFORMED);
  check(values.length === lower.length && values.length === below.length && values.length > 0, "the summary's scores and counts differ in number");
  check(rising(values), "the summary's points are not in strictly ascending order");
  const last = values.length - 1, steady = (/** @type {Float64Array} */ some) => some.every((count, i) => !i || count >= some[i - 1]);
  check(steady(lower) && steady(below) && lower.every((count, i) => i === last || count <= below[i + 1]) && below[last] < n && lower[last] === n, "the summary's counts do not add up");
  check(below.every((count, i) => count - (i ? lower[i - 1] : 0) <= Number(gap)) && Number(gap) < n, "the summary's counts leave a wider gap than it states");
  return { kind: "ranks", columns: [["score", values], ["at most it, at least", lower], ["below it, at most", below]], facts: [["gap", String(gap)]] };
}

/** @type {Float64Array | null} */
let known = null;

/** @returns {Float64Array} the upper edges of the buckets of a ddsketch, worked out once */
function edges() {
  if (known) return known;
  const up = [1], growth = 101 / 99;
  while (up[up.length - 1] * growth < LARGEST) up.push(up[up.length - 1] * growth);
  const down = up.slice(1).map((edge) => 1 / edge).filter((edge) => edge >= 2 ** -1022).reverse(), positive = [...down, ...up, LARGEST];
  return known = Float64Array.from([...[...positive].reverse().map((edge) => -edge), -Number.MIN_VALUE, 0, ...positive]);
}

/** @param {Content} content @param {number[]} sizes @returns {Omit<Numbers, "of" | "n">} */
function ddsketch(content, sizes) {
  expect(content, 2, 2);
  const n = total(sizes), buckets = counts(content.arrays[0], "buckets"), found = counts(content.arrays[1], "counts"), table = edges();
  check(buckets.length === found.length && buckets.length > 0, "the summary's buckets and counts differ in number");
  check(rising(buckets) && buckets[buckets.length - 1] < table.length, `the summary's buckets are not in strictly ascending order below ${table.length}`);
  addUp(found, n);
  const [smallest, largest] = extremes(content.numbers[0], content.numbers[1], n);
  const inside = (/** @type {number} */ score, /** @type {number} */ bucket) => score <= table[bucket] && (!bucket || score > table[bucket - 1]);
  check(inside(smallest, buckets[0]) && inside(largest, buckets[buckets.length - 1]), "the summary's smallest and largest score are not in its first and last bucket");
  return { kind: "ddsketch", columns: [["at most", buckets.map((bucket) => table[bucket])], ["scores", found], ["smallest, largest", [smallest, largest]]], facts: [] };
}

/** @param {Content} content @param {number[]} sizes @returns {Omit<Numbers, "of" | "n">} */
function tdigest(content, sizes) {
  expect(content, 2, 2);
  const n = total(sizes), means = ascending(floats(content.arrays[0])), weights = counts(content.arrays[1], "weights");
  check(means.length === weights.length && means.length > 0, "the summary's means and weights differ in number");
  addUp(weights, n);
  const [smallest, largest] = extremes(content.numbers[0], content.numbers[1], n);
  check(smallest <= means[0] && means[means.length - 1] <= largest, "the summary's means are not between its smallest and its largest score");
  return { kind: "tdigest", columns: [["mean", means], ["scores", weights], ["smallest, largest", [smallest, largest]]], facts: [] };
}

/** @param {Content} content @param {number[]} sizes @param {Summary} whole @returns {Omit<Numbers, "of" | "n">} */
function losses(content, sizes, whole) {
  expect(content, content.arrays.length === 2 ? 2 : 1, 1);
  const n = total(sizes), [rounded] = content.numbers, bytes = whole.about.get("grid"), unit = 2 ** 20;
  check(typeof rounded === "bigint" && rounded >= 1n && rounded <= 2n ** 32n && n <= 2 ** 32 && bytes instanceof Uint8Array && bytes.length % 8 === 0, MALFORMED);
  const grid = floats(bytes);
  check(grid.length >= 1 && grid.length <= 16384 && grid.every(Number.isFinite) && rising(grid), "thresholds: expected 1 to 16384 finite numbers in rising order");
  check(!grid.some((point) => Object.is(point, -0)), NOT_CANONICAL);
  const given = counts(content.arrays[content.arrays.length - 1], "sums"), sums = new Float64Array(grid.length);
  const places = content.arrays.length === 2 ? counts(content.arrays[0], "places") : Float64Array.from(grid.keys());
  check(places.length === given.length && rising(places) && (!places.length || places[places.length - 1] < grid.length), `the summary has ${given.length} sums for ${grid.length} thresholds`);
  for (let i = 0, k = 0, now = n * unit; i < grid.length; i++) sums[i] = now = places[k] === i ? given[k++] : now;
  check(sums.every((sum) => sum <= n * unit), "the summary's losses exceed their bound");
  check(whole.about.has("rising") || sums.every((sum, i) => !i || sum <= sums[i - 1]), "the summary's losses rise along the grid");
  const changed = [...sums.keys()].filter((i) => sums[i] !== (i ? sums[i - 1] : n * unit)), short = changed.length * 2 < grid.length;
  check((content.arrays.length === 2) === short && (!short || places.join() === changed.join()), NOT_CANONICAL);
  return { kind: "losses", columns: [["threshold", grid], ["sum of losses", sums]], facts: [["rounded up", String(rounded)]] };
}
