// Elements of the page. Text from outside only ever becomes text, never HTML.

import { readTable } from "./table.js";
import { InputError, harmless } from "./text.js";
import { inTurns } from "./work.js";

/** @param {string} id @returns {HTMLElement} */
export const at = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
/** @param {string} id @returns {HTMLInputElement} an input or a choice */
export const field = (id) => /** @type {HTMLInputElement} */ (at(id));
/** @param {string} id @returns {string | null} what was typed, null if nothing was */
export const typed = (id) => field(id).value.trim() || null;
/** @param {string} id @returns {string[]} names between commas */
export const names = (id) => field(id).value.split(",").map((name) => name.trim()).filter(Boolean);
/** @param {string} id @returns {boolean} */
export const ticked = (id) => field(id).checked;

/** @param {string} id @param {string} text */
export function put(id, text) {
  at(id).textContent = text;
}

/** @param {string} id @param {boolean} visible */
export function show(id, visible) {
  at(id).hidden = !visible;
}

/** @param {string} kind @param {string} text @param {string} [style] @returns {HTMLElement} */
export function made(kind, text, style = "") {
  const found = document.createElement(kind);
  found.textContent = text;
  if (style) found.className = style;
  return found;
}

/** @param {readonly string[]} titles @param {Iterable<readonly string[]>} lines @param {string} [style] @returns {HTMLTableElement} */
export function tableOf(titles, lines, style = "") {
  const table = document.createElement("table"), head = table.createTHead().insertRow(), body = table.createTBody();
  table.className = style;
  for (const title of titles) head.append(Object.assign(made("th", title), { scope: "col" }));
  addLines(body, lines);
  return table;
}

/** @param {HTMLTableSectionElement} body @param {Iterable<readonly string[]>} lines */
export function addLines(body, lines) {
  for (const line of lines) {
    const row = body.insertRow();
    for (const cell of line) row.insertCell().textContent = cell;
  }
}

/** @param {string} id @param {readonly string[]} options @param {string} none what the empty choice is called */
export function choose(id, options, none) {
  const select = /** @type {HTMLSelectElement} */ (/** @type {unknown} */ (at(id))), before = select.value;
  select.replaceChildren(...["", ...options].map((name) => {
    const option = /** @type {HTMLOptionElement} */ (made("option", harmless(name || none)));
    option.value = name;
    return option;
  }));
  select.value = options.includes(before) ? before : "";
}

/** @param {string} id @param {readonly string[]} options a box for each @param {(name: string) => boolean} [first] which are ticked at first */
export function offer(id, options, first = () => false) {
  at(id).replaceChildren(...options.map((name) => {
    const label = made("label", "", "check"), box = document.createElement("input");
    Object.assign(box, { type: "checkbox", value: name, checked: first(name) });
    label.append(box, harmless(name));
    return label;
  }));
}

/** @param {string} id @param {boolean} [ticked] @returns {string[]} the columns that are ticked, or those that are not */
export const columnsIn = (id, ticked = true) => [...at(id).querySelectorAll("input")].filter((box) => box.checked === ticked).map((box) => box.value);

/** @param {string} name @param {BlobPart} data @param {string} type */
export function download(name, data, type) {
  const link = document.createElement("a"), url = URL.createObjectURL(new Blob([data], { type }));
  Object.assign(link, { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

/** @param {unknown} error @returns {string} in one line */
export function words(error) {
  if (error instanceof InputError) return harmless(error.message.split(/\s+/).join(" "));
  if (error instanceof RangeError) return "this is too large for the page; use the command line on this machine";
  return `this cannot be done here (${String(error).slice(0, 200)})`;
}

const MOST_FILE = 2 ** 30;

/** @param {string} id @returns {Promise<import("./site.js").File | null>} the file that was chosen, if one was */
export async function chosen(id) {
  const file = field(id).files?.[0];
  if (!file) return null;
  if (file.size > MOST_FILE) throw new InputError(`${file.name}: has ${file.size} bytes, more than ${MOST_FILE}; use the command line`);
  try {
    return { name: file.name, data: new Uint8Array(await file.arrayBuffer()) };
  } catch {
    throw new InputError(`${file.name}: cannot be read; choose it again`);
  }
}

/** @type {Map<string, {file: Blob, encoding: string | null, table: import("./table.js").Table}>} */
const read = new Map();

/**
 * The table that was chosen, if one was; it is read once.
 * @param {string} id @param {string | null} encoding @param {Step} step @returns {Promise<import("./table.js").Table | null>}
 */
export async function tableIn(id, encoding, step) {
  const chosenFile = field(id).files?.[0], known = read.get(id);
  if (known && known.file === chosenFile && known.encoding === encoding) return known.table;
  read.delete(id);
  const file = await chosen(id);
  if (!file || !chosenFile) return null;
  const table = await step("reading", readTable(file.name, file.data, encoding));
  read.set(id, { file: chosenFile, encoding, table });
  return table;
}

/** Does some work a part at a time, and shows how far it is. @typedef {<T>(name: string, work: Generator<number, T>) => Promise<T>} Step */

/**
 * One thing at a time: a new one stops the one before; an error is shown in one line.
 * @param {string} button @param {string} problem @param {string} bar @param {string} stage
 */
export function runner(button, problem, bar, stage) {
  let turn = 0;
  return async (/** @type {(step: Step) => Promise<void>} */ job) => {
    const mine = ++turn, stopped = new Error("stopped");
    show(problem, false);
    field(button).disabled = true;
    try {
      await job(async (name, work) => {
        const found = await inTurns(work, (share) => {
          if (mine !== turn) return false;
          field(bar).hidden = false;
          field(bar).value = String(share);
          put(stage, name);
          return true;
        });
        if (mine !== turn || found === null) throw stopped;
        return /** @type {any} */ (found);
      });
    } catch (error) {
      if (error === stopped || mine !== turn) return;
      put(problem, words(error));
      show(problem, true);
    } finally {
      if (mine === turn) {
        show(bar, false);
        put(stage, "");
        field(button).disabled = false;
      }
    }
  };
}
