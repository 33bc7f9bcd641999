// Columns that put rows into groups: sex, age, scanner. A row is in one group of a column, or in none.

import { InputError, asName, byCharacters, checkName, harmless, nameKey, shown, twice } from "./text.js";

export const ALL = "all rows";
export const NONE = "none of the others";
const ABSENT = "not given";
const MISSING = new Set(["nan", "NaN", "NaT", "<NA>"]);
const MOST_VALUES = 200;

/** @param {readonly string[]} names @returns {string[]} the names of the columns in order */
export function columnsOf(names) {
  const found = names.map((name) => asName(name, "the name of a column of groups")).sort(byCharacters);
  const odd = found.find((name) => name.includes("="));
  if (odd !== undefined) throw new InputError(`groups: the column '${shown(odd)}' has a = in its name; give it another one`);
  if (twice(found) !== null) throw new InputError("groups: two columns have the same name");
  return found;
}

/** @param {string} value @returns {string} */
function valueName(value) {
  if (MISSING.has(value)) return ABSENT;
  let text = nameKey(value);
  if (/^-?[0-9]{1,20}\.0+$/.test(text)) text = String(BigInt(text.split(".")[0])); // a whole number that was a float
  return harmless(text) || ABSENT;
}

/**
 * @param {Record<string, string[]>} groups columns with a value a row @param {number} rows
 * @returns {Map<string, Int32Array>} which rows are in each group that has any, by its name, in order
 */
export function membersOf(groups, rows) {
  /** @type {Map<string, number[]>} */
  const found = new Map();
  const others = new Uint8Array(rows).fill(1);
  for (const column of columnsOf(Object.keys(groups))) {
    const given = groups[/** @type {string} */ (Object.keys(groups).find((name) => nameKey(name) === column))];
    /** @type {Map<string, number[] | null>} */
    const known = new Map();
    given.forEach((value, row) => {
      let mine = known.get(value);
      if (mine === undefined) {
        if (known.size === MOST_VALUES) {
          throw new InputError(`${shown(column)}: has ${new Set(given).size} different values, more than ${MOST_VALUES}; give ranges, such as 60-69`);
        }
        const text = valueName(value), name = `${column}=${text}`;
        mine = text === ABSENT ? null : (found.get(checkName(name, "group")) ?? []);
        if (mine) found.set(name, mine);
        known.set(value, mine);
      }
      if (!mine) return;
      mine.push(row);
      others[row] = 0;
    });
  }
  const parts = new Map([[ALL, Int32Array.from({ length: rows }, (_, row) => row)]]);
  for (const [name, mine] of found) parts.set(name, Int32Array.from(mine));
  const rest = Array.from(others.keys()).filter((row) => others[row]);
  if (rest.length) parts.set(NONE, Int32Array.from(rest));
  return new Map([...parts].sort(([one], [other]) => byCharacters(one, other)));
}
