// What this side makes of a list of questions, as JSON: tests/web/test_modules.py asks, and compares with Python.
// Run: node answers.js QUESTIONS

import { readFileSync } from "node:fs";

import { contradictionIn } from "../src/agreement.js";
import { sha256 } from "../src/bytes.js";
import { asAlpha, general, numberIn, shortest } from "../src/decimal.js";
import { isSigned } from "../src/ed25519.js";
import { dumped, readJson } from "../src/json.js";
import { atSite, namedIn, readPredictor, readSeal, thresholds } from "../src/predictor.js";
import { probabilitiesOf } from "../src/predictions.js";
import { readSummary } from "../src/reader.js";
import { answersOf, intervalOf, rowsFor, setOf } from "../src/sets.js";
import { readTable } from "../src/table.js";
import { InputError } from "../src/text.js";
import { finish } from "../src/work.js";

const bytes = (base64) => new Uint8Array(Buffer.from(base64, "base64"));

const ANSWERS = {
  /** The bits of a number, as the cell of a table. */
  number: ({ text, mark }) => {
    const view = new DataView(new ArrayBuffer(8));
    view.setFloat64(0, numberIn(text, 0, text.length, mark.charCodeAt(0)));
    return view.getBigUint64(0).toString(16).padStart(16, "0");
  },
  written: ({ bits }) => {
    const view = new DataView(new ArrayBuffer(8));
    view.setBigUint64(0, BigInt(`0x${bits}`));
    return [shortest(view.getFloat64(0)), general(view.getFloat64(0))];
  },
  /** What is recognised in a table, and its numbers, or why it is refused. */
  intake: ({ table, options }) => {
    const rows = finish(probabilitiesOf(finish(readTable("t.csv", bytes(table))), options));
    return { recognised: rows.recognised, classes: rows.classes, values: [...rows.values], labels: rows.labels && [...rows.labels], ids: rows.ids };
  },
  contradiction: ({ values, columns, labels }) => contradictionIn({ values: new Float64Array(values), columns, labels: new Int32Array(labels) }),
  summary: ({ data }) => readSummary(bytes(data)).sizes,
  json: ({ data }) => sha256(new TextEncoder().encode(dumped(readJson(bytes(data))))),
  signed: ({ data, signature, key }) => isSigned(bytes(data), signature, key),
  /** The sets of a table at some alphas, or the intervals. */
  sets: ({ predictor, table, columns, alphas, site }) => {
    const rule = atSite(readPredictor(bytes(predictor)), site ?? null), rows = finish(rowsFor(rule, finish(readTable("t.csv", bytes(table))), columns));
    if (rule.score.name === "residual") return alphas.map((alpha) => [...rows.values].map((f) => intervalOf(f, thresholds(rule, asAlpha(alpha))[0]).map(String)));
    const found = finish(answersOf(rule, rows));
    return alphas.map((alpha) => Array.from({ length: rows.table.rows }, (_, row) => setOf(found, row, asAlpha(alpha))));
  },
  checks: ({ predictor, seal, own }) => {
    const rule = readPredictor(bytes(predictor));
    return { sentence: rule.sentence, digest: rule.digest, seal: seal && readSeal(bytes(predictor), bytes(seal)), own: own && namedIn(rule, bytes(own)) };
  },
};

const found = JSON.parse(readFileSync(process.argv[2], "utf8")).map(({ ask, ...about }) => {
  try {
    return ANSWERS[ask](about);
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    return { refused: error.message };
  }
});
process.stdout.write(JSON.stringify(found));
