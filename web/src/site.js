// The work of a site: read, score, summarise, as `fedconformal summarize` does.

import { rounded, scoresOf } from "./scores.js";
import { pair } from "./pairing.js";
import { probabilitiesOf } from "./predictions.js";
import { numbersOf, pairNumbers, residuals } from "./regression.js";
import { summarize } from "./summary.js";
import { InputError, nameKey } from "./text.js";

/** @template T @typedef {import("./cells.js").Work<T>} Work */
/** @typedef {import("./predictions.js").Predictions} Predictions */
/** @typedef {import("./table.js").Table} Table */
/** @typedef {import("./summary.js").Made} Made */
/** @typedef {{name: string, data: Uint8Array}} File */

/**
 * Which column is what, as the options of the command line say it; empty names are not given.
 * @typedef {{ids?: string | null, labels?: string | null, classes?: string[] | null, drop?: string[], positive?: string | null,
 *   prediction?: string | null, groups?: string[], keep?: string[]}} Columns
 * @typedef {Omit<import("./summary.js").About, "classes" | "rounded" | "score" | "site"> & {score: import("./scores.js").Score, site: string, byClass?: boolean}} Wanted
 */

/**
 * Rows with their labels or true numbers, from one table or two.
 * @param {Table[]} tables @param {Columns} columns @param {boolean} numbers whether a regressor predicts @returns {Work<Predictions>}
 */
export function* readRows([table, second], columns, numbers) {
  const labels = columns.labels ?? null, own = second ? null : labels;
  if (!second && labels === null) throw table.error(`has no ${numbers ? "true numbers" : "labels"} so far; name their column, or give a second file`);
  const ids = columns.ids ?? null, drop = columns.drop ?? [], known = ids === null ? null : nameKey(ids);
  const keep = [...new Map((columns.groups ?? []).map((name) => [nameKey(name), name])).values()].filter((name) => nameKey(name) !== known);
  if (numbers) {
    const found = yield* numbersOf(table, { column: columns.prediction, ids, y: own, drop, keep });
    return second ? yield* pairNumbers(found, second, labels) : found;
  }
  const found = yield* probabilitiesOf(table, { ids, labels: own, classes: columns.classes ?? null, drop, keep, positive: columns.positive ?? null });
  return second ? yield* pair(found, second, { labels }) : found;
}

/** @param {Predictions} rows @param {Columns} columns @param {Wanted} wanted @returns {Work<Made>} */
export function* summarizeRows(rows, columns, wanted) {
  const names = columns.groups ?? [];
  if (wanted.score.name === "residual") {
    if (wanted.byClass || names.length || wanted.temperature != null) {
      throw new InputError("classes, groups and a temperature do not go with the residual, which scores numbers; leave them out");
    }
    return summarize(residuals(rows), { ...wanted, classes: null, rounded: false });
  }
  const labels = /** @type {Int32Array} */ (rows.labels);
  const refuse = (/** @type {number} */ row, /** @type {string} */ problem) => rows.table.error(`${rows.table.place(row)} ${problem}`);
  const scores = yield* scoresOf(rounded(rows.values), rows.columns, labels, wanted.score, refuse);
  const groups = names.length ? Object.fromEntries(names.map((name) => [nameKey(name), nameKey(name) === rows.idColumn ? rows.ids : rows.others[nameKey(name)]])) : null;
  const about = { ...wanted, classes: rows.classes ?? rows.columns, rounded: true };
  return summarize(scores, about, wanted.byClass ? labels : null, /** @type {Record<string, string[]> | null} */ (groups));
}

