// Behind chart.js: the table of all runs, and the curves of those that are ticked.
const AT_FIRST = 5;  // rows that are ticked when the page is first opened
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

// ---- numbers as text; a score is { key, digits, value, and, by what it is, low, high, before, sd, n }
const written = (score, value) => value == null ? "–" : minus(value.toFixed(score.digits));
const spread = (score) => `${written(score, score.value)}${score.sd == null ? "" : ` ± ${written(score, score.sd)}`}`;
const known = (values) => values.filter((value) => value != null);
const mean = (values) => values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;

function duration(seconds) {
  if (seconds == null) return "–";
  const whole = Math.round(seconds), minutes = Math.floor(whole / 60), hours = Math.floor(minutes / 60);
  if (hours) return `${counted(hours)} h ${minutes % 60} min`;
  if (minutes) return `${minutes} min ${whole % 60} s`;
  return seconds < 10 ? `${seconds.toFixed(1)} s` : `${whole} s`;
}

function size(bytes) {
  if (bytes == null) return "–";
  const power = Math.min(3, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${(bytes / 1024 ** power).toFixed(power ? 1 : 0)} ${["B", "KiB", "MiB", "GiB"][power]}`;
}

// ---- rows: each run, and each group of runs that differ in nothing but the seed
const runs = data.runs.map((run, order) => ({ ...run, order, members: null }));
const groups = data.groups.map((group, place) => {
  const members = runs.filter((run) => run.group === place), newest = members[members.length - 1];
  const states = new Map();
  for (const { state } of members) states.set(state.split(",")[0], (states.get(state.split(",")[0]) || 0) + 1);
  return {
    ...group, members, page: null, error: "", seed: `${members.length} runs`, id: `seeds ${group.id}`,
    state: [...states].map(([word, count]) => `${count} ${word}`).join(", "),
    known: states.size === 1 ? newest.known : "unknown",
    order: newest.order, started: newest.started,
    seconds: mean(known(members.map((run) => run.seconds))),
    memory: known(members.map((run) => run.memory)).reduce((most, bytes) => Math.max(most, bytes), 0) || null,
    values: data.columns.map((_, at) => new Set(members.map((run) => run.values[at])).size > 1 ? "several" : newest.values[at]),
  };
});
for (const run of runs) run.group = groups[run.group] || null;
const rows = [...groups, ...runs];
const rowOf = new Map(rows.map((row) => [row.id, row]));
for (const row of rows) {
  const main = row.main;
  row.gain = main && main.before != null ? main.value - main.before : null;
  const of = (run) => [run.label, run.id, run.state, run.error, `seed=${run.seed}`, run.main && run.main.key, run.dev && run.dev.key,
    ...data.columns.map((name, at) => `${name}=${run.values[at]}`)];
  row.words = [row.label, ...(row.members || [row]).flatMap(of)].join(" ").toLowerCase();
}

const oneKey = (name) => {
  const keys = new Set(known(runs.map((run) => run[name] && run[name].key)));
  return keys.size === 1 ? [...keys][0] : null;
};

function scored(name, about) {
  return (cell, row) => {
    const score = row[name];
    cell.append(score ? (row.members ? spread(score) : written(score, score.value)) : "–");
    const below = score ? [about(row, score), oneKey(name) ? "" : score.key] : [];
    for (const text of below.filter(Boolean)) cell.append(make("small", { className: "quiet" }, text));
  };
}

// Lines may end behind a sign inside of a long name.
const broken = (label) => label.split(/(?<=[=./])/).flatMap((part) => [part, make("wbr")]);

function named(cell, row) {
  if (row.members) {
    const open = view.open.includes(row.id);
    const fold = make("button", { type: "button", className: "fold", id: `fold ${row.id}`, "aria-expanded": String(open),
      "aria-label": `runs of ${row.label}` }, open ? "▾" : "▸");
    fold.addEventListener("click", () => {
      view.open = open ? view.open.filter((id) => id !== row.id) : [...view.open, row.id];
      update();
      byId(fold.id).focus();
    });
    cell.append(fold, ...broken(row.label));
    return;
  }
  cell.append(...row.page ? [make("a", { href: row.page }, ...broken(row.label))] : broken(row.label));
  cell.append(make("small", { className: "quiet" }, row.page ? row.id : `${row.id}, no page of its own yet`));
}

// name, heading, what it is sorted by, and how a cell is filled; a number is sorted downwards first
const columns = [
  { name: "run", heading: "run", by: (row) => row.label, fill: named, type: "name" },
  { name: "main", number: true, heading: oneKey("main") || "main score", by: (row) => row.main && row.main.value,
    fill: scored("main", (row, score) => row.members ? `mean ± sd, n = ${score.n}`
      : score.low != null && `${written(score, score.low)} to ${written(score, score.high)}`) },
  ...data.columns.map((name, at) => ({ name: `own.${name}`, heading: name, by: (row) => row.values[at], type: "text",
    fill: (cell, row) => { cell.append(row.values[at] || "–"); cell.title = row.values[at]; } })),
  { name: "seed", heading: "seed", number: true, by: (row) => row.seed, fill: (cell, row) => cell.append(row.seed || "–") },
  { name: "dev", number: true, heading: oneKey("dev") || "dev score", by: (row) => row.dev && row.dev.value,
    fill: scored("dev", () => "") },
  { name: "before", number: true, heading: "before training", by: (row) => row.main && row.main.before,
    fill: (cell, row) => cell.append(row.main ? written(row.main, row.main.before) : "–") },
  { name: "gain", number: true, heading: "difference", by: (row) => row.gain,
    fill: (cell, row) => cell.append((row.gain > 0 ? "+" : "") + (row.main ? written(row.main, row.gain) : "–")) },
  { name: "time", number: true, heading: "time", by: (row) => row.seconds, fill: (cell, row) => cell.append(duration(row.seconds)) },
  { name: "memory", number: true, heading: "memory", by: (row) => row.memory, fill: (cell, row) => cell.append(size(row.memory)) },
  { name: "state", heading: "state", by: (row) => row.state,
    fill: (cell, row) => {
      cell.append(make("span", { className: `state ${row.known}` }, row.state));
      if (row.error) cell.append(make("small", { className: "error" }, row.error));
    } },
  { name: "started", heading: "started (UTC)", by: (row) => row.order, down: true, fill: (cell, row) => cell.append(row.started || "–") },
];

// ---- what the reader has chosen, which the address keeps
const view = {};

function read() {
  let kept = {};
  try { kept = JSON.parse(decodeURIComponent(location.hash.slice(1))); } catch { /* typed by hand, or none yet */ }
  // Scores of several kinds have no order.
  Object.assign(view, { sort: oneKey("main") ? "main" : "started", down: true, filter: "", seeds: true, open: [], ticks: null }, kept);
}

// A blank in the ticks keeps the colours of those behind it.
function tick(row, on) {
  const place = view.ticks.indexOf(row.id), free = view.ticks.indexOf("");
  if (!on && place >= 0) view.ticks[place] = "";
  if (on && place < 0) view.ticks[free < 0 ? view.ticks.length : free] = row.id;
}

// ---- the table
const head = make("tr", {}, make("td", { className: "tick" }));
for (const column of columns) {
  const button = make("button", { type: "button", id: `by ${column.name}` }, column.heading, make("span", { "aria-hidden": "true" }));
  column.cell = make("th", { scope: "col", className: column.number ? "number" : column.type || "" }, button);
  button.addEventListener("click", () => {
    view.down = view.sort === column.name ? !view.down : Boolean(column.number || column.down);
    view.sort = column.name;
    update();
  });
  head.append(column.cell);
}
byId("table").tHead.append(head);

function line(row) {
  const box = make("input", { type: "checkbox", id: `tick ${row.id}`, checked: view.ticks.includes(row.id), "aria-label": `curves of ${row.label}` });
  box.addEventListener("change", () => {
    tick(row, box.checked);
    draw();
  });
  const made = make("tr", { className: row.members ? "group" : view.seeds && row.group ? "member" : "" },
    make("td", { className: "tick" }, box));
  for (const column of columns) {
    const cell = column.name === "run" ? make("th", { scope: "row" }) : make("td");
    cell.className = column.number ? "number" : column.type || "";
    column.fill(cell, row);
    if (column.name === "main" && row.standing) cell.append(make("small", { className: "best" }, row.standing));
    made.append(cell);
  }
  return made;
}

function ordered(some) {
  const { by } = columns.find((column) => column.name === view.sort) || columns[0];
  const absent = (key) => key == null || key === "";
  return some.map((row) => [by(row), row]).sort(([a], [b]) => {
    if (absent(a) || absent(b)) return absent(a) - absent(b);  // last, either way
    const less = Number(a) - Number(b) || String(a).localeCompare(String(b), "en", { numeric: true });
    return view.down ? -less : less;
  }).map(([, row]) => row);
}

function update() {
  const words = view.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const top = view.seeds ? [...groups, ...runs.filter((run) => !run.group)] : runs;
  const shown = ordered(top.filter((row) => words.every((word) => row.words.includes(word))))
    .flatMap((row) => row.members && view.open.includes(row.id) ? [row, ...ordered(row.members)] : [row]);
  const drawable = (row) => (row.members || [row]).some((run) => run.curves[0] || run.curves[1]);
  view.ticks ??= shown.filter(drawable).slice(0, AT_FIRST).map((row) => row.id);
  for (const { name, cell } of columns) {
    const sorted = name === view.sort;
    if (sorted) cell.setAttribute("aria-sort", view.down ? "descending" : "ascending"); else cell.removeAttribute("aria-sort");
    cell.firstChild.lastChild.textContent = sorted ? (view.down ? " ▼" : " ▲") : "";
  }
  byId("table").tBodies[0].replaceChildren(...shown.map(line));
  const count = new Set(shown.flatMap((row) => row.members || [row])).size;
  byId("shown").textContent = `${counted(count)} of ${counted(runs.length)} shown`;
  byId("filter").value = view.filter;
  byId("seeds").checked = view.seeds;
  draw();
}

// ---- curves: of a run as they are, of a group the mean and spread of one run of each seed
function curve(row, which, key) {
  const fits = (run) => run.curves[which] && (which === 0 || run.dev.key === key);
  if (!row.members) return fits(row) ? row.curves[which] : null;
  // As in the numbers, the last that has a score, else the last.
  const bySeed = new Map();
  for (const run of row.members) if (run.main || !bySeed.get(run.seed)?.main) bySeed.set(run.seed, run);
  const all = [...bySeed.values()].filter(fits).map((run) => run.curves[which].filter((point) => point[1] != null))
    .filter((points) => points.length);
  const longest = all.sort((a, b) => b[b.length - 1][0] - a[a.length - 1][0])[0];
  return longest ? longest.map(([step]) => {
    const values = known(all.map((points) => valueAt(points, step))), middle = mean(values);
    const sum = values.reduce((total, value) => total + (value - middle) ** 2, 0);
    return [step, middle, values.length > 1 ? Math.sqrt(sum / (values.length - 1)) : null];
  }) : null;
}

function draw() {
  const ticked = view.ticks.map((id, slot) => ({ row: rowOf.get(id), slot })).filter(({ row }) => row);
  byId("hint").hidden = ticked.length > 0;
  byId("none").hidden = ticked.length === 0;
  byId("ticked").replaceChildren(...ticked.map(({ row, slot }) => {
    const off = make("button", { type: "button", "aria-label": `untick ${row.label}` }, "×");
    off.addEventListener("click", () => {
      tick(row, false);
      update();
    });
    return make("li", {}, sample(slot), row.label, off);
  }));
  const keys = new Set(ticked.flatMap(({ row }) => known((row.members || [row]).map((run) => run.dev && run.dev.key))));
  const series = [["training loss", "terms of other losses have other scales", 0], ...[...keys].map((key) => [key, "", 1])];
  byId("charts").replaceChildren(...series.flatMap(([title, about, which]) => {
    const lines = ticked.map(({ row, slot }) => ({ row, slot, name: row.label, points: curve(row, which, title) }))
      .filter(({ points }) => points && points.some((point) => point[1] != null));
    const note = lines.some(({ row }) => row.members) ? "band: mean ± sd over seeds" : about;
    return lines.length ? [chart({ title, note, lines })] : [];
  }));
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(view))}`);
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

const old = (Date.now() - new Date(data.written)) / 1000;
const watched = data.reload !== null && old < 60 + 5 * data.reload;
byId("written").textContent = `as of ${data.written.slice(0, 16).replace("T", " ")} UTC`
  + (data.reload === null ? "" : watched ? `, loaded again every ${Math.round(data.reload)} s` : ", no longer rewritten");
read();
update();
if (watched) {
  setInterval(() => {
    if (document.activeElement !== byId("filter")) location.reload();  // not while somebody types
  }, 1000 * data.reload);
}
