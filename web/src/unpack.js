// MessagePack from outside: lengths are bounded by the bytes, and only the shortest form passes.

import { packed } from "./bytes.js";
import { InputError } from "./text.js";

/** @typedef {import("./bytes.js").Value} Value */

export const NOT_CANONICAL = "the summary is not in canonical form; ask the site to send it again";
const DEEPEST = 6;
const TEXT = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** @param {Uint8Array} one @param {Uint8Array} other @returns {boolean} */
export const same = (one, other) => one.length === other.length && one.every((byte, i) => byte === other[i]);

/** @param {Uint8Array} data @returns {Value} */
export function unpacked(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  let at = 0;

  /** @param {number} bytes @returns {number} where they begin */
  function take(bytes) {
    if (bytes > data.length - at) throw new InputError("the summary cannot be decoded: it is truncated");
    at += bytes;
    return at - bytes;
  }

  /** @param {number} bytes @returns {number} */
  const length = (bytes) => (bytes === 1 ? view.getUint8(take(1)) : bytes === 2 ? view.getUint16(take(2)) : view.getUint32(take(4)));

  /** @param {number} count @returns {string} */
  function text(count) {
    const from = take(count);
    try {
      return TEXT.decode(data.subarray(from, at));
    } catch {
      throw new InputError("the summary cannot be decoded: a text is not UTF-8");
    }
  }

  /** @param {number} count @param {number} deep @returns {Value[]} */
  function list(count, deep) {
    if (count > data.length - at || deep > DEEPEST) throw new InputError("the summary cannot be decoded: it is truncated or too deep");
    return Array.from({ length: count }, () => value(deep + 1));
  }

  /** @param {number} count @param {number} deep @returns {Map<string, Value>} */
  function map(count, deep) {
    if (count > data.length - at || deep > DEEPEST) throw new InputError("the summary cannot be decoded: it is truncated or too deep");
    const found = new Map();
    for (let i = 0; i < count; i++) {
      const key = value(deep + 1);
      if (typeof key !== "string") throw new InputError("the summary cannot be decoded: a key is no text");
      found.set(key, value(deep + 1));
    }
    return found;
  }

  /** @param {number} deep @returns {Value} */
  function value(deep) {
    const code = view.getUint8(take(1));
    if (code < 0x80) return BigInt(code);
    if (code < 0x90) return map(code & 15, deep);
    if (code < 0xa0) return list(code & 15, deep);
    if (code < 0xc0) return text(code & 31);
    if (code >= 0xe0) return BigInt(code - 256);
    switch (code) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: case 0xc5: case 0xc6: {
        const from = take(length(1 << (code - 0xc4)));
        return data.subarray(from, at);
      }
      case 0xcb: return view.getFloat64(take(8));
      case 0xcc: case 0xcd: case 0xce: return BigInt(length(1 << (code - 0xcc)));
      case 0xcf: return view.getBigUint64(take(8));
      case 0xd0: return BigInt(view.getInt8(take(1)));
      case 0xd1: return BigInt(view.getInt16(take(2)));
      case 0xd2: return BigInt(view.getInt32(take(4)));
      case 0xd3: return view.getBigInt64(take(8));
      case 0xd9: case 0xda: case 0xdb: return text(length(1 << (code - 0xd9)));
      case 0xdc: case 0xdd: return list(length(2 << (code - 0xdc)), deep);
      case 0xde: case 0xdf: return map(length(2 << (code - 0xde)), deep);
      default: throw new InputError("the summary cannot be decoded: it holds a value of another kind");
    }
  }

  const found = value(0);
  if (at !== data.length || !same(packed(found), data)) throw new InputError(NOT_CANONICAL);
  return found;
}
