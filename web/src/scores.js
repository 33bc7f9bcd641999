// Conformity scores, to the last bit as the library computes them.

import { general } from "./decimal.js";
import { SUM_TOLERANCE } from "./table.js";
import { InputError, counted } from "./text.js";
import { draws } from "./hash.js";

const ROUNDING = 1e-4;

/** @template T @typedef {import("./cells.js").Work<T>} Work */

/**
 * `fields` are its parameters in order, as a file states them.
 * @typedef {{name: "lac" | "aps" | "raps" | "residual", randomized: boolean, seed: bigint, penalty: number, free: number}} Score
 */

export const LOGITS = "this page takes probabilities only, as the last bits of exp differ between machines";
const SHIFT = 1.5 * 2 ** 12;
const SOME = 2 ** 16;

/** @param {number} p @returns {number} the nearest multiple of 2^-40: sums of such are exact, in any order */
export const onGrid = (p) => p + SHIFT - SHIFT;

/** @param {Score} score @returns {(boolean | bigint | number)[]} the parameters in order; a number is a float64 */
export function parametersOf(score) {
  if (score.name === "lac" || score.name === "residual") return [];
  const first = [score.randomized, score.seed];
  return score.name === "aps" ? first : [...first, score.penalty, BigInt(score.free)];
}

/** @param {string} text @param {string} what @param {bigint} end @returns {bigint} */
function whole(text, what, end) {
  const number = /^\d{1,20}$/.test(text.trim()) ? BigInt(text.trim()) : -1n;
  if (number < 0n || number >= end) throw new InputError(`${what} is ${text.trim().slice(0, 40) || "empty"}, expected a whole number from 0 to ${end - 1n}`);
  return number;
}

/** @param {Score["name"]} name @param {{randomized?: boolean, seed?: string, penalty?: string, free?: string}} typed @returns {Score} */
export function scoreOf(name, { randomized = false, seed = "0", penalty = "0.001", free = "1" }) {
  const price = /^[-+.\deE]+$/.test(penalty.trim()) ? Number(penalty) : NaN;
  if (!(price >= 0 && price <= 2 ** 20)) throw new InputError(`penalty is ${penalty.trim().slice(0, 40) || "empty"}, expected a number from 0 to 2^20`);
  return { name, randomized, seed: whole(seed, "random_state", 2n ** 63n), penalty: price, free: Number(whole(free, "free_ranks", 2n ** 31n)) };
}

/** @param {Float64Array} values @returns {Float32Array} as they are scored */
export const rounded = (values) => new Float32Array(values);

/** @type {WeakMap<Float32Array | Float64Array, number>} */
const DECIMALS = new WeakMap();

/** @param {Float32Array | Float64Array} probs @returns {number} the decimals of all entries, from 1 to 3; 0 if more, or if all are whole */
function decimalsOf(probs) {
  let known = DECIMALS.get(probs);
  if (known === undefined) DECIMALS.set(probs, known = [0, 1, 2, 3].find((d) => probs.every((p) => Math.abs(p * 10 ** d - Math.round(p * 10 ** d)) < ROUNDING)) ?? 0);
  return known;
}

/** @param {Float32Array | Float64Array} probs @param {number} classes @returns {number} how far a sum may be off if entries have 1, 2 or 3 decimals */
function slackOf(probs, classes) {
  const decimals = decimalsOf(probs);
  return decimals ? classes * 0.5 * 10 ** -decimals - ROUNDING : 0;
}

/** @param {Float32Array | Float64Array} probs @param {number} classes @returns {string | null} a warning if sums are off by rounding */
export function roundingOf(probs, classes) {
  for (let at = 0; at < probs.length; at += classes) {
    let sum = 0;
    for (let k = at; k < at + classes; k++) sum += probs[k];
    if (Math.abs(sum - 1) > SUM_TOLERANCE) return `Probabilities are rounded to ${counted(decimalsOf(probs), "decimal")}, so that rows do not sum to 1; they are taken as they are.`;
  }
  return null;
}

/**
 * Refuses a row that is no distribution.
 * @param {Float32Array | Float64Array} probs @param {number} at where the row begins @param {number} classes @returns {string | null}
 */
export function wrongRow(probs, at, classes) {
  let sum = 0, least = Infinity;
  for (let k = at; k < at + classes; k++) {
    sum += probs[k];
    if (probs[k] < least) least = probs[k];
  }
  if (least >= 0 && (Math.abs(sum - 1) <= SUM_TOLERANCE || Math.abs(sum - 1) < slackOf(probs, classes))) return null;
  if (!Number.isFinite(sum)) return "holds a value that is not finite (NaN or inf)";
  const problem = least < 0 ? `has the negative entry ${general(least, 4)}` : `sums to ${general(sum)}, not 1`;
  return `${problem}; ${adviceOn(probs, classes)}`;
}

/**
 * Advice on rows that are no distributions: percentages and logits are recognised by all rows, not by one.
 * @param {Float32Array | Float64Array} probs @param {number} classes @returns {string}
 */
function adviceOn(probs, classes) {
  const rows = probs.length / classes;
  let percent = 0, whole = 0, negative = false;
  for (let at = 0; at < probs.length; at += classes) {
    let sum = 0;
    for (let k = at; k < at + classes; k++) {
      sum += probs[k];
      negative ||= probs[k] < 0;
    }
    if (Math.abs(sum - 100) <= 1) percent++;
    if (Math.abs(sum - 1) <= SUM_TOLERANCE) whole++;
  }
  if (!negative && percent === rows) return "every row sums to 100: these are percentages; divide them by 100";
  return negative && whole < rows / 2 ? `if these are logits, take their softmax: ${LOGITS}` : "give one complete distribution per row";
}

/**
 * The score of each row's own label.
 * @param {Float32Array} probs @param {number} classes @param {Int32Array} labels @param {Score} score
 * @param {(row: number, problem: string) => Error} refuse @returns {Work<Float64Array>}
 */
export function* scoresOf(probs, classes, labels, score, refuse) {
  const out = new Float64Array(labels.length), lac = score.name === "lac", hash = score.randomized && !lac ? draws(classes, score.seed) : null;
  for (let row = 0; row < labels.length; row++) {
    const at = row * classes, problem = wrongRow(probs, at, classes);
    if (problem !== null) throw refuse(row, problem);
    const own = probs[at + labels[row]];
    out[row] = lac ? 1 - own : summed(probs, at, classes, labels[row], own, score, hash ? hash(probs, at) : 0);
    if (row % SOME === SOME - 1) yield row / labels.length;
  }
  return out;
}

/** @param {Float32Array} probs @param {number} at @param {number} classes @param {number} label @param {number} own @param {Score} score @param {number} draw */
function summed(probs, at, classes, label, own, score, draw) {
  let total = 0, rank = 1, before = 0;
  for (let k = 0; k < classes; k++) {
    const p = probs[at + k];
    if (p > own) {
      total += onGrid(p);
      rank++;
    } else if (p === own && k < label) before++; // ties go by class index
  }
  const mass = onGrid(own);
  return combined(total + mass + before * mass, rank + before, mass, draw, score);
}

/** @param {number} total @param {number} rank @param {number} mass @param {number} draw @param {Score} score @returns {number} */
function combined(total, rank, mass, draw, score) {
  const found = score.randomized ? total - draw * mass : total;
  return score.name === "raps" ? found + Math.max(rank - score.free, 0) * score.penalty : found;
}

/**
 * The score of every label of one row, for sets.
 * @param {Float32Array | Float64Array} probs @param {number} at @param {number} classes @param {Score} score
 * @param {((probs: Float32Array | Float64Array, at: number) => number) | null} hash @returns {Float64Array}
 */
export function allScores(probs, at, classes, score, hash) {
  const out = new Float64Array(classes);
  if (score.name === "lac") return out.map((_, k) => 1 - probs[at + k]);
  const order = Array.from(out, (_, k) => k).sort((a, b) => probs[at + b] - probs[at + a] || a - b), draw = hash ? hash(probs, at) : 0;
  let total = 0;
  order.forEach((label, i) => {
    const mass = onGrid(probs[at + label]);
    total += mass;
    out[label] = combined(total, i + 1, mass, draw, score);
  });
  return out;
}
