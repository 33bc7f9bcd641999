// Pairing of two files of the same rows: by ids if both have some, else by order.

import { positionsOf } from "./classes.js";
import { counted, listed, nameKey, shown } from "./text.js";

/** @template T @typedef {import("./cells.js").Work<T>} Work */
/** @typedef {import("./table.js").Table} Table */
/** @typedef {import("./predictions.js").Predictions} Predictions */
/** @typedef {{table: Table, column: number, order: number[] | null, how: string}} Aligned */

/**
 * Give every row its label from another table.
 * @param {Predictions} found @param {Table} table @param {{ids?: string | null, labels?: string | null}} options @returns {Work<Predictions>}
 */
export function* pair(found, table, { ids = null, labels = null }) {
  const aligned = yield* alignedWith(found, table, ids, labels, "labels");
  const [positions, note] = yield* positionsOf(aligned.table, aligned.column, found.classes, found.columns);
  const recognised = [found.recognised, aligned.table.recognised, aligned.how, note].filter(Boolean).join("; ");
  return { ...found, labels: aligned.order ? Int32Array.from(aligned.order, (row) => positions[row]) : positions, recognised };
}

/**
 * @param {Predictions} found @param {Table} table @param {string | null} ids @param {string | null} wanted @param {string} what
 * @returns {Work<Aligned>} a table with its header settled, its wanted column, the order of its rows, and how they were paired
 */
export function* alignedWith(found, table, ids, wanted, what) {
  table = yield* headed(found, table, ids, wanted);
  if (found.idColumn === null && ids !== null) throw found.table.error(`has no ids, and ${table.source} has; name its column of ids too`);
  const name = ids ?? found.idColumn, names = table.names ?? [];
  const own = name !== null && (ids !== null || names.includes(nameKey(name))) ? table.column(name) : null;
  const rest = table.columns.filter((j) => j !== own);
  if (rest.length > 1 && table.names === null) {
    const several = rest.length === found.columns && found.columns > 2;
    const looks = several ? "; it looks like several labels a row, which is not covered (docs/tables.md)" : "; write their names above";
    throw table.error(`has ${rest.length} columns without names${looks}`);
  }
  if (found.idColumn !== null && own === null && rest.length > 1) {
    throw table.error(`has no column ${shown(found.idColumn)}; name its column of ids, or leave only the ${what}`);
  }
  if (wanted === null && rest.length !== 1) {
    throw table.error(`has ${rest.length} columns ${listed(rest.map((j) => names[j]))}; name the one with the ${what}`);
  }
  const column = wanted === null ? rest[0] : table.column(wanted);
  if (table.rows !== found.table.rows) throw table.error(`has ${counted(table.rows, "row")}, and ${found.table.source} has ${found.table.rows}`);
  return { table, column, ...(yield* orderOf(found, table, own)) };
}

/** Whether line 1 of a table of text is its header. @param {Predictions} found @param {Table} table @param {string | null} ids @param {string | null} wanted @returns {Work<Table>} */
function* headed(found, table, ids, wanted) {
  const head = table.head;
  if (head === null || ids !== null || wanted !== null || (found.idColumn !== null && head.includes(found.idColumn))) return table.withHeader();
  const under = table.withHeader(), values = new Set(found.classes ?? []);
  for (const j of table.columns) for (const cell of yield* under.texts(j)) values.add(nameKey(cell));
  const name = (head.length === 1 && head[0] === "0") || !head.some((one) => values.has(one));
  return name && table.rows !== found.table.rows ? under : table;
}

/** @param {Predictions} found @param {Table} table @param {number | null} column @returns {Work<{order: number[] | null, how: string}>} */
function* orderOf(found, table, column) {
  let mine, theirs, what = "by row names";
  if (column !== null && found.ids !== null) {
    [mine, theirs, what] = [found.ids, yield* table.texts(column), `by ${shown(found.idColumn ?? "None")}`];
  } else if (table.rowNames !== null && found.table.rowNames !== null && found.idColumn === null) {
    [mine, theirs] = [yield* found.table.texts(found.table.rowNames), yield* table.texts(table.rowNames)];
  } else if (table.rowNames !== null && !table.counted && found.ids !== null) {
    [mine, theirs] = [found.ids, yield* table.texts(table.rowNames)];
  } else {
    return { order: null, how: "paired by the order of rows" };
  }
  const others = theirs;
  if (mine.every((name, row) => name === others[row])) return { order: null, how: `paired ${what}, in the same order` };
  const decimal = (/** @type {string} */ name) => /^\p{Nd}+$/u.test(name);
  if (found.idColumn === null && mine.every(decimal) && theirs.every(decimal)) {
    const row = mine.findIndex((name, i) => name !== others[i]);
    throw table.error(
      `${table.place(row)} has the row number ${theirs[row]}, and ${found.table.source} has ${mine[row]} there; ` +
        "name the column if it is an id, or save both without row numbers if the rows are in one order",
    );
  }
  const at = placesOf(theirs, table);
  placesOf(mine, found.table);
  const missing = mine.findIndex((name) => !at.has(name));
  if (missing >= 0) {
    throw found.table.error(`${found.table.place(missing)} has the id ${shown(mine[missing])}, which ${table.source} does not have`);
  }
  return { order: mine.map((name) => /** @type {number} */ (at.get(name))), how: `joined ${what}, as the rows are in another order` };
}

/** @param {string[]} ids @param {Table} table @returns {Map<string, number>} */
function placesOf(ids, table) {
  const at = new Map();
  ids.forEach((name, row) => {
    if (at.has(name)) throw table.error(`${table.place(row)} has the id ${shown(name)}, as ${table.place(at.get(name))} has; ids must differ`);
    at.set(name, row);
  });
  return at;
}
