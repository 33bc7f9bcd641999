// Decoding: by the byte order mark, else as UTF-8; invalid bytes are refused.

import { InputError, length, shown } from "./text.js";

export const MOST_BYTES = 2 ** 30;
export const LONGEST_LINE = 2 ** 24;
const CHUNK = 2 ** 20;
const BEGINNING = 256;
const SPELLED = /** @type {Record<string, string>} */ ({ "utf-8": "", "utf-8-sig": "UTF-8 with a mark", "utf-16": "UTF-16" });
/** What Python and a browser call an encoding; latin-1 is one that browsers do not have. */
export const ENCODINGS = /** @type {Record<string, string>} */ ({
  "utf-8": "utf-8", "utf-8-sig": "utf-8", "utf-16": "", "utf-16-le": "utf-16le", "utf-16-be": "utf-16be", cp1252: "windows-1252",
  "iso8859-1": "",
});
const ALIASES = /** @type {Record<string, string>} */ ({
  utf8: "utf-8", "utf-8": "utf-8", "utf-8-sig": "utf-8-sig", "utf-16": "utf-16", utf16: "utf-16", "utf-16-le": "utf-16-le", "utf-16le": "utf-16-le",
  "utf-16-be": "utf-16-be", "utf-16be": "utf-16-be", cp1252: "cp1252", "windows-1252": "cp1252", "latin-1": "iso8859-1", latin1: "iso8859-1",
  "iso-8859-1": "iso8859-1", "iso8859-1": "iso8859-1",
});
const UNDEFINED_1252 = new Set([0x81, 0x8d, 0x8f, 0x90, 0x9d]);

/** @param {Uint8Array} data @returns {string | null} */
function markOf(data) {
  if (data[0] === 0xef && data[1] === 0xbb && data[2] === 0xbf) return "utf-8-sig";
  const two = (data[0] << 8) | data[1];
  return data.length > 1 && (two === 0xfffe || two === 0xfeff) ? "utf-16" : null;
}

/** @param {Uint8Array} data @param {string | null} asked @returns {string} the encoding, as Python names it */
export function encodingOf(data, asked) {
  const start = data.subarray(0, BEGINNING);
  if (start[0] === 0x50 && start[1] === 0x4b && start[2] === 3 && start[3] === 4) {
    throw new InputError("is a spreadsheet or a zip file, not text; save the sheet as CSV UTF-8 first");
  }
  const marked = markOf(start);
  if (asked === null) {
    if (marked === null && start.includes(0)) {
      const zeros = [0, 0];
      start.forEach((byte, i) => { if (!byte) zeros[i % 2]++; });
      const likely = zeros[1] >= zeros[0] ? "utf-16-le" : "utf-16-be";
      throw new InputError(`holds NUL bytes and no mark; if it is text in UTF-16, give the encoding ${likely}`);
    }
    return marked ?? "utf-8";
  }
  const name = ALIASES[asked.toLowerCase().replaceAll("_", "-")];
  if (name === undefined) throw new InputError(`no encoding is called ${shown(asked)}; try utf-8, utf-16 or cp1252`);
  if (marked !== null && !name.startsWith(marked.replace("-sig", ""))) {
    throw new InputError(`begins with the mark of ${SPELLED[marked].split(" ")[0]}, not of ${shown(asked)}; leave out the encoding`);
  }
  return marked ?? name;
}

/** @param {string} name @returns {string} what is said of an encoding */
export const spelled = (name) => SPELLED[name] ?? name;

/** @param {Uint8Array} data @param {string} name @returns {(part: Uint8Array, more: boolean) => string} */
function decoderOf(data, name) {
  if (name === "iso8859-1") return (part) => Array.from({ length: Math.ceil(part.length / 4096) }, (_, i) => String.fromCharCode(...part.subarray(4096 * i, 4096 * (i + 1)))).join("");
  const label = name === "utf-16" ? (data[0] === 0xff || markOf(data) === null ? "utf-16le" : "utf-16be") : ENCODINGS[name];
  const decoder = new TextDecoder(label, { fatal: true, ignoreBOM: name !== "utf-16" && name !== "utf-8-sig" });
  return (part, more) => {
    if (name === "cp1252" && part.some((byte) => UNDEFINED_1252.has(byte))) throw new TypeError("undefined");
    return decoder.decode(part, { stream: more });
  };
}

/** @param {Uint8Array} data @param {string} name @returns {string} which line holds the first byte that is not in this encoding */
function undecodable(data, name) {
  let low = 0, high = data.length; // the longest beginning that can be decoded, when more is to come
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    try {
      decoderOf(data, name)(data.subarray(0, middle), true);
      low = middle;
    } catch {
      high = middle - 1;
    }
  }
  const start = name.startsWith("utf-8") ? lead(data, low) : name === "cp1252" ? low : low - (low % 2);
  const before = decoderOf(data, name)(data.subarray(0, start), true);
  const line = before.replaceAll("\r\n", "\n").replaceAll("\r", "\n").split("\n").length;
  const other = name.startsWith("utf-8") ? "cp1252 (Excel on Windows)" : "another one";
  const byte = (data[start] ?? 0).toString(16).padStart(2, "0"), expected = name.replace("-sig", "").toUpperCase();
  return `line ${line} holds the byte ${byte}, which is not ${expected}; give its encoding, such as ${other}`;
}

/** Where the character begins that a byte of UTF-8 cannot be in. @param {Uint8Array} data @param {number} at @returns {number} */
function lead(data, at) {
  for (let back = 1; back <= 3 && at - back >= 0; back++) {
    const byte = data[at - back];
    if (byte >= 0xc0) return back < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? at - back : at;
    if (byte < 0x80) return at;
  }
  return at;
}

/**
 * Yields text with one kind of line end, in parts of exactly CHUNK characters but the last.
 * @param {Uint8Array} data @param {string} name @returns {Generator<string, void>}
 */
function* partsOf(data, name) {
  const decode = decoderOf(data, name);
  let kept = "", carriage = false;
  for (let at = 0; at < data.length || at === 0; at += CHUNK) {
    const more = at + CHUNK < data.length;
    let text = decode(data.subarray(at, at + CHUNK), more);
    if (carriage) text = `\r${text}`;
    carriage = more && text.endsWith("\r");
    if (carriage) text = text.slice(0, -1);
    kept += text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    for (let end = cutAt(kept); end > 0; end = cutAt(kept)) {
      yield kept.slice(0, end);
      kept = kept.slice(end);
    }
  }
  if (kept) yield kept;
}

/** @param {string} text @returns {number} where CHUNK characters end, 0 if there are not as many */
function cutAt(text) {
  if (text.length < CHUNK) return 0;
  if (!/[\ud800-\udbff]/.test(text)) return CHUNK;
  let end = CHUNK, count = length(text.slice(0, end));
  while (count < CHUNK && end < text.length) {
    end += CHUNK - count;
    count = length(text.slice(0, end));
  }
  if ((text.charCodeAt(end - 1) & 0xfc00) === 0xd800 && end < text.length) end++;
  return length(text.slice(0, end)) < CHUNK ? 0 : end;
}

/** @param {string} text @param {string} one @param {number} [end] @returns {number} how often a character is there */
export function countOf(text, one, end = text.length) {
  let count = 0;
  for (let at = text.indexOf(one); at >= 0 && at < end; at = text.indexOf(one, at + 1)) count++;
  return count;
}

/**
 * Yields text in pieces of whole rows: a piece has an even number of quotes, so that it does not end inside one.
 * @param {Uint8Array} data @param {string} name @returns {Generator<string, void>}
 */
export function* piecesOf(data, name) {
  let kept = "", line = 1;
  const parts = partsOf(data, name);
  for (;;) {
    let part;
    try {
      part = parts.next();
    } catch (error) {
      if (error instanceof TypeError) throw new InputError(undecodable(data, name));
      throw error;
    }
    if (part.done) break;
    const nul = part.value.indexOf("\0");
    if (nul >= 0) {
      const at = line + countOf(kept + part.value.slice(0, nul), "\n");
      throw new InputError(`line ${at} holds a NUL byte, so this is not text; give the encoding if it is UTF-16`);
    }
    const text = kept + part.value, cut = text.lastIndexOf("\n") + 1;
    if (countOf(text, '"', cut) % 2 && text.length <= LONGEST_LINE) {
      kept = text;
      continue;
    }
    line += countOf(text, "\n", cut);
    kept = text.slice(cut);
    if (kept.length > LONGEST_LINE) throw new InputError(`line ${line} has more than ${LONGEST_LINE} characters; is this a table?`);
    if (cut) yield text.slice(0, cut);
  }
  if (kept) yield kept;
}
