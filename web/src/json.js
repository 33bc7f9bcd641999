// JSON as Python reads and writes it: whole numbers and floats are kept apart, so that a digest of the content is the same.

import { shortest } from "./decimal.js";
import { InputError, byCharacters } from "./text.js";

/** Whole numbers are bigint, floats are number. @typedef {null | boolean | bigint | number | string | Array<any> | Map<string, any>} Json */

const DEEPEST = 100;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
const WORDS = /** @type {[string, Json][]} */ ([["null", null], ["true", true], ["false", false]]);

/** @param {Uint8Array} data @returns {Json} */
export function readJson(data) {
  let text, at = 0;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    throw new InputError("it is not text in UTF-8");
  }
  const source = text;

  /** @returns {string} the next character that is no space */
  function next() {
    while (" \t\n\r".includes(source[at] ?? "x")) at++;
    return source[at] ?? "";
  }

  /** @returns {InputError} */
  const wrong = () => new InputError(`it is not JSON (character ${at + 1})`);

  /** @returns {string} */
  function string() {
    const from = at++;
    while (at < source.length && source[at] !== '"') at += source[at] === "\\" ? 2 : 1;
    at++;
    try {
      const found = JSON.parse(source.slice(from, at));
      encodeURIComponent(found); // which half a character cannot be
      return found;
    } catch (error) {
      throw error instanceof URIError ? new InputError("it holds half a character") : wrong();
    }
  }

  /** @template T @param {string} end @param {() => T} entry @returns {T[]} */
  function several(end, entry) {
    const found = /** @type {T[]} */ ([]);
    at++;
    if (next() === end) {
      at++;
      return found;
    }
    for (;;) {
      found.push(entry());
      const after = next();
      at++;
      if (after === end) return found;
      if (after !== ",") throw wrong();
    }
  }

  /** @param {number} deep @returns {Json} */
  function value(deep) {
    if (deep > DEEPEST) throw new InputError("it is too deep");
    const one = next();
    if (one === '"') return string();
    if (one === "[") return several("]", () => value(deep + 1));
    if (one === "{") {
      return new Map(several("}", () => {
        if (next() !== '"') throw wrong();
        const key = string();
        if (next() !== ":") throw wrong();
        at++;
        return /** @type {[string, Json]} */ ([key, value(deep + 1)]);
      }));
    }
    for (const [word, meaning] of WORDS) {
      if (source.startsWith(word, at)) {
        at += word.length;
        return meaning;
      }
    }
    NUMBER.lastIndex = at;
    const found = NUMBER.exec(source);
    if (!found || found[0].length > 4000) throw wrong();
    at += found[0].length;
    if (!found[1] && !found[2]) return BigInt(found[0]);
    const float = Number(found[0]);
    if (!Number.isFinite(float)) throw new InputError("it holds a number that is too large");
    return float;
  }

  const found = value(0);
  next();
  if (at < source.length) throw wrong();
  return found;
}

/** @param {string} text @returns {string} */
function written(text) {
  return JSON.stringify(text).replace(/[\u007f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** @param {Json} value @returns {string} as Python's json.dumps writes it, with the keys sorted */
export function dumped(value) {
  if (typeof value === "string") return written(value);
  if (typeof value === "number") return shortest(value);
  if (Array.isArray(value)) return `[${value.map(dumped).join(", ")}]`;
  if (value instanceof Map) {
    const keys = [...value.keys()].sort(byCharacters);
    return `{${keys.map((key) => `${written(key)}: ${dumped(/** @type {Json} */ (value.get(key)))}`).join(", ")}}`;
  }
  return String(value);
}
