// Strict reader of summaries (docs/wire-format.md).

import { crc32 } from "./bytes.js";
import { MALFORMED, check, largest, total } from "./checks.js";
import { alphaText, asAlpha } from "./decimal.js";
import { ALL, NONE } from "./groups.js";
import { readKind } from "./kinds.js";
import { asDay } from "./summary.js";
import { InputError, byCharacters, checkName, nameKey, quoted, twice } from "./text.js";
import { NOT_CANONICAL, unpacked } from "./unpack.js";

/** @typedef {import("./bytes.js").Value} Value */
/** @typedef {import("./kinds.js").Numbers} Numbers */
/**
 * @typedef {{kind: string, byClass: boolean, columns: string[], sizes: number[], sites: string[], score: {name: string, parameters: Value[]} | null,
 *   model: string | null, temperature: number | null, about: Map<string, Value>, numbers: Numbers[]}} Summary
 */

export const MAX_BYTES = 2 ** 30;
const MAX_SITES = 2 ** 20;
const MAX_SIZE = 2n ** 32n;
const MAX_CLASSES = 2 ** 16;
const LENGTH = 4;
const SHARED = ["kind", "parameters", "columns", "by_class", "score", "model", "temperature", "classes", "precision", "estimated", "calibration", "alpha", "expires", "loss",
  "bound", "grid", "rising", "trained"];
const OWN = ["sizes", "sites", "numbers", "lengths", "strata", "skipped"];
const HEADED = new Set(["kind", "parameters", "columns", "by_class", "score", "model", "temperature"]);
/** What each parameter of a score may be: b a boolean, s a seed, or a range of floats or of whole numbers. */
const SCORES = /** @type {Record<string, (string | readonly [number, number] | bigint)[]>} */ ({
  lac: [], margin: [], aps: ["b", "s"], raps: ["b", "s", [0, 2 ** 20], 2n ** 31n], topk: ["b", "s"], saps: ["b", "s", [0, 2 ** 20]],
  residual: [], normalized: [], cqr: [], signed: ["b", [0.001, 0.999]],
});

/** @param {Value | undefined} value @returns {value is string} */
const isName = (value) => typeof value === "string" && value !== "" && [...value].length <= 64;

/** @param {Value | undefined} value @param {number} most @returns {value is Value[]} */
const isList = (value, most) => Array.isArray(value) && value.length <= most;

/** @param {Uint8Array} data @param {number} at @returns {number} where the header at this place ends */
function endOf(data, at) {
  check(at + LENGTH <= data.length - LENGTH, "the summary is truncated; ask the site to send it again");
  const end = at + LENGTH + new DataView(data.buffer, data.byteOffset).getUint32(at, true);
  check(end <= data.length - LENGTH, "the summary is truncated; ask the site to send it again");
  return end;
}

/** @param {Uint8Array} data @param {string[]} keys @returns {Map<string, Value>} a header, in its one form: known keys in order, none with its default */
function readHeader(data, keys) {
  const found = unpacked(data);
  check(found instanceof Map, MALFORMED);
  const order = [...found.keys()].map((key) => keys.indexOf(key));
  check(!order.includes(-1), "the summary cannot be decoded: it has a key that is not known here");
  const empty = (/** @type {Value} */ value) => value === null || value === false || (Array.isArray(value) && !value.length);
  check(order.every((place, i) => !i || place > order[i - 1]) && ![...found.values()].some(empty), NOT_CANONICAL);
  return found;
}

/** @param {Value | undefined} sizes @param {bigint} least @returns {number[]} */
function readSizes(sizes, least) {
  check(isList(sizes, MAX_SITES) && sizes.length >= 1, MALFORMED);
  return sizes.map((size) => {
    check(typeof size === "bigint" && size >= least && size <= MAX_SIZE, MALFORMED);
    return Number(size);
  });
}

/** @param {Value | undefined} lengths @returns {number[]} */
function readLengths(lengths) {
  check(isList(lengths, 3), MALFORMED);
  return lengths.map((one) => {
    check(typeof one === "bigint" && one >= 0n && one <= BigInt(MAX_BYTES), MALFORMED);
    return Number(one);
  });
}

/** @param {Value | undefined} numbers @returns {Value[]} */
function readNumbers(numbers) {
  check(isList(numbers, 2) && numbers.every((one) => typeof one === "number" || typeof one === "bigint"), MALFORMED);
  return numbers;
}

/** @param {Uint8Array} data @returns {Summary} */
export function readSummary(data) {
  const start = String.fromCharCode(...data.subarray(0, 4));
  check(start.startsWith("FCS"), `this is not a fedconformal summary (.fcs)${start === "FCN1" ? "; it holds noisy counts" : ""}`);
  check(start === "FCS1", `the summary is of format ${quoted(start.slice(3))}, not 1; ask the site to send it again`);
  check(data.length <= MAX_BYTES, `the summary has ${data.length} bytes, more than ${MAX_BYTES}`);
  check(data.length >= 2 * LENGTH, "the summary is truncated; ask the site to send it again");
  const sum = new DataView(data.buffer, data.byteOffset).getUint32(data.length - LENGTH, true);
  check(crc32([data.subarray(0, -LENGTH)]) === sum, "the summary is truncated or altered (its checksum is wrong); ask the site to send it again");
  const middle = endOf(data, LENGTH), end = endOf(data, middle);
  const shared = readHeader(data.subarray(2 * LENGTH, middle), SHARED), own = readHeader(data.subarray(middle + LENGTH, end), OWN);
  const { kind, parameters = [], columns = [], by_class: byClass = false, score = null, model = null, temperature = null } = Object.fromEntries(shared);
  check(isName(kind) && isList(parameters, 16) && parameters.every((one) => ["boolean", "bigint", "number"].includes(typeof one) || isName(one)), MALFORMED);
  check(isList(columns, 64) && columns.every(isName) && typeof byClass === "boolean", MALFORMED);
  check(model === null || isName(model), MALFORMED);
  check(model === null || nameKey(checkName(model, "model fingerprint")) === model, NOT_CANONICAL);
  check(temperature === null || typeof temperature === "number", MALFORMED);
  check(temperature === null || (temperature > 0 && temperature < Infinity), "temperature: expected a positive number");
  const about = new Map([...shared].filter(([key]) => !HEADED.has(key)));
  checkAbout(about);
  const sizes = readSizes(own.get("sizes"), 1n), sites = own.get("sites") ?? [];
  check(isList(sites, MAX_SITES) && sites.every(isName), MALFORMED);
  const skipped = own.get("skipped") ?? 1n;
  check(typeof skipped === "bigint" && skipped >= 1n && skipped <= 2n ** 52n, MALFORMED);
  const names = /** @type {string[]} */ (sites);
  check(!names.length || names.length === sizes.length, `${names.length} names for ${sizes.length} sites`);
  names.forEach((name) => check(nameKey(checkName(name, "site")) === name, NOT_CANONICAL));
  check(twice(names) === null, "the same site is in one summary twice");
  /** @type {Summary} */
  const whole = { kind, byClass, columns: /** @type {string[]} */ (columns), sizes, sites: names, score: readScore(score), model, temperature, about, numbers: [] };
  readContent(whole, own, parameters, data.subarray(end, -LENGTH));
  return whole;
}

/** @param {Summary} whole @param {Map<string, Value>} own @param {Value[]} parameters @param {Uint8Array} words */
function readContent(whole, own, parameters, words) {
  const numbers = readNumbers(own.get("numbers") ?? []), lengths = readLengths(own.get("lengths") ?? []), strata = own.get("strata") ?? [];
  check(Array.isArray(strata), MALFORMED);
  const parts = strata.map((stratum) => {
    check(isList(stratum, 5) && stratum.length === 5, MALFORMED);
    const [group, label, sizes, held, sent] = stratum;
    check((group === null || isName(group)) && (label === null || (typeof label === "bigint" && label >= 0n && label < 2n ** 20n)), MALFORMED);
    return { group, label: label === null ? null : Number(label), sizes: readSizes(sizes, 0n), numbers: readNumbers(held), lengths: readLengths(sent) };
  });
  const claimed = 8 * total([...lengths, ...parts.flatMap((part) => part.lengths)]);
  check(claimed === words.length, `the summary has ${words.length} bytes of arrays and claims ${claimed}`);
  let at = 0;
  const take = (/** @type {number} */ length) => words.subarray(at, (at += 8 * length));
  if (!whole.columns.length && !whole.byClass) {
    check(!parts.length, MALFORMED);
    whole.numbers = [readKind(whole, { arrays: lengths.map(take), numbers, parameters }, whole.sizes, ALL)];
    return;
  }
  check(parts.length > 0 && !lengths.length && !numbers.length && whole.kind !== "losses", NOT_CANONICAL);
  check(parts.every((part) => (part.group !== null) === whole.columns.length > 0 && (part.label !== null) === whole.byClass), "the summary's strata are not by the classes or columns that it states");
  const after = (/** @type {typeof parts[0]} */ one, /** @type {typeof parts[0]} */ other) => byCharacters(one.group ?? "", other.group ?? "") || (one.label ?? 0) - (other.label ?? 0);
  check(parts.every((part, i) => !i || after(part, parts[i - 1]) > 0), "the summary's strata are not in strictly ascending order");
  check(parts.every((part) => part.sizes.length === whole.sizes.length && total(part.sizes) > 0), "the summary has a stratum without a size for every site, or without rows");
  const classes = whole.about.get("classes");
  for (const part of parts) {
    const label = part.label === null ? "" : `class ${Array.isArray(classes) && part.label < classes.length ? classes[part.label] : part.label}`;
    const of = [part.group, label].filter(Boolean).join(", ");
    whole.numbers.push(readKind(whole, { arrays: part.lengths.map(take), numbers: part.numbers, parameters }, part.sizes, of));
  }
  checkStrata(whole, parts);
}

/** @param {Summary} whole @param {{group: string | null, sizes: number[]}[]} parts */
function checkStrata(whole, parts) {
  const sizesOf = (/** @type {(group: string | null) => boolean} */ wanted) =>
    parts.filter((part) => wanted(part.group)).reduce((sum, part) => sum.map((size, k) => size + part.sizes[k]), whole.sizes.map(() => 0));
  const grouped = whole.columns.length > 0, same = sizesOf((group) => !grouped || group === ALL).join() === whole.sizes.join();
  check(same, "the summary's strata do not add up to its sizes");
  if (!grouped) return;
  const by = whole.columns, names = new Set(parts.map((part) => part.group ?? ""));
  by.forEach((name) => check(nameKey(checkName(name, "column")) === name && !name.includes("="), `the column ${quoted(name)} has a = in its name, or is not in its one form`));
  check(by.every((name, i) => !i || byCharacters(name, by[i - 1]) > 0), "the summary's columns are not in ascending order");
  check(names.size <= 4096, `the summary has ${names.size} groups, more than 4096`);
  const columnOf = (/** @type {string | null} */ name) => (name === null || name === ALL || name === NONE || !/=./su.test(name) ? null : name.slice(0, name.indexOf("=")));
  for (const name of names) {
    const known = name === ALL || name === NONE || (nameKey(checkName(name, "group")) === name && by.includes(columnOf(name) ?? ""));
    check(known, `the group ${quoted(name).slice(0, 80)} is not a column of the summary and a value`);
  }
  const held = by.map((column) => sizesOf((group) => columnOf(group) === column)), rest = sizesOf((group) => group === NONE);
  const possible = whole.sizes.every((n, k) => n - total(held.map((some) => some[k])) <= rest[k] && rest[k] <= n - largest(held.map((some) => some[k])));
  check(possible, "the summary's groups cannot have these sizes: a row is in one group of a column at most");
}

/** @param {Value} score @returns {Summary["score"]} */
function readScore(score) {
  if (score === null) return null;
  check(Array.isArray(score) && score.length === 2 && isName(score[0]) && Array.isArray(score[1]) && score[1].length <= 16, MALFORMED);
  const [name, parameters] = score, wanted = Object.hasOwn(SCORES, name) ? SCORES[name] : null;
  check(wanted !== null, `the score ${quoted(name)} is not known here; update this page`);
  check(parameters.length === wanted.length, `the score ${quoted(name)} has ${parameters.length} parameters, expected ${wanted.length}`);
  parameters.forEach((one, i) => {
    const kind = wanted[i], most = kind === "s" ? 2n ** 63n : kind;
    const fine = kind === "b" ? typeof one === "boolean"
      : typeof most === "bigint" ? typeof one === "bigint" && one >= 0n && one < most
        : Array.isArray(most) && typeof one === "number" && one >= most[0] && one <= most[1];
    check(fine, `parameter ${i + 1} of the score ${name} is out of range or of another type`);
  });
  return { name, parameters };
}

/** @param {Map<string, Value>} about */
function checkAbout(about) {
  const { classes, precision = "float32", estimated = true, calibration, alpha, expires, loss, bound, grid, rising = true, trained = true } = Object.fromEntries(about);
  check(precision === "float32" && estimated === true && rising === true && trained === true, MALFORMED);
  if (typeof classes === "bigint") check(classes >= 1n && classes <= BigInt(MAX_CLASSES), MALFORMED);
  else if (classes !== undefined) {
    check(Array.isArray(classes) && classes.length >= 1 && classes.length <= MAX_CLASSES && classes.every(isName), MALFORMED);
    const names = /** @type {string[]} */ (classes);
    check(names.every((name) => nameKey(checkName(name, "class")) === name), NOT_CANONICAL);
    check(twice(names) === null, "classes: two classes have the same name");
  }
  for (const [what, value] of Object.entries({ "calibration id": calibration, alpha, expires })) check(value === undefined || isName(value), `${MALFORMED} (${what})`);
  if (typeof calibration === "string") check(nameKey(checkName(calibration, "calibration id")) === calibration, NOT_CANONICAL);
  if (typeof alpha === "string") check(alphaText(asAlpha(alpha)) === alpha, NOT_CANONICAL);
  if (typeof expires === "string") asDay(expires);
  if (loss === undefined && bound === undefined && grid === undefined && !about.has("rising")) return;
  check(typeof bound === "number" && bound >= 1e-6 && bound <= 1e6, "bound: expected a number from 1e-06 to 1e+06; rescale the losses");
  check(grid instanceof Uint8Array, "thresholds: the grid is missing");
  const fine = loss === undefined || (Array.isArray(loss) && loss.length === 2 && isName(loss[0]) && Array.isArray(loss[1]) && loss[1].length <= 16 &&
    loss[1].every((one) => ["boolean", "bigint", "number"].includes(typeof one)));
  check(fine, MALFORMED);
}
