// Predictions and true numbers of a regressor, from a table.

import { alignedWith } from "./pairing.js";
import { filled, idsOf, others } from "./predictions.js";
import { listed, nameKey, shown, twice } from "./text.js";

/** @template T @typedef {import("./cells.js").Work<T>} Work */
/** @typedef {import("./table.js").Table} Table */
/** @typedef {import("./predictions.js").Predictions} Predictions */

const WANTED = "prediction";

/**
 * @param {Table} table
 * @param {{column?: string | null, ids?: string | null, y?: string | null, drop?: readonly string[], keep?: readonly string[], skip?: boolean}} options
 * @returns {Work<Predictions>}
 */
export function* numbersOf(table, { column = null, ids = null, y = null, drop = [], keep = [], skip = false }) {
  const named = column ?? WANTED;
  if (table.head !== null && (column !== null || table.head.includes(nameKey(named)))) table = table.withHeader();
  if (!table.rows) throw table.error("is empty but for its header");
  const asked = [ids, y, ...drop, ...keep].filter((name) => name !== null);
  const same = twice([...asked, ...(table.names ? [named] : [])].map(nameKey));
  if (same !== null) throw table.error(`the column ${shown(same)} has two uses; give each use a column of its own`);
  const aside = asked.map((name) => table.column(name)), rest = table.columns.filter((j) => !aside.includes(j)), names = table.names;
  if (!names && (column !== null || rest.length !== 1)) {
    throw table.error(`has ${rest.length} columns without names, and the score needs ${WANTED}; write their names above`);
  }
  if (names && !names.includes(nameKey(named))) {
    throw table.error(`has no column ${shown(named)}; there are ${listed(rest.map((j) => names[j]))}; name the columns of ${WANTED}`);
  }
  const chosen = names ? table.column(named) : rest[0], said = [names ? `${WANTED} from ${shown(named)}` : `${WANTED} in this order`];
  if (skip) table = yield* table.complete([chosen]);
  const found = yield* idsOf(table, ids, said);
  if (y !== null) said.push(`true numbers from ${shown(y)}`);
  const unused = names ? rest.filter((j) => j !== chosen).map((j) => names[j]) : [];
  if (unused.length) said.push(`not used: ${listed(unused)}`);
  return {
    table, values: yield* table.numbers([chosen]), columns: 1, classes: null, recognised: [table.recognised, ...said].join("; "),
    idColumn: ids === null ? null : nameKey(ids), ids: filled(table, found, ids),
    labels: y === null ? null : yield* table.numbers([table.column(y)]), others: yield* others(table, keep),
  };
}

/** @param {Predictions} found @param {Table} table @param {string | null} y @returns {Work<Predictions>} with the true numbers of another table */
export function* pairNumbers(found, table, y) {
  const aligned = yield* alignedWith(found, table, null, y, "true numbers"), order = aligned.order;
  const values = yield* aligned.table.numbers([aligned.column]);
  const recognised = `${found.recognised}; ${aligned.table.recognised}; ${aligned.how}`;
  return { ...found, labels: order ? Float64Array.from(order, (row) => values[row]) : values, recognised };
}

/** @param {Predictions} found @returns {Float64Array} how far each true number is from its prediction */
export function residuals(found) {
  const y = /** @type {Float64Array} */ (found.labels), scores = found.values.map((value, row) => Math.abs(y[row] - value));
  const row = scores.findIndex((score) => !Number.isFinite(score));
  if (row >= 0) throw found.table.error(`${found.table.place(row)}: the true number is too far from what was predicted`);
  return scores;
}
