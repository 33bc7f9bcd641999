// A table from a text file: its encoding, its layout, its header, its row names.

import { CellError, TextCells, hasDecimalComma } from "./cells.js";
import { isNumber } from "./decimal.js";
import { MOST_BYTES, encodingOf, piecesOf, spelled } from "./decode.js";
import { SEPARATORS, SEP_LINE, layoutOf } from "./layout.js";
import { blocksOf, firstRow, rowsOf } from "./rows.js";
import { InputError, absent, counted, listed, nameKey, shown, strip, twice } from "./text.js";

export const SUM_TOLERANCE = 1e-3;
const SOME_ROWS = 100;
const MOST_LISTED = 10;

/** @template T @typedef {import("./cells.js").Work<T>} Work */

/**
 * `columns` are the positions of those in use; `head` is a first row that could be a header as well, `below` the cells below it.
 * @typedef {{source: string, cells: TextCells, names: string[] | null, columns: number[], said: string[], rowNames: number | null,
 *   counted: boolean, head: string[] | null, below: TextCells | null, firstLine: number, kept?: number[], left?: string}} Fields
 */

export class Table {
  /** @param {Fields} fields */
  constructor(fields) {
    this.fields = fields;
    this.source = fields.source;
    this.cells = fields.cells;
    this.names = fields.names;
    this.columns = fields.columns;
    this.said = fields.said;
    this.rowNames = fields.rowNames;
    this.counted = fields.counted;
    this.head = fields.head;
    this.firstLine = fields.firstLine;
    this.rows = this.cells.rows;
    const names = this.names, same = names ? twice(this.columns.map((j) => names[j])) : null;
    if (same !== null) throw this.error(`two columns are called ${shown(same)}; give each a name of its own`);
  }

  /** @returns {string} one line that says what was recognised */
  get recognised() {
    return `${this.source}: ${[...this.said, this.names ? "header" : "no header"].filter(Boolean).join(", ")}; ${counted(this.rows, "row")}${this.fields.left ?? ""}`;
  }

  /** @param {string} name @returns {number} */
  column(name) {
    const names = this.names;
    if (!names) throw this.error(`line 1 is not a header, so there is no column ${shown(name)}; write the names above`);
    if (!names.includes(nameKey(name))) {
      const there = this.columns.map((j) => names[j]), close = closest(name, there);
      throw this.error(`has no column ${shown(name)}; ${close === null ? "" : `did you mean ${shown(close)}? `}there are ${listed(there)}`);
    }
    return names.indexOf(nameKey(name));
  }

  /** @param {readonly number[]} columns @returns {Work<Float64Array>} */
  *numbers(columns) {
    try {
      return yield* this.cells.numbers(columns);
    } catch (error) {
      if (error instanceof CellError && error.missing) {
        throw yield* this.missingError(columns, "give every row its numbers, or leave the row out of every file");
      }
      throw this.named(error);
    }
  }

  /**
   * An error that names the rows with a missing value: the first ten, and how many there are.
   * @param {readonly number[]} columns @param {string} advice @returns {Work<InputError>}
   */
  *missingError(columns, advice) {
    const found = yield* this.missing(columns);
    const rows = [...found.keys()].sort((a, b) => a - b), first = rows.slice(0, MOST_LISTED).map((row) => found.get(row));
    return this.error([...first, ...(rows.length > 1 ? [`${rows.length} rows lack a value`] : []), advice].join("; "));
  }

  /** @param {readonly number[]} columns @returns {Work<Map<number, string>>} the rows with a missing value, and the place of the first one of each */
  *missing(columns) {
    /** @type {Map<number, string>} */
    const found = new Map();
    for (const column of columns) {
      const cells = yield* this.texts(column);
      cells.forEach((cell, row) => {
        const missing = absent(cell);
        if (missing !== null && !found.has(row)) found.set(row, `${this.place(row, column)} ${missing}`);
      });
    }
    return found;
  }

  /** @param {readonly number[]} columns @returns {Work<Table>} without the rows that lack a value in these columns, and a note of them */
  *complete(columns) {
    const found = yield* this.missing(columns), kept = Array.from({ length: this.rows }, (_, row) => row).filter((row) => !found.has(row));
    if (!found.size) return this;
    if (!kept.length) throw this.error("has a missing value in every row");
    const places = [...found].sort(([a], [b]) => a - b).slice(0, MOST_LISTED).map(([, place]) => place);
    const left = `; ${counted(found.size, "row")} left out: ${places.join("; ")}${found.size > MOST_LISTED ? "; ..." : ""}`;
    return new Table({ ...this.fields, cells: this.cells.take(kept), kept, left });
  }

  /** @param {number | string} column @returns {Work<string[]>} */
  *texts(column) {
    const position = typeof column === "string" ? this.column(column) : column;
    try {
      return yield* this.cells.texts(position);
    } catch (error) {
      throw this.named(error);
    }
  }

  /** @param {number} row @param {number | null} [column] @returns {string} where a cell is, as a spreadsheet counts */
  place(row, column = null) {
    const where = `line ${this.firstLine + (this.fields.kept?.[row] ?? row)}`;
    return column === null ? where : `${where}, column ${this.names?.[column] ? shown(this.names[column]) : column + 1}`;
  }

  /** @param {string} problem @returns {InputError} */
  error(problem) {
    return new InputError(`${this.source}: ${problem}`);
  }

  /** @param {unknown} error @returns {unknown} */
  named(error) {
    return error instanceof CellError ? this.error(`${this.place(error.row, error.column)} ${error.message}`) : error;
  }

  /** @returns {string[]} the columns whose first rows look like probabilities; all of them if none do */
  probabilityColumns() {
    const names = /** @type {string[]} */ (this.names ?? []), rows = [...this.cells.some(SOME_ROWS)];
    const values = (/** @type {number} */ j) => rows.map((row) => row[j] ?? "").filter((cell) => absent(cell) === null).map((cell) => this.cells.value(cell));
    const found = this.columns.filter((j) => values(j).length && values(j).every((value) => value >= 0 && value <= 1));
    const fractions = found.filter((j) => values(j).some((value) => value % 1 > 0)), sums = (/** @type {number[]} */ some) =>
      rows.every((row) => !(Math.abs(some.reduce((sum, j) => sum + this.cells.value(row[j]), 0) - 1) > 0.05)); // or a value is missing
    const chosen = sums(found) || !sums(fractions) ? found : fractions;
    return (chosen.length ? chosen : this.columns).map((j) => names[j]);
  }

  /** @returns {Table} with the first row as the header that it could be */
  withHeader() {
    const { below, head } = this.fields;
    if (!below) return this;
    return new Table({ ...this.fields, cells: below, names: head, head: null, below: null, firstLine: this.firstLine + 1 });
  }
}

/** @param {string} name @param {readonly string[]} names @returns {string | null} the one that differs in capitals and marks only, or holds the other */
function closest(name, names) {
  const plain = (/** @type {string} */ one) => one.toLowerCase().replace(/[^\p{L}\p{N}]/gu, ""), wanted = plain(name);
  const part = (/** @type {string} */ one) => Math.min(one.length, wanted.length) > 2 && (one.includes(wanted) || wanted.includes(one));
  return names.find((one) => plain(one) === wanted) ?? names.find((one) => part(plain(one))) ?? null;
}

const TEXT = [".csv", ".tsv", ".txt"];
const SHEETS = [".xlsx", ".xls", ".xlsm", ".ods", ".numbers"];

/** @param {string} name @param {Uint8Array} data @param {string | null} [encoding] @returns {Work<Table>} */
export function* readTable(name, data, encoding = null) {
  const ending = (/[^.](\.[^.]*)$/.exec(name)?.[1] ?? "").toLowerCase();
  if (SHEETS.includes(ending)) throw new InputError(`${name}: is a spreadsheet; save the sheet as CSV UTF-8 first`);
  if (!TEXT.includes(ending)) throw new InputError(`${name}: expected a file that ends in ${TEXT.join(", ")}`);
  try {
    return yield* readText(name, data, encoding);
  } catch (error) {
    throw error instanceof InputError && !error.message.startsWith(`${name}: `) ? new InputError(`${name}: ${error.message}`) : error;
  }
}

/** @param {string} source @param {Uint8Array} data @param {string | null} asked @returns {Work<Table>} */
function* readText(source, data, asked) {
  if (data.length > MOST_BYTES) throw new InputError(`has ${data.length} bytes, more than ${MOST_BYTES}; save it as several files`);
  const coding = encodingOf(data, asked), pieces = piecesOf(data, coding), first = pieces.next();
  let text = first.done ? "" : first.value;
  const stated = SEP_LINE.exec(text);
  text = stated ? text.slice(stated[0].length) : text;
  const layout = stated ? { separator: stated[1], said: SEPARATORS[stated[1]], short: false } : layoutOf(text);
  const texts = (function* () {
    yield* firstRow(text, layout.separator);
    yield* pieces;
  })();
  const blocks = [];
  let done = 0, comma = false;
  for (const block of blocksOf(texts, layout)) {
    blocks.push(block);
    comma = comma || (layout.separator !== "," && hasDecimalComma(block.text, layout.separator));
    done += block.text.length;
    yield Math.min(1, done / Math.max(1, data.length));
  }
  if (!blocks.length) throw new InputError("is empty");
  const cells = new TextCells(blocks, layout.separator, comma ? "," : ".");
  const said = [layout.said, stated ? "after a line sep= that is not counted" : "", comma ? "decimal commas" : "", spelled(coding)];
  return yield* tableOf(source, cells, said, layout.short);
}

/** @param {string} source @param {TextCells} cells @param {string[]} said @param {boolean} short @returns {Work<Table>} */
function* tableOf(source, cells, said, short) {
  const line = /** @type {string[]} */ (rowsOf(cells.blocks[0].text, cells.separator).next().value);
  const head = [...(short ? [""] : []), ...line.map(nameKey)];
  if (head[0] === "Unnamed: 0") head[0] = ""; // the name that pandas gives to an index that it reads as a column
  const body = cells.withoutFirst(), empty = emptyColumns(head, body);
  let columns = head.map((_, j) => j).filter((j) => !empty.has(j));
  const names = columns.map((j) => head[j]);
  const rowNames = names.length > 1 && !names[0] && areNames(names.slice(1)) ? columns[0] : null;
  columns = rowNames !== null ? columns.slice(1) : columns;
  const header = rowNames !== null || (yield* isHeader(columns.map((j) => head[j]), body, columns));
  if (header && !body.rows) throw new InputError("is empty but for its header");
  if (empty.size) said.push(`${counted(empty.size, "empty column")} left out`);
  const numbers = header ? positions(columns.map((j) => head[j])) : [];
  if (numbers.length) said.push(`column numbers ${numbers.slice(0, 3).join(",")}${numbers.length > 3 ? ",..." : ""} in line 1`);
  const unsure = header === null;
  const fields = {
    source, cells: header ? body : cells, names: header ? head : null, columns, said, rowNames, counted: false,
    head: unsure ? head : null, below: unsure ? body : null, firstLine: header ? 2 : 1,
  };
  const table = new Table(fields);
  if (rowNames === null) return table;
  const found = yield* table.texts(rowNames);
  const counts = [0, 1].some((start) => found.every((cell, i) => cell === String(i + start)));
  return new Table({ ...fields, counted: counts, said: [...said, counts ? "row numbers left out" : "row names in column 1"] });
}

/** @param {string[]} head @param {TextCells} cells @returns {Set<number>} */
function emptyColumns(head, cells) {
  const found = new Set(head.flatMap((name, j) => (name ? [] : [j])));
  if (!found.size) return found;
  for (const row of cells.all()) {
    for (const j of found) if (strip(row[j])) found.delete(j);
    if (!found.size) break;
  }
  return found;
}

/** @param {string[]} names @returns {string[]} those that are numbers, if they count columns from 0 or from 1 */
function positions(names) {
  const numbers = names.filter(isNumber);
  return [0, 1].some((start) => numbers.every((name, i) => name === String(i + start))) ? numbers : [];
}

/** @param {string[]} names @returns {boolean} whether all cells beside an empty first one are names of columns */
function areNames(names) {
  const numbers = names.filter(isNumber).length;
  return names.every(Boolean) && (!numbers || (names.length === 1 && names[0] === "0") || (numbers > 1 && positions(names).length > 0));
}

/** @param {string[]} names @param {TextCells} body @param {number[]} columns @returns {Work<boolean | null>} null if the content does not tell */
function* isHeader(names, body, columns) {
  const numbers = columns.filter((_, k) => isNumber(names[k]));
  if (!numbers.length) {
    if (!names.every(Boolean)) throw new InputError(`line 1, column ${columns[names.indexOf("")] + 1} has no name; give every column a name`);
    const missing = columns.filter((_, k) => absent(names[k]) !== null);
    if (missing.length > 1) { // one class may be called none
      throw new InputError(`line 1, column ${missing[0] + 1} ${absent(names[columns.indexOf(missing[0])])}, not a name`);
    }
    let seen = 0;
    for (const row of body.rows ? rowsOf(body.blocks[0].text, body.separator) : []) {
      if (columns.some((j) => isNumber(row[j]))) return true;
      if (++seen === SOME_ROWS) break;
    }
    return null;
  }
  if (names.length === 1 && names[0] === "0") return null;
  const counting = positions(names);
  if (numbers.length < 2 || !counting.length || !names.every(Boolean)) return false;
  return yield* countsColumns(counting, body, numbers);
}

/** @param {string[]} names @param {TextCells} body @param {number[]} columns @returns {Work<boolean>} */
function* countsColumns(names, body, columns) {
  let whole = false;
  for (const row of body.all()) if ((whole = columns.every((j) => /^[-+]?[0-9]+$/.test(strip(row[j]))))) break;
  if (body.rows && !whole) return true;
  if (body.rows && names.length > 2) {
    try {
      const values = yield* body.numbers(columns), width = columns.length;
      let off = 0;
      for (let at = 0; at < values.length; at += width) {
        let sum = 0;
        for (let k = 0; k < width; k++) sum += values[at + k];
        off = Math.max(off, Math.abs(sum - 1));
      }
      if (off <= SUM_TOLERANCE) return true;
    } catch (error) {
      if (!(error instanceof CellError)) throw error;
    }
  }
  throw new InputError(
    `line 1 is ${names.slice(0, 3).join(",")}${names.length > 3 ? ",..." : ""}, which could be a header of column numbers or a row; ` +
      "write names there if it is a header, or else decimals such as 0.0,1.0",
  );
}

