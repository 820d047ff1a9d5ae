/* Retention: a row for each day (or week) on which users were new, a column for each later one, read from the
   releases of all windows. What no release says is left blank; what noise may explain has no colour. */
hushbeam.pictures["active-users"] = (place, table, { el, put, number, colour, windows }) => {
  const drawn = table.drawn, most = 28, ms = 864e5;
  const find = (text) => (drawn ? drawn.labels.findIndex(([, value]) => value === text) : -1);
  const born = find("new");
  const kept = (drawn ? drawn.labels : []).map(([, value], i) => [i, /^new (\d+) (day|week)s? ago$/.exec(value)]).filter(([, m]) => m)
    .map(([i, m]) => ({ i, k: +m[1], days: +m[1] * (m[2] === "week" ? 7 : 1), unit: m[2] })).sort((a, b) => a.k - b.k);
  if (born < 0 || !kept.length || !windows.every((w) => w.start)) return false;
  const at = new Map(windows.map((w, i) => [Date.parse(w.start), i]));
  const half = (i, w) => (drawn.upper[i][w] - drawn.lower[i][w]) / 2;
  const cohorts = windows.map((w, i) => i).filter((w) => drawn.estimate[born][w] !== null && Date.parse(windows[w].start) < Math.max(...at.keys())).slice(-most);
  if (!cohorts.length) return false;
  const shade = colour("--line-0");
  const body = cohorts.map((w) => {
    const n = drawn.estimate[born][w], start = Date.parse(windows[w].start);
    const cells = kept.map(({ i, days, k, unit }) => {
      const later = at.get(start + days * ms), count = later === undefined ? null : drawn.estimate[i][later];
      if (count === null) return el("td", {}, "");
      const sure = drawn.lower[i][later] > 0 && n > half(born, w);
      const share = Math.min(1, Math.max(0, count / n));
      const cell = el("td", { title: `${number(count, half(i, later) / 2)} of ${number(n, half(born, w) / 2)}, ${k} ${unit}${k > 1 ? "s" : ""} later` },
        sure ? `${Math.round(100 * share)} %` : "noise");
      if (sure) cell.style.background = shade + Math.round(20 + 60 * share).toString(16).padStart(2, "0");
      else cell.style.color = colour("--quiet");
      return cell;
    });
    return el("tr", {}, el("th", { scope: "row" }, windows[w].name), el("td", {}, number(n, half(born, w) / 2)), cells);
  });
  const head = [kept[0].unit, "new", ...kept.map(({ k }) => `+${k}`)].map((text) => el("th", { scope: "col" }, text));
  put(place, el("h3", {}, "Retention"),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Retention" },
      el("table", { class: "numbers" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body))),
    el("p", { class: "note" }, `Of those who were new on a day, the share active so many ${kept[0].unit}s later. Blank where a release is missing or leaves it out.`),
    el("h3", {}, "Now"));
  return false; // the bars of the newest window come below
};
