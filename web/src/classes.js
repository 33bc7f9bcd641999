// Columns of classes by name: exact, or by one pattern such as prob_* for all.

import { general, isNumber } from "./decimal.js";
import { InputError, absent, asName, listed, nameKey, quoted, shown, twice } from "./text.js";

/** @template T @typedef {import("./cells.js").Work<T>} Work */
/** @typedef {import("./table.js").Table} Table */

const SOME = 2 ** 16;
const LABEL = "give every row a label";

/** @param {readonly string[]} classes @returns {string[]} */
export function asClassNames(classes) {
  if (!classes.length) throw new InputError("classes is [], expected a list of names");
  const names = classes.map((name) => asName(name, "class")), same = twice(names);
  if (same !== null) throw new InputError(`classes: ${shown(same)} is there twice`);
  return names;
}

/** @param {readonly string[]} names @param {readonly string[]} classes @returns {[number[], string]} */
export function foundColumns(names, classes) {
  const at = new Map(names.map((name, k) => [name, k]));
  const missing = classes.filter((name) => !at.has(name));
  if (!missing.length) return [classes.map((name) => /** @type {number} */ (at.get(name))), ""];
  /** @type {Map<string, [string, string]>} */
  const patterns = new Map();
  for (const name of names) {
    const place = name.indexOf(classes[0]);
    if (place < 0) continue;
    const start = name.slice(0, place), end = name.slice(place + classes[0].length);
    if (classes.every((one) => at.has(start + one + end))) patterns.set(JSON.stringify([start, end]), [start, end]);
  }
  if (missing.length === classes.length && patterns.size === 1) {
    const [[start, end]] = patterns.values();
    return [
      classes.map((name) => /** @type {number} */ (at.get(start + name + end))),
      `columns ${shown(`${start}*${end}`)} are the classes ${listed(classes)}`,
    ];
  }
  throw new InputError(`has no column for the class ${shown(missing[0])}; the columns are ${listed(names)}`);
}

/**
 * The position of each wanted class among the columns, and a line if the order is another.
 * @param {readonly string[] | number} names @param {readonly string[] | number} wanted @returns {[number[], string]}
 */
export function matchColumns(names, wanted) {
  if (typeof names === "number" || typeof wanted === "number") {
    const [there, expected] = [names, wanted].map((one) => (typeof one === "number" ? one : one.length));
    if (there !== expected) throw new InputError(`has ${there} columns of probabilities, and there are ${expected} classes`);
    const given = typeof names === "number" && typeof wanted !== "number" ? wanted : [];
    return [Array.from({ length: there }, (_, k) => k), given.length ? `columns without names are taken as ${listed(given)}` : ""];
  }
  const there = names.map(nameKey), classes = asClassNames(wanted);
  const [order, said] = foundColumns(there, classes), used = new Set(order);
  const unknown = there.filter((_, k) => !used.has(k));
  if (unknown.length) {
    throw new InputError(`has the column ${shown(unknown[0])}, which is none of the classes ${listed(classes)}; leave it out if it is no class`);
  }
  const moved = order.some((place, k) => k > 0 && place < order[k - 1]) ? `columns reordered by name: ${listed(classes)}` : "";
  return [order, [said, moved].filter(Boolean).join("; ")];
}

/**
 * The position of each row's label among the classes, and what is said; names the first row that has none.
 * @param {Table} table @param {number} column @param {readonly string[] | null} classes @param {number} count @returns {Work<[Int32Array, string]>}
 */
export function* positionsOf(table, column, classes, count) {
  if (classes === null) return yield* numbered(table, column, count);
  const cells = yield* table.texts(column), known = new Map(classes.map((name, at) => [name, at]));
  /** @type {Map<string, number>} */
  const found = new Map();
  const labels = new Int32Array(cells.length);
  for (let row = 0; row < cells.length; row++) {
    let at = found.get(cells[row]);
    if (at === undefined) {
      at = known.get(nameKey(cells[row]));
      if (at === undefined && absent(cells[row]) !== null) throw yield* table.missingError([column], LABEL);
      if (at === undefined) throw table.error(`${table.place(row, column)} ${unknownLabel(cells[row], classes)}`);
      found.set(cells[row], at);
    }
    labels[row] = at;
    if (row % SOME === SOME - 1) yield row / cells.length;
  }
  return [labels, ""];
}

/** @param {Table} table @param {number} column @returns {Work<Set<string>>} the labels that a column has; not those that are missing */
export function* spellings(table, column) {
  return new Set([...new Set(yield* table.texts(column))].filter((cell) => absent(cell) === null).map(nameKey));
}

/** @param {Table} table @param {number} column @param {number} count @returns {Work<[Int32Array, string]>} */
function* numbered(table, column, count) {
  let problem = null, values = /** @type {Float64Array} */ (new Float64Array(0));
  try {
    values = yield* table.numbers([column]);
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    problem = error;
  }
  if (problem === null) {
    const row = values.findIndex((value) => !(value >= 0 && value < count && value === Math.floor(value)));
    if (row >= 0) throw table.error(`${table.place(row)} is ${general(values[row])}, expected a whole class index from 0 to ${count - 1}`);
    return [Int32Array.from(values), ""];
  }
  const cells = yield* table.texts(column), spelled = cells.map((cell) => nameKey(cell).toLowerCase());
  if (count === 2 && spelled.every((cell) => cell === "false" || cell === "true")) {
    return [Int32Array.from(spelled, (cell) => (cell === "true" ? 1 : 0)), "False is class 0 and True is class 1"];
  }
  const row = cells.findIndex((cell) => !isNumber(cell));
  if (row < 0) throw problem;
  if (absent(cells[row]) !== null) throw yield* table.missingError([column], LABEL);
  const there = `holds ${shown(quoted(cells[row]))}, and the ${count} classes have no names; give the columns their names`;
  throw table.error(`${table.place(row, column)} ${there}`);
}

/** @param {string} cell @param {readonly string[]} classes @returns {string} */
function unknownLabel(cell, classes) {
  if (isNumber(cell) && !classes.some(isNumber)) return `holds ${shown(cell)}, and the classes have the names ${listed(classes)}; write these names`;
  return `holds ${shown(quoted(cell))}, which is none of the classes ${listed(classes)}`;
}
