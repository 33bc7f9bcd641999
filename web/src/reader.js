// A summary from outside, read strictly: docs/wire-format.md says what is refused.

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
 * @typedef {{letter: string, sizes: number[], sites: string[], score: {name: string, parameters: Value[]} | null, model: string | null,
 *   temperature: number | null, about: Map<string, Value>, numbers: Numbers[], columns: string[]}} Summary
 */

export const MAX_BYTES = 2 ** 30;
const MAX_SITES = 2 ** 20;
const MAX_SIZE = 2n ** 32n;
const MAX_CLASSES = 2 ** 16;
const PREFIX = 9;
const KEYS = ["classes", "precision", "estimated", "calibration", "alpha", "expires", "loss", "bound", "grid", "rising"];
/** What each parameter of a score may be: b a boolean, s a seed, or a range of floats or of whole numbers. */
const SCORES = /** @type {Record<string, (string | readonly [number, number] | bigint)[]>} */ ({
  lac: [], margin: [], aps: ["b", "s"], raps: ["b", "s", [0, 2 ** 20], 2n ** 31n], topk: ["b", "s"], saps: ["b", "s", [0, 2 ** 20]],
  residual: [], normalized: [], cqr: [], signed: ["b", [0.001, 0.999]],
});

/** @param {Value | undefined} value @returns {value is string} */
const isName = (value) => typeof value === "string" && value !== "" && [...value].length <= 64;

/** @param {Uint8Array} data @returns {Summary} */
export function readSummary(data) {
  check(data.length <= MAX_BYTES, `the summary has ${data.length} bytes, more than ${MAX_BYTES}`);
  const start = String.fromCharCode(...data.subarray(0, 5)), version = start[3], letter = start[4];
  check(start.startsWith("FCS"), `this is not a fedconformal summary (.fcs)${start.startsWith("FCN1") ? "; it holds noisy counts" : ""}`);
  check(data.length > PREFIX, "the summary is truncated; ask the site to send it again");
  check(version === "1" || version === "2", `the summary has format version ${quoted(version)}, not 1 or 2; update fedconformal`);
  const sum = new DataView(data.buffer, data.byteOffset).getUint32(5, true), body = data.subarray(PREFIX);
  check(crc32([data.subarray(0, 5), body]) === sum, "the summary is truncated or altered (its checksum is wrong); ask the site to send it again");
  check("ERDTCGL".includes(letter), `the summary is of the unknown kind ${quoted(letter)}; update fedconformal`);
  const found = unpacked(body);
  check(Array.isArray(found), MALFORMED);
  const about = version === "2" ? found[0] : new Map(), message = version === "2" ? found[1] : found;
  check(about instanceof Map && Array.isArray(message) && (version === "1" || found.length === 2) && message.length > 5, MALFORMED);
  check(version === "1" || about.size > 0, NOT_CANONICAL);
  const [sizes, sites, score, model, temperature, ...rest] = message;
  check(Array.isArray(sizes) && sizes.length >= 1 && sizes.length <= MAX_SITES, MALFORMED);
  const counts = sizes.map((size) => {
    check(typeof size === "bigint" && size >= 1n && size <= MAX_SIZE, MALFORMED);
    return Number(size);
  });
  check(Array.isArray(sites) && sites.length <= MAX_SITES && sites.every(isName), MALFORMED);
  const names = /** @type {string[]} */ (sites);
  check(!names.length || names.length === counts.length, `${names.length} names for ${counts.length} sites`);
  names.forEach((name) => checkName(name, "site"));
  check(twice(names) === null, "the same site is in one summary twice");
  check(model === null || isName(model), MALFORMED);
  if (model !== null) checkName(model, "model fingerprint");
  check(temperature === null || typeof temperature === "number", MALFORMED);
  check(temperature === null || (temperature > 0 && temperature < Infinity), "temperature: expected a positive number");
  const rule = readScore(score);
  checkAbout(about);
  check(about.has("grid") === (letter === "L"), "the summary has the grid of loss curves and is none, or is one and has no grid");
  const whole = { letter, sizes: counts, sites: names, score: rule, model, temperature, about, numbers: /** @type {Numbers[]} */ ([]), columns: /** @type {string[]} */ ([]) };
  if (letter === "C") readClasses(whole, rest);
  else if (letter === "G") readGroups(whole, rest);
  else whole.numbers = [readKind(whole, rest, ALL)];
  return whole;
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
  const order = [...about.keys()].map((key) => KEYS.indexOf(key));
  check(!order.includes(-1), "the summary cannot be decoded: it has a key that is not known here");
  check(order.every((place, i) => !i || place > order[i - 1]) && ![...about.values()].some((value) => value === null || value === false), NOT_CANONICAL);
  const { classes, precision = "float32", estimated = true, calibration, alpha, expires, loss, bound, grid, rising = true } = Object.fromEntries(about);
  check(precision === "float32" && estimated === true && rising === true, MALFORMED);
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

/** @param {Value[]} parts @param {readonly unknown[]} keys @param {string} nested @param {Summary} whole @param {(i: number) => string} named @returns {Summary[]} */
function partsOf(parts, keys, nested, whole, named) {
  check(parts.length === keys.length, "the summary has not one part for each class or group");
  const found = parts.map((part) => {
    check(part instanceof Uint8Array, MALFORMED);
    check(!nested.includes(String.fromCharCode(part[4] ?? 0)), "the summary of a class or group is by class or group itself");
    const one = readSummary(part);
    check(!one.sites.length && one.score === null && one.model === null && one.temperature === null && !one.about.size, "the summary of a part is not a plain one without names");
    check(one.sizes.length <= whole.sizes.length && largest(one.sizes) <= largest(whole.sizes), "the summary of a part has more sites or scores than the whole");
    return one;
  });
  const kinds = new Set(found.map((one) => one.letter + one.numbers[0].kind));
  check(kinds.size === 1, "the parts of the summary are summarised in different ways");
  found.forEach((one, i) => whole.numbers.push(...one.numbers.map((part) => ({ ...part, of: part.of === ALL ? named(i) : `${named(i)}, ${part.of}` }))));
  return found;
}

/** @param {Summary} whole @param {Value[]} rest */
function readClasses(whole, rest) {
  const [labels, parts] = rest, names = whole.about.get("classes");
  check(rest.length === 2 && Array.isArray(labels) && Array.isArray(parts) && labels.length >= 1 && labels.length <= MAX_SITES, MALFORMED);
  check(labels.every((label) => typeof label === "bigint" && label >= 0n && label < 2n ** 20n), MALFORMED);
  const own = labels.map(Number);
  check(own.every((label, i) => !i || label > own[i - 1]), "the summary's labels are not ascending, one for each part");
  const found = partsOf(parts, labels, "CG", whole, (i) => `class ${Array.isArray(names) && own[i] < names.length ? names[own[i]] : own[i]}`);
  check(total(found.map((part) => total(part.sizes))) === total(whole.sizes), "the summary's classes do not add up to its sizes");
}

/** @param {Summary} whole @param {Value[]} rest */
function readGroups(whole, rest) {
  const [columns, groups, parts] = rest;
  check(rest.length === 3 && Array.isArray(columns) && Array.isArray(groups) && Array.isArray(parts), MALFORMED);
  check(columns.length >= 1 && columns.length <= 64 && columns.every(isName) && groups.length >= 1 && groups.length <= 4096 && groups.every(isName), MALFORMED);
  const by = /** @type {string[]} */ (columns), names = /** @type {string[]} */ (groups);
  const rising = (/** @type {string[]} */ list) => list.every((name, i) => !i || byCharacters(name, list[i - 1]) > 0);
  by.forEach((name) => check(nameKey(checkName(name, "column")) === name && !name.includes("="), `the column ${quoted(name)} has a = in its name, or is not in its one form`));
  check(rising(by), "the summary's columns are not ascending");
  const columnOf = (/** @type {string} */ name) => (name === ALL || name === NONE || !/=./su.test(name) ? null : name.slice(0, name.indexOf("=")));
  for (const name of names) {
    const known = name === ALL || name === NONE || (nameKey(checkName(name, "group")) === name && by.includes(columnOf(name) ?? ""));
    check(known, `the group ${quoted(name).slice(0, 80)} is not a column of the summary and a value`);
  }
  check(rising(names), "the summary's groups are not ascending, one for each part");
  const found = partsOf(parts, names, "G", whole, (i) => names[i]), at = names.indexOf(ALL);
  check(at >= 0 && found[at].sizes.join() === whole.sizes.join(), "the summary's group of all rows does not have its sizes");
  const n = total(whole.sizes), others = names.includes(NONE) ? total(found[names.indexOf(NONE)].sizes) : 0;
  const held = by.map((column) => total(names.flatMap((name, i) => (columnOf(name) === column ? [total(found[i].sizes)] : []))));
  check(n - total(held) <= others && others <= n - largest(held), "the summary's groups cannot have these sizes: a row is in one group of a column at most");
  whole.columns = by;
}
