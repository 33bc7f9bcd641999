// Separators of cells: a comma, a semicolon or a tab; none where there is one column.

import { isComma, isNumber } from "./decimal.js";
import { InputError, strip } from "./text.js";
import { countOf } from "./decode.js";

export const SEPARATORS = /** @type {Record<string, string>} */ ({ ",": "commas", ";": "semicolons", "\t": "tabs" });
export const SEP_LINE = /^"?sep=([,;\t])"?[,; \t]*\n/i;
const MOST_LINES = 1000;

/** @typedef {{separator: string, said: string, short: boolean}} Layout */

/** @param {string} text @returns {Layout} */
export function layoutOf(text) {
  const lines = linesOf(text);
  /** @type {Layout[]} */
  let readings = Object.keys(SEPARATORS).flatMap((separator) => reading(lines, separator) ?? []);
  if (oneColumn(lines)) readings.push({ separator: ";", said: "one column", short: false });
  if (readings.length > 1) {
    const clean = readings.filter((one) => one.said === "one column" || isClean(lines, one.separator));
    readings = clean.length ? clean : readings;
  }
  if (readings.length > 1) throw new InputError(ambiguous(readings));
  if (readings.length) return readings[0];
  let likely = ",";
  for (const one of Object.keys(SEPARATORS)) if (lines.length && countOf(lines[0], one) > countOf(lines[0], likely)) likely = one;
  return { separator: likely, said: SEPARATORS[likely], short: false };
}

/** @param {string} text @returns {string[]} the first lines, each quoted cell as one letter */
function linesOf(text) {
  const start = withoutQuoted(text), quote = start.indexOf('"');
  let lines = (quote < 0 ? start : start.slice(0, quote)).split("\n");
  if (quote >= 0 && lines.length > 1) lines = lines.slice(0, -1); // one that is never closed cuts its line off
  return lines.slice(0, MOST_LINES).filter((line) => /[^,; \t]/.test(line));
}

/** @param {string} text @returns {string} */
function withoutQuoted(text) {
  if (!text.includes('"')) return text;
  const parts = [];
  let from = 0, at = text.indexOf('"');
  while (at >= 0) {
    let end = text.indexOf('"', at + 1);
    while (end >= 0 && text.charCodeAt(end + 1) === 34) end = text.indexOf('"', end + 2);
    if (end < 0) {
      at = text.indexOf('"', at + 1);
      continue;
    }
    parts.push(text.slice(from, at), "q");
    from = end + 1;
    at = text.indexOf('"', from);
  }
  return parts.join("") + text.slice(from);
}

/** @param {string[]} lines @param {string} separator @returns {Layout | null} */
function reading(lines, separator) {
  const [first = 0, ...others] = lines.map((line) => countOf(line, separator));
  const said = SEPARATORS[separator];
  if (first && others.every((count) => count === first)) return { separator, said, short: false };
  const short = others.length > 0 && others.every((count) => count === first + 1);
  if (separator !== "," && short && !lines[0].split(separator).some(isNumber)) return { separator, said, short: true };
  return null;
}

/** @param {string[]} lines @returns {boolean} */
function oneColumn(lines) {
  const begins = new Set(lines.filter((line) => line.includes(",")).map((line) => line.replace(/^[ +-]+/, "").startsWith(",")));
  if (begins.size > 1) return false; // a program that writes ,5 does not write 0,5 too; but pandas writes ,0 above 0,5
  return lines.every((line) => !line.includes(";") && !strip(line).includes("\t") && (!line.includes(",") || isComma(strip(line))));
}

/** @param {string[]} lines @param {string} separator @returns {boolean} whether no cell holds another separator, but for decimal commas */
function isClean(lines, separator) {
  return lines.every((line) => line.split(separator).every((cell) => !/[,;\t]/.test(cell) || isComma(strip(cell))));
}

/** @param {Layout[]} readings @returns {string} */
function ambiguous(readings) {
  if (readings[readings.length - 1].said === "one column") {
    return "could be two columns of whole numbers or one column with decimal commas; write a header with the names of the columns above, or decimal points";
  }
  const ways = readings.map((one) => one.said).join(" or ");
  return `could be separated by ${ways}; write a first line such as sep=; above, or put cells with text in quotes`;
}
