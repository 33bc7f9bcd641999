// The cases of tests/vectors/intake, on which every implementation agrees: what is read, said and refused.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { pair } from "../src/pairing.js";
import { matched, probabilitiesOf } from "../src/predictions.js";
import { readTable } from "../src/table.js";
import { InputError } from "../src/text.js";
import { finish } from "../src/work.js";

const FOLDER = new URL("../../tests/vectors/intake/", import.meta.url);

function* found(data, one) {
  const [first] = Object.keys(data);
  const rows = yield* probabilitiesOf(yield* readTable(first, data[first], one.encoding ?? null), one.options ?? {});
  if (!one.pair) return rows;
  const { file, ...options } = one.pair;
  return yield* pair(rows, yield* readTable(file, data[file]), options);
}

function outcome(one) {
  const data = Object.fromEntries(
    Object.entries(one.files).map(([name, content]) => [name, new Uint8Array(Buffer.from(content.base64 ?? content.text, content.base64 ? "base64" : "utf8"))]),
  );
  try {
    let rows = finish(found(data, one));
    if (one.match) rows = matched(rows, one.match);
    const values = Array.from({ length: rows.table.rows }, (_, row) => [...rows.values.subarray(row * rows.columns, (row + 1) * rows.columns)]);
    return {
      recognised: rows.recognised, classes: rows.classes, values, ...(rows.ids && { ids: rows.ids }),
      ...(rows.labels && { labels: [...rows.labels] }), ...(Object.keys(rows.others).length && { others: { ...rows.others } }),
    };
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    return { refused: error.message };
  }
}

/** What the command line reads and a page does not: Parquet and numpy. */
const OTHER_FILES = /\.(parquet|np[yz])$/;

for (const file of readdirSync(FOLDER).filter((name) => name.endsWith(".json"))) {
  for (const one of JSON.parse(readFileSync(new URL(file, FOLDER), "utf8"))) {
    const skip = Object.keys(one.files).some((name) => OTHER_FILES.test(name));
    test(`${file}: ${one.name}`, { skip }, () => assert.deepEqual(outcome(one), one.expected));
  }
}
