// The sets or intervals of a table's rows, at any alpha, from a predictor.

import { isNumber, shortest } from "./decimal.js";
import { draws } from "./hash.js";
import { membersOf, ALL, NONE } from "./groups.js";
import { matched, probabilitiesOf } from "./predictions.js";
import { pValue } from "./predictor.js";
import { numbersOf } from "./regression.js";
import { allScores, rounded, wrongRow } from "./scores.js";
import { InputError, nameKey, shown } from "./text.js";

/** @template T @typedef {import("./cells.js").Work<T>} Work */
/** @typedef {import("./predictor.js").Predictor} Predictor */
/** @typedef {import("./predictor.js").Curve} Curve */
/** @typedef {import("./predictions.js").Predictions} Predictions */
/** P-values of all labels, row by row, in multiples of 1e-15; `top` is the likeliest label. @typedef {{p: Float64Array, top: Int32Array, rows: Predictions}} Answers */

const SOME = 2 ** 12;
const MOST = 2 ** 26;

/** @param {Predictor} predictor @param {import("./table.js").Table} table @param {import("./site.js").Columns} columns @returns {Work<Predictions>} */
export function* rowsFor(predictor, table, columns) {
  if (!predictor.score) throw new InputError("this page makes sets for the scores lac, aps, raps and residual only; use fedconformal predict");
  const ids = columns.ids ?? null, known = ids === null ? null : nameKey(ids);
  const wished = [...predictor.groupColumns, ...(columns.keep ?? [])].filter((name) => nameKey(name) !== known);
  const keep = [...new Map(wished.map((name) => [nameKey(name), name])).values()], drop = (columns.drop ?? []).filter((name) => !keep.includes(name));
  if (predictor.score.name === "residual") {
    if (predictor.rounded) throw new InputError("the predictor is for predictions in float32, which a table does not hold; use fedconformal predict");
    return yield* numbersOf(table, { column: columns.prediction, ids, keep, skip: true });
  }
  const wanted = predictor.labels, classes = Array.isArray(wanted) ? wanted : null;
  const found = yield* probabilitiesOf(table, { ids, classes, drop: classes ? [] : drop, keep, positive: columns.positive ?? null, skip: true });
  return wanted === null ? found : matched(found, wanted);
}

/** @param {Predictor} predictor @param {Predictions} rows @returns {Map<string, Int32Array>} */
function membersFor(predictor, rows) {
  if (!predictor.byGroup) return new Map();
  const groups = Object.fromEntries(predictor.groupColumns.map((name) => [name, name === rows.idColumn ? /** @type {string[]} */ (rows.ids) : rows.others[name]]));
  const found = membersOf(groups, rows.table.rows);
  for (const [group, mine] of found) {
    if (predictor.curves.has(group)) continue;
    const where = rows.table.place(mine[0]);
    throw rows.table.error(group === NONE
      ? `${where} has no value of ${predictor.groupColumns.join(", ")}, and every calibration row had one, so nothing is promised to it; fill in a value, or leave such rows out`
      : `${where} is in ${shown(group)}, as no calibration row is, so nothing is promised to it; correct the value, or leave such rows out`);
  }
  return found;
}

/** @param {Predictor} predictor @param {Predictions} rows @returns {Work<Answers>} */
export function* answersOf(predictor, rows) {
  const score = /** @type {import("./scores.js").Score} */ (predictor.score), classes = rows.columns, count = rows.table.rows;
  if (count * classes > MOST) throw rows.table.error(`has ${count * classes} probabilities, more than ${MOST}; use fedconformal predict`);
  const members = membersFor(predictor, rows), inside = /** @type {string[][]} */ ([]);
  if (predictor.byGroup) for (const [group, mine] of members) for (const row of mine) (inside[row] ??= []).push(group);
  const form = predictor.rounded ? rounded(rows.values) : rows.values;
  const hash = score.randomized && score.name !== "lac" ? draws(classes, score.seed) : null;
  const p = new Float64Array(count * classes), top = new Int32Array(count), whole = [ALL];
  for (let row = 0; row < count; row++) {
    const at = row * classes, curves = (predictor.byGroup ? inside[row] : whole).map((group) => predictor.curves.get(group));
    const problem = wrongRow(form, at, classes);
    if (problem !== null) throw rows.table.error(`${rows.table.place(row)} ${problem}`);
    const scores = allScores(form, at, classes, score, hash);
    for (const curve of curves) {
      for (let k = 0; k < classes; k++) {
        const own = Array.isArray(curve) ? curve[k] ?? null : /** @type {Curve} */ (curve);
        p[at + k] = Math.max(p[at + k], own === null ? 1e15 : pValue(own, scores[k]));
      }
    }
    for (let k = 1; k < classes; k++) if (form[at + k] > form[at + top[row]]) top[row] = k;
    if (row % SOME === SOME - 1) yield row / count;
  }
  return { p, top, rows };
}

/** @param {Answers} answers @param {number} row @param {bigint} alpha @returns {number[]} the labels of a row's set, the top label always in */
export function setOf({ p, top, rows }, row, alpha) {
  const at = row * rows.columns, limit = Number(alpha), found = [];
  for (let k = 0; k < rows.columns; k++) if (p[at + k] > limit || k === top[row]) found.push(k);
  return found;
}

const view = new DataView(new ArrayBuffer(8));

/** @param {number} x @returns {number} the next float64 above */
function after(x) {
  if (!Number.isFinite(x)) return x === -Infinity ? -Number.MAX_VALUE : x;
  if (x === 0) return Number.MIN_VALUE;
  view.setFloat64(0, x);
  view.setBigInt64(0, view.getBigInt64(0) + (x > 0 ? 1n : -1n));
  return view.getFloat64(0);
}

/** A number that no y exceeds which is at most q above f. @param {number} f @param {number} q @returns {number} */
const highest = (f, q) => (after(f + q) - f > q ? f + q : f + after(q));

/** @param {number} f the prediction @param {number} q the threshold @returns {[number, number]} ends between which is every y that scores at most q */
export function intervalOf(f, q) {
  const first = -highest(-f, q), last = highest(f, q);
  return first > last ? [f, f] : [Math.min(first, f), Math.max(last, f)];
}

/** @param {string} cell @returns {string} with an apostrophe before what a spreadsheet would run as a formula */
const guarded = (cell) => (/^'*\s*[=+@-]/.test(cell) && !isNumber(cell) ? `'${cell}` : cell);

/**
 * The sets or intervals as a table, with the separator and the decimal mark of the rows: what `fedconformal predict -o sets.csv` writes.
 * @param {Predictions} rows @param {readonly string[]} keep @param {string[]} header @param {(row: number) => (string | number)[]} answer @returns {string}
 */
export function tableText(rows, keep, header, answer) {
  const { separator, decimal } = rows.table.cells, split = separator === ";" ? ";" : ",", odd = new RegExp(`[${split}"\n\r]`);
  const quote = (/** @type {string} */ cell) => (odd.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  const cell = (/** @type {string | number} */ one) => (typeof one === "string" ? guarded(one) : shortest(one).replace(".", decimal));
  const line = (/** @type {string[]} */ cells) => `${cells.map(quote).join(split)}\n`;
  const found = [line([rows.ids ? rows.idColumn ?? "id" : "row", ...keep, ...header].map(guarded))];
  for (let row = 0; row < rows.table.rows; row++) {
    const about = [rows.ids ? rows.ids[row] : String(row), ...keep.map((name) => rows.others[nameKey(name)][row])];
    found.push(line([...about, ...answer(row)].map(cell)));
  }
  return found.join("");
}
