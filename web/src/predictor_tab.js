// The second tab: checks of a predictor, and the sets of a table.

import { at, choose, chosen, columnsIn, download, field, made, offer, put, runner, show, tableIn, tableOf, ticked, typed, words } from "./dom.js";
import { UNIT, general } from "./decimal.js";
import { atSite, namedIn, part, readPredictor, readSeal, thresholds } from "./predictor.js";
import { readSummary } from "./reader.js";
import { roundingOf } from "./scores.js";
import { answersOf, intervalOf, rowsFor, setOf, tableText } from "./sets.js";
import { InputError, harmless, nameKey, shown } from "./text.js";

/** @typedef {import("./predictor.js").Predictor} Predictor */

const PAGE = 25;
const MOST_CHIPS = 12;
const SAMPLE = 20000;
/** @type {Predictor | null} */
let predictor = null;
/** The same for the site of the rows. @type {Predictor | null} */
let used = null;
/** @type {import("./sets.js").Answers | null} */
let answers = null;
/** @type {import("./predictions.js").Predictions | null} */
let rows = null;
/** @type {bigint[]} */
let steps = [];
let first = 0;
let asked = 0;
/** The checks under way. @type {Promise<void>} */
let checking = Promise.resolve();

const run = runner("predict", "rows-problem", "rows-progress", "rows-stage");

/** @param {string} state @param {string} text @returns {HTMLElement} */
const line = (state, text) => made("li", harmless(text), state);

/** Check the predictor, and say each result by itself. */
async function checkAll() {
  const found = [], mine = ++asked;
  predictor = null;
  show("answers", false);
  show("rows-site-label", false);
  show("predictor-problem", false);
  put("sentence", "");
  put("assumption", "");
  try {
    const file = await chosen("predictor"), seal = await chosen("seal"), own = await chosen("own"), key = typed("key")?.toLowerCase() ?? null;
    if (mine !== asked) return; // something else was chosen meanwhile
    if (file) {
      const read = readPredictor(file.data);
      found.push(line("good", `The predictor is unchanged: the SHA-256 of its content is correct. The SHA-256 of the file is ${read.digest}.`));
      found.push(seal ? sealed(file.data, seal, key) : line("", "No signature was given, so this page cannot say who made the predictor."));
      found.push(own ? named(read, own) : line("", "This site's own summary was not given, so this page cannot say whether it is in the predictor."));
      const expires = part(read, "provenance").get("expires"), today = new Date().toISOString().slice(0, 10);
      if (typeof expires === "string") found.push(line(expires < today ? "bad" : "good", expires < today ? `The certificate expired on ${expires}; ask for a new one.` : `The certificate is good until ${expires}.`));
      const heat = part(read, "provenance").get("temperature");
      if (typeof heat === "number" && heat !== 1) found.push(line("", `The predictor was calibrated at temperature ${general(heat)}; the probabilities must be too.`));
      put("sentence", harmless(read.sentence));
      put("assumption", harmless(`Assumption: ${String(part(read, "statement").get("assumption"))}. ${String(part(read, "statement").get("caveat"))}`));
      predictor = read;
      choose("rows-site", [...read.sites.keys()], "not given: the largest threshold");
      show("rows-site-label", read.sites.size > 0);
      const sets = read.answers === "sets", two = (Array.isArray(read.labels) ? read.labels.length : read.labels ?? 2) === 2;
      show("rows-columns-label", sets && !Array.isArray(read.labels));
      show("rows-positive-label", sets && two);
      show("rows-prediction-label", !sets);
    }
  } catch (error) {
    if (mine !== asked) return;
    put("predictor-problem", words(error));
    show("predictor-problem", true);
  }
  at("checks").replaceChildren(...found);
}

/** @param {Uint8Array} data @param {import("./site.js").File} seal @param {string | null} key @returns {HTMLElement} */
function sealed(data, seal, key) {
  try {
    const found = readSeal(data, seal.data), whose = shown(found.key, 64);
    if (!found.valid) return line("bad", `${seal.name} is not a signature of this predictor.`);
    if (key === null) return line("", `The predictor is signed with the key ${whose}. Compare it with the key that the coordinator gave you.`);
    return found.key === key ? line("good", "The predictor is signed with the coordinator's key.") : line("bad", `The predictor is signed with another key than the coordinator's: ${whose}.`);
  } catch (error) {
    return line("bad", `${seal.name}: ${words(error)}`);
  }
}

/** @param {Predictor} read @param {import("./site.js").File} own @returns {HTMLElement} */
function named(read, own) {
  try {
    readSummary(own.data);
    const site = namedIn(read, own.data);
    return site === null ? line("bad", `${own.name} is not in this predictor.`) : line("good", `${own.name} is in this predictor, as that of ${site}.`);
  } catch (error) {
    return line("bad", `${own.name}: ${words(error)}`);
  }
}

/** @returns {Promise<void>} offer the columns of the table */
function open() {
  show("answers", false);
  return run(async (step) => {
    const table = (await tableIn("rows", typed("rows-encoding"), step))?.withHeader();
    if (!table) return;
    const columns = table.names ? table.columns.map((j) => /** @type {string[]} */ (table.names)[j]) : [];
    const proposed = table.probabilityColumns();
    offer("rows-columns", columns, (name) => proposed.includes(name));
    offer("rows-keep", columns.filter((name) => !proposed.includes(name)));
    choose("rows-ids", columns, "none");
    choose("rows-prediction", columns, "the column called prediction");
    put("rows-found", harmless(table.recognised));
  });
}

/** @returns {Promise<void>} */
function predict() {
  show("answers", false);
  return run(async (step) => {
    await checking;
    const table = await tableIn("rows", typed("rows-encoding"), step), rule = predictor && atSite(predictor, typed("rows-site"));
    if (!rule) throw new InputError("there is no predictor so far; choose the file predictor.json above");
    if (!table) throw new InputError("no table was chosen; choose the file with the rows to predict");
    const ids = typed("rows-ids"), drop = columnsIn("rows-columns", false).filter((name) => name !== ids);
    const columns = { ids, drop, keep: columnsIn("rows-keep"), positive: typed("rows-positive"), prediction: typed("rows-prediction") };
    const found = await step("reading", rowsFor(rule, table, columns));
    answers = rule.score?.name === "residual" ? null : await step("predicting", answersOf(rule, found));
    rows = found;
    used = rule;
    const rounding = answers && roundingOf(found.values, found.columns);
    put("rows-found", harmless(rounding ? `${found.recognised}. ${rounding}` : found.recognised));
    steps = [...new Set([...Array.from({ length: 100 }, (_, i) => BigInt(i + 1) * (UNIT / 200n)), rule.alpha])].sort((a, b) => (a < b ? -1 : 1));
    field("slider").max = String(steps.length - 1);
    first = 0;
    put("sets-saved", "");
    show("wide-label", answers !== null);
    show("answers", true);
    certified();
  });
}

/** Go back to the alpha of the certificate. */
function certified() {
  field("slider").value = String(steps.indexOf(predictor?.alpha ?? 0n));
  draw();
}

/** @param {Iterable<number>} limits @returns {string} */
function limitText(limits) {
  const found = [...limits], low = found.reduce((a, b) => Math.min(a, b)), high = found.reduce((a, b) => Math.max(a, b));
  return low === high ? general(low) : `${general(low)} to ${general(high)}`;
}

/** Show the sets at the alpha of the slider. */
function draw() {
  if (!used || !rows) return;
  const alpha = steps[Number(field("slider").value)], limits = thresholds(used, alpha), count = rows.table.rows, promised = `${general((100 * Number(UNIT - alpha)) / 1e15, 10)}%`;
  put("alpha-now", general(Number(alpha) / 1e15, 10));
  put("promise-now", limits.includes(Infinity) ? `${promised} cannot be promised ${limits.length > 1 ? "everywhere " : ""}from these scores: labels are in every set` : `at least ${promised}`);
  put("threshold-now", limitText(limits));
  field("slider").setAttribute("aria-valuetext", `alpha ${general(Number(alpha) / 1e15, 10)}`);
  const last = Math.min(count, first + PAGE), who = (/** @type {number} */ row) => (rows?.ids ? shown(rows.ids[row]) : String(row));
  const some = Array.from({ length: last - first }, (_, i) => first + i), title = rows.ids ? shown(rows.idColumn ?? "id") : "row";
  if (answers) drawSets(alpha, some, title, who);
  else {
    const ends = (/** @type {number} */ row) => intervalOf(/** @type {NonNullable<typeof rows>} */ (rows).values[row], limits[0]);
    put("size-name", "width of an interval");
    put("size-now", general(2 * limits[0]));
    show("full-name", false);
    show("full-now", false);
    at("sets").replaceChildren(tableOf([title, "from", "to"], some.map((row) => [who(row), ...ends(row).map((end) => general(end, 8))])));
  }
  put("shown-rows", `rows ${first + 1} to ${last} of ${count}`);
  field("before").disabled = first === 0;
  field("after").disabled = last === count;
}

/** @param {bigint} alpha @param {number[]} some @param {string} title @param {(row: number) => string} who */
function drawSets(alpha, some, title, who) {
  const found = /** @type {import("./sets.js").Answers} */ (answers), { table, columns, classes } = found.rows, step = Math.max(1, Math.ceil(table.rows / SAMPLE));
  let size = 0, full = 0, seen = 0;
  for (let row = 0; row < table.rows; row += step, seen++) {
    const held = setOf(found, row, alpha).length;
    size += held;
    if (held === columns) full++;
  }
  put("size-name", step > 1 ? `labels a set (every ${step}th row)` : "labels a set");
  put("size-now", (size / seen).toFixed(2));
  show("full-name", true);
  show("full-now", true);
  put("full-now", `${((100 * full) / seen).toFixed(1)}%`);
  at("sets").replaceChildren(tableOf([title, "size", "labels"], some.map((row) => {
    const set = setOf(found, row, alpha), said = set.slice(0, MOST_CHIPS).map((label) => (classes ? harmless(classes[label]) : String(label))).join(", ");
    return [who(row), String(set.length), set.length > MOST_CHIPS ? `${said} and ${set.length - MOST_CHIPS} more` : said];
  })));
}

/** Save what is shown, for all rows. */
function save() {
  if (!used || !rows) return;
  const alpha = steps[Number(field("slider").value)], keep = columnsIn("rows-keep").filter((name) => nameKey(name) !== rows?.idColumn), found = answers;
  const classes = found && Array.from({ length: rows.columns }, (_, k) => rows?.classes?.[k] ?? String(k));
  if (!found || !classes) {
    const limit = thresholds(used, alpha)[0], { values } = rows;
    download("sets.csv", tableText(rows, keep, ["lower", "upper"], (row) => intervalOf(values[row], limit)), "text/csv");
  } else if (ticked("wide")) {
    const cells = (/** @type {number[]} */ set) => [String(set.length), ...classes.map((_, k) => (set.includes(k) ? "yes" : "no"))];
    download("sets.csv", tableText(rows, keep, ["size", ...classes], (row) => cells(setOf(found, row, alpha))), "text/csv");
  } else {
    const between = rows.classes ? ";" : " ";
    if (classes.some((name) => name.includes(between))) return put("sets-saved", "a class has a semicolon in its name; tick a column for each class");
    const cells = (/** @type {number[]} */ set) => [String(set.length), set.map((k) => classes[k]).join(between)];
    download("sets.csv", tableText(rows, keep, ["size", "labels"], (row) => cells(setOf(found, row, alpha))), "text/csv");
  }
  put("sets-saved", `saved as sets.csv, at alpha ${general(Number(alpha) / 1e15, 10)}`);
}

/** Start the tab. */
export function predictorTab() {
  for (const id of ["predictor", "seal", "own", "key"]) at(id).addEventListener("change", () => { checking = checkAll(); });
  for (const id of ["rows", "rows-encoding"]) at(id).addEventListener("change", () => void open());
  for (const id of ["rows-ids", "rows-columns", "rows-keep", "rows-positive", "rows-prediction", "rows-site"]) at(id).addEventListener("input", () => show("answers", false));
  at("predict").addEventListener("click", () => void predict());
  at("save-sets").addEventListener("click", save);
  at("slider").addEventListener("input", draw);
  at("certified").addEventListener("click", certified);
  at("before").addEventListener("click", () => { first = Math.max(0, first - PAGE); draw(); });
  at("after").addEventListener("click", () => { first += PAGE; draw(); });
  choose("rows-ids", [], "none");
  choose("rows-prediction", [], "the column called prediction");
}
