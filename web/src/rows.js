// Rows of a text file: equal numbers of cells, closed quotes, blank lines only at the end.

import { InputError, length, strip } from "./text.js";

const MOST_COLUMNS = 2 ** 17;
const LONGEST_CELL = 131072;

/** Whole rows of text; `plain` if it has no quotes, so that each line is a row. @typedef {{text: string, rows: number, plain: boolean}} Block */
/** @typedef {import("./layout.js").Layout} Layout */

/**
 * Yields rows of cells; quotes must be closed, and nothing but a separator follows them.
 * @param {string} text @param {string} separator @returns {Generator<string[], void>}
 */
export function* rowsOf(text, separator) {
  const split = separator.charCodeAt(0), end = text.length;
  let at = 0;
  while (at <= end) {
    /** @type {string[]} */
    const row = [];
    for (;;) {
      while (at < end && text.charCodeAt(at) === 32) at++;
      let cell;
      if (text.charCodeAt(at) === 34) {
        const parts = [];
        let from = at + 1, close = text.indexOf('"', from);
        while (close >= 0 && text.charCodeAt(close + 1) === 34) {
          parts.push(text.slice(from, close + 1));
          from = close + 2;
          close = text.indexOf('"', from);
        }
        if (close < 0) throw new CellProblem("has a quote that is not closed");
        parts.push(text.slice(from, close));
        cell = parts.join("");
        at = close + 1;
        const next = at < end ? text.charCodeAt(at) : 10;
        if (next !== split && next !== 10) throw new CellProblem("has text after a closing quote");
      } else {
        const from = at;
        while (at < end) {
          const code = text.charCodeAt(at);
          if (code === split || code === 10) break;
          at++;
        }
        cell = text.slice(from, at);
      }
      if (cell.length > LONGEST_CELL && length(cell) > LONGEST_CELL) {
        throw new CellProblem(`has a quote that is not closed, or a cell of more than ${LONGEST_CELL} characters`);
      }
      row.push(cell);
      if (at >= end || text.charCodeAt(at) === 10) break;
      at++;
    }
    at++;
    yield row.length === 1 && row[0] === "" && text.charCodeAt(at - 2) !== 34 ? [] : row;
  }
}

class CellProblem extends Error {}

/** @param {string} text @param {string} separator @returns {[string, string]} its first row, which may have line ends in quotes, and the rest */
export function firstRow(text, separator) {
  let quoted = false, start = true;
  for (let at = 0; at < text.length; at++) {
    const one = text[at];
    if (quoted && one === '"' && text[at + 1] === '"') at++;
    else if (one === '"' && (quoted || start)) quoted = !quoted;
    else if (one === "\n" && !quoted) return [text.slice(0, at + 1), text.slice(at + 1)];
    start = !quoted && (one === separator || (start && one === " "));
  }
  return [text, ""];
}

/**
 * Checks rows and yields them in blocks; the first is alone.
 * @param {Iterable<string>} texts @param {Layout} layout @returns {Generator<Block, void>}
 */
export function* blocksOf(texts, layout) {
  let line = 1, width = 0, blank = 0;
  for (const text of texts) {
    if (!text) continue;
    const body = text.endsWith("\n") ? text.slice(0, -1) : text;
    const careful = text.includes('"') || longest(body) > LONGEST_CELL;
    const { widths, filled, problem } = careful ? carefully(body, layout.separator, line) : quickly(body, layout.separator);
    const count = widths.length;
    if (problem && !count) throw problem;
    width = width || widths[0] + (layout.short ? 1 : 0);
    let kept = count;
    if (blank || filled.includes(0) || widths.some((one) => one !== width)) {
      kept = filled.lastIndexOf(1) + 1;
      for (let i = 0; i < count; i++) {
        if (!filled[i]) blank = blank || line + i;
        else if (blank) throw new InputError(`line ${blank} is blank; delete it, or fill it in, so that every row keeps its place`);
        else if (widths[i] !== width && !(layout.short && line + i === 1)) throw new InputError(ragged(text, line, i, widths[i], width, layout.separator));
      }
    }
    if (problem) throw problem; // of a later row than those above
    if (width > MOST_COLUMNS) throw new InputError(`line 1 has ${width} cells, more than ${MOST_COLUMNS}; is this a table?`);
    if (kept) yield { text: kept === count ? body : withoutLast(body, count - kept), rows: kept, plain: !careful };
    line += count;
  }
}

/** @param {string} text @returns {number} */
function longest(text) {
  if (text.length <= LONGEST_CELL) return 0;
  let most = 0;
  for (let at = 0; at <= text.length;) {
    const end = text.indexOf("\n", at), to = end < 0 ? text.length : end;
    if (to - at > most) most = to - at > LONGEST_CELL ? length(text.slice(at, to)) : to - at;
    at = to + 1;
  }
  return most;
}

/** @param {string} text @param {number} lines @returns {string} */
function withoutLast(text, lines) {
  let end = text.length;
  for (let i = 0; i < lines; i++) end = text.lastIndexOf("\n", end - 1);
  return text.slice(0, Math.max(0, end));
}

/** @param {string} text @param {string} separator */
function quickly(text, separator) {
  const split = separator.charCodeAt(0), end = text.length;
  const widths = [], filled = [];
  let cells = 1, some = 0;
  for (let i = 0; i < end; i++) {
    const code = text.charCodeAt(i);
    if (code === 10) {
      widths.push(cells);
      filled.push(some);
      cells = 1;
      some = 0;
    } else if (code === split) cells++;
    else if (code !== 44 && code !== 59 && code !== 32 && code !== 9) some = 1;
  }
  widths.push(cells);
  filled.push(some);
  return { widths, filled, problem: null };
}

/** @param {string} text @param {string} separator @param {number} line */
function carefully(text, separator, line) {
  const widths = [], filled = [];
  let problem = null;
  try {
    for (const row of rowsOf(text, separator)) {
      widths.push(row.length);
      filled.push(row.some((cell) => strip(cell)) ? 1 : 0);
    }
  } catch (error) {
    if (!(error instanceof CellProblem)) throw error;
    problem = new InputError(`line ${line + widths.length} ${error.message}; write a quote inside a cell twice`);
  }
  return { widths, filled, problem };
}

/** @param {string} text @param {number} line @param {number} at @param {number} cells @param {number} width @param {string} separator */
function ragged(text, line, at, cells, width, separator) {
  let row = /** @type {string[]} */ ([]), i = 0;
  for (row of rowsOf(text, separator)) if (i++ === at) break;
  const problem = `line ${line + at} has ${cells > 1 ? `${cells} cells` : "1 cell"}, and line 1 has ${width}`;
  const commas = separator === "," && cells > width && row.every((cell) => /^\p{Nd}+$/u.test(strip(cell)));
  return commas ? `${problem}; if these are decimal commas, save the table with semicolons` : problem;
}
