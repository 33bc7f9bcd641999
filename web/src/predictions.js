// Predictions from a table: the columns of probabilities, their classes and their order.

import { asClassNames, foundColumns, matchColumns, positionsOf, spellings } from "./classes.js";
import { general } from "./decimal.js";
import { InputError, absent, listed, nameKey, shown, twice } from "./text.js";

/** @template T @typedef {import("./cells.js").Work<T>} Work */
/** @typedef {import("./table.js").Table} Table */

/**
 * `values` are row by row, `columns` in each; `labels` are positions, or a regressor's true numbers.
 * @typedef {{table: Table, values: Float64Array, columns: number, classes: string[] | null, recognised: string, idColumn: string | null,
 *   ids: string[] | null, labels: Int32Array | Float64Array | null, others: Record<string, string[]>}} Predictions
 * @typedef {{ids?: string | null, labels?: string | null, classes?: readonly string[] | null, drop?: readonly string[], keep?: readonly string[],
 *   positive?: string | null, skip?: boolean}} Options
 */

/** @param {Table} table @param {Options} options @returns {Work<Predictions>} */
export function* probabilitiesOf(table, { ids = null, labels = null, classes = null, drop = [], keep = [], positive = null, skip = false }) {
  if (table.head?.length === 1 && table.head[0] === "0") {
    throw table.error("line 1 is 0, which could be a header or a row; write a name there, or 0.0 if it is a row");
  }
  table = table.withHeader(); // a first line of text only is no row of probabilities
  if (!table.rows) throw table.error("is empty but for its header");
  const asked = [ids, labels, ...drop, ...keep].filter((name) => name !== null);
  const aside = asked.map((name) => table.column(name)), same = twice(asked.map(nameKey));
  if (same !== null) throw table.error(`the column ${shown(same)} has two uses; give each use a column of its own`);
  const rest = table.columns.filter((j) => !aside.includes(j)), wanted = classes === null ? null : asClassNames(classes);
  /** @type {string[]} */
  const said = [];
  let values, named;
  if (positive === null) {
    const [chosen, names] = classColumns(table, rest, wanted, said);
    if (skip) table = yield* table.complete(chosen);
    values = yield* matrix(table, chosen, wanted !== null);
    named = names;
    if (chosen.length === 1) throw table.error(oneColumn(values));
  } else {
    if (skip && rest.length === 1) table = yield* table.complete(rest);
    [values, named] = yield* twoColumns(table, rest, wanted, nameKey(positive), labels, said);
  }
  const columns = values.length / table.rows, names = yield* idsOf(table, ids, said);
  let found = null;
  if (labels !== null) {
    const [positions, note] = yield* positionsOf(table, table.column(labels), named, columns);
    found = positions;
    said.push(`labels from ${shown(labels)}`, note);
  }
  return {
    table, values, columns, classes: named, recognised: [table.recognised, ...said].filter(Boolean).join("; "),
    idColumn: ids === null ? null : nameKey(ids), ids: filled(table, names, ids), labels: found, others: yield* others(table, keep),
  };
}

/** @param {Table} table @param {readonly string[]} keep @returns {Work<Record<string, string[]>>} */
export function* others(table, keep) {
  /** @type {Record<string, string[]>} */
  const found = Object.create(null);
  for (const name of keep) found[nameKey(name)] = yield* table.texts(name);
  return found;
}

/** @param {Table} table @param {string | null} ids @param {string[]} said @returns {Work<string[] | null>} */
export function* idsOf(table, ids, said) {
  if (ids !== null) {
    said.push(`ids from ${shown(ids)}`);
    return yield* table.texts(ids);
  }
  if (table.rowNames === null || table.counted) return null;
  said.push("row names are ids");
  return yield* table.texts(table.rowNames);
}

/** @param {Float64Array} values @returns {string} */
function oneColumn(values) {
  const whole = values.every((value) => value === Math.round(value)), inside = values.every((value) => value >= 0 && value <= 1);
  if (!whole && !inside) {
    return "has one column of numbers that are no probabilities; if a regressor predicts them, take a score of numbers (docs/tables.md)";
  }
  return "has one column of probabilities; say which class is the positive one";
}

/** @param {Predictions} found @param {readonly string[] | number} wanted @returns {Predictions} with the columns in the order of these classes */
export function matched(found, wanted) {
  let order, said;
  try {
    [order, said] = matchColumns(found.classes ?? found.columns, wanted);
  } catch (error) {
    throw error instanceof InputError ? found.table.error(error.message) : error;
  }
  const width = found.columns, sorted = order.every((place, k) => place === k), values = sorted ? found.values : new Float64Array(found.values.length);
  if (!sorted) for (let at = 0; at < values.length; at += width) order.forEach((place, k) => { values[at + k] = found.values[at + place]; });
  const back = new Map(order.map((place, k) => [place, k]));
  return {
    ...found, values, classes: typeof wanted === "number" ? found.classes : wanted.map(nameKey),
    labels: found.labels && Int32Array.from(found.labels, (label) => /** @type {number} */ (back.get(label))),
    recognised: [found.recognised, said].filter(Boolean).join("; "),
  };
}

/** @param {Table} table @param {number[]} rest @param {string[] | null} wanted @param {string[]} said @returns {[number[], string[] | null]} */
function classColumns(table, rest, wanted, said) {
  if (!rest.length) throw table.error("has no column of probabilities left");
  const names = table.names && rest.map((j) => /** @type {string[]} */ (table.names)[j]);
  if (!names || names.every((name, k) => name === String(k))) {
    if (wanted !== null && wanted.length !== rest.length) {
      throw table.error(`has ${rest.length} columns without names, and there are ${wanted.length} classes`);
    }
    said.push(wanted === null ? `${rest.length} classes without names` : `classes ${listed(wanted)}, in this order`);
    return [rest, wanted];
  }
  let named, order, pattern;
  try {
    named = wanted ?? asClassNames(names);
    [order, pattern] = foundColumns(names, named);
  } catch (error) {
    throw error instanceof InputError ? table.error(error.message) : error;
  }
  said.push(pattern || `classes ${listed(named)}`);
  const used = new Set(order), unused = names.filter((_, k) => !used.has(k));
  if (unused.length) said.push(`not used: ${listed(unused)}`);
  return [order.map((k) => rest[k]), named];
}

/**
 * Two columns from the one of a binary model.
 * @param {Table} table @param {number[]} rest @param {string[] | null} wanted @param {string} positive @param {string | null} labels
 * @param {string[]} said @returns {Work<[Float64Array, string[]]>}
 */
function* twoColumns(table, rest, wanted, positive, labels, said) {
  const title = (/** @type {number} */ j) => table.names?.[j] ?? "";
  const named = rest.filter((j) => table.names !== null && title(j) === positive), there = rest.map(title);
  const only = wanted?.filter((name) => there.includes(name)) ?? [];
  if (rest.length !== 1 && (named.length !== 1 || wanted === null || only.length !== 1 || only[0] !== positive)) {
    throw table.error(`a positive class needs one column of probabilities, and there are ${rest.length}; leave the others out`);
  }
  const column = rest.length === 1 ? rest[0] : named[0];
  let both = wanted;
  if (both === null) {
    const spelled = labels !== null ? yield* spellings(table, table.column(labels)) : new Set();
    spelled.delete(positive);
    if (spelled.size !== 1) throw table.error(`the class beside ${shown(positive)} has no name; give the names of both classes`);
    both = [...spelled, positive];
  }
  if (both.length !== 2 || !both.includes(positive)) throw table.error(`the classes ${listed(both)} are not ${shown(positive)} and one other`);
  const p = yield* matrix(table, [column], true), outside = p.findIndex((value) => !(value >= 0 && value <= 1));
  if (outside >= 0) throw table.error(`${table.place(outside, column)} is ${general(p[outside])}, expected a probability from 0 to 1`);
  const negative = both[0] === positive ? both[1] : both[0], name = table.place(0, column).split(", ").slice(1).join(", ");
  said.push(`${name} is the probability of ${shown(positive)}, and 1 - p that of ${shown(negative)}`);
  const values = new Float64Array(2 * p.length), own = both[1] === positive ? 1 : 0;
  p.forEach((value, row) => {
    values[2 * row + own] = value;
    values[2 * row + 1 - own] = Math.fround(1 - Math.fround(value));  // so that the precision of the file does not matter
  });
  const unused = rest.filter((j) => j !== column).map(title);
  if (unused.length) said.push(`not used: ${listed(unused)}`);
  return [values, both];
}

/** @param {Table} table @param {number[]} columns @param {boolean} sure @returns {Work<Float64Array>} */
function* matrix(table, columns, sure) {
  try {
    return yield* table.numbers(columns);
  } catch (error) {
    if (sure || table.names === null || !(error instanceof InputError) || !error.message.endsWith("not a number")) throw error;
    throw new InputError(`${error.message}; if the column is no class, use it for ids or labels, or leave it out`);
  }
}

/** @param {Table} table @param {string[] | null} ids @param {string | null} name @returns {string[] | null} */
export function filled(table, ids, name) {
  const row = ids === null ? -1 : ids.findIndex((cell) => absent(cell) !== null);
  if (ids === null || row < 0) return ids;
  throw table.error(`${table.place(row, name !== null ? table.column(name) : table.rowNames)} ${absent(ids[row])}; give every row an id`);
}
