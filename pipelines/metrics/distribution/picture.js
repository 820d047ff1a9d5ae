/* The shares below each number with their band, and the quantiles as a sentence. */
hushbeam.pictures.distribution = (place, table, { svg, el, put }) => {
  const columns = table.now.columns;
  if (!columns.high || !columns.cumulative) return false;
  const high = columns.high, low = columns.low, all = columns.cumulative;
  const lower = columns.cumulative_lower_simultaneous ?? columns.cumulative_lower;
  const upper = columns.cumulative_upper_simultaneous ?? columns.cumulative_upper;
  const left = low[0], width = high[high.length - 1] - left || 1;
  const x = (value) => (600 * (value - left)) / width, y = (share) => 220 - 210 * share;
  const point = (i, share) => `${x(high[i]).toFixed(1)},${y(share).toFixed(1)}`;
  const chart = svg("svg", { viewBox: "0 0 600 222", preserveAspectRatio: "none", class: "curve", role: "img",
    "aria-label": "the share of numbers below each number; the table below has them" });
  if (lower && upper) put(chart, svg("polygon", { points: [...upper.map((v, i) => point(i, v)), ...lower.map((v, i) => point(i, v)).reverse()].join(" ") }));
  put(chart, svg("polyline", { points: all.map((v, i) => point(i, v)).join(" ") }));
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => el("span", {}, (left + part * width).toLocaleString("en", { maximumSignificantDigits: 4 })));
  put(place, el("div", { class: "framed" }, el("div", { class: "scale", "aria-hidden": "true" }, ["100 %", "50 %", "0 %"].map((text) => el("span", {}, text))), chart,
    el("div", { class: "ticks", "aria-hidden": "true" }, ticks)),
    el("p", { class: "note" }, "The share of numbers below each number" + (lower ? `; the band covers all points together with probability ${table.confidence}.` : ".")));
  return true;
};
