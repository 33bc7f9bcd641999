"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (id) => document.getElementById(id);
  const slider = find("alpha");
  const put = (id, text) => { const at = find(id); if (at) at.textContent = text; };
  const chip = (text, kind) => {
    const made = document.createElement("span");
    made.className = "chip" + (kind ? " " + kind : "");
    made.textContent = text;
    return made;
  };

  // A label is in the set if its p-value is above alpha; the top label always is.
  const members = (one, alpha) => {
    const found = one.labels.filter((_, i) => one.p[i] > alpha);
    return found.includes(one.top) ? found : [one.top, ...found];
  };

  const show = () => {
    const step = data.steps[slider.value];
    put("alpha-now", step.alpha);
    put("promise-now", step.promise);
    put("threshold-now", step.threshold);
    if (step.size !== null) {
      put("size-now", step.size.toFixed(2));
      put("coverage-now", (100 * step.coverage).toFixed(1) + "%");
      put("full-now", (100 * step.full).toFixed(1) + "%");
    }
    slider.setAttribute("aria-valuetext", "alpha " + step.alpha + ", promised " + step.promise);
    const dot = find("at-alpha");
    if (dot) { dot.setAttribute("cx", data.places[slider.value][0]); dot.setAttribute("cy", data.places[slider.value][1]); }
    data.examples.forEach((one, i) => {
      const set = members(one, step.alpha);
      const chips = set.slice(0, data.most).map((label) => chip(data.names[label] ?? label, label === one.label ? "true" : ""));
      if (set.length > data.most) chips.push(chip("and " + (set.length - data.most) + " more", ""));
      find("set-" + i).replaceChildren(...chips);
      const hit = set.includes(one.label);
      find("size-" + i).textContent = set.length + (set.length === 1 ? " label" : " labels");
      find("miss-" + i).textContent = hit ? "" : "misses the truth, " + (data.names[one.label] ?? one.label);
    });
  };

  slider.addEventListener("input", show);
  find("certified").addEventListener("click", () => { slider.value = data.certified; show(); });
  slider.value = data.certified;
  show();
})();
