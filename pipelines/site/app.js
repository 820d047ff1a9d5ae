/* What every page of a site draws, from the data that the page holds. Foreign texts only ever
   become text nodes and attributes that nobody executes. */
"use strict";
const hushbeam = (() => {
  function el(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
    }
    return put(made, children);
  }

  /* Children into their place: lists of them, too, and what is not there is left out. The page's own
     `append` would write `[object ...]` of a list, and "null". */
  function put(place, ...children) {
    for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) place.append(child);
    return place;
  }

  function svg(tag, attributes, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
    return put(made, children);
  }

  const shares = (figure) => figure === "share";
  const counted = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;

  /* A number to two digits of its error; shares in per cent, as the head of their column says. */
  function number(value, error, figure) {
    if (value === null || value === undefined) return "unknown";
    const times = shares(figure) ? 100 : 1;
    const spread = error > 0 ? error * times : Math.abs(value * times) * 1e-4;
    const fine = spread > 0 ? Math.max(-12, Math.min(12, 1 - Math.floor(Math.log10(spread)))) : 2;
    const digits = Number.isInteger(value) && !shares(figure) ? Math.min(fine, 0) : fine; // counts are whole
    const unit = 10 ** digits;
    const rounded = digits < 0 ? Math.round(value * times * unit) / unit : value * times;
    return rounded.toLocaleString("en", {
      minimumFractionDigits: Math.max(0, digits), maximumFractionDigits: Math.max(0, digits),
    });
  }

  /* Numbers stand to the right, point below point; words and dates to the left, as in every table. */
  const NUMBER = /^(?:± |[+−-])?[\d,]+(?:\.(\d+))?(?: to -?[\d,]+(?:\.(\d+))?)?(e[+-]\d+)?$/;
  function aligned(table) {
    const rows = [...table.tBodies[0].rows];
    [...table.tHead.rows[0].cells].forEach((head, at) => {
      const cells = rows.map((row) => row.cells[at]), known = cells.map((cell) => cell.textContent.trim().match(NUMBER));
      for (const cell of [head, ...cells]) cell.classList.toggle("of", !known.some(Boolean));
      const fine = known.map((one) => ((one && (one[2] ?? one[1])) || "").length), most = Math.max(0, ...fine);
      known.forEach((one, i) => { if (one && !one[3]) cells[i].append("\u2007".repeat(most - fine[i]) + (most && !fine[i] ? "\u2008" : "")); });
    });
    return table;
  }

  /* Of several tables of a page each has a name of its own, as readers for the blind tell parts apart. */
  const named = (table) => table.name.replace(".parquet", "");

  /* What the numbers of a table are. */
  const what = (table) => (table.figure === "quantile" ? "number" : table.figure);

  const short = (value) => value.toLocaleString("en", { maximumSignificantDigits: 5 });

  const OTHER = "(other or missing)";

  /* The rows of a table as objects, with the label of each. */
  function rows(now) {
    const names = Object.keys(now.columns);
    const several = now.rows > 1;
    return Array.from({ length: now.rows }, (_, i) => {
      const row = {};
      for (const name of names) row[name] = now.columns[name][i];
      row.estimate ??= null; // a column of which nothing is known is left out
      const bin = row.low !== undefined && row.high !== undefined;
      const said = bin ? [`${short(row.low)} to ${short(row.high)}`]
        : [row.group, row.value].filter((part) => part !== null && part !== undefined);
      row.label = said.join(" · ") || (several ? OTHER : "");
      row.low_end = row.lower_simultaneous ?? row.lower ?? null;
      row.high_end = row.upper_simultaneous ?? row.upper ?? null;
      return row;
    });
  }

  /* A line with its band; the smallest charts are drawn so, without any library. */
  function spark(values, lower, upper) {
    const known = values.map((v, i) => [i, v]).filter(([, v]) => v !== null);
    const all = [...values, ...lower, ...upper].filter((v) => v !== null);
    if (known.length < 2) return null;
    const low = Math.min(...all), height = Math.max(...all) - low || 1, steps = values.length - 1;
    const at = (i, v) => `${((120 * i) / steps).toFixed(1)},${(28 - (26 * (v - low)) / height).toFixed(1)}`;
    const band = [...known.filter(([i]) => upper[i] !== null).map(([i]) => at(i, upper[i])),
      ...known.filter(([i]) => lower[i] !== null).map(([i]) => at(i, lower[i])).reverse()];
    return svg("svg", { class: "spark", viewBox: "0 0 120 30", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("polygon", { points: band.join(" ") }),
      svg("polyline", { points: known.map(([i, v]) => at(i, v)).join(" ") }));
  }

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /* Ticks of time: windows are named in UTC, in the order of ISO 8601, and so are they. Where all
     windows are days or longer, no tick is shorter. Rows are as uPlot takes them: a unit's seconds,
     what it says, and what it adds where a year, month, day, hour, minute or second begins. */
  const DAY = 86400, LONG = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 30, 60, 90, 120, 180, 365, 730, 1825, 3650];
  const ISO = "\n{YYYY}-{MM}-{DD}";
  const TICKS = [[365 * DAY, "{YYYY}", null, null, null, null, null, null, 1],
    [28 * DAY, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
    [DAY, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
    [3600, "{HH}:{mm}", ISO, null, ISO, null, null, null, 1],
    [60, "{HH}:{mm}", ISO, null, ISO, null, null, null, 1],
    [1, "{HH}:{mm}:{ss}", ISO, null, ISO, null, null, null, 1]];
  const inUtc = (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC");

  /* An alarm in a picture: a dashed line and a word, which need no colour. */
  function alarmed(plot, at) {
    const context = plot.ctx, { top, height } = plot.bbox;
    context.save();
    Object.assign(context, { strokeStyle: colour("--bad"), fillStyle: colour("--bad"), lineWidth: 2, textAlign: "right", font: `${13 * devicePixelRatio}px system-ui, sans-serif` });
    context.setLineDash([6, 4]);
    context.stroke(new Path2D(`M${at} ${top}v${height}`));
    context.fillText("alarm \u25b8", at - 4, top + 14 * devicePixelRatio);
    context.restore();
  }

  /* All windows of the labels that are ticked, with bands that cover all that is drawn together. */
  function trend(place, data, table, kept) {
    const drawn = table.drawn, windows = data.windows;
    const timed = windows.every((w) => w.start);
    const x = windows.map((w, i) => (timed ? Date.parse(w.start) / 1000 : i));
    const long = timed && x.every((start) => start % DAY === 0);
    const requested = decodeURIComponent((location.hash.match(/value=([^&]*)/) || [, ""])[1]);
    const chosen = new Set(drawn.labels.map((_, i) => i).filter((i) => drawn.names[i] === requested));
    if (!chosen.size) for (let i = 0; i < Math.min(3, drawn.labels.length); i++) chosen.add(i);
    const chart = el("div", { class: "chart", role: "img" });
    let plot = null;

    function draw() {
      if (plot) plot.destroy();
      const times = shares(table.figure) ? 100 : 1;
      const some = kept(), scaled = (list) => some.map((i) => (list[i] === null ? null : list[i] * times));
      const columns = [some.map((i) => x[i])], series = [{}], bands = [];
      [...chosen].forEach((i, place) => {
        const stroke = colour(`--line-${place % 6}`), first = columns.length;
        columns.push(scaled(drawn.estimate[i]), scaled(drawn.upper[i]), scaled(drawn.lower[i]));
        series.push({ label: drawn.names[i], stroke, width: 2, points: { show: windows.length < 60, size: 6, fill: stroke } },
          { stroke: "transparent", points: { show: false } }, { stroke: "transparent", points: { show: false } });
        bands.push({ series: [first + 1, first + 2], fill: stroke + "33" });
      });
      const ink = colour("--quiet"), grid = { stroke: colour("--rule"), width: 1 };
      const axis = { stroke: ink, grid, ticks: grid, font: "13px system-ui, sans-serif" };
      const marks = data.alarms.filter((alarm) => some.includes(alarm.place) && drawn.names.some((name, i) => chosen.has(i) && drawn.labels[i][0] === alarm.group && drawn.labels[i][1] === alarm.value));
      plot = new uPlot({
        hooks: { draw: [(u) => marks.forEach((alarm) => alarmed(u, u.valToPos(x[alarm.place], "x", true)))] },
        width: chart.clientWidth || 320, height: 280, legend: { show: false }, series, bands, tzDate: inUtc,
        cursor: { drag: { x: true, y: false } }, scales: { x: { time: timed } },
        axes: [timed ? { ...axis, values: TICKS, ...(long ? { incrs: LONG.map((days) => days * DAY) } : {}) } : { ...axis, values: (_, all) => all.map((v) => (windows[v] ? windows[v].name : "")) },
          { ...axis, size: 64, label: shares(table.figure) ? "share, %" : table.unit || what(table) }],
      }, columns, chart);
      const names = [...chosen].map((i) => drawn.names[i]).join(", ");
      chart.setAttribute("aria-label", `${names || "nothing"} over ${counted(windows.length, "window")}; the table of windows and the files below have the numbers`);
    }

    const choices = el("fieldset", { class: "choices" }, el("legend", {}, "Drawn"));
    drawn.labels.forEach((one, i) => {
      const box = el("input", { type: "checkbox", onchange: () => { box.checked ? chosen.add(i) : chosen.delete(i); mark(); draw(); } });
      box.checked = chosen.has(i);
      const key = el("span", { class: "key", "aria-hidden": "true" });
      put(choices, el("label", {}, box, key, " ", drawn.names[i]));
    });
    function mark() {
      const order = [...chosen];
      choices.querySelectorAll("label").forEach((one, i) => {
        const place = order.indexOf(i), key = one.querySelector(".key");
        key.style.visibility = place < 0 ? "hidden" : ""; // an empty key beside its box looks like a second one
        key.style.background = `var(--line-${place % 6})`;
      });
    }
    put(place, chart);
    if (drawn.labels.length > 1) put(place, choices);
    put(place, el("p", { class: "note" },
      `Bands cover all figures of this trend (${drawn.labels.length * windows.length}) together with probability ${table.confidence}. Drag over the chart to look closer; double-click to see all.`));
    mark();
    new ResizeObserver(() => plot && plot.setSize({ width: chart.clientWidth, height: 280 })).observe(chart);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    return draw;
  }

  function changes(place, table) {
    for (const found of table.changes) {
      const words = `Since ${found.since} (${found.window})`;
      put(place, el("h3", {}, words));
      if (!found.names.length) {
        put(place, el("p", {}, found.compared === 1 ? "Nothing has changed beyond noise."
          : `Nothing has changed beyond noise: all of ${found.compared} differences are within their intervals together.`));
        continue;
      }
      const head = shares(table.figure) ? "difference, percentage points" : "difference";
      const body = found.names.map((one, i) => el("tr", {}, el("th", { scope: "row" }, one),
        el("td", { class: found.difference[i] > 0 ? "up" : "down" },
          (found.difference[i] > 0 ? "+" : "−") + number(Math.abs(found.difference[i]), found.half[i] / 2, table.figure)),
        el("td", {}, "± " + number(found.half[i], found.half[i] / 2, table.figure))));
      put(place, scrolling(`${words}: what has changed in ${named(table)}`, ["", head, "interval"], body),
        el("p", { class: "note" }, found.compared === 1 ? "The interval covers this difference."
          : `Intervals cover all ${found.compared} differences together; the others are within noise.`));
    }
  }

  function scrolling(name, heads, body) {
    if (body.length > 31)
      return el("div", {}, scrolling(name, heads, body.slice(0, 31)),
        el("details", {}, el("summary", {}, `${body.length - 31} more`), scrolling(`${name}, further back`, heads, body.slice(31))));
    return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name },
      aligned(el("table", { class: "numbers" }, el("thead", {}, el("tr", {}, heads.map((head) => head
        ? el("th", { scope: "col" }, head) : el("td", {})))), el("tbody", {}, body))));
  }

  /* An interval, an end of which may be open where numbers were clipped. */
  function between(row, say) {
    if (row.high_end === null) return row.low_end === null ? "" : `${say(row.low_end)} or more`;
    return row.low_end === null ? `${say(row.high_end)} or less` : `${say(row.low_end)} to ${say(row.high_end)}`;
  }

  /* Every figure of the newest release: as many rows as fit, found by a box. */
  function all(place, table) {
    const found = rows(table.now), shown = 50;
    const errors = found.some((row) => (row.standard_error ?? null) !== null), intervals = found.some((row) => row.low_end !== null || row.high_end !== null);
    let most = shown;
    const body = el("tbody"), more = el("button", { type: "button" }), count = el("p", { class: "note", "aria-live": "polite" });
    const box = el("input", { type: "search", "aria-label": "Find a figure", placeholder: "Find a figure", oninput: () => { most = shown; fill(); } });
    function fill() {
      const wanted = box.value.toLowerCase();
      const kept = wanted ? found.filter((row) => row.label.toLowerCase().includes(wanted)) : found;
      body.replaceChildren(...kept.slice(0, most).map((row) => {
        const spread = row.low_end === null || row.high_end === null ? null : (row.high_end - row.low_end) / 4;
        const error = row.standard_error ?? null, say = (value, by) => number(value, by, table.figure);
        return el("tr", {}, el("th", { scope: "row" }, row.label), el("td", {}, say(row.estimate, error ?? spread)),
          errors ? el("td", {}, error === null ? "" : say(error, error)) : null,
          intervals ? el("td", {}, between(row, (end) => say(end, spread))) : null);
      }));
      aligned(body.parentElement);
      count.textContent = `${Math.min(most, kept.length).toLocaleString("en")} of ${kept.length.toLocaleString("en")}`;
      more.hidden = kept.length <= most;
      more.textContent = "Show more";
    }
    more.addEventListener("click", () => { most += 500; fill(); });
    const unit = shares(table.figure) ? ", %" : "";
    const head = ["", what(table), errors && "± s.e.", intervals && "interval of all together"].filter((one) => one !== false).map((one) => one
      ? el("th", { scope: "col" }, one + unit) : el("td", {}));
    if (found.length > 10) put(place, box);
    put(place, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `All figures, ${named(table)}` },
      el("table", { class: "numbers" }, el("thead", {}, el("tr", {}, head)), body)), count, more);
    fill();
  }

  const when = (text) => (text ? text.replace("T", " ").replace("+00:00", " UTC") : "");

  /* One line a population: of many windows that of the one in which most is spent. */
  function budget(account) {
    const spent = account.total.epsilon, whole = account.budget.epsilon, windows = account.windows;
    const known = spent !== null && spent !== undefined;
    const meter = known ? el("meter", { min: 0, max: whole, high: 0.9 * whole, value: spent, "aria-label": `Budget of ${account.population}` }) : null;
    const further = account.further.toLocaleString("en");
    const where = windows > 1 ? `In the fullest of ${windows.toLocaleString("en")} windows. ` : "";
    return el("details", {}, el("summary", {}, el("strong", {}, account.population),
      `: ${account.spent} of epsilon ${whole} spent, ${further} more like the last`), meter,
      ` ${where}Per ${account.scope}, at delta ${account.budget.delta}.`);
  }

  /* The figures that come first, each with its error, and what they are of. */
  function headline(data) {
    if (!data.lines.length) return data.which ? el("p", { class: "note" }, data.which) : null;
    return el("ul", { class: "headline" }, data.lines.map(([number, unit, of], i) =>
      el("li", {}, el("strong", {}, number), unit ? ` ${unit}` : "", i || data.change === null ? null : arrow(data.change),
        of ? el("small", {}, ` ${of}`) : null)));
  }

  /* Only of what noise does not explain. */
  const arrow = (change) => el("span", { class: change > 0 ? "up" : "down", role: "img",
    "aria-label": `${change > 0 ? "more" : "less"} than in the window before, beyond noise` }, change > 0 ? " \u25b2" : " \u25bc");

  const card = (metric) => el("li", {}, el("a", { href: metric.page }, metric.name),
    el("span", { class: "note" }, ` ${metric.title}`), headline(metric), metric.alarms.map((line) => el("p", { class: "warning" }, `Alarm: ${line}.`)), spark(metric.trend, metric.lower, metric.upper));

  const some = (list) => `${list.slice(0, 14).join(", ")}${list.length > 14 ? ` and ${list.length - 14} more` : ""}`;

  function index(place, data) {
    const all = data.collections, single = all.length === 1;
    put(place, el("h1", {}, single ? all[0].name : "Releases"));
    const cards = all.map((one) => el("section", {}, single ? null : el("h2", {}, one.name),
      el("ul", { class: "cards" }, one.metrics.map(card))));
    put(place, cards, data.accounts.map(budget));
    if (data.verification) put(place, el("p", null, el("a", { href: data.verification }, "What was verified of these releases")));
    for (const one of all) {
      const last = one.releases[one.releases.length - 1], of = single ? "" : `${one.name}: `;
      if (one.missing.length) put(place, el("p", { class: "warning" }, `${of}missing: ${some(one.missing)}.`));
      if (last.withheld.length) put(place, el("p", { class: "warning" }, `${of}withheld in ${last.window}: ${some(last.withheld)}.`));
    }
    const body = el("div", {}), names = [...new Set(all.flatMap((one) => one.metrics.map((metric) => metric.name)))];
    const from = day("From", fill), until = day("Until", fill);
    const collection = choice("Collection", all.map((one) => one.name), fill), metric = choice("Metric", names, fill);
    function fill() {
      const shown = all.filter((one) => [one.name, ""].includes(collection.value()));
      all.forEach((one, i) => {
        cards[i].hidden = !shown.includes(one);
        for (const li of cards[i].querySelectorAll(".cards > li"))
          li.hidden = metric.value() && li.querySelector("a").textContent !== metric.value();
      });
      const rows = shown.flatMap((one) => one.releases.map((release) => ({ ...release, of: one.name })))
        .filter((release) => within(release.day, from, until) && (!metric.value() || release.metrics.includes(metric.value())))
        .sort((a, b) => (a.day < b.day ? 1 : -1));
      body.replaceChildren(scrolling("Windows", ["window", "collection", "published", "epsilon", "delta", "what", "promise"],
        rows.map((release) => el("tr", {}, el("th", { scope: "row" }, release.window), el("td", {}, release.of),
          el("td", {}, when(release.created), late(release), faulty(release)), el("td", {}, release.epsilon), el("td", {}, release.delta),
          el("td", {}, release.withheld.length ? `withheld: ${release.withheld.join(", ")}` : counted(release.metrics.length, "metric")),
          el("td", {}, el("a", { href: `releases/${release.id}/statement.json` }, "statement"))))));
    }
    put(place, el("h2", {}, "Windows"),
      el("div", { class: "filters" }, single ? null : collection.label, metric.label, from.label, until.label), body);
    fill();
  }

  function choice(name, values, change) {
    const select = el("select", { onchange: change }, el("option", { value: "" }, "all"), values.map((value) => el("option", {}, value)));
    return { value: () => select.value, label: el("label", {}, `${name} `, select) };
  }

  function day(name, change) {
    const input = el("input", { type: "date", onchange: change });
    return { value: () => input.value, label: el("label", {}, `${name} `, input) };
  }

  const within = (date, from, until) => (!from.value() || date >= from.value()) && (!until.value() || date <= until.value());

  /* How long after its end a window was published that a schedule was to publish at once. */
  const faulty = (release) => (release.faulty ? el("span", { class: "warning" }, " does not verify") : null);
  const late = ({ late: days }) => (days ? el("span", { class: "warning" }, ` ${counted(days, "day")} late`) : null);

  function metric(place, data) {
    const last = data.windows[data.windows.length - 1];
    put(place, document.getElementById("head").content);
    const drawing = document.getElementById("picture").content, redraw = [];
    const from = day("From", fill), until = day("Until", fill), body = el("div", {});
    const kept = () => data.windows.map((w, i) => i).filter((i) => within((data.windows[i].start || data.windows[i].created).slice(0, 10), from, until));
    if (data.windows.length > 1) put(place, el("div", { class: "filters" }, from.label, until.label));
    data.tables.forEach((table, i) => {
      const section = el("section"), timed = table.drawn && data.windows.length > 1;
      put(place, section);
      const whole = data.tables.length < 2 && !timed;  // all of it is of the last window
      put(section, el("h2", {}, data.tables.length > 1 ? named(table) : timed ? "Over time" : `Window ${last.name}`));
      if (timed) redraw.push(trend(section, data, table, kept));
      if (!i && data.alarms.length) put(section, el("h3", {}, "Alarms"), el("ul", {}, data.alarms.map((one) => el("li", {}, `${one.line}.`))));
      changes(section, table);
      if (!i && drawing.childElementCount) put(section, whole ? null : el("h3", {}, `Window ${last.name}`), drawing);
      if (table.now.rows > 1) all(section, table);
      if (section.childElementCount < 2) section.remove();  // one figure, which stands above
    });
    function fill() {
      redraw.forEach((draw) => draw());
      body.replaceChildren(scrolling("Windows", ["window", "published", "epsilon", "delta", "page", "promise"],
        kept().reverse().map((i) => ({ ...data.windows[i], alarm: data.alarms.some((one) => one.place === i) })).map((w) => el("tr", {}, el("th", { scope: "row" }, w.name, w.alarm ? el("span", { class: "warning" }, " alarm") : null), el("td", {}, when(w.created)),
          el("td", {}, w.epsilon), el("td", {}, w.delta),
          el("td", {}, el("a", { href: w.place + "report.html" }, "page")),
          el("td", {}, el("a", { href: w.place + "statement.json" }, "statement"))))));
    }
    put(place, el("h2", {}, "Windows"),
      data.missing.length ? el("p", { class: "warning" }, `Missing: ${some(data.missing)}.`) : null, body,
      el("p", {}, "All windows as one table: ",
        el("a", { href: `${data.files}.csv`, download: "" }, "CSV"), ", ",
        el("a", { href: `${data.files}.parquet`, download: "" }, "Parquet"), "."));
    fill();
  }

  function searching(data) {
    const found = el("ul", { id: "found", hidden: "" });
    const box = el("input", { type: "search", "aria-label": "Search metrics and values", placeholder: "Search", "aria-controls": "found", oninput: look });
    function look() {
      const wanted = box.value.trim().toLowerCase();
      const hits = wanted ? data.search.filter(([text]) => text.toLowerCase().includes(wanted)).slice(0, 12) : [];
      found.replaceChildren(...hits.map(([text, what, page]) => el("li", {}, el("a", { href: data.up + page }, text), ` ${what}`)));
      if (wanted && !hits.length) put(found, el("li", {}, "nothing is called so"));
      found.hidden = !wanted;
    }
    box.addEventListener("keydown", (event) => { if (event.key === "Escape") { box.value = ""; look(); } });
    return el("div", { role: "search" }, box, found);
  }

  function start() {
    const data = JSON.parse(document.getElementById("data").textContent);
    put(document.getElementById("top"), el("nav", { "aria-label": "Pages" }, el("a", { href: data.up + "index.html" }, "All releases")), searching(data));
    ({ index, metric })[data.view](document.getElementById("main"), data);
    addEventListener("hashchange", () => location.reload());
  }

  return { start };
})();
