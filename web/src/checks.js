// Checks shared by the readers of summaries.

import { shortest } from "./decimal.js";
import { InputError } from "./text.js";

export const MALFORMED = "the summary cannot be decoded: a field is missing, too many, or of another type";

/** @param {boolean} fine @param {string} problem @returns {asserts fine} */
export function check(fine, problem) {
  if (!fine) throw new InputError(problem);
}

/** @param {readonly number[]} sizes @returns {number} */
export const total = (sizes) => sizes.reduce((sum, size) => sum + size, 0);
/** @param {readonly number[]} sizes @returns {number} */
export const largest = (sizes) => sizes.reduce((most, size) => Math.max(most, size), 0);

/** @param {import("./reader.js").Summary["score"]} score @returns {readonly [bigint, bigint] | null} the share of alpha that a lower end may miss */
export function lowerShare(score) {
  if (score?.name !== "signed") return null;
  const digits = shortest(Number(score.parameters[1])).split(".")[1] ?? "";
  return [BigInt(digits), 10n ** BigInt(digits.length)];
}
