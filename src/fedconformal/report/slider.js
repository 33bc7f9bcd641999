"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (id) => document.getElementById(id);
  const slider = find("alpha");
  const put = (id, text) => { const at = find(id); if (at) at.textContent = text; };

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
  };

  slider.addEventListener("input", show);
  find("certified").addEventListener("click", () => { slider.value = data.certified; show(); });
  slider.value = data.certified;
  show();
})();
