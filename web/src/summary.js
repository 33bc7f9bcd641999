// What a site says of its scores, and its bytes: byte for byte what `fedconformal summarize` writes.

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

/** @param {string} letter @param {Value[]} message @param {Map<string, Value>} about @returns {Uint8Array} */
export function envelope(letter, message, about = new Map()) {
  const start = new TextEncoder().encode(`FCS${about.size ? 2 : 1}${letter}`), body = packed(about.size ? [about, message] : message);
  const sum = new Uint8Array(4);
  new DataView(sum.buffer).setUint32(0, crc32([start, body]), true);
  return joined([start, sum, body]);
}

/** @param {About} about @returns {Map<string, Value>} what version 2 adds, in order */
function added(about) {
  /** @type {Map<string, Value>} */
  const found = new Map();
  if (about.classes != null) found.set("classes", typeof about.classes === "number" ? BigInt(about.classes) : about.classes);
  if (about.rounded) found.set("precision", "float32");
  if (about.calibration != null) {
    found.set("calibration", asName(about.calibration, "calibration id"));
    if (about.alpha !== null) found.set("alpha", alphaText(asAlpha(about.alpha)));
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

/** @param {number} n @param {string[]} sites @param {About | null} about @returns {Value[]} what every kind says first */
function header(n, sites, about) {
  const score = about?.score ? [about.score.name, parametersOf(about.score)] : null;
  const model = about?.model != null ? asName(about.model, "model fingerprint") : null;
  return [[BigInt(n)], sites, score, model, about?.temperature != null ? asTemperature(about.temperature) : null];
}

/** @param {Float64Array} scores sorted in place @param {About} about @param {string} of @returns {Part} */
function partOf(scores, about, of) {
  scores.sort();
  const n = scores.length;
  if (about.kind === "exact") return { of, n, ranks: Array.from({ length: n }, (_, i) => i + 1), values: scores };
  const ranks = scheduledRanks(n, POINTS, about.alpha === null ? null : asAlpha(about.alpha));
  return { of, n, ranks, values: Float64Array.from(ranks, (rank) => scores[rank - 1]) };
}

/** @param {Part} part @param {About} about @returns {[string, Value[]]} the letter, and the fields of its kind */
function fields(part, about) {
  const values = floatBytes(part.values), none = new Uint8Array(0);
  if (about.kind === "exact") return ["E", [values]];
  return ["R", [BigInt(POINTS), about.alpha === null ? null : alphaText(asAlpha(about.alpha)), values, none, none, 0n]];
}

/** @param {Part} part @param {About} about @returns {Uint8Array} a summary without names */
function nameless(part, about) {
  const [letter, more] = fields(part, about);
  return envelope(letter, [...header(part.n, [], null), ...more]);
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
  const sites = about.site === null ? [] : [asName(about.site, "site")], first = header(n, sites, about), more = added(about), clean = scores.map((one) => one + 0); // -0 becomes 0
  if (about.alpha !== null) asAlpha(about.alpha);
  if (groups) {
    const columns = columnsOf(Object.keys(groups)), held = membersOf(groups, n);
    if (columns.length > MAX_COLUMNS || held.size > MAX_GROUPS) {
      throw new InputError(`groups: ${columns.length} columns with ${held.size} groups, more than ${MAX_COLUMNS} or ${MAX_GROUPS}; give fewer columns, or ranges such as 60-69`);
    }
    /** @type {Part[]} */
    const parts = [];
    const bytes = [...held].map(([name, mine]) => {
      const own = Float64Array.from(mine, (row) => clean[row]);
      if (!labels) {
        parts.push(partOf(own, about, name));
        return nameless(parts[parts.length - 1], about);
      }
      const inside = byClass(own, Int32Array.from(mine, (row) => labels[row]), about, `${name}, class `);
      parts.push(...inside.parts);
      return envelope("C", [...header(own.length, [], null), ...inside.fields]);
    });
    return { bytes: envelope("G", [...first, columns, [...held.keys()], bytes], more), parts };
  }
  if (labels) {
    const found = byClass(clean, labels, about, "class ");
    return { bytes: envelope("C", [...first, ...found.fields], more), parts: found.parts };
  }
  const part = partOf(clean, about, ALL), [letter, rest] = fields(part, about);
  return { bytes: envelope(letter, [...first, ...rest], more), parts: [part] };
}

/** @param {Float64Array} scores @param {Int32Array} labels @param {About} about @param {string} of @returns {{parts: Part[], fields: Value[]}} */
function byClass(scores, labels, about, of) {
  /** @type {Map<number, number[]>} */
  const held = new Map();
  labels.forEach((label, row) => {
    const mine = held.get(label);
    if (mine) mine.push(scores[row]);
    else held.set(label, [scores[row]]);
  });
  const classes = [...held.keys()].sort((a, b) => a - b), names = Array.isArray(about.classes) ? about.classes : null;
  const parts = classes.map((label) => partOf(Float64Array.from(held.get(label) ?? []), about, `${of}${names ? names[label] : label}`));
  return { parts, fields: [classes.map(BigInt), parts.map((part) => nameless(part, about))] };
}
