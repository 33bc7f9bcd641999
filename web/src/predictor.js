// A predictor from outside: digest, signature, the site's own file, thresholds.

import { sha256 } from "./bytes.js";
import { UNIT, asAlpha, general, shortest } from "./decimal.js";
import { isSigned } from "./ed25519.js";
import { ALL } from "./groups.js";
import { dumped, readJson } from "./json.js";
import { InputError, shown } from "./text.js";

/** @typedef {import("./json.js").Json} Json */
/** @typedef {import("./scores.js").Score} Score */
/** Thresholds, rising, and the coverage that each promises, in multiples of 1e-15. @typedef {{thresholds: number[], promised: number[]}} Curve */
/**
 * `curves` are by group, and in each group one, or one by class where null stands for a class in every set.
 * @typedef {{answers: "sets" | "intervals" | "losses", certificate: Map<string, Json>, score: Score | null, alpha: bigint, sentence: string, labels: string[] | number | null,
 *   rounded: boolean, curves: Map<string, Curve | (Curve | null)[]>, sites: Map<string, Curve>, byGroup: boolean, groupColumns: string[], digest: string}} Predictor
 */

const KIND = "fedconformal predictor";
const FORMAT = 1n;
const NUMBERS = ["residual", "cqr", "normalized", "signed"]; // the scores of intervals
const MOST_BYTES = 2 ** 28;
const MAX_POINTS = 1024;
const MALFORMED = "the predictor is malformed";
export const ALTERED = "the predictor was altered after it was made (its SHA-256 does not match)";

/** @param {Json | undefined} value @returns {Map<string, Json>} */
function asMap(value) {
  if (!(value instanceof Map)) throw new InputError(MALFORMED);
  return value;
}

/** @param {Json | undefined} value @returns {number} */
function asFloat(value) {
  if (value === "inf") return Infinity;
  if (value === "-inf") return -Infinity;
  if (typeof value !== "number" && typeof value !== "bigint") throw new InputError(MALFORMED);
  return Number(value);
}

/** @param {Json | undefined} value @returns {Curve} */
function asCurve(value) {
  const fields = asMap(value), thresholds = fields.get("thresholds"), promised = fields.get("promised");
  if (!Array.isArray(thresholds) || !Array.isArray(promised)) throw new InputError(MALFORMED);
  const found = { thresholds: thresholds.map(asFloat), promised: promised.map(asFloat) };
  const rising = (/** @type {number[]} */ some) => some.every((one, i) => Number.isFinite(one) && (!i || one > some[i - 1]));
  const whole = promised.every((one) => typeof one === "bigint" && one >= 0n && one < UNIT);
  if (thresholds.length !== promised.length || !promised.length || promised.length > MAX_POINTS || !whole || !rising(found.thresholds) || !rising(found.promised)) {
    throw new InputError("the promise curve is not rising, or is empty or too long");
  }
  return found;
}

/** @param {Curve} curve @param {bigint} alpha @returns {number} the smallest threshold that promises 1 - alpha */
function thresholdOf(curve, alpha) {
  const at = curve.promised.findIndex((one) => one >= Number(UNIT - alpha));
  return at < 0 ? Infinity : curve.thresholds[at];
}

/** @param {Curve} curve @param {number} score @returns {number} the p-value, in multiples of 1e-15: {p > alpha} is {score <= threshold} */
export function pValue(curve, score) {
  let low = 0, high = curve.thresholds.length; // how many thresholds are below the score
  while (low < high) {
    const middle = (low + high) >> 1;
    if (curve.thresholds[middle] < score) low = middle + 1;
    else high = middle;
  }
  return Number(UNIT) - (low ? curve.promised[low - 1] : 0);
}

/** @param {Predictor} predictor @param {bigint} alpha @returns {number[]} every threshold, by group and class */
export function thresholds(predictor, alpha) {
  return [...predictor.curves.values()].flatMap((curve) => (Array.isArray(curve) ? curve : [curve])).map((one) => (one ? thresholdOf(one, alpha) : Infinity));
}

/** @param {Map<string, Json>} fields @returns {Score | null} null if this page does not know it */
function asScore(fields) {
  const name = fields.get("name"), seed = fields.get("random_state") ?? 0n, free = fields.get("free_ranks") ?? 1n;
  if (name !== "lac" && name !== "aps" && name !== "raps" && name !== "residual") return null;
  if (typeof seed !== "bigint" || typeof free !== "bigint") throw new InputError(MALFORMED);
  return { name, randomized: fields.get("randomized") === true, seed, penalty: asFloat(fields.get("penalty") ?? 0), free: Number(free) };
}

/** The curves of all rows, of each group and of each site, in the order of the promises. @param {Json | undefined} promises @param {Json | undefined} listed @param {bigint} alpha */
function curvesOf(promises, listed, alpha) {
  if (!Array.isArray(promises) || !Array.isArray(listed) || promises.length !== listed.length) throw new InputError("the predictor has not one promise curve for each promise");
  /** @type {Map<string, Curve | (Curve | null)[]>} */
  const curves = new Map();
  /** @type {Map<string, Curve>} */
  const sites = new Map();
  promises.forEach((promise, i) => {
    const fields = asMap(promise), curve = listed[i] === null ? null : asCurve(listed[i]), ends = fields.has("end");
    if (!ends && (curve ? thresholdOf(curve, alpha) : Infinity) !== asFloat(fields.get("threshold"))) throw new InputError("the promise curve and the certificate give different thresholds");
    const group = String(fields.get("group") ?? ALL), site = fields.get("site");
    if (fields.has("class_index")) curves.set(group, [.../** @type {(Curve | null)[]} */ (curves.get(group) ?? []), curve]);
    else if (!curve) throw new InputError(MALFORMED);
    else if (site !== undefined) sites.set(String(site), curve);
    else curves.set(group, curve);
  });
  if (!curves.has(ALL)) throw new InputError("the promises are not one for each group, all rows among them");
  return { curves, sites };
}

/** The predictor for rows of one site; of no site, the largest threshold. @param {Predictor} predictor @param {string | null} site @returns {Predictor} */
export function atSite(predictor, site) {
  const own = site === null ? undefined : predictor.sites.get(site);
  return own ? { ...predictor, curves: new Map([[ALL, own]]) } : predictor;
}

/** @param {Uint8Array} data @returns {Predictor} */
export function readPredictor(data) {
  if (data.length > MOST_BYTES) throw new InputError(`the predictor has ${data.length} bytes, more than ${MOST_BYTES}`);
  const found = readPlain(data, "not a fedconformal predictor"), format = found.get("format");
  if (found.get("kind") !== KIND) throw new InputError("not a fedconformal predictor: it is JSON of another kind");
  if (format !== FORMAT) throw new InputError(`the predictor is of format ${shown(String(format))}, expected ${FORMAT}`);
  const stated = found.get("sha256");
  found.delete("sha256");
  if (stated !== sha256(new TextEncoder().encode(dumped(found)))) throw new InputError(ALTERED);
  const certificate = asMap(found.get("certificate")), provenance = asMap(certificate.get("provenance")), named = provenance.get("class_names") ?? null;
  const alpha = asAlpha(shortest(asFloat(certificate.get("alpha")))), promises = certificate.get("promises"), fields = provenance.get("score");
  const ends = Array.isArray(promises) && promises.some((one) => asMap(one).has("end")), losses = certificate.has("risk");
  /** @type {"sets" | "intervals" | "losses"} */
  const answers = losses ? "losses" : NUMBERS.includes(String(fields && asMap(fields).get("name"))) ? "intervals" : "sets";
  /** @type {{curves: Map<string, Curve | (Curve | null)[]>, sites: Map<string, Curve>}} */
  const { curves, sites } = losses ? { curves: new Map(), sites: new Map() } : curvesOf(promises, found.get("curves"), alpha);
  const names = [...curves.keys()];
  return {
    answers, certificate, score: losses || ends || fields === undefined ? null : asScore(asMap(fields)), alpha, labels: Array.isArray(named) ? named.map(String) : named === null ? null : Number(named),
    rounded: provenance.get("precision") === "float32", curves, sites, byGroup: Array.isArray(promises) && promises.some((one) => asMap(one).has("group")), digest: sha256(data),
    groupColumns: [...new Set(names.filter((name) => name.includes("=")).map((name) => name.slice(0, name.indexOf("="))))].sort(),
    sentence: sentenceOf(certificate, answers, alpha),
  };
}

/** @param {Uint8Array} data @param {string} problem @returns {Map<string, Json>} */
function readPlain(data, problem) {
  let found;
  try {
    found = readJson(data);
  } catch (error) {
    throw error instanceof InputError ? new InputError(`${problem}: ${error.message}`) : error;
  }
  if (!(found instanceof Map)) throw new InputError(`${problem}: it is JSON of another kind`);
  return found;
}

/** @param {Map<string, Json>} certificate @param {Predictor["answers"]} answers @param {bigint} alpha @returns {string} the promise in one sentence */
function sentenceOf(certificate, answers, alpha) {
  const promise = String(asMap(certificate.get("statement")).get("promise"));
  if (answers === "losses") return `A promise on losses ${promise}; this page does not show its threshold.`;
  const sure = certificate.get("status") === "certified", truth = answers === "intervals" ? "value" : "label";
  return `The ${answers} ${sure ? "hold" : "are estimated to hold"} the true ${truth} with probability at least ${general(Number(UNIT - alpha) / 1e15, 10)} ${promise}.`;
}

/** A part of the certificate, such as its statement. @param {Predictor} predictor @param {string} name @returns {Map<string, Json>} */
export const part = (predictor, name) => asMap(predictor.certificate.get(name));

/** Whether the coordinator signed. @param {Uint8Array} predictor @param {Uint8Array} signature the .sig file @returns {{valid: boolean, key: string}} */
export function readSeal(predictor, signature) {
  if (signature.length > 4096) throw new InputError("not a signature of a predictor: it is too long");
  const found = readPlain(signature, "not a signature of a predictor"), key = found.get("key"), signed = found.get("signature");
  if (typeof key !== "string" || typeof signed !== "string" || found.size !== 2) throw new InputError("not a signature of a predictor: expected a key and a signature");
  return { key, valid: isSigned(new TextEncoder().encode(`fedconformal predictor ${sha256(predictor)}`), signed, key) };
}

/** @param {Predictor} predictor @param {Uint8Array} summary @returns {string | null} whose file this is in the certificate, null if it is not in it */
export function namedIn(predictor, summary) {
  const digest = sha256(summary), records = predictor.certificate.get("summaries");
  for (const record of Array.isArray(records) ? records : []) {
    const fields = asMap(record), sites = fields.get("sites");
    if (fields.get("sha256") === digest) return Array.isArray(sites) && sites.length ? sites.map((site) => shown(String(site))).join(", ") : "a site without a name";
  }
  return null;
}
