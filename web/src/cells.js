// Cells of a text file, kept as text; a column becomes text or numbers once its use is known.

import { isComma, isCommaOrWhole, isPoint, numberEnd, numberIn } from "./decimal.js";
import { rowsOf } from "./rows.js";
import { absent, length, quoted, shown, strip } from "./text.js";

const LONGEST_TEXT = 256;
const GROUPED = /^[-+]?\p{Nd}{1,3}(?:[., '\u2019\u00a0\u202f]\p{Nd}{3})+(?:[.,]\p{Nd}+)?$/u;

/** What is wrong with a cell, and where it is; the table knows its name. */
export class CellError extends Error {
  /** @param {number} row @param {number} column @param {string} problem @param {boolean} [missing] whether the cell has no value */
  constructor(row, column, problem, missing = false) {
    super(problem);
    this.row = row;
    this.column = column;
    this.missing = missing;
  }
}

/** Work that takes long yields how much of it is done, so that a page can show it. @template T @typedef {Generator<number, T>} Work */
/** @typedef {import("./rows.js").Block} Block */

export class TextCells {
  /** @param {Block[]} blocks @param {string} separator @param {string} decimal */
  constructor(blocks, separator, decimal = ".") {
    this.blocks = blocks;
    this.separator = separator;
    this.decimal = decimal;
    this.rows = blocks.reduce((sum, block) => sum + block.rows, 0);
  }

  /** @returns {TextCells} without the first row, which is a block of its own */
  withoutFirst() {
    return new TextCells(this.blocks.slice(1), this.separator, this.decimal);
  }

  /** @param {readonly number[]} rows @returns {TextCells} with these rows only, in order */
  take(rows) {
    const kept = new Set(rows), cell = (/** @type {string} */ text) => `"${text.replaceAll('"', '""')}"`;
    let row = 0;
    const blocks = this.blocks.map(({ text, plain }) => {
      const lines = plain ? text.split("\n") : [...rowsOf(text, this.separator)].map((cells) => cells.map(cell).join(this.separator));
      const own = lines.filter(() => kept.has(row++));
      return { text: own.join("\n"), rows: own.length, plain };
    });
    return new TextCells(blocks.filter((block) => block.rows), this.separator, this.decimal);
  }

  /** @returns {Generator<string[], void>} */
  *all() {
    for (const block of this.blocks) yield* rowsOf(block.text, this.separator);
  }

  /** @param {number} most @returns {Generator<string[], void>} the first rows */
  *some(most) {
    let count = 0;
    for (const row of this.all()) {
      if (count++ === most) return;
      yield row;
    }
  }

  /** @param {string} cell @returns {number} NaN if it is no number */
  value(cell) {
    const text = strip(cell);
    return text === "" ? NaN : numberIn(text, 0, text.length, this.decimal.charCodeAt(0));
  }

  /** @param {readonly number[]} columns @returns {Work<Float64Array>} row by row; throws at the first cell that is no number */
  *numbers(columns) {
    const found = new Float64Array(this.rows * columns.length);
    let row = 0;
    for (const block of this.blocks) {
      const part = found.subarray(row * columns.length, (row + block.rows) * columns.length);
      if (!block.plain || !this.quickly(block.text, columns, part)) this.oneByOne(block.text, columns, part, row);
      row += block.rows;
      yield row / this.rows;
    }
    return found;
  }

  /** @param {number} column @returns {Work<string[]>} */
  *texts(column) {
    const found = [];
    for (const block of this.blocks) {
      const rows = block.plain ? this.plainTexts(block.text, column) : [...rowsOf(block.text, this.separator)].map((row) => strip(row[column]));
      for (const cell of rows) {
        if (cell.length > LONGEST_TEXT && length(cell) > LONGEST_TEXT) {
          throw new CellError(found.length, column, `has ${length(cell)} characters, more than ${LONGEST_TEXT}`);
        }
        found.push(cell);
      }
      yield found.length / this.rows;
    }
    return found;
  }

  /** @param {string} text @param {number} column @returns {string[]} */
  plainTexts(text, column) {
    const split = this.separator.charCodeAt(0), end = text.length, found = [];
    let at = 0, cell = 0, from = 0;
    for (; at <= end; at++) {
      const code = at < end ? text.charCodeAt(at) : 10;
      if (code !== split && code !== 10) continue;
      if (cell === column) found.push(strip(text.slice(from, at)));
      cell = code === 10 ? 0 : cell + 1;
      from = at + 1;
    }
    return found;
  }

  /** @param {string} text @param {readonly number[]} columns @param {Float64Array} out @returns {boolean} whether all cells are numbers */
  quickly(text, columns, out) {
    const split = this.separator.charCodeAt(0), mark = this.decimal.charCodeAt(0), end = text.length;
    const places = new Int32Array(Math.max(...columns) + 1).fill(-1), width = columns.length;
    columns.forEach((column, k) => { places[column] = k; });
    let cell = 0, from = 0, start = 0;
    for (let at = 0; at <= end; at++) {
      const code = at < end ? text.charCodeAt(at) : 10;
      if (code !== split && code !== 10) continue;
      const place = cell < places.length ? places[cell] : -1;
      if (place >= 0) {
        const value = numberIn(text, from, at, mark);
        if (!Number.isFinite(value)) return false;
        out[start + place] = value;
      }
      if (code === 10) {
        cell = 0;
        start += width;
      } else cell++;
      from = at + 1;
    }
    return true;
  }

  /** @param {string} text @param {readonly number[]} columns @param {Float64Array} out @param {number} start */
  oneByOne(text, columns, out, start) {
    let i = 0, at = 0;
    for (const row of rowsOf(text, this.separator)) {
      for (const j of columns) {
        const cell = strip(row[j]);
        if (!(this.decimal === "." ? isPoint(cell) : isCommaOrWhole(cell))) throw new CellError(start + i, j, this.problem(cell), absent(cell) !== null);
        out[at] = numberIn(cell, 0, cell.length, this.decimal.charCodeAt(0));
        if (!Number.isFinite(out[at])) throw new CellError(start + i, j, `holds ${shown(cell)}, which is too large`);
        at++;
      }
      i++;
    }
  }

  /** @param {string} cell @returns {string} */
  problem(cell) {
    if (this.decimal === "," && isPoint(cell)) {
      return `holds ${shown(cell)} with a decimal point, and other cells have decimal commas; write all alike`;
    }
    let advice = "";
    if (GROUPED.test(cell)) advice = "; write it without separators of thousands";
    else if (this.separator === "," && isComma(cell)) advice = "; write decimal points, or save the table with semicolons";
    else if (cell.endsWith("%")) advice = "; write probabilities from 0 to 1";
    else if (/[ |]/.test(cell)) advice = "; separate cells with commas, semicolons or tabs";
    return `holds ${shown(quoted(cell))}, which is not a number${advice}`;
  }
}

/** @param {string} text @param {string} separator @returns {boolean} whether a cell holds a decimal comma */
export function hasDecimalComma(text, separator) {
  const split = separator.charCodeAt(0);
  for (let comma = text.indexOf(","); comma >= 0; comma = text.indexOf(",", comma + 1)) {
    let from = comma, to = comma + 1;
    while (from > 0 && !ends(text.charCodeAt(from - 1), split)) from--;
    while (to < text.length && !ends(text.charCodeAt(to), split)) to++;
    let first = from, last = to;
    while (first < last && filler(text.charCodeAt(first))) first++;
    const end = numberEnd(text, first, last, 44);
    if (end > comma) {
      while (last > end && filler(text.charCodeAt(last - 1))) last--;
      if (end === last) return true;
    }
    comma = to - 1;
  }
  return false;
}

/** @param {number} code @param {number} split */
const ends = (code, split) => code === split || code === 10;
/** @param {number} code */
const filler = (code) => code === 32 || code === 34;
