// From a list of cases to what this side makes of them, a line for each: hexadecimal digits of the bytes, or the refusal.
// tests/web/identity.py writes the list, and compares. Run: node identity.js LIST

import { readFileSync } from "node:fs";
import { basename } from "node:path";

import { scoreOf } from "../src/scores.js";
import { readRows, summarizeRows } from "../src/site.js";
import { readTable } from "../src/table.js";
import { InputError } from "../src/text.js";
import { finish } from "../src/work.js";

const lines = [];
for (const { files, columns, wanted } of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  try {
    const { name, ...typed } = wanted.score, { numbers = false, ...rest } = columns;
    const tables = files.map((file) => finish(readTable(basename(file), new Uint8Array(readFileSync(file)), rest.encoding ?? null)));
    const rows = finish(readRows(tables, rest, numbers));
    const made = finish(summarizeRows(rows, rest, { ...wanted, score: scoreOf(name, typed) }));
    lines.push(Buffer.from(made.bytes).toString("hex"));
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    lines.push(`refused: ${error.message}`);
  }
}
process.stdout.write(`${lines.join("\n")}\n`);
