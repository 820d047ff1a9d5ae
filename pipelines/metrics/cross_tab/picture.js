/* Tables of two columns as heat maps, in which what noise alone may have made is grey. */
hushbeam.pictures["cross-tab"] = (place, table, { el, put }) => {
  const columns = table.now.columns, most = 12, maps = new Map();
  if (!columns.fitted || !columns.lower_simultaneous) return false;
  const levels = Object.keys(columns).filter((name) => /^column_\d+$/.test(name)), of = new Map();
  // Which columns a table has: those in which some cell has a value; any other value has none.
  columns.group.forEach((group, i) => {
    if (!of.has(group)) of.set(group, new Set());
    for (const name of levels) if ((columns[name][i] ?? null) !== null) of.get(group).add(name);
  });
  columns.group.forEach((group, i) => {
    const own = levels.filter((name) => of.get(group).has(name));
    if (own.length !== 2) return;
    if (!maps.has(group)) maps.set(group, { cells: new Map(), sums: [new Map(), new Map()] });
    const map = maps.get(group), at = own.map((name) => JSON.stringify(columns[name][i] ?? null));
    map.cells.set(at.join(), i);
    at.forEach((key, k) => map.sums[k].set(key, (map.sums[k].get(key) ?? 0) + columns.fitted[i]));
  });
  if (!maps.size) return false;
  const said = (key) => (key === "null" ? "(any other)" : String(JSON.parse(key)));
  for (const [group, { cells, sums }] of [...maps].slice(0, 6)) {
    const [rows, across] = sums.map((sum) => [...sum].sort((a, b) => b[1] - a[1]).slice(0, most).map(([key]) => key));
    const high = Math.max(1, ...rows.flatMap((row) => across.map((key) => columns.fitted[cells.get([row, key].join())])));
    const cell = (row, key) => {
      const i = cells.get([row, key].join()), number = columns.fitted[i], noise = !(columns.lower_simultaneous[i] > 0);
      const look = noise ? "color: var(--quiet); background: var(--rule)"
        : `background: color-mix(in srgb, var(--pale) ${Math.ceil(100 * Math.sqrt(number / high))}%, var(--paper))`;
      return el("td", { style: `padding: .2rem .5rem; ${look}` }, number.toLocaleString("en"));
    };
    put(place, el("h3", {}, group), el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": group },
      el("table", { class: "numbers" }, el("thead", {}, el("tr", {}, el("th"), across.map((key) => el("th", { scope: "col" }, said(key))))),
        el("tbody", {}, rows.map((row) => el("tr", {}, el("th", { scope: "row" }, said(row)), across.map((key) => cell(row, key))))))));
  }
  put(place, el("p", { class: "note" }, `The ${most} largest rows and columns of ${maps.size > 6 ? "the first 6 of " + maps.size + " tables" : "each table of two columns"}; ` +
    `the darker, the more. Grey are those that noise alone may have made: their intervals, which cover all together with probability ${table.confidence}, begin at 0.`));
  return true;
};
