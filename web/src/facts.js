// Facts, warnings and numbers of a summary, read back from its bytes.

import { sha256 } from "./bytes.js";
import { shortest } from "./decimal.js";
import { counted, harmless } from "./text.js";

/** @typedef {import("./reader.js").Summary} Summary */
/** @typedef {import("./bytes.js").Value} Value */

/** @param {Value | undefined} value @returns {string} */
function text(value) {
  if (value === null || value === undefined) return "not stated";
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  if (Array.isArray(value)) return value.map(text).join(", ");
  return typeof value === "number" ? shortest(value) : harmless(String(value));
}

const NAMES = /** @type {Record<string, string[]>} */ ({ aps: ["randomised", "seed"], raps: ["randomised", "seed", "penalty", "free ranks"] });

/** @param {Summary} summary @param {Uint8Array} bytes @returns {[string, string][]} */
export function factsOf(summary, bytes) {
  const { score, about } = summary, titles = (score && NAMES[score.name]) ?? [];
  const parameters = score?.parameters.map((one, i) => `${titles[i] ?? i + 1} ${text(one)}`).join(", ");
  const kind = summary.kind + (summary.byClass ? " by class" : "") + (summary.columns.length ? " by group" : "");
  /** @type {[string, string][]} */
  const found = [
    ["site", summary.sites.map(harmless).join(", ") || "not stated"],
    ["number of scores", summary.sizes.join(", ")],
    ["kind", kind],
    ["score", score ? score.name + (parameters ? ` (${parameters})` : "") : "not stated"],
    ["model", text(summary.model)],
    ["temperature", text(summary.temperature)],
  ];
  for (const [key, value] of about) found.push([key, text(value)]);
  found.push(...summary.numbers[0].facts);
  if (summary.columns.length) found.push(["columns of groups", summary.columns.map(harmless).join(", ")]);
  return [...found, ["size of the file", counted(bytes.length, "byte")], ["SHA-256 of the file", sha256(bytes)]];
}

/** @param {Summary} summary @returns {string[]} what to think of before it is sent */
export function warningsOf(summary) {
  const found = [], parts = summary.numbers;
  if (summary.byClass) found.push("This file shows how many calibration rows of each class the site has. Send it only if these counts may be known.");
  if (summary.columns.length) found.push("This file shows how many calibration rows of each group the site has. Send it only if these counts may be known.");
  if (parts.every((part) => part.columns.some(([title, numbers]) => title === "score" && numbers.length === part.n))) found.push("This file holds every score of the site.");
  return found;
}

/** @param {Summary} summary @returns {Generator<string[], void>} a line for each number, with the part that it is of */
export function* linesOf(summary) {
  for (const part of summary.numbers) {
    yield [harmless(part.of), "scores", String(part.n)];
    const [first, ...others] = part.columns, ranked = first[0] === "rank", columns = ranked ? others : part.columns;
    for (const [title, numbers] of columns) {
      for (let i = 0; i < numbers.length; i++) {
        const whole = title !== "score" && Number.isInteger(numbers[i]);
        yield [harmless(part.of), ranked ? `score of rank ${first[1][i]}` : `${title} ${i + 1}`, whole ? String(numbers[i]) : shortest(numbers[i])];
      }
    }
  }
}

/** @param {Summary} summary @returns {number} how many lines there are */
export function lineCount(summary) {
  return summary.numbers.reduce((sum, part) => sum + 1 + part.columns.reduce((all, [title, numbers]) => all + (title === "rank" ? 0 : numbers.length), 0), 0);
}
