"use strict";
// The one chart of both pages. All that the scripts put on a page is set as text or as a number.
const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 8, DASHES = 4, MOST_DOTS = 30;

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

const minus = (text) => text.replace("-", "\u2212");
const counted = (number) => number.toLocaleString("en");

function short(value) {
  if (value === 0) return "0";
  const odd = Math.abs(value) >= 1e6 || Math.abs(value) < 1e-3;
  return minus(odd ? value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e")
                   : Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 }));
}

// Round numbers, evenly apart, around all values.
function levels(low, high) {
  if (high - low <= Math.max(1e-300, 1e-9 * Math.max(Math.abs(low), Math.abs(high)))) {
    const room = Math.abs(low) / 10 || 1;
    [low, high] = [low - room, high + room];
  }
  const raw = (high - low) / 3, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => power * factor >= raw * 0.999);
  const first = Math.floor(low / step + 1e-9), last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, place) => (first + place) * step);
}

// The value at a step, on the straight line between its neighbours; null outside of the curve.
function valueAt(curve, step) {
  const next = curve.findIndex((point) => point[0] >= step);
  if (next < 0) return null;
  if (curve[next][0] === step) return curve[next][1];
  if (next === 0) return null;
  const [[first, from], [last, to]] = [curve[next - 1], curve[next]];
  return from + (to - from) * (step - first) / (last - first);
}

const look = (slot) => `slot${slot % COLOURS} dash${Math.floor(slot / COLOURS) % DASHES}`;
const sample = (slot) => drawn("svg", { viewBox: "0 0 24 6", "aria-hidden": "true" },
  drawn("path", { class: `line ${look(slot)}`, d: "M0 3H24" }));

// Lines have a name, points [step, value or null, spread or nothing], and may have a slot: their colour and dashes.
function chart({ title, note, lines, shares = false, mark = null }) {
  lines = lines.map((line, place) => ({ slot: place, ...line, known: line.points.filter((point) => point[1] != null) }));
  const all = lines.flatMap(({ known }) => known), steps = all.map(([step]) => step);
  const ends = all.flatMap(([, value, sd]) => [value - (sd || 0), value + (sd || 0)]);
  const least = (numbers) => numbers.reduce((a, b) => Math.min(a, b)), most = (numbers) => numbers.reduce((a, b) => Math.max(a, b));
  const inWords = (value) => shares ? `${(100 * value).toFixed(1).replace(".0", "")} %` : short(value);
  const ticks = shares ? [0, 0.5, 1] : levels(least(ends), most(ends)), low = ticks[0], high = ticks[ticks.length - 1];
  const first = least(steps), last = most(steps);
  const x = (step) => (last > first ? 100 * (step - first) / (last - first) : 50).toFixed(2);
  const y = (value) => (100 - 100 * (value - low) / (high - low)).toFixed(2);
  // An undefined value breaks the line. A segment of no length is a dot, by its round caps.
  const path = (points) => points.map(([step, value], place) => value == null ? ""
    : place && points[place - 1][1] != null ? `L${x(step)} ${y(value)}` : `M${x(step)} ${y(value)}h0`).join("");
  const dots = (points) => points.map(([step, value]) => `M${x(step)} ${y(value)}h0`).join("");
  const words = lines.map(({ name, known }) => {
    const values = known.map((point) => point[1]), [[start, from], [end, to]] = [known[0], known[known.length - 1]];
    return `${name}: ${inWords(from)} at step ${counted(start)}, ${inWords(to)} at step ${counted(end)}; `
      + `lowest ${inWords(least(values))}, highest ${inWords(most(values))}`;
  });
  const picture = drawn("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img",
    "aria-label": `${title}. ${words.join(". ")}` });
  for (const level of ticks) picture.append(drawn("path", { class: "grid", d: `M0 ${y(level)}H100` }));
  for (const { known, slot } of lines) {
    const wide = known.filter((point) => point[2] != null);
    const over = wide.map(([step, value, sd]) => `${x(step)} ${y(value + sd)}`);
    const under = wide.map(([step, value, sd]) => `${x(step)} ${y(value - sd)}`).reverse();
    if (wide.length > 1) picture.append(drawn("path", { class: `band ${look(slot)}`, d: `M${[...over, ...under].join("L")}Z` }));
  }
  for (const { name, points, known, slot } of lines) {
    picture.append(drawn("path", { class: `line ${look(slot)}`, d: path(points) }, drawn("title", {}, name)));
    if (known.length <= MOST_DOTS) picture.append(drawn("path", { class: `dots ${look(slot)}`, d: dots(known) }));
  }
  if (mark) picture.append(drawn("path", { class: "mark", d: dots([mark]) }));
  const axes = make("div", { className: "axes" }, picture);
  const label = (kind, side, place, text) => {
    const made = make("span", { className: kind, "aria-hidden": "true" }, text);
    made.style[side] = `${place}%`;
    axes.append(made);
    return made;
  };
  for (const level of ticks) label("y", "top", y(level), inWords(level));
  label("x", "left", x(first), `step ${counted(first)}`).style.transform = last > first ? "none" : "";
  if (last > first) label("x", "left", x(last), counted(last)).style.transform = "translateX(-100%)";
  const about = make("small", {}, note);
  axes.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect(), share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const step = Math.round(first + share * (last - first));
    const far = (line) => Math.abs(box.top + box.height * y(line.value) / 100 - event.clientY);
    const near = lines.map(({ name, known }) => ({ name, value: valueAt(known, step) })).filter((line) => line.value != null);
    const best = near.sort((a, b) => far(a) - far(b))[0];
    about.textContent = best ? `${best.name}: ${inWords(best.value)} at step ${counted(step)}` : note;
  });
  axes.addEventListener("pointerleave", () => { about.textContent = note; });
  return make("figure", { className: "chart" }, make("figcaption", {}, make("span", {}, title), about), axes);
}

// On the page of a run, each group of charts holds its data.
for (const island of document.querySelectorAll(".charts > script")) {
  for (const one of JSON.parse(island.textContent)) {
    const figure = chart(one);
    if (one.lines.length > 1) {
      figure.append(make("ul", { className: "legend" },
        ...one.lines.map(({ name }, slot) => make("li", {}, sample(slot), name))));
    }
    island.parentNode.append(figure);
  }
}
