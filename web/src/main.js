// The page: two tabs, and files that are dropped anywhere.

import { at, field } from "./dom.js";
import { predictorTab } from "./predictor_tab.js";
import { siteTab } from "./site_tab.js";

const TABS = ["site", "predictor"];

/** @param {string} name */
function select(name) {
  for (const tab of TABS) {
    at(`tab-${tab}`).setAttribute("aria-selected", String(tab === name));
    at(`${tab}-panel`).hidden = tab !== name;
  }
}

/** Where a dropped file goes, by its ending. @param {string} name @returns {string} */
function placeOf(name) {
  if (at("predictor-panel").hidden) return field("file").files?.length ? "labels-file" : "file";
  const ending = name.slice(name.lastIndexOf("."));
  return { ".json": "predictor", ".sig": "seal", ".fcs": "own" }[ending] ?? "rows";
}

document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  const files = event.dataTransfer?.files, target = /** @type {HTMLElement} */ (event.target).closest("label")?.querySelector("input[type=file]");
  if (!files?.length) return;
  const input = /** @type {HTMLInputElement} */ (target ?? field(placeOf(files[0].name)));
  input.files = files;
  input.dispatchEvent(new Event("change", { bubbles: true }));
});
for (const tab of TABS) at(`tab-${tab}`).addEventListener("click", () => select(tab));
siteTab();
predictorTab();
select("site");
