// A predictor from outside: its digest, its coordinator's signature, whether a site's own file is in it, and its thresholds.

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
 * @typedef {{kind: string, certificate: Map<string, Json>, score: Score | null, alpha: bigint, sentence: string, labels: string[] | number | null,
 *   rounded: boolean, curves: Map<string, Curve | (Curve | null)[]>, sites: Map<string, Curve>, byGroup: boolean, groupColumns: string[], digest: string}} Predictor
 */

const KINDS = ["fedconformal predictor", "fedconformal interval predictor", "fedconformal risk predictor"];
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

/** @param {Json | undefined} value @returns {Curve | (Curve | null)[]} one, or one by class */
const asCurves = (value) => (Array.isArray(value) ? value.map((one) => (one === null ? null : asCurve(one))) : asCurve(value));

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

/** @param {Map<string, Json>} found @param {Map<string, Json>} certificate @param {bigint} alpha @returns {Map<string, Curve>} the curve of each site that has a threshold of its own */
function sitesOf(found, certificate, alpha) {
  const records = certificate.get("by_site") ?? [], curves = found.get("sites") ?? [];
  if (!Array.isArray(records) || !Array.isArray(curves) || records.length !== curves.length) throw new InputError("the promise curves are not one for each site of the certificate");
  return new Map(records.map((record, i) => {
    const fields = asMap(record), curve = asCurve(asMap(curves[i]).get("curve"));
    if (!found.has("lower") && thresholdOf(curve, alpha) !== asFloat(fields.get("threshold"))) throw new InputError("the promise curves and the certificate give different thresholds of sites");
    return [String(fields.get("site")), curve];
  }));
}

/** The predictor for rows of one site; of no site, the largest threshold. @param {Predictor} predictor @param {string | null} site @returns {Predictor} */
export function atSite(predictor, site) {
  const own = site === null ? undefined : predictor.sites.get(site);
  return own ? { ...predictor, curves: new Map([[ALL, own]]) } : predictor;
}

/** @param {Uint8Array} data @returns {Predictor} */
export function readPredictor(data) {
  if (data.length > MOST_BYTES) throw new InputError(`the predictor has ${data.length} bytes, more than ${MOST_BYTES}`);
  const found = readPlain(data, "not a fedconformal predictor"), kind = found.get("kind");
  if (typeof kind !== "string" || !KINDS.includes(kind)) throw new InputError("not a fedconformal predictor: it is JSON of another kind");
  const stated = found.get("sha256");
  found.delete("sha256");
  if (stated !== sha256(new TextEncoder().encode(dumped(found)))) throw new InputError(ALTERED);
  const certificate = asMap(found.get("certificate")), labels = certificate.get("labels") ?? null, groups = certificate.get("groups");
  const named = Array.isArray(labels) ? labels.map(String) : labels === null ? null : Number(labels);
  const byGroup = Array.isArray(groups), names = byGroup ? groups.map((one) => String(asMap(one).get("group"))) : [ALL];
  const alpha = asAlpha(shortest(asFloat(certificate.get("alpha")))), curve = found.get("curve"), sets = kind !== KINDS[2];
  const listed = byGroup ? (Array.isArray(curve) ? curve : []) : [curve];
  if (listed.length !== names.length || (byGroup && !names.includes(ALL))) throw new InputError("the promise curves are not one for each group, all rows among them");
  const curves = new Map(sets ? names.map((name, i) => [name, asCurves(listed[i])]) : []);
  const score = sets && !found.has("lower") ? asScore(asMap(found.get("score"))) : null;
  const predictor = {
    kind, certificate, score, alpha, labels: named, rounded: certificate.get("precision") === "float32", curves, sites: sitesOf(found, certificate, alpha), byGroup, digest: sha256(data),
    groupColumns: [...new Set(names.filter((name) => name.includes("=")).map((name) => name.slice(0, name.indexOf("="))))].sort(),
    sentence: sentenceOf(certificate, kind, alpha),
  };
  const certified = certificate.get("threshold");
  const flat = (Array.isArray(certified) ? certified.flat() : [certified]).map((one) => asFloat(one));
  if (sets && thresholds(predictor, alpha).some((one, i) => one !== flat[i])) throw new InputError("the promise curve and the certificate give different thresholds");
  return predictor;
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

/** @param {Map<string, Json>} certificate @param {string} kind @param {bigint} alpha @returns {string} the promise in one sentence */
function sentenceOf(certificate, kind, alpha) {
  const promise = String(certificate.get("promise"));
  if (kind === KINDS[2]) return `A promise on losses ${promise}; this page does not show its threshold.`;
  const sure = certificate.get("status") === "certified", [answers, truth] = kind === KINDS[1] ? ["intervals", "value"] : ["sets", "label"];
  return `The ${answers} ${sure ? "hold" : "are estimated to hold"} the true ${truth} with probability at least ${general(Number(UNIT - alpha) / 1e15, 10)} ${promise}.`;
}

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
