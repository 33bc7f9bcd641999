// The cases of tests/vectors/wire: what is written, what is read, what is refused.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { readSummary } from "../src/reader.js";
import { scoreOf, scoresOf } from "../src/scores.js";
import { message, summarize } from "../src/summary.js";
import { InputError } from "../src/text.js";
import { finish } from "../src/work.js";

const FOLDER = new URL("../../tests/vectors/wire/", import.meta.url);
const WRITTEN = ["lac", "aps", "raps", "residual", undefined];

function cases(name) {
  const file = new URL(name, FOLDER);
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : [];
}

const bytes = (hex) => new Uint8Array(Buffer.from(hex, "hex"));
const number = (value) => (typeof value === "string" ? Number(value.replace("inf", "Infinity")) : value);

function scoresIn(given) {
  if (Array.isArray(given)) return Float64Array.from(given, number);
  return Float64Array.from({ length: given.count }, (_, i) => (((i * given.times) % given.modulo) - given.less) / given.over);
}

function matrixIn(given) {
  if (Array.isArray(given)) return given.map((row) => row.map(number));
  return Array.from({ length: given.count }, (_, i) => {
    const row = Array.from({ length: given.classes }, (__, j) => 1 + ((i * given.times + j * given.plus + i * j) % given.modulo));
    const sum = row.reduce((a, b) => a + b);
    return row.map((value) => value / sum);
  });
}

function ruleIn(given) {
  if (!given) return null;
  const text = (value) => (value === undefined ? undefined : String(value));
  return scoreOf(given.name, { randomized: given.randomized, seed: text(given.random_state), penalty: text(given.penalty), free: text(given.free_ranks) });
}

function written(input) {
  const score = ruleIn(input.score);
  const about = {
    site: input.site ?? null, kind: input.kind ?? "ranks", alpha: input.alpha == null ? null : String(input.alpha), score, classes: input.classes ?? null,
    rounded: input.precision === "float32", model: input.model, temperature: input.temperature == null ? null : String(input.temperature),
    calibration: input.calibration, expires: input.expires,
  };
  if (input.predictions) {
    const f = scoresIn(input.predictions), y = scoresIn(input.y);
    return summarize(f.map((value, i) => Math.abs(y[i] - value)), about).bytes;
  }
  if (input.probabilities) {
    const rows = matrixIn(input.probabilities), width = rows[0]?.length ?? 0;
    const names = Array.isArray(input.classes) ? input.classes : null;
    const given = input.labels.map((label) => (names ? names.indexOf(label) : label)), labels = Int32Array.from(given);
    if (given.length !== rows.length || given.some((label) => !(label >= 0 && label < width && Number.isInteger(label)))) throw new InputError("no such class");
    const refuse = (row, problem) => new InputError(`row ${row} ${problem}`);
    const found = finish(scoresOf(Float32Array.from(rows.flat()), width, labels, score, refuse));
    const groups = input.groups ? Object.fromEntries(Object.entries(input.groups).map(([name, values]) => [name, values.map((value) => (value === null ? "" : String(value)))])) : null;
    return summarize(found, { ...about, classes: names ?? width, rounded: true }, input.by_class ? labels : null, groups).bytes;
  }
  const values = scoresIn(input.scores), groups = input.groups
    ? Object.fromEntries(Object.entries(input.groups).map(([name, given]) => [name, given.map((value) => (value === null ? "" : String(value)))])) : null;
  return summarize(values, about, input.labels ? Int32Array.from(input.labels) : null, groups).bytes;
}

/** Whether the page writes such a summary: it has these kinds and scores, and does not pool. */
function isWritten(input) {
  return input && !("pool" in input || "losses" in input || "key" in input || "estimated" in input || "skipped" in input) &&
    ["ranks", "exact", undefined].includes(input.kind) && WRITTEN.includes(input.score?.name);
}

for (const file of ["scores.json", "summaries.json", "refused.json", "twins.json"]) {
  for (const one of cases(file)) {
    if (one.bytes && !one.refused) {
      test(`${file}: ${one.name}: is read`, () => void readSummary(bytes(one.bytes)));
      if (isWritten(one.input)) test(`${file}: ${one.name}: is written`, () => assert.equal(Buffer.from(written(one.input)).toString("hex"), one.bytes));
    } else if (one.bytes) {
      test(`${file}: ${one.name}: is refused`, () => assert.throws(() => readSummary(bytes(one.bytes)), InputError));
    } else if (one.refused && isWritten(one.input)) {
      test(`${file}: ${one.name}: is refused`, () => assert.throws(() => written(one.input), InputError));
    }
  }
}

test("a summary of nothing is refused", () => {
  assert.throws(() => readSummary(new Uint8Array(0)), /not a fedconformal summary/);
  assert.throws(() => readSummary(message(new Map(), new Map(), [])), InputError);
});
