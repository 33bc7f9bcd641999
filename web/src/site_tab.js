// The first tab: from a table to a summary, and all of its content.

import { contradictionIn } from "./agreement.js";
import { addLines, at, choose, columnsIn, download, field, made, names, offer, put, runner, show, tableIn, tableOf, ticked, typed } from "./dom.js";
import { readSummary } from "./reader.js";
import { rowsOf } from "./rows.js";
import { roundingOf, scoreOf } from "./scores.js";
import { factsOf, lineCount, linesOf, warningsOf } from "./facts.js";
import { readRows, summarizeRows } from "./site.js";
import { InputError, harmless, shown } from "./text.js";

const SOME_LINES = 250;
const SOME_COLUMNS = 12;
/** @type {Uint8Array | null} */
let ready = null;
/** @type {Iterator<string[]> | null} */
let lines = null;

const run = runner("work", "problem", "progress", "stage");

/** Show the fields that go with what was chosen. */
function fit() {
  const numbers = field("task").value === "numbers", score = numbers ? "residual" : field("score").value, sums = score === "aps" || score === "raps";
  const visible = /** @type {[string, boolean][]} */ ([
    ["of-numbers", numbers], ["of-classes", !numbers], ["of-sums", sums], ["of-random", sums && ticked("randomized")], ["of-raps", score === "raps"],
  ]);
  for (const [style, is] of visible) for (const one of document.querySelectorAll(`#site-panel .${style}`)) /** @type {HTMLElement} */ (one).hidden = !is;
}

/** Forget what was worked out: something was changed. */
function stale() {
  ready = null;
  show("result", false);
  put("saved", "");
}

/** @returns {Promise<void>} read the table, and offer its columns */
function open() {
  return run(async (step) => {
    put("recognised", "");
    at("preview").replaceChildren();
    const table = await tableIn("file", typed("encoding"), step), other = await tableIn("labels-file", typed("encoding"), step);
    if (!table) return;
    const first = table.withHeader(), under = other?.withHeader();
    const columns = first.names ? first.columns.map((j) => /** @type {string[]} */ (first.names)[j]) : [];
    const proposed = first.probabilityColumns();
    offer("columns", columns, (name) => proposed.includes(name));
    offer("groups", columns.filter((name) => !proposed.includes(name)));
    choose("prediction", columns, "the column called prediction");
    choose("ids", columns, "none");
    choose("labels", under ? (under.names ? under.columns.map((j) => /** @type {string[]} */ (under.names)[j]) : []) : columns, other ? "the only column there is" : "choose a column");
    put("recognised", harmless(other ? `${table.recognised}; ${other.recognised}` : table.recognised));
    const body = first.cells.blocks.length ? rowsOf(first.cells.blocks[0].text, first.cells.separator) : [], top = [];
    for (const row of body) if (top.push(first.columns.slice(0, SOME_COLUMNS).map((j) => shown(row[j] ?? "", 24))) === 3) break;
    const more = first.columns.length > SOME_COLUMNS ? ["..."] : [];
    const titles = first.columns.slice(0, SOME_COLUMNS).map((j) => (first.names ? shown(first.names[j], 24) : `column ${j + 1}`));
    at("preview").replaceChildren(tableOf([...titles, ...more], top.map((row) => [...row, ...more])));
  });
}

/** @returns {import("./site.js").Columns} */
function columnsGiven() {
  const classes = names("classes"), numbers = field("task").value === "numbers", groups = numbers ? [] : columnsIn("groups");
  const ids = typed("ids"), labels = typed("labels"), used = [ids, ...groups, ...(field("labels-file").files?.length ? [] : [labels])];
  return {
    ids, labels, classes: classes.length ? classes : null, drop: numbers ? [] : columnsIn("columns", false).filter((name) => !used.includes(name)),
    positive: typed("positive"), prediction: typed("prediction"), groups,
  };
}

/** @returns {import("./site.js").Wanted} */
function wantedGiven() {
  const numbers = field("task").value === "numbers", site = typed("site");
  if (site === null) throw new InputError("the site has no name; type the name under which the coordinator knows it");
  const randomized = ticked("randomized"), drawn = { randomized, seed: randomized ? field("seed").value : "0" };
  const name = /** @type {"lac" | "aps" | "raps"} */ (field("score").value);
  return {
    site, kind: /** @type {"ranks" | "exact"} */ (field("kind").value), alpha: field("alpha").value, byClass: !numbers && ticked("by-class"),
    score: numbers ? scoreOf("residual", {}) : scoreOf(name, { lac: {}, aps: drawn, raps: { ...drawn, penalty: field("penalty").value, free: field("free").value } }[name]),
    model: typed("model"), calibration: typed("calibration"), expires: typed("expires"), temperature: numbers ? null : typed("temperature"),
  };
}

/** @returns {Promise<void>} */
function work() {
  stale();
  return run(async (step) => {
    const first = await tableIn("file", typed("encoding"), step), second = await tableIn("labels-file", typed("encoding"), step);
    if (!first) throw new InputError("no table was chosen; choose the file with the calibration rows above");
    const columns = columnsGiven(), wanted = wantedGiven(), tables = second ? [first, second] : [first];
    const rows = await step("reading numbers", readRows(tables, columns, wanted.score.name === "residual"));
    const { bytes } = await step("scoring", summarizeRows(rows, columns, wanted)), summary = readSummary(bytes);
    put("found", harmless(rows.recognised));
    const said = wanted.score.name === "residual" ? [] : [contradictionIn(rows), roundingOf(rows.values, rows.columns)];
    at("warnings").replaceChildren(...[...said, ...warningsOf(summary)].flatMap((text) => (text ? [made("p", text, "warning")] : [])));
    at("facts").replaceChildren(tableOf(["fact", "value"], factsOf(summary, bytes), "facts"));
    at("numbers").replaceChildren(tableOf(["rows", "quantity", "value"], []));
    lines = linesOf(summary);
    at("counted").dataset.all = String(lineCount(summary));
    addNumbers();
    put("command", commandFor(tables.map((table) => table.source), columns, wanted));
    put("save", `Save ${fileName(wanted.site)}`);
    ready = bytes;
    show("result", true);
    at("result").scrollIntoView({ block: "start" });
  });
}

/** Show some more of the numbers. */
function addNumbers() {
  const body = /** @type {HTMLTableElement} */ (at("numbers").firstElementChild).tBodies[0], some = [];
  for (let i = 0, next = lines?.next(); next && !next.done; next = ++i < SOME_LINES ? lines?.next() : undefined) some.push(next.value);
  addLines(body, some);
  const all = Number(at("counted").dataset.all);
  put("counted", `${body.rows.length} of ${all} numbers are shown`);
  show("more", body.rows.length < all);
}

/** @param {string} site @returns {string} */
const fileName = (site) => `${site.normalize("NFKC").trim().replace(/[\\/:*?"<>|\p{C}]/gu, "_").replace(/^\.+/, "_")}.fcs`;

/** Hand the bytes over as a file. */
function save() {
  if (!ready) return;
  const name = fileName(field("site").value);
  download(name, /** @type {BlobPart} */ (ready), "application/octet-stream");
  put("saved", `saved as ${name}; send this file, and no other`);
}

/** @param {string[]} files @param {import("./site.js").Columns} columns @param {import("./site.js").Wanted} wanted @returns {string} */
function commandFor(files, columns, wanted) {
  const single = (/** @type {string} */ text) => `'${text.replaceAll("'", "'\\''")}'`; // double quotes serve PowerShell and cmd too
  const quote = (/** @type {string} */ text) => (/^[\w.=%+:/-]+$/.test(text) ? text : /["$`\\!]/.test(text) ? single(harmless(text)) : `"${harmless(text)}"`);
  const { score } = wanted, random = (score.name === "aps" || score.name === "raps") && score.randomized;
  const parameters = [
    ...(random ? ["randomized=true", `random_state=${score.seed}`] : []), ...(score.name === "raps" ? [`penalty=${score.penalty}`, `free_ranks=${score.free}`] : []),
  ].join(",");
  const options = /** @type {[string, string | null | undefined | boolean][]} */ ([
    ["--encoding", typed("encoding")], ["--id", columns.ids], ["--labels", columns.labels], ["--classes", columns.classes?.join(",")], ["--drop", columns.drop?.join(",")],
    ["--positive", columns.positive], ["--predictions", score.name === "residual" ? columns.prediction : null], ["--groups", columns.groups?.join(",")], ["--score", parameters ? `${score.name}:${parameters}` : score.name],
    ["--kind", wanted.kind], ["--alpha", wanted.alpha], ["--by-class", wanted.byClass], ["--model", wanted.model], ["--temperature", wanted.temperature],
    ["--calibration", wanted.calibration], ["--expires", wanted.expires], ["--site", wanted.site],
  ]);
  const given = options.filter(([, value]) => value).map(([name, value]) => (value === true ? name : `${name} ${quote(String(value))}`));
  return ["fedconformal summarize", ...files.map(quote), ...given, "-o", quote(fileName(wanted.site))].join(" ");
}

/** Start the tab. */
export function siteTab() {
  const panel = at("site-panel");
  panel.addEventListener("input", () => { stale(); fit(); });
  for (const id of ["file", "labels-file", "encoding"]) at(id).addEventListener("change", () => { stale(); void open(); });
  at("work").addEventListener("click", () => void work());
  at("more").addEventListener("click", addNumbers);
  at("save").addEventListener("click", save);
  choose("labels", [], "choose a table first");
  choose("ids", [], "none");
  choose("prediction", [], "the column called prediction");
  fit();
}
