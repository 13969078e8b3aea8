"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const NAME = 0, FILE = 1, OBJECT = 2, CALLS = 3, RECURSIVE = 4, CYCLE = 5, SELF = 6, INCLUSIVE = 7;
  const ROWS = 200;
  const old = data.old || null;
  const state = { event: 0, view: 0, sort: "self", descending: true, selected: null, rows: ROWS, zoom: -1, file: null };
  const view = () => data.views[state.view];
  // Comparisons are of everything, so they show only there.
  const comparing = () => old !== null && state.view === 0;

  const number = (n) => n.toLocaleString("en-US");
  const percent = (n, total) => total === 0 ? "" : (n * 100 / total).toFixed(2) + "%";
  const signed = (n) => (n > 0 ? "+" : n < 0 ? "−" : "±") + number(Math.abs(n));
  const last = (path) => path.split("/").pop();
  function element(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "class") node.className = value;
      else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (value !== false && value !== null) node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children);
    return node;
  }
  function svg(tag, attributes = {}, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }
  const delta = (n) => element("span", { class: n > 0 ? "up" : n < 0 ? "down" : "" }, signed(n));

  // Comparison of the chosen event: by index of the new function, and functions that are gone.
  function comparison() {
    const found = { byNew: new Map(), gone: [], explanation: "" };
    if (!comparing()) return found;
    const chosen = old.comparisons[state.event];
    found.explanation = chosen.explanation;
    for (const f of chosen.functions) {
      if (f[0] === null) found.gone.push(f); else found.byNew.set(f[0], f);
    }
    return found;
  }

  // ---- Summary
  function summary() {
    const box = $("summary");
    const v = view(), total = v.total[state.event], event = data.events[state.event];
    const rows = [["Files", data.origins.join(", ")], ["Command", data.command || "unknown"]];
    if (old) rows.push(["Compared with", old.origins.join(", ")]);
    rows.push(["Functions", number(v.functions.length)], ["Calls between functions", number(v.edges.length)]);
    for (const text of data.descriptions) {
      const at = text.indexOf(":");
      rows.push(at > 0 ? [text.slice(0, at), text.slice(at + 1).trim()] : ["Note", text]);
    }
    if (data.views_left_out > 0) rows.push(["Not shown apart", `${data.views_left_out} more parts`]);
    const list = element("dl", {}, ...rows.flatMap(([k, t]) => [element("dt", {}, k), element("dd", {}, t)]));
    const totals = element("table", { id: "totals" },
      element("thead", {}, element("tr", {}, element("th", {}, "Event"), element("th", { class: "number" }, "Total"),
        ...(comparing() ? [element("th", { class: "number" }, "Before"), element("th", { class: "number" }, "Change")] : []))),
      element("tbody", {}, ...data.events.map((name, e) => element("tr", {},
        element("td", {}, name + (data.long_names[name] ? ` (${data.long_names[name]})` : "")),
        element("td", { class: "number" }, number(v.total[e])),
        ...(comparing() ? [element("td", { class: "number" }, number(old.view.total[e])),
          element("td", { class: "number" }, delta(v.total[e] - old.view.total[e]), " ",
            percent(v.total[e] - old.view.total[e], old.view.total[e]))] : [])))));
    const top = v.functions.map((f, i) => [f, i]).sort((a, b) => b[0][SELF][state.event] - a[0][SELF][state.event]).slice(0, 10);
    const hottest = element("table", {}, element("thead", {}, element("tr", {}, element("th", { class: "number" }, "Self"), element("th", {}, "Function"))),
      element("tbody", {}, ...top.filter(([f]) => f[SELF][state.event] !== 0).map(([f, i]) => element("tr", {},
        element("td", { class: "number" }, number(f[SELF][state.event]), " ", percent(f[SELF][state.event], total)),
        element("td", {}, element("button", { type: "button", onclick: () => { select(i); open("functions"); } }, f[NAME]))))));
    box.replaceChildren();
    if (comparing()) box.append(element("p", { class: "sentence", id: "sentence" }, comparison().explanation));
    box.append(element("h2", {}, "Totals"), totals, element("h2", {}, `Most ${event} of their own`), hottest,
      element("h2", {}, "About"), list,
      element("p", { class: "note" }, `Made by tallygraph ${data.version}. Keys: 1–4 sections, / search, t theme.`));
  }

  // ---- Functions
  const columns = () => [
    { key: "self", title: "Self", value: (f) => f[SELF][state.event] },
    { key: "inclusive", title: "Inclusive", value: (f) => f[INCLUSIVE][state.event] },
    ...(comparing() ? [
      { key: "change", title: "Self change", value: (f, i, c) => { const d = c.byNew.get(i); return d ? d[3][1] - d[3][0] : f[SELF][state.event]; }, delta: true },
      { key: "inclusive-change", title: "Incl. change", value: (f, i, c) => { const d = c.byNew.get(i); return d ? d[4][1] - d[4][0] : f[INCLUSIVE][state.event]; }, delta: true },
    ] : []),
    { key: "calls", title: "Calls", value: (f) => f[CALLS], plain: true },
    { key: "name", title: "Function", value: (f) => f[NAME], text: true },
  ];
  function badges(f) {
    const list = [];
    if (f[CYCLE]) list.push(element("span", { class: "badge", title: "These functions call each other; their inclusive costs overlap" }, `cycle ${f[CYCLE]}`));
    else if (f[RECURSIVE]) list.push(element("span", { class: "badge" }, "recursive"));
    return list;
  }
  function table() {
    const v = view(), total = v.total[state.event], compared = comparison();
    const shown = columns();
    if (!shown.some((c) => c.key === state.sort)) { state.sort = "self"; state.descending = true; }
    const sorted = shown.find((c) => c.key === state.sort);
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = v.functions.map((f, i) => ({ f, i })).filter(({ f }) => {
      const text = `${f[NAME]} ${f[FILE]} ${f[OBJECT]}`.toLowerCase();
      return words.every((w) => text.includes(w));
    });
    const sign = state.descending ? -1 : 1;
    for (const row of rows) row.key = sorted.value(row.f, row.i, compared);
    const order = sorted.delta ? (x) => Math.abs(x) : (x) => x;
    rows.sort((a, b) => sorted.text ? sign * a.key.localeCompare(b.key) : sign * (order(a.key) - order(b.key)) || a.i - b.i);
    $("table").tHead.replaceChildren(element("tr", {}, ...shown.map((c) => element("th", {
      scope: "col", class: c.text ? "" : "number",
      "aria-sort": c.key === state.sort ? (state.descending ? "descending" : "ascending") : "none",
    }, element("button", { type: "button", "data-sort": c.key, onclick: () => {
      state.descending = c.key === state.sort ? !state.descending : !c.text;
      state.sort = c.key;
      table();
      $("table").querySelector(`[data-sort="${c.key}"]`).focus();
    } }, c.title)))));
    const body = rows.slice(0, state.rows).map(({ f, i }) => {
      const cells = shown.map((c) => {
        if (c.text) return element("td", { class: "name" }, f[NAME], ...badges(f),
          element("div", { class: "place" }, f[FILE] + (f[OBJECT] !== "???" ? ` · ${last(f[OBJECT])}` : "")));
        const n = c.value(f, i, compared);
        if (c.delta) return element("td", { class: "number" }, n === 0 ? "" : delta(n));
        if (c.plain) return element("td", { class: "number" }, n === 0 ? "" : number(n));
        const heat = total > 0 ? Math.min(0.6, Math.max(0, n / total)) : 0;
        return element("td", { class: "number", style: `background: rgba(var(--heat), ${heat.toFixed(3)})` },
          number(n), " ", element("span", { class: "share" }, percent(n, total)));
      });
      return element("tr", { tabindex: 0, "data-function": i, "aria-selected": String(state.selected === i),
        onclick: () => select(i), onkeydown: rowKey }, ...cells);
    });
    $("table").tBodies[0].replaceChildren(...body);
    const gone = compared.gone.length ? `, ${number(compared.gone.length)} no longer run` : "";
    $("count").textContent = `${number(rows.length)} of ${number(v.functions.length)} functions${gone}`;
    $("more").hidden = rows.length <= state.rows;
  }
  function rowKey(event) {
    const row = event.currentTarget;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); select(Number(row.dataset.function)); }
    const next = event.key === "ArrowDown" ? row.nextElementSibling : event.key === "ArrowUp" ? row.previousElementSibling : null;
    if (next) { event.preventDefault(); next.focus(); }
  }
  function select(index) {
    state.selected = index;
    for (const row of $("table").tBodies[0].rows) row.setAttribute("aria-selected", String(Number(row.dataset.function) === index));
    detail();
  }
  function neighbours(index) {
    const v = view(), callers = [], callees = [];
    for (const [from, to, calls, cost] of v.edges) {
      if (to === index) callers.push({ f: from, calls, cost: cost[state.event] });
      if (from === index) callees.push({ f: to, calls, cost: cost[state.event] });
    }
    const order = (a, b) => b.cost - a.cost || b.calls - a.calls;
    return { callers: callers.sort(order), callees: callees.sort(order) };
  }
  function detail() {
    const box = $("detail"), v = view();
    if (state.selected === null || !v.functions[state.selected]) {
      box.replaceChildren(element("p", { class: "note" }, "Choose a function to see who calls it and what it calls."));
      return;
    }
    const f = v.functions[state.selected], total = v.total[state.event];
    const { callers, callees } = neighbours(state.selected);
    const facts = [["Self", `${number(f[SELF][state.event])} ${percent(f[SELF][state.event], total)}`],
      ["Inclusive", `${number(f[INCLUSIVE][state.event])} ${percent(f[INCLUSIVE][state.event], total)}`],
      ["Calls", number(f[CALLS])], ["File", f[FILE]], ["Object", f[OBJECT]]];
    const d = comparison().byNew.get(state.selected);
    if (d) facts.push(["Before", d[1] === null ? "not run" : `self ${number(d[3][0])}, inclusive ${number(d[4][0])}, ${number(d[5][0])} calls`]);
    const buttons = element("div", { class: "bar" });
    if (v.lines[f[FILE]]) buttons.append(element("button", { type: "button", id: "to-source", onclick: () => { openFile(f[FILE]); open("source"); } }, "Show source"));
    buttons.append(element("button", { type: "button", onclick: () => { $("flame-search").value = f[NAME]; open("flame"); } }, "Find in flame graph"));
    const list = (title, entries) => entries.length === 0 ? [] : [element("h3", {}, title), element("table", {},
      element("tbody", {}, ...entries.map((e) => element("tr", { tabindex: 0, "data-function": e.f, onclick: () => select(e.f), onkeydown: rowKey },
        e.f === state.selected ? element("td", { class: "number place" }, "within the outer call")
          : element("td", { class: "number" }, number(e.cost), " ", element("span", { class: "share" }, percent(e.cost, total))),
        element("td", { class: "number" }, number(e.calls) + "×"),
        element("td", { class: "name" }, v.functions[e.f][NAME], ...badges(v.functions[e.f]))))))];
    box.replaceChildren(element("h2", { id: "chosen" }, f[NAME], ...badges(f)),
      element("dl", {}, ...facts.flatMap(([k, t]) => [element("dt", {}, k), element("dd", {}, t)])), buttons,
      picture(state.selected, callers.slice(0, 8), callees.slice(0, 8)),
      ...list("Callers", callers.slice(0, 50)), ...list("Called", callees.slice(0, 50)));
  }
  // Callers above, the function in the middle, callees below; lines as wide as their cost.
  function picture(index, callers, callees) {
    const v = view(), total = v.total[state.event] || 1;
    const width = 640, box = 148, tall = 38;
    const short = (name) => name.length > 22 ? name.slice(0, 21) + "…" : name;
    const levels = [callers, callees].map((list) => Math.ceil(list.length / 4));
    const top = levels[0] * 62, height = top + 44 + levels[1] * 62 + 12;
    const root = svg("svg", { class: "graph", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Callers and called functions" });
    const middle = { x: width / 2, y: top + 4 };
    const node = (x, y, i, small, kind) => {
      const group = svg("g", { transform: `translate(${x - box / 2},${y})`, class: kind, ...(kind === "middle" ? {} : { tabindex: 0, role: "button", "data-function": i, "aria-label": `${v.functions[i][NAME]}, ${small}` }) });
      group.append(svg("title", {}, v.functions[i][NAME]), svg("rect", { width: box, height: tall, rx: 4 }),
        svg("text", { x: box / 2, y: 16, "text-anchor": "middle" }, short(v.functions[i][NAME])),
        svg("text", { x: box / 2, y: 30, "text-anchor": "middle", class: "small" }, small));
      if (kind !== "middle") {
        group.addEventListener("click", () => select(i));
        group.addEventListener("keydown", (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); select(i); $("detail").focus(); } });
      }
      return group;
    };
    const place = (list, above) => list.map((e, n) => {
      const row = Math.floor(n / 4), inRow = Math.min(4, list.length - row * 4);
      const x = width / 2 + (n % 4 - (inRow - 1) / 2) * (box + 10);
      const y = above ? top - 58 - row * 62 : top + 66 + row * 62;
      const from = above ? [x, y + tall] : [middle.x, middle.y + tall], to = above ? [middle.x, middle.y] : [x, y];
      const bend = (from[1] + to[1]) / 2;
      const line = svg("path", e.f === index ? { d: "" } : { d: `M${from[0]} ${from[1]} C${from[0]} ${bend} ${to[0]} ${bend} ${to[0]} ${to[1]}`, "stroke-width": (0.8 + 8 * Math.min(1, e.cost / total)).toFixed(2) });
      return [line, node(x, y, e.f, e.f === index ? `itself · ${number(e.calls)}×` : `${percent(e.cost, total)} · ${number(e.calls)}×`, above ? "caller" : "callee")];
    });
    const placed = [...place(callers, true), ...place(callees, false)];
    root.append(...placed.map((p) => p[0]), ...placed.map((p) => p[1]));
    const f = v.functions[index];
    root.append(node(middle.x, middle.y, index, `self ${percent(f[SELF][state.event], total)} · incl. ${percent(f[INCLUSIVE][state.event], total)}`, "middle"));
    return root;
  }

  // ---- Flame graph
  let flames = null;
  function build(v) {
    const children = v.nodes.map(() => []), roots = [], inclusive = v.nodes.map((n) => n[2].slice());
    for (let i = v.nodes.length - 1; i >= 0; i--) {
      const parent = v.nodes[i][0];
      if (parent === null) roots.push(i); else {
        children[parent].push(i);
        for (let e = 0; e < inclusive[i].length; e++) inclusive[parent][e] += inclusive[i][e];
      }
    }
    return { v, children, roots, inclusive };
  }
  // Inclusive cost of each path of names, for finding the old cost of a new stack.
  function paths(built, event) {
    const names = new Map(), keys = [];
    built.v.nodes.forEach((n, i) => {
      const key = (n[0] === null ? "" : keys[n[0]]) + ";" + built.v.frames[n[1]];
      keys.push(key);
      names.set(key, (names.get(key) || 0) + built.inclusive[i][event]);
    });
    return { names, keys };
  }
  const hash = (text) => { let h = 0; for (const c of text) h = (h * 31 + c.codePointAt(0)) >>> 0; return h; };
  function colour(name, change, scale) {
    if (change === null) { const h = hash(name); return `hsl(${18 + h % 34}, ${72 + h % 20}%, ${62 + (h >> 5) % 12}%)`; }
    const strength = scale === 0 ? 0 : Math.min(1, Math.abs(change) / scale);
    const light = 92 - 34 * strength;
    return change > 0 ? `hsl(6, 80%, ${light}%)` : change < 0 ? `hsl(214, 75%, ${light}%)` : "hsl(0, 0%, 88%)";
  }
  function flame() {
    const v = view(), e = state.event;
    if (!flames || flames.v !== v) { flames = build(v); state.zoom = -1; }
    $("estimate").hidden = !v.estimated;
    const { children, roots, inclusive } = flames;
    const box = $("flames"), width = Math.max(300, box.clientWidth || 1000), tall = 18;
    const before = comparing() ? paths(build(old.view), e) : null, now = before ? paths(flames, e) : null;
    const scale = before ? Math.max(...[...now.names].map(([k, n]) => Math.abs(n - (before.names.get(k) || 0))), 0) : 0;
    const wanted = $("flame-search").value.toLowerCase();
    const nodes = [], total = roots.reduce((sum, r) => sum + Math.max(0, inclusive[r][e]), 0);
    let matched = 0;
    const zoomed = state.zoom >= 0 ? inclusive[state.zoom][e] : total;
    const ancestors = new Set();
    for (let p = state.zoom; p !== null && p >= 0; p = v.nodes[p][0]) ancestors.add(p);
    const place = (list, x, w, depth, inside) => {
      const stack = [[list, x, w, depth, inside]];
      while (stack.length) {
        const [items, left, room, level, found] = stack.pop();
        let at = left;
        const whole = items.reduce((sum, i) => sum + Math.max(0, inclusive[i][e]), 0);
        const parent = items.length ? v.nodes[items[0]][0] : null;
        const base = parent === null ? whole : Math.max(whole, inclusive[parent][e]);
        const onPath = items.find((i) => ancestors.has(i));
        for (const i of [...items].sort((a, b) => inclusive[b][e] - inclusive[a][e])) {
          if (onPath !== undefined && i !== onPath) continue;
          const wide = onPath !== undefined ? room : base > 0 ? room * Math.max(0, inclusive[i][e]) / base : 0;
          if (wide < 0.4) continue;
          const name = v.frames[v.nodes[i][1]], hit = wanted !== "" && name.toLowerCase().includes(wanted);
          if (hit && !found && (state.zoom < 0 || !ancestors.has(i) || i === state.zoom)) matched += Math.max(0, inclusive[i][e]);
          nodes.push({ i, x: at, w: wide, level, name, hit, above: ancestors.has(i) && i !== state.zoom });
          if (children[i].length) stack.push([children[i], at, wide, level + 1, found || hit]);
          at += wide;
        }
      }
    };
    place(roots, 0, width, 0, false);
    const levels = nodes.reduce((most, n) => Math.max(most, n.level + 1), 1), height = levels * tall + 4;
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    for (const n of nodes) {
      const cost = inclusive[n.i][e], change = before ? now.names.get(now.keys[n.i]) - (before.names.get(now.keys[n.i]) || 0) : null;
      const text = `${n.name}: ${number(cost)} ${data.events[e]} (${percent(cost, total)})` + (change === null ? "" : `, ${signed(change)}`);
      const group = svg("g", { role: "treeitem", tabindex: -1, "data-node": n.i, "data-level": n.level, "aria-label": text,
        class: (n.hit ? "found " : "") + (n.above ? "above" : "") });
      group.append(svg("title", {}, text), svg("rect", { x: n.x.toFixed(2), y: n.level * tall, width: Math.max(0.4, n.w - 0.6).toFixed(2), height: tall - 1, fill: colour(n.name, change, scale), rx: 1 }));
      const letters = Math.floor((n.w - 6) / 6.4);
      if (letters >= 3) group.append(svg("text", { x: (n.x + 3).toFixed(2), y: n.level * tall + 13 }, n.name.length > letters ? n.name.slice(0, letters - 1) + "…" : n.name));
      group.addEventListener("click", () => zoom(n.i));
      group.addEventListener("mouseenter", () => { $("hover").textContent = text; });
      group.addEventListener("focus", () => { $("hover").textContent = text; });
      group.addEventListener("keydown", flameKey);
      root.append(group);
    }
    box.replaceChildren(root);
    const first = root.querySelector(state.zoom >= 0 ? `g[data-node="${state.zoom}"]` : "g");
    if (first) first.setAttribute("tabindex", 0);
    $("matched").textContent = wanted ? `matched ${percent(matched, zoomed) || "0%"}` : "";
    $("reset").disabled = state.zoom < 0;
  }
  function zoom(node) {
    state.zoom = node;
    flame();
    const group = $("flames").querySelector(`g[data-node="${node}"]`) || $("flames").querySelector("g");
    if (group) group.focus();
  }
  function flameKey(event) {
    const group = event.currentTarget, node = Number(group.dataset.node), all = [...$("flames").querySelectorAll("g")];
    const find = (i) => all.find((g) => Number(g.dataset.node) === i);
    const level = all.filter((g) => g.dataset.level === group.dataset.level)
      .sort((a, b) => a.querySelector("rect").x.baseVal.value - b.querySelector("rect").x.baseVal.value);
    let next = null;
    if (event.key === "ArrowUp") next = find(flames.v.nodes[node][0]);
    else if (event.key === "ArrowDown") next = flames.children[node].map(find).filter(Boolean).sort((a, b) => b.querySelector("rect").width.baseVal.value - a.querySelector("rect").width.baseVal.value)[0];
    else if (event.key === "ArrowRight") next = level[level.indexOf(group) + 1];
    else if (event.key === "ArrowLeft") next = level[level.indexOf(group) - 1];
    else if (event.key === "Enter" || event.key === " ") { event.preventDefault(); zoom(node); return; }
    else if (event.key === "Escape") { zoom(-1); return; }
    else return;
    event.preventDefault();
    if (next) { group.setAttribute("tabindex", -1); next.setAttribute("tabindex", 0); next.focus(); }
  }

  // ---- Source
  function files() {
    const v = view();
    const costs = Object.entries(v.lines).map(([file, lines]) => [file, lines.reduce((sum, l) => sum + l[1][state.event], 0)]);
    costs.sort((a, b) => (b[0] in data.sources) - (a[0] in data.sources) || b[1] - a[1]);
    if (!costs.some(([f]) => f === state.file)) state.file = costs.length ? costs[0][0] : null;
    $("file").replaceChildren(...costs.map(([file, cost]) => element("option", { value: file, selected: file === state.file },
      `${percent(cost, v.total[state.event])} ${file}${file in data.sources ? "" : " (no text)"}`)));
    source();
  }
  function openFile(file) { state.file = file; files(); }
  function source() {
    const v = view(), total = v.total[state.event], body = [];
    const lines = new Map((v.lines[state.file] || []).map((l) => [l[0], l]));
    const text = data.sources[state.file];
    const most = Math.max(1, ...[...lines.values()].map((l) => l[1][state.event]));
    const row = (n, code) => {
      const l = lines.get(n), cost = l ? l[1][state.event] : 0;
      const heat = cost > 0 ? 0.08 + 0.5 * cost / most : 0;
      body.push(element("tr", { "data-line": n },
        element("td", { class: "number", style: `background: rgba(var(--heat), ${heat.toFixed(3)})` }, cost === 0 ? "" : number(cost), " ", element("span", { class: "share" }, cost === 0 ? "" : percent(cost, total))),
        element("td", { class: "line" }, n === 0 ? "?" : String(n)), element("td", { class: "code" }, code)));
      for (const [callee, calls, c] of l ? l[2] : []) {
        body.push(element("tr", { class: "call" }, element("td", { class: "number" }, c[state.event] === 0 ? "" : number(c[state.event]), " ", element("span", { class: "share" }, c[state.event] === 0 ? "" : percent(c[state.event], total))),
          element("td", {}), element("td", { class: "code" }, `→ ${number(calls)}× `,
            element("button", { type: "button", onclick: () => { select(callee); open("functions"); } }, v.functions[callee][NAME]))));
      }
    };
    if (text === undefined) {
      for (const n of [...lines.keys()].sort((a, b) => a - b)) row(n, "");
    } else {
      const code = text.split("\n");
      if (lines.has(0)) row(0, "(unknown line)");
      code.forEach((c, i) => { if (i < code.length - 1 || c !== "") row(i + 1, c); });
      for (const n of lines.keys()) if (n > code.length) row(n, "(behind the end of the file)");
    }
    $("lines").tHead.replaceChildren(element("tr", {}, element("th", { class: "number" }, data.events[state.event]), element("th", {}, "Line"),
      element("th", {}, text === undefined ? "Text not found when the report was made" : state.file || "")));
    $("lines").tBodies[0].replaceChildren(...body);
  }

  // ---- Sections, choices and keys
  const tabs = [...document.querySelectorAll('[role="tab"]')];
  const draw = { summary, functions: () => { table(); detail(); }, flame, source: files };
  let current = "summary";
  function open(id) {
    current = id;
    for (const tab of tabs) {
      const chosen = tab.getAttribute("aria-controls") === id;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      $(tab.getAttribute("aria-controls")).hidden = !chosen;
    }
    draw[id]();
  }
  tabs.forEach((tab, n) => {
    tab.addEventListener("click", () => open(tab.getAttribute("aria-controls")));
    tab.addEventListener("keydown", (e) => {
      const step = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
      if (step) { const next = tabs[(n + step + tabs.length) % tabs.length]; open(next.getAttribute("aria-controls")); next.focus(); }
    });
  });
  document.addEventListener("keydown", (e) => {
    const typing = ["INPUT", "SELECT"].includes(document.activeElement.tagName);
    if (typing && e.key === "Escape") { document.activeElement.blur(); return; }
    if (typing || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key >= "1" && e.key <= "4") { open(tabs[e.key - 1].getAttribute("aria-controls")); tabs[e.key - 1].focus(); }
    if (e.key === "/") { e.preventDefault(); if (current !== "flame") open("functions"); $(current === "flame" ? "flame-search" : "search").focus(); }
    if (e.key === "t") $("theme").click();
  });
  $("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  $("title").textContent = data.title;
  $("event").append(...data.events.map((name, i) => element("option", { value: i }, name)));
  $("event").addEventListener("change", () => { state.event = Number($("event").value); open(current); });
  $("view").append(...data.views.map((v, i) => element("option", { value: i }, v.label)));
  $("view-label").hidden = data.views.length < 2;
  $("view").addEventListener("change", () => { state.view = Number($("view").value); state.selected = null; state.zoom = -1; open(current); });
  $("search").addEventListener("input", () => { state.rows = ROWS; table(); });
  $("more").addEventListener("click", () => { state.rows += ROWS; table(); });
  $("flame-search").addEventListener("input", flame);
  $("reset").addEventListener("click", () => zoom(-1));
  $("file").addEventListener("change", () => { state.file = $("file").value; source(); });
  addEventListener("resize", () => { if (current === "flame") flame(); });
  open("summary");
})();
