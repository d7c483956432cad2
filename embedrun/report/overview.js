"use strict";
// All that this script puts on the page is set as text or as a number: names of runs are anybody's.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const COLOURS = 8, DASHES = 4, AT_FIRST = 5;  // rows that are ticked when the page is first opened
  const PAINTED = 100;  // rows before the first paint; the rest comes at once after it
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);

  function make(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name in made) made[name] = value; else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  function drawn(tag, attributes, ...children) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  // ---- numbers as text
  const minus = (text) => text.replace("-", "\u2212");
  const score = (key, value) => value == null ? "–" : minus(value.toFixed(data.keys[key][1]));
  const spread = (own) => own && `${score(own[0], own[1])}${own[2] == null ? "" : ` ± ${score(own[0], own[2])}`}`;

  function duration(seconds) {
    if (seconds == null) return "–";
    const whole = Math.round(seconds), minutes = Math.floor(whole / 60), hours = Math.floor(minutes / 60);
    if (hours) return `${hours.toLocaleString("en")} h ${minutes % 60} min`;
    if (minutes) return `${minutes} min ${whole % 60} s`;
    return seconds < 10 ? `${seconds.toFixed(1)} s` : `${whole} s`;
  }

  function size(bytes) {
    if (bytes == null) return "–";
    const power = Math.min(3, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
    return `${(bytes / 1024 ** power).toFixed(power ? 1 : 0)} ${["B", "KiB", "MiB", "GiB"][power]}`;
  }

  function short(value) {
    if (value === 0) return "0";
    const large = Math.abs(value) >= 1e6 || Math.abs(value) < 1e-3;
    return minus(large ? value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e")
                       : Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 }));
  }

  const mean = (values) => values.length ? values.reduce((sum, one) => sum + one, 0) / values.length : null;
  const known = (values) => values.filter((one) => one != null);

  // ---- rows: each run, and each group of runs that differ in nothing but the seed
  const runs = data.runs.map((run, at) => ({ ...run, at, members: null, before: run.main && [run.main[0], run.main[4]] }));
  const groups = data.groups.map((group, place) => {
    const members = runs.filter((run) => run.group === place);
    const states = new Map();
    for (const run of members) {
      const word = run.state.split(",")[0];
      states.set(word, (states.get(word) || 0) + 1);
    }
    return {
      ...group, members, page: null, error: "", seed: "",
      id: `seeds ${group.id}`,
      state: [...states].map(([word, count]) => `${count} ${word}`).join(", "),
      known: states.size === 1 ? members[0].known : "unknown",
      at: members[members.length - 1].at,
      started: members[members.length - 1].started,
      seconds: mean(known(members.map((run) => run.seconds))),
      memory: known(members.map((run) => run.memory)).reduce((most, one) => Math.max(most, one), 0) || null,
      values: data.columns.map((_, at) => members.every((run) => run.values[at] === members[0].values[at])
        ? members[0].values[at] : "several"),
    };
  });
  const rows = [...groups, ...runs];
  const rowOf = new Map(rows.map((row) => [row.id, row]));
  for (const row of rows) row.gain = row.before && row.before[1] != null ? row.main[1] - row.before[1] : null;
  for (const row of rows) row.group = row.members ? null : groups[row.group] || null;

  const oneKey = new Set(known(runs.map((run) => run.main && run.main[0]))).size === 1;
  const oneDev = new Set(known(runs.map((run) => run.dev && run.dev[0]))).size === 1;
  const keyName = (own) => data.keys[own[0]][0];
  const firstWith = (name) => runs.find((run) => run[name]);

  function scored(cell, text, own, about, alone) {
    cell.append(own ? text : "–");
    if (own && about) cell.append(make("small", { className: "quiet" }, about));
    if (own && !alone) cell.append(make("small", { className: "quiet" }, keyName(own)));
  }

  // name, heading, what it is sorted by, and how a cell is filled; a number is sorted downwards first
  const columns = [
    { name: "run", heading: "run", by: (row) => row.label, fill: named, type: "name" },
    {
      name: "main", number: true, heading: oneKey ? keyName(firstWith("main").main) : "main score",
      by: (row) => row.main && row.main[1],
      fill: (cell, row) => row.members
        ? scored(cell, spread(row.main), row.main, row.main && `mean ± sd, n = ${row.main[3]}`, oneKey)
        : scored(cell, row.main && score(row.main[0], row.main[1]), row.main,
          row.main && row.main[2] != null
            && `${score(row.main[0], row.main[2])} to ${score(row.main[0], row.main[3])}`, oneKey),
    },
    ...data.columns.map((name, at) => ({
      name: `own.${name}`, heading: name, by: (row) => row.values[at], type: "text",
      fill: (cell, row) => { cell.append(row.values[at] || "–"); cell.title = row.values[at]; },
    })),
    { name: "seed", heading: "seed", number: true, by: (row) => row.seed,
      fill: (cell, row) => cell.append(row.members ? String(row.members.length) + " runs" : row.seed || "–") },
    {
      name: "dev", number: true, heading: oneDev ? keyName(firstWith("dev").dev) : "dev score",
      by: (row) => row.dev && row.dev[1],
      fill: (cell, row) => scored(cell, row.dev && (row.members ? spread(row.dev) : score(...row.dev)), row.dev, "", oneDev),
    },
    { name: "before", number: true, heading: "before training", by: (row) => row.before && row.before[1],
      fill: (cell, row) => cell.append(row.before ? score(row.before[0], row.before[1]) : "–") },
    { name: "gain", number: true, heading: "difference", by: (row) => row.gain,
      fill: (cell, row) => cell.append((row.gain > 0 ? "+" : "") + (row.main ? score(row.main[0], row.gain) : "–")) },
    { name: "time", number: true, heading: "time", by: (row) => row.seconds,
      fill: (cell, row) => cell.append(duration(row.seconds)) },
    { name: "memory", number: true, heading: "memory", by: (row) => row.memory,
      fill: (cell, row) => cell.append(size(row.memory)) },
    { name: "state", heading: "state", by: (row) => row.state,
      fill: (cell, row) => {
        cell.append(make("span", { className: `state ${row.known}` }, row.state));
        if (row.error) cell.append(make("small", { className: "error" }, row.error));
      } },
    { name: "started", heading: "started (UTC)", by: (row) => row.at, down: true,
      fill: (cell, row) => cell.append(row.started || "–") },
  ];

  // Lines may end behind a sign inside of a long name.
  function broken(label) {
    return label.split(/(?<=[=./])/).flatMap((part) => [part, make("wbr")]);
  }

  function named(cell, row) {
    if (row.members) {
      row.fold = make("button", { type: "button", className: "fold", id: `fold ${row.id}` }, "▸");
      row.fold.setAttribute("aria-label", `runs of ${row.label}`);
      row.fold.addEventListener("click", () => {
        toggle(view.open, row.id);
        update();
      });
      cell.append(row.fold, ...broken(row.label));
      return;
    }
    cell.append(...row.page ? [make("a", { href: row.page }, ...broken(row.label))] : broken(row.label));
    cell.append(make("small", { className: "quiet" }, row.page ? row.id : `${row.id}, no page of its own yet`));
    if (row.known !== "finished") cell.append(make("small", { className: "phone" }, row.state));
  }

  function toggle(set, one) {
    if (!set.delete(one)) set.add(one);
  }

  // ---- what the reader has chosen, which the address keeps
  const initial = oneKey ? "main" : "started";  // scores of several kinds have no order
  const view = { sort: initial, down: true, filter: "", seeds: true, open: new Set(), ticks: null };

  function read() {
    const told = new URLSearchParams(location.hash.slice(1));
    const sort = told.get("sort");
    view.sort = columns.some((column) => column.name === sort) ? sort : initial;
    view.down = !told.has("sort") || told.get("order") === "down";
    view.filter = told.get("filter") || "";
    view.seeds = told.get("seeds") !== "apart";
    view.open = new Set(told.getAll("open").filter((id) => rowOf.has(id)));
    // A blank keeps the colours of those behind it.
    view.ticks = told.has("tick") ? told.getAll("tick").map((id) => rowOf.has(id) ? id : "") : null;
  }

  function address() {
    const told = new URLSearchParams();
    told.set("sort", view.sort);
    told.set("order", view.down ? "down" : "up");
    if (view.filter) told.set("filter", view.filter);
    if (!view.seeds) told.set("seeds", "apart");
    for (const id of view.open) told.append("open", id);
    for (const id of view.ticks.length ? view.ticks : [""]) told.append("tick", id);
    return `#${told}`;
  }

  function keep(also = {}) {
    history.replaceState(also, "", address());
  }

  function tick(row, on) {
    const at = view.ticks.indexOf(row.id);
    if (on && at < 0) {
      const free = view.ticks.indexOf("");
      if (free < 0) view.ticks.push(row.id); else view.ticks[free] = row.id;
    } else if (!on && at >= 0) {
      view.ticks[at] = "";
      while (view.ticks.length && !view.ticks[view.ticks.length - 1]) view.ticks.pop();
    }
  }

  // ---- the table
  const head = make("tr", {}, make("td", { className: "tick" }));
  const body = byId("table").tBodies[0];
  for (const column of columns) {
    const button = make("button", { type: "button", id: `by ${column.name}` }, column.heading, make("span"));
    column.cell = make("th", { scope: "col", className: column.number ? "number" : column.type || "" }, button);
    button.lastChild.setAttribute("aria-hidden", "true");
    button.addEventListener("click", () => {
      view.down = view.sort === column.name ? !view.down : Boolean(column.number || column.down);
      view.sort = column.name;
      update();
    });
    head.append(column.cell);
  }
  byId("table").tHead.append(head);

  // The line of a row, made when it is first shown: most of several hundred are folded away.
  function line(row) {
    if (row.line) return row.line;
    row.box = make("input", { type: "checkbox", id: `tick ${row.id}`, ariaLabel: `curves of ${row.label}` });
    row.box.addEventListener("change", () => {
      tick(row, row.box.checked);
      update();
    });
    row.line = make("tr", {}, make("td", { className: "tick" }, row.box));
    for (const column of columns) {
      const cell = column.name === "run" ? make("th", { scope: "row" }) : make("td");
      cell.className = column.number ? "number" : column.type || "";
      column.fill(cell, row);
      if (column.name === "main" && row.standing) cell.append(make("small", { className: "best" }, row.standing));
      row.line.append(cell);
    }
    return row.line;
  }

  for (const run of runs) {
    const told = data.columns.map((name, at) => `${name}=${run.values[at]}`);
    const keys = [run.main, run.dev].map((own) => own && keyName(own));
    run.words = [run.label, run.id, run.state, run.error, `seed=${run.seed}`, ...told, ...known(keys)].join(" ").toLowerCase();
  }
  for (const group of groups) {
    group.words = [group.label.toLowerCase(), ...group.members.map((run) => run.words)].join(" ");
  }

  function ordered(some) {
    const { by } = columns.find((column) => column.name === view.sort);
    const keyed = some.map((row) => {
      const key = by(row);
      const number = key === "" || key == null ? NaN : Number(key);
      return { row, key: Number.isNaN(number) ? key : number };
    });
    const absent = (key) => key == null || key === "";
    keyed.sort((one, other) => {
      if (absent(one.key) || absent(other.key)) return absent(one.key) - absent(other.key);  // last, either way
      const less = typeof one.key === "number" && typeof other.key === "number"
        ? one.key - other.key
        : String(one.key).localeCompare(String(other.key), "en", { numeric: true });
      return view.down ? -less : less;
    });
    return keyed.map(({ row }) => row);
  }

  function listed() {
    const words = view.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (row) => words.every((word) => row.words.includes(word));
    const top = view.seeds ? [...groups, ...runs.filter((run) => !run.group)] : runs;
    return ordered(top.filter(fits)).flatMap((row) =>
      row.members && view.open.has(row.id) ? [row, ...ordered(row.members)] : [row]);
  }

  let shown = [], later = 0;

  // Lines that are in their places stay there, and with them the focus.
  function show(wanted) {
    const before = document.activeElement, moved = wanted.some((row, at) => row !== shown[at]);
    clearTimeout(later);
    if (moved || body.rows.length !== wanted.length) {
      // A page that loads itself again goes back to where it was scrolled to, which takes all of its lines.
      const first = body.rows.length || history.state ? wanted.length : PAINTED;
      body.replaceChildren(...wanted.slice(0, first).map(line));
      if (wanted.length > first) {
        later = setTimeout(() => {
          body.append(...wanted.slice(first).map(line));
          dress(wanted);
        });
      }
      if (before !== document.activeElement) before.focus({ preventScroll: true });
    }
    shown = wanted;
    dress(wanted.slice(0, body.rows.length));
  }

  function dress(some) {
    for (const row of some) {
      row.line.className = row.members ? "group" : view.seeds && row.group ? "member" : "";
      row.box.checked = view.ticks.includes(row.id);
      if (row.members) {
        row.fold.textContent = view.open.has(row.id) ? "▾" : "▸";
        row.fold.setAttribute("aria-expanded", view.open.has(row.id));
      }
    }
  }

  function update() {
    const lines = listed();
    if (view.ticks === null) {
      const drawable = (row) => (row.members || [row]).some((run) => run.curves[0] || run.curves[1]);
      view.ticks = lines.filter(drawable).slice(0, AT_FIRST).map((row) => row.id);
    }
    for (const column of columns) {
      const own = column.name === view.sort;
      if (own) column.cell.setAttribute("aria-sort", view.down ? "descending" : "ascending");
      else column.cell.removeAttribute("aria-sort");
      column.cell.firstChild.lastChild.textContent = own ? (view.down ? " ▼" : " ▲") : "";
    }
    show(lines);
    const count = new Set(lines.flatMap((row) => row.members || [row])).size;
    byId("shown").textContent = `${count.toLocaleString("en")} of ${runs.length.toLocaleString("en")} shown`;
    byId("filter").value = view.filter;
    byId("seeds").checked = view.seeds;
    draw();
    keep();
  }

  // ---- curves
  function points(packed) {
    return packed ? data.steps[packed[0]].map((step, at) => [step, packed[1][at]]).filter((one) => one[1] != null) : [];
  }

  // The value at a step, on the straight line between its neighbours; null outside of the curve.
  function valueAt(curve, step) {
    let high = curve.findIndex((one) => one[0] >= step);
    if (high < 0) return null;
    if (curve[high][0] === step) return curve[high][1];
    if (high === 0) return null;
    const [[first, from], [last, to]] = [curve[high - 1], curve[high]];
    return from + (to - from) * (step - first) / (last - first);
  }

  // [step, value, spread] of a run or a group, of the loss (0) or the dev score (1); null where there is none.
  function curve(row, which) {
    if (!row.members) {
      const own = points(row.curves[which]);
      return own.length ? own : null;
    }
    // One run of each seed: as in the numbers, the last that has a score, else the last.
    const bySeed = new Map();
    for (const run of row.members) if (run.main || !bySeed.get(run.seed)?.main) bySeed.set(run.seed, run);
    const members = [...bySeed.values()], dev = members.find((run) => run.dev);
    const all = members.filter((run) => which === 0 || (run.dev && run.dev[0] === dev.dev[0]))
      .map((run) => points(run.curves[which])).filter((own) => own.length);
    if (!all.length) return null;
    const longest = all.reduce((most, own) => own[own.length - 1][0] > most[most.length - 1][0] ? own : most);
    return longest.map(([step]) => {
      const values = known(all.map((own) => valueAt(own, step)));
      const middle = mean(values);
      const sum = values.reduce((total, value) => total + (value - middle) ** 2, 0);
      return [step, middle, values.length > 1 ? Math.sqrt(sum / (values.length - 1)) : null];
    });
  }

  // Round numbers, evenly apart, around all values.
  function levels(low, high) {
    if (high - low <= Math.max(1e-300, 1e-9 * Math.max(Math.abs(low), Math.abs(high)))) {
      const room = Math.abs(low) / 10 || 1;
      [low, high] = [low - room, high + room];
    }
    const raw = (high - low) / 4, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((factor) => power * factor >= raw * 0.999);
    const first = Math.floor(low / step + 1e-9), last = Math.ceil(high / step - 1e-9);
    return Array.from({ length: last - first + 1 }, (_, at) => (first + at) * step);
  }

  function look(slot) {
    return `slot${slot % COLOURS} dash${Math.floor(slot / COLOURS) % DASHES}`;
  }

  function chart(title, about, lines) {
    const ends = lines.flatMap(({ own }) => own.flatMap(([, value, sd]) => [value - (sd || 0), value + (sd || 0)]));
    const steps = lines.flatMap(({ own }) => own.map((one) => one[0]));
    const least = (some) => some.reduce((one, other) => Math.min(one, other));
    const most = (some) => some.reduce((one, other) => Math.max(one, other));
    const ticks = levels(least(ends), most(ends)), low = ticks[0], high = ticks[ticks.length - 1];
    const first = least(steps), last = most(steps);
    const x = (step) => (last > first ? 100 * (step - first) / (last - first) : 50).toFixed(2);
    const y = (value) => (100 - 100 * (value - low) / (high - low)).toFixed(2);
    const way = (some) => some.map(([step, value], at) => `${at ? "L" : "M"}${x(step)} ${y(value)}`).join("");
    const picture = drawn("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label":
      `${title}. ${lines.map(({ row, own }) => `${row.label}: ${short(own[0][1])} at step ${own[0][0]}, `
        + `${short(own[own.length - 1][1])} at step ${own[own.length - 1][0]}`).join("; ")}` });
    for (const level of ticks) picture.append(drawn("path", { class: "grid", d: `M0 ${y(level)}H100` }));
    for (const { own, slot } of lines) {
      const wide = own.filter((one) => one[2] != null);
      if (wide.length > 1) {
        const over = wide.map(([step, value, sd]) => [step, value + sd]);
        const under = wide.map(([step, value, sd]) => [step, value - sd]).reverse();
        picture.append(drawn("path", { class: `band ${look(slot)}`, d: `${way(over)}${way(under).replace("M", "L")}Z` }));
      }
    }
    for (const { row, own, slot } of lines) {
      // A lone point is a segment of no length, which round caps make a dot.
      const line = drawn("path", { class: `line ${look(slot)}`, d: way(own) + (own.length > 1 ? "" : "h0") });
      line.append(drawn("title", {}, row.label));
      picture.append(line);
    }
    const axes = make("div", { className: "axes" }, picture);
    const label = (kind, side, at, text) => {
      const made = make("span", { className: kind }, text);
      made.setAttribute("aria-hidden", "true");
      made.style[side] = `${at}%`;
      axes.append(made);
      return made;
    };
    for (const level of ticks) label("y", "top", y(level), short(level));
    label("x", "left", x(first), `step ${first.toLocaleString("en")}`).style.transform = last > first ? "none" : "";
    if (last > first) label("x", "left", x(last), last.toLocaleString("en")).style.transform = "translateX(-100%)";
    const said = make("small", {}, about);
    axes.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect(), at = (event.clientX - box.left) / box.width;
      const step = Math.round(first + Math.min(1, Math.max(0, at)) * (last - first));
      const near = lines.map(({ row, own }) => ({ row, value: valueAt(own, step) })).filter((one) => one.value != null)
        .map((one) => ({ ...one, far: Math.abs(box.top + box.height * y(one.value) / 100 - event.clientY) }));
      const best = near.sort((one, other) => one.far - other.far)[0];
      said.textContent = best ? `${best.row.label}: ${short(best.value)} at step ${step.toLocaleString("en")}` : about;
    });
    axes.addEventListener("pointerleave", () => { said.textContent = about; });
    return make("figure", { className: "chart" }, make("figcaption", {}, make("span", {}, title), said), axes);
  }

  function draw() {
    const ticked = view.ticks.map((id, slot) => ({ row: rowOf.get(id), slot })).filter(({ row }) => row);
    byId("hint").hidden = ticked.length > 0;
    byId("none").hidden = ticked.length === 0;
    byId("ticked").replaceChildren(...ticked.map(({ row, slot }) => {
      const off = make("button", { type: "button", id: `off ${row.id}`, ariaLabel: `untick ${row.label}` }, "×");
      off.addEventListener("click", () => {
        tick(row, false);
        update();
      });
      const sample = drawn("svg", { viewBox: "0 0 24 6", "aria-hidden": "true" },
        drawn("path", { class: `line ${look(slot)}`, d: "M0 3H24" }));
      return make("li", {}, sample, row.label, off);
    }));
    const series = [["training loss", "terms of other losses have other scales", 0, () => true]];
    const keys = new Set(ticked.flatMap(({ row }) => known((row.members || [row]).map((run) => run.dev && run.dev[0]))));
    for (const key of keys) {
      const has = (row) => (row.members || [row]).some((run) => run.dev && run.dev[0] === key);
      series.push([data.keys[key][0], "", 1, has]);
    }
    byId("charts").replaceChildren(...series.flatMap(([title, about, which, has]) => {
      const lines = ticked.filter(({ row }) => has(row)).map(({ row, slot }) => ({ row, slot, own: curve(row, which) }));
      const found = lines.filter(({ own }) => own);
      const band = found.some(({ row }) => row.members) ? "band: mean ± sd over seeds" : about;
      return found.length ? [chart(title, band, found)] : [];
    }));
  }

  // ---- the page itself
  byId("filter").addEventListener("input", (event) => {
    view.filter = event.target.value;
    update();
  });
  byId("seeds").addEventListener("change", (event) => {
    view.seeds = event.target.checked;
    update();
  });
  byId("none").addEventListener("click", () => {
    view.ticks = [];
    update();
  });
  addEventListener("hashchange", () => {
    read();
    update();
  });
  byId("grouping").hidden = groups.length === 0;
  byId("more").textContent = data.more.length ? `Also different: ${data.more.join(", ")}.` : "";

  const written = new Date(data.written), old = (Date.now() - written) / 1000;
  const watched = data.reload !== null && old < 60 + 5 * data.reload;
  byId("written").textContent = `as of ${data.written.slice(0, 16).replace("T", " ")} UTC`
    + (data.reload === null ? "" : watched ? `, loaded again every ${Math.round(data.reload)} s` : ", no longer rewritten");
  const left = history.state || {};  // read before the first `keep`
  read();
  update();
  if (left.focus && byId(left.focus)) {
    byId(left.focus).focus({ preventScroll: true });
    if (left.focus === "filter") byId("filter").setSelectionRange(left.caret, left.caret);
  }
  byId("box").scrollLeft = left.across || 0;
  if (watched) {
    setTimeout(() => {
      keep({ focus: document.activeElement.id, caret: byId("filter").selectionStart, across: byId("box").scrollLeft });
      location.reload();
    }, 1000 * data.reload);
  }
})();
