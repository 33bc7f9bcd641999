// Numbers: the decimals that a cell may hold, read to the nearest float64, and written as Python writes them.

import { InputError, shown, strip } from "./text.js";

const POWERS = Array.from({ length: 23 }, (_, i) => Number(`1e${i}`));
const EXACT = 9e14; // ten times this, plus nine, is still a whole number of float64

/** @param {number} code @returns {boolean} */
const isDigit = (code) => code >= 48 && code <= 57;

/**
 * Where a number ends that begins here, with this decimal mark (a character code; 0 for none).
 * @param {string} text @param {number} at @param {number} end @param {number} mark @returns {number} -1 if none does
 */
export function numberEnd(text, at, end, mark) {
  let i = at;
  let code = i < end ? text.charCodeAt(i) : 0;
  if (code === 43 || code === 45) code = ++i < end ? text.charCodeAt(i) : 0;
  let digits = 0;
  while (i < end && isDigit(text.charCodeAt(i))) i++, digits++;
  if (mark && i < end && text.charCodeAt(i) === mark) {
    i++;
    while (i < end && isDigit(text.charCodeAt(i))) i++, digits++;
  }
  if (!digits) return -1;
  code = i < end ? text.charCodeAt(i) : 0;
  if (code === 69 || code === 101) {
    let k = i + 1;
    if (k < end && (text.charCodeAt(k) === 43 || text.charCodeAt(k) === 45)) k++;
    const first = k;
    while (k < end && isDigit(text.charCodeAt(k))) k++;
    if (k > first) i = k;
  }
  return i;
}

/** @param {string} cell @returns {boolean} whether it is a number with a decimal point, or a whole one */
export const isPoint = (cell) => cell !== "" && numberEnd(cell, 0, cell.length, 46) === cell.length;

/** @param {string} cell @returns {boolean} whether it is a number with a decimal comma */
export const isComma = (cell) => cell.includes(",") && numberEnd(cell, 0, cell.length, 44) === cell.length;

/** @param {string} cell @returns {boolean} whether it is a number with a comma, or a whole one */
export const isCommaOrWhole = (cell) => cell !== "" && numberEnd(cell, 0, cell.length, 44) === cell.length;

/** @param {string} cell @returns {boolean} */
export function isNumber(cell) {
  const text = strip(cell);
  return isPoint(text) || isComma(text);
}

/**
 * The number in a part of a text, which may have spaces around it; NaN if it is none.
 * @param {string} text @param {number} at @param {number} end @param {number} mark @returns {number}
 */
export function numberIn(text, at, end, mark) {
  while (at < end && text.charCodeAt(at) === 32) at++;
  while (end > at && text.charCodeAt(end - 1) === 32) end--;
  let i = at, whole = 0, digits = 0, places = 0;
  let code = i < end ? text.charCodeAt(i) : 0;
  const negative = code === 45;
  if (negative || code === 43) i++;
  for (; i < end && isDigit(code = text.charCodeAt(i)); i++, digits++) if (whole < EXACT) whole = whole * 10 + (code - 48); else break;
  if (i < end && code === mark) {
    for (i++; i < end && isDigit(code = text.charCodeAt(i)); i++, digits++, places++) {
      if (whole < EXACT) whole = whole * 10 + (code - 48); else break;
    }
  }
  // Both are whole numbers that float64 holds, so one division gives the nearest float64.
  if (i === end && digits && places < 23) return negative ? -(whole / POWERS[places]) : whole / POWERS[places];
  if (numberEnd(text, at, end, mark) === end && end > at) {
    const cell = text.slice(at, end);
    return Number(mark === 44 ? cell.replace(",", ".") : cell);
  }
  return NaN;
}

/**
 * @param {number} value @param {number} digits @returns {string} as Python's format "g" writes it
 */
export function general(value, digits = 6) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const [mantissa, power] = value.toExponential(digits - 1).split("e");
  const exponent = Number(power), sign = Object.is(value, -0) ? "-" : "";
  if (exponent < -4 || exponent >= digits) return sign + shorter(mantissa) + scientific(exponent);
  return sign + shorter(value.toFixed(digits - 1 - exponent));
}

/** @param {string} text */
const shorter = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

/** @param {number} exponent */
const scientific = (exponent) => `e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;

/** @param {number} value @returns {string} the shortest decimal that gives this float64, as Python's repr writes it */
export function shortest(value) {
  if (!Number.isFinite(value)) return general(value);
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  const [mantissa, power] = value.toExponential().split("e"), exponent = Number(power);
  if (exponent < -4 || exponent >= 16) return mantissa + scientific(exponent);
  const sign = value < 0 ? "-" : "", digits = mantissa.replace(/[-.]/g, "");
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${whole}.${digits.slice(exponent + 1) || "0"}`;
}

export const UNIT = 10n ** 15n;

/**
 * Alpha as the decimal that was typed, in whole multiples of 1e-15, rounded down.
 * @param {string} text @returns {bigint}
 */
export function asAlpha(text) {
  const typed = strip(text), value = isPoint(typed) ? Number(typed) : NaN;
  const units = value > 0 && value < 1 ? inUnits(value) : 0n;
  if (units <= 0n || units >= UNIT) throw new InputError(`alpha is ${shown(text) || "empty"}, expected a number between 0 and 1`);
  return units;
}

/** @param {number} value from 0 to 1 @returns {bigint} */
function inUnits(value) {
  const [mantissa, power] = value.toExponential().split("e"), digits = mantissa.replace(".", "");
  const shift = Number(power) - (digits.length - 1) + 15;
  if (shift < -40) return 0n;
  return shift >= 0 ? BigInt(digits) * 10n ** BigInt(shift) : BigInt(digits) / 10n ** BigInt(-shift);
}

/** @param {bigint} units @returns {string} alpha as files state it */
export const alphaText = (units) => shortest(Number(units) / 1e15);
