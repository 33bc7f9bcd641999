// Text as Python treats it: white space, printable characters, abbreviations.

export class InputError extends Error {}

export const MAX_NAME = 64;
const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const SPACES = new RegExp(`[${SPACE}]+`, "u");
const AROUND = new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, "gu");
const ODD = /[\p{C}\p{Z}]/u;

/** @param {string} text @returns {string} without spaces at both ends */
export function strip(text) {
  const first = text.charCodeAt(0), last = text.charCodeAt(text.length - 1);
  const plain = (/** @type {number} */ code) => code > 32 && code < 127;
  return text === "" || (plain(first) && plain(last)) ? text : text.replace(AROUND, "");
}

/** @param {string} text @returns {number} how many characters, where JavaScript counts halves of some */
export function length(text) {
  let pairs = 0;
  for (let i = 0; i < text.length; i++) {
    if ((text.charCodeAt(i) & 0xfc00) === 0xd800 && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00) pairs++;
  }
  return text.length - pairs;
}

/** @param {string} one @returns {boolean} */
const isOdd = (one) => one !== " " && ODD.test(one);

/** @param {string} text @returns {boolean} */
export const isPrintable = (text) => ![...text].some(isOdd);

/** @param {string} one a character that cannot be printed @returns {string} its number */
function escaped(one) {
  const known = { "\t": "\\t", "\n": "\\n", "\r": "\\r" }[one];
  const code = /** @type {number} */ (one.codePointAt(0)), hex = code.toString(16);
  if (known) return known;
  return code < 256 ? `\\x${hex.padStart(2, "0")}` : code < 65536 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}

/** @param {string} text @returns {string} with characters that cannot be printed as their numbers */
export const harmless = (text) => [...text].map((one) => (isOdd(one) ? escaped(one) : one)).join("");

/** @param {string} text @returns {string} as Python's repr writes it */
export function quoted(text) {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const inside = [...text].map((one) => (one === "\\" || one === mark ? `\\${one}` : isOdd(one) ? escaped(one) : one));
  return mark + inside.join("") + mark;
}

/** @param {string} value @param {number} [most] @returns {string} in one line and not too long */
export function shown(value, most = 60) {
  const cut = [...value.split(SPACES).filter(Boolean).join(" ")].slice(0, most + 1).join("");
  const text = harmless(cut), letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, most).join("")}...`;
}

/** @param {readonly string[]} names @returns {string} the first few, and how many more there are */
export const listed = (names) => names.slice(0, 5).map((one) => shown(one)).join(", ") + (names.length > 5 ? ` and ${names.length - 5} more` : "");

/** @param {string} name @returns {string} as names are compared */
export const nameKey = (name) => strip(name.normalize("NFKC"));

/** @param {string} text @param {string} what @returns {string} */
export function checkName(text, what) {
  if (!text || length(text) > MAX_NAME || !isPrintable(text)) {
    throw new InputError(`${what} is ${[...quoted(text)].slice(0, 80).join("")}, expected 1 to ${MAX_NAME} printable characters`);
  }
  return text;
}

/** @param {string} text @param {string} what @returns {string} a new name as it is compared */
export const asName = (text, what) => checkName(nameKey(text), what);

/** @param {number} number @param {string} noun @returns {string} */
export const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

/** @param {Iterable<string>} names @returns {string | null} the first that is there twice */
export function twice(names) {
  const seen = new Set();
  for (const name of names) {
    if (seen.has(name)) return name;
    seen.add(name);
  }
  return null;
}

/** @param {string} one @param {string} other @returns {number} the order of their characters, as Python sorts */
export function byCharacters(one, other) {
  const mine = [...one], theirs = [...other];
  for (let i = 0; i < Math.min(mine.length, theirs.length); i++) {
    const apart = /** @type {number} */ (mine[i].codePointAt(0)) - /** @type {number} */ (theirs[i].codePointAt(0));
    if (apart) return apart;
  }
  return mine.length - theirs.length;
}

const MISSING = new Set(["", "na", "n/a", "nan", "null", "none", "#n/a", "<na>", "."]);

/** @param {string} cell @returns {string | null} that it has no value, if it has none */
export function absent(cell) {
  if (cell.length > 4 || !MISSING.has(cell.toLowerCase())) return null;
  return cell ? `holds ${shown(cell)}, a missing value` : "is empty";
}
