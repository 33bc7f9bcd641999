// Agreement of labels and most probable labels, as `fedconformal summarize` checks it; nothing of it leaves the page.

import { rounded } from "./scores.js";

const LEAST_ROWS = 20;
const MOST_CLASSES = 1000;

/** @param {import("./predictions.js").Predictions} rows @returns {Int32Array} the first of the most probable labels of each row */
function topsOf({ values, columns }) {
  const probs = rounded(values), tops = new Int32Array(values.length / columns);
  for (let row = 0, at = 0; row < tops.length; row++, at += columns) {
    for (let k = 1; k < columns; k++) if (probs[at + k] > probs[at + tops[row]]) tops[row] = k;
  }
  return tops;
}

/** @param {import("./predictions.js").Predictions} rows @returns {string | null} a warning if the model is clearly right less often than the commonest class */
export function contradictionIn(rows) {
  const labels = /** @type {Int32Array} */ (rows.labels), tops = topsOf(rows), n = labels.length, places = new Map();
  for (const one of [labels, tops]) for (const label of one) if (!places.has(label)) places.set(label, places.size);
  const size = places.size, ofLabels = new Float64Array(size), ofTops = new Float64Array(size);
  let right = 0;
  for (let i = 0; i < n; i++) {
    ofLabels[places.get(labels[i])]++;
    ofTops[places.get(tops[i])]++;
    if (labels[i] === tops[i]) right++;
  }
  const commonest = ofLabels.reduce((a, b) => Math.max(a, b), 0);
  if (n < LEAST_ROWS || commonest - right <= Math.sqrt(n) / 2) return null;
  if (!isChance(ofLabels, ofTops, n, right)) {
    if (size > MOST_CLASSES) return null;
    const table = Array.from({ length: size }, () => new Float64Array(size));
    for (let i = 0; i < n; i++) table[places.get(labels[i])][places.get(tops[i])]++;
    if (bestOrder(table) - right <= Math.sqrt(n)) return null;
  }
  return `The most probable label is right in ${right} of ${n} rows, less often than the commonest class alone (${commonest}). Check that the classes are in the order of the columns, that labels are not shifted by one, and that outputs and labels are of the same rows.`;
}

/** Whether shuffled labels would agree as often, within two standard deviations. @param {Float64Array} labels @param {Float64Array} tops @param {number} n @param {number} right */
function isChance(labels, tops, n, right) {
  const both = labels.map((count, k) => count * tops[k]), sum = both.reduce((a, b) => a + b, 0);
  const squares = both.reduce((a, b) => a + b * b, 0), spread = both.reduce((a, b, k) => a + b * (n - labels[k]) * (n - tops[k]), 0);
  const variance = (spread + sum ** 2 - squares) / (n ** 2 * (n - 1));
  return variance > 0 && right <= sum / n + 2 * Math.sqrt(variance);
}

/** The largest number of rows that an order of the classes makes right (Kuhn, 1955; Munkres, 1957). @param {Float64Array[]} table @returns {number} */
function bestOrder(table) {
  const size = table.length, u = new Float64Array(size + 1), v = new Float64Array(size + 1), owner = new Int32Array(size + 1), way = new Int32Array(size + 1);
  for (let i = 1; i <= size; i++) {
    const least = new Float64Array(size + 1).fill(Infinity), used = new Uint8Array(size + 1);
    let j = 0;
    for (owner[0] = i; owner[j];) {
      let delta = Infinity, next = 0;
      used[j] = 1;
      for (let k = 1; k <= size; k++) {
        if (used[k]) continue;
        const cost = -table[owner[j] - 1][k - 1] - u[owner[j]] - v[k];
        if (cost < least[k]) { least[k] = cost; way[k] = j; }
        if (least[k] < delta) { delta = least[k]; next = k; }
      }
      for (let k = 0; k <= size; k++) {
        if (used[k]) { u[owner[k]] += delta; v[k] -= delta; } else least[k] -= delta;
      }
      j = next;
    }
    for (; j; j = way[j]) owner[j] = owner[way[j]];
  }
  let sum = 0;
  for (let k = 1; k <= size; k++) sum += table[owner[k] - 1][k - 1];
  return sum;
}
