// Encoder of summaries, byte for byte as `fedconformal summarize`.

import { crc32, floatBytes, joined, packed } from "./bytes.js";
import { alphaText, asAlpha, general } from "./decimal.js";
import { ALL, columnsOf, membersOf } from "./groups.js";
import { POINTS, scheduledRanks } from "./ranks.js";
import { parametersOf } from "./scores.js";
import { InputError, asName, quoted } from "./text.js";

/** @typedef {import("./bytes.js").Value} Value */
/** @typedef {import("./scores.js").Score} Score */

/**
 * What is stated besides the scores.
 * @typedef {{site: string | null, kind: "ranks" | "exact", alpha: string | null, score: Score | null, classes?: string[] | number | null, rounded: boolean,
 *   model?: string | null, temperature?: string | null, calibration?: string | null, expires?: string | null}} About
 */
/** The numbers of one part: scores in order, and the ranks they are at. @typedef {{of: string, n: number, ranks: number[], values: Float64Array}} Part */
/** @typedef {{bytes: Uint8Array, parts: Part[]}} Made */

const MAX_SIZE = 2 ** 32;
const MAX_CLASSES = 2 ** 16;
const MAX_GROUPS = 2 ** 12;
const MAX_COLUMNS = 2 ** 6;

/** @param {number} value @returns {Uint8Array} little-endian */
function word32(value) {
  const out = new Uint8Array(4);
  new DataView(out.buffer).setUint32(0, value, true);
  return out;
}

/** @param {Map<string, Value>} shared @param {Map<string, Value>} own @param {Uint8Array[]} arrays @returns {Uint8Array} */
export function message(shared, own, arrays) {
  const parts = /** @type {Uint8Array[]} */ ([new TextEncoder().encode("FCS1")]);
  for (const header of [packed(shared), packed(own)]) parts.push(word32(header.length), header);
  parts.push(...arrays);
  return joined([...parts, word32(crc32(parts))]);
}

/** @param {About} about @param {string[]} columns @param {boolean} byClass @returns {Map<string, Value>} what all sites of a calibration have in common */
function sharedHeader(about, columns, byClass) {
  const alpha = about.alpha === null ? null : alphaText(asAlpha(about.alpha));
  /** @type {Map<string, Value>} */
  const found = new Map([["kind", about.kind]]);
  if (about.kind === "ranks") found.set("parameters", alpha === null ? [BigInt(POINTS)] : [BigInt(POINTS), alpha]);
  if (columns.length) found.set("columns", columns);
  if (byClass) found.set("by_class", true);
  if (about.score) found.set("score", [about.score.name, parametersOf(about.score)]);
  if (about.model != null) found.set("model", asName(about.model, "model fingerprint"));
  if (about.temperature != null) found.set("temperature", asTemperature(about.temperature));
  if (about.classes != null) found.set("classes", typeof about.classes === "number" ? BigInt(about.classes) : about.classes);
  if (about.rounded) found.set("precision", "float32");
  if (about.calibration != null) {
    found.set("calibration", asName(about.calibration, "calibration id"));
    if (alpha !== null) found.set("alpha", alpha);
  }
  if (about.expires != null) found.set("expires", asDay(about.expires));
  return found;
}

/** @param {string} day @returns {string} */
export function asDay(day) {
  const [, year, month, date] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(day) ?? [];
  const days = [31, Number(year) % 4 || (!(Number(year) % 100) && Number(year) % 400) ? 28 : 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
  if (!(Number(year) >= 1 && Number(date) >= 1 && Number(date) <= days[Number(month) - 1])) {
    throw new InputError(`expires is ${quoted(day).slice(0, 40)}, expected a day such as 2027-06-30`);
  }
  return day;
}

/** @param {string} text @returns {number} */
function asTemperature(text) {
  const value = /^[-+.\deE]+$/.test(text.trim()) ? Number(text) : NaN;
  if (!(value > 0 && value < Infinity)) throw new InputError(`temperature is ${text.slice(0, 40) || "empty"}, expected a positive number`);
  return value;
}

/** @param {Float64Array} scores sorted in place @param {About} about @param {string} of @returns {Part} */
function partOf(scores, about, of) {
  scores.sort();
  const n = scores.length;
  if (about.kind === "exact") return { of, n, ranks: Array.from({ length: n }, (_, i) => i + 1), values: scores };
  const ranks = scheduledRanks(n, POINTS, about.alpha === null ? null : asAlpha(about.alpha));
  return { of, n, ranks, values: Float64Array.from(ranks, (rank) => scores[rank - 1]) };
}

/**
 * @param {Float64Array} scores @param {About} about @param {Int32Array | null} labels by class, if given
 * @param {Record<string, string[]> | null} groups by group, if given: columns with a value a row @returns {Made}
 */
export function summarize(scores, about, labels = null, groups = null) {
  const n = scores.length;
  if (!n) throw new InputError("scores: is empty; a site needs at least one calibration row");
  const odd = scores.findIndex((score) => !Number.isFinite(score));
  if (odd >= 0) throw new InputError(`scores: row ${odd} is ${general(scores[odd])}, expected a finite score`);
  const uneven = [labels ?? scores, ...Object.values(groups ?? {})].some((some) => some.length !== n);
  if (uneven || labels?.some((label) => label < 0 || label >= 2 ** 20)) throw new InputError(`labels, groups: expected one for each of ${n} rows, labels from 0 to ${2 ** 20 - 1}`);
  if (n > MAX_SIZE) throw new InputError(`a site has ${n} scores, more than ${MAX_SIZE}`);
  const count = about.classes == null ? 1 : typeof about.classes === "number" ? about.classes : about.classes.length;
  if (count > MAX_CLASSES) throw new InputError(`classes is ${count}, expected a number from 1 to ${MAX_CLASSES}`);
  const sites = about.site === null ? [] : [asName(about.site, "site")], clean = scores.map((one) => one + 0); // -0 becomes 0
  const columns = groups ? columnsOf(Object.keys(groups)) : [], shared = sharedHeader(about, columns, labels !== null);
  /** @type {Map<string, Value>} */
  const own = new Map([["sizes", [BigInt(n)]]]);
  if (sites.length) own.set("sites", sites);
  if (!groups && !labels) {
    const part = partOf(clean, about, ALL);
    own.set("lengths", [BigInt(part.values.length)]);
    return { bytes: message(shared, own, [floatBytes(part.values)]), parts: [part] };
  }
  const held = groups ? membersOf(groups, n) : new Map([["", Int32Array.from(clean.keys())]]);
  if (columns.length > MAX_COLUMNS || held.size > MAX_GROUPS) {
    throw new InputError(`groups: ${columns.length} columns with ${held.size} groups, more than ${MAX_COLUMNS} or ${MAX_GROUPS}; give fewer columns, or ranges such as 60-69`);
  }
  const names = Array.isArray(about.classes) ? about.classes : null, parts = /** @type {Part[]} */ ([]);
  const strata = [...held].flatMap(([group, mine]) => byLabel(mine, labels).map(([label, rows]) => {
    const of = [group, label === null ? "" : `class ${names ? names[label] : label}`].filter(Boolean).join(", ");
    const part = partOf(Float64Array.from(rows, (row) => clean[row]), about, of);
    parts.push(part);
    return [group || null, label === null ? null : BigInt(label), [BigInt(part.n)], [], [BigInt(part.values.length)]];
  }));
  own.set("strata", strata);
  return { bytes: message(shared, own, parts.map((part) => floatBytes(part.values))), parts };
}

/** @param {Int32Array} rows @param {Int32Array | null} labels @returns {[number | null, ArrayLike<number>][]} the rows of each class, in order */
function byLabel(rows, labels) {
  if (!labels) return [[null, rows]];
  /** @type {Map<number, number[]>} */
  const held = new Map();
  for (const row of rows) {
    const mine = held.get(labels[row]);
    if (mine) mine.push(row);
    else held.set(labels[row], [row]);
  }
  return [...held].sort(([one], [other]) => one - other);
}
