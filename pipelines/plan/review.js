/* Bars of simulated figures with the error that a plan predicts, at each step of two sliders. */
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SHARES = [0.4, 0.25, 0.15, 0.1, 0.07, 0.02, 0.01]; // a few large, many small
  const DRAWN = [0.35, -1.35, 0, 0.76, -0.35, 1.35, -0.76]; // normal scores: seven typical draws
  const make = (tag, attributes, ...children) => {
    const drawn = ["svg", "rect", "line", "circle"].includes(tag);
    const made = drawn ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const said = (x) => x.toLocaleString("en", { maximumSignificantDigits: 3 });
  /* A number to two digits of its error, as on a release's page. */
  const by = (x, error) => {
    const places = Math.min(15, 1 - Math.floor(Math.log10(error))), power = 10 ** Math.max(0, -places);
    const shown = Math.max(0, places);
    return (power > 1 ? Math.round(x / power) * power : x).toLocaleString("en", { minimumFractionDigits: shown, maximumFractionDigits: shown });
  };

  function bar(truth, estimate, error, unit, most) {
    const at = (x) => `${Math.min(100, Math.max(0, (100 * x) / most))}%`;
    const [low, high] = [estimate - 1.96 * error, estimate + 1.96 * error];
    return make("li", {}, make("span", { class: "name" }, said(truth) + unit), make("svg", { class: "track", "aria-hidden": "true" },
      make("rect", { class: low <= 0 ? "bar noise" : "bar", x: 0, y: 2, height: 14, width: at(estimate) }),
      make("line", { class: "arm", x1: at(low), x2: at(high), y1: 9, y2: 9 }), make("circle", { class: "dot", cx: at(truth), cy: 9, r: 3 })),
    make("span", { class: "number" }, `${by(estimate, error)} ± ${by(error, error)}${unit}`));
  }

  function slider(name, values, now) {
    const input = make("input", { type: "range", min: 0, max: values.length - 1, value: Math.max(0, now) }), output = make("output", {});
    input.addEventListener("input", draw);
    place.after(make("label", { class: "slider" }, `${name} `, input, " ", output));
    return () => { output.value = values[input.value]; return input.value; };
  }

  function draw() {
    const e = epsilon(), k = rows();
    document.getElementById("charts").replaceChildren(...data.metrics.map((chart, i) => {
      const own = chart.errors[data.rows.indexOf(chart.own)]?.[e];
      const wanted = k > 0 ? chart.errors[k - 1]?.[e] : own, error = wanted ?? own;
      const bars = error ? SHARES.map((share, j) => bar(share * chart.scale, share * chart.scale + DRAWN[j] * error[1], error[1], error[2], chart.scale / 2)) : [];
      return make("details", i < 5 ? { open: "" } : {}, make("summary", {}, chart.name),
        make("p", { class: "note" }, error ? error[0] + (wanted ? "" : `, at ${chart.own} of a user`) : "No error can be drawn here."), make("ol", { class: "bars" }, ...bars));
    }));
  }

  const place = document.getElementById("sliders");
  place.textContent = "Simulated values (left, and as dots), and what one run may publish of them with its 95 % interval. A bar in outline is one that noise alone may have made.";
  const rows = slider("values of a user that count", ["as the plan says", ...data.rows], 0);
  const epsilon = slider("epsilon of the plan", data.epsilons, (data.epsilons.length - 1) / 2);
  draw();
})();
