"use strict";
const {points, tables} = JSON.parse(document.getElementById("data").textContent);
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#b8860b"];
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "x", "star", "cross", "hexagon"];
const UNUSED = ["sendChartToCloud", "lasso2d", "select2d", "zoomIn2d", "zoomOut2d", "autoScale2d"];
const CHARTS = ["by-size", "by-ranks", "by-mapping", "surface"];
const element = id => document.getElementById(id);
const unique = list => [...new Set(list)];
const numbers = list => unique(list).sort((a, b) => a - b);
const choice = {};
let solid = false, paper = false;

function sizeText(bytes) {
  for (const [suffix, unit] of [["M", 1 << 20], ["K", 1 << 10]])
    if (bytes && bytes % unit === 0) return bytes / unit + suffix;
  return String(bytes);
}

// -- what is chosen: each list has what the choices before it leave

const LISTS = [
  ["what", "Collective", p => p.what, unique],
  ["mapping", "Mapping", p => p.mapping, unique],
  ["ranks", "Ranks, of times against size", p => p.ranks, numbers],
  ["bytes", "Size, of times against ranks", p => p.bytes, numbers],
  ["name", "Algorithm, of mappings and surface", p => p.name, unique],
];

function choose() {
  const form = element("choice");
  form.textContent = "";
  for (const [key, title, of, sorted] of LISTS) {
    const values = sorted(points.filter(p => key === "what" || p.what === choice.what).map(of));
    if (!values.includes(choice[key]))
      choice[key] = typeof values[0] === "number" ? values[values.length - 1] : values[0];
    const label = document.createElement("label"), select = document.createElement("select");
    values.forEach((value, i) => {
      const text = key === "bytes" ? sizeText(value) : String(value);
      select.add(new Option(text, i, false, value === choice[key]));
    });
    select.onchange = () => { choice[key] = values[select.value]; choose(); draw(); };
    label.append(title, select);
    label.hidden = values.length < 2;
    form.append(label);
  }
}

// -- charts

function look() {
  const css = getComputedStyle(document.documentElement);
  const colour = name => css.getPropertyValue(name).trim();
  return paper ? {fg: "#000", line: "#ccc"} : {fg: colour("--fg"), line: colour("--line")};
}

function axis(title, more) {
  const {fg, line} = look();
  return {title: {text: title, standoff: 4}, color: fg, gridcolor: line, zeroline: false, automargin: true, ...more};
}

function layout(x, y) {
  return {
    font: {color: look().fg, size: 12}, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    modebar: {bgcolor: "rgba(0,0,0,0)", color: look().line, activecolor: look().fg},
    margin: {l: 10, r: 10, t: 34, b: 90},
    legend: {orientation: "h", x: 0, y: 0, yref: "container", yanchor: "bottom"}, xaxis: x, yaxis: y,
  };
}

const names = unique(points.map(p => p.name)), mappings = unique(points.map(p => p.mapping));

function line(list, key, name, index, isDefault) {
  const sorted = [...list].sort((a, b) => a[key] - b[key]);
  return {
    name, mode: "lines+markers", x: sorted.map(p => p[key]), y: sorted.map(p => p.us),
    error_y: {
      type: "data", symmetric: false, thickness: 1,
      array: sorted.map(p => p.high - p.us), arrayminus: sorted.map(p => p.us - p.low),
    },
    line: {color: isDefault ? look().fg : COLOURS[index % 8], width: isDefault ? 3 : 2},
    marker: {symbol: SYMBOLS[index % 8], size: 7},
    text: sorted.map(p => (p.ran ? "ran: " + p.ran + "<br>" : "") + p.launches + " launches"),
    hovertemplate: "%{y:.4g} us<br>%{text}",
  };
}

function links(list, key) {
  const known = [...list].filter(p => p.bound).sort((a, b) => a[key] - b[key]);
  const of = new Map(known.map(p => [p[key], p.bound]));
  return {
    name: "the network allows", mode: "lines", x: [...of.keys()], y: [...of.values()],
    line: {dash: "dash", color: "#888"}, hovertemplate: "%{y:.4g} us",
  };
}

function lines(list, key, of, order, isDefault) {
  const found = unique(list.map(of)).map(name => {
    const mine = list.filter(p => of(p) === name);
    return line(mine, key, name, order.indexOf(name), isDefault && mine[0].base);
  });
  const bound = links(list, key);
  return bound.x.length ? [...found, bound] : found;
}

function show(id, title, traces, shape, worth) {
  const figure = element(id).parentElement;
  figure.hidden = !worth;
  if (!worth) { Plotly.purge(id); return; }
  element(id + "-title").textContent = title;
  Plotly.react(id, traces, shape, {responsive: true, displaylogo: false, modeBarButtonsToRemove: UNUSED});
}

// in milliseconds where all of a chart take that long
function TIME(traces) {
  const least = Math.min(...traces.flatMap(trace => trace.y));
  if (least < 1000) return axis("us", {type: "log", exponentformat: "power"});
  for (const trace of traces) {
    trace.y = trace.y.map(us => us / 1000);
    for (const side of ["array", "arrayminus"])
      if (trace.error_y) trace.error_y[side] = trace.error_y[side].map(us => us / 1000);
    trace.hovertemplate = trace.hovertemplate.replace(" us", " ms");
  }
  return axis("ms", {type: "log", exponentformat: "power"});
}

function sizes(list) {
  const values = numbers(list.map(p => p.bytes));
  const step = Math.ceil(values.length / 8), some = values.filter((_, i) => i % step === 0);
  return axis("bytes", {type: "log", tickvals: some, ticktext: some.map(sizeText)});
}

function draw() {
  const {what, mapping, ranks, bytes, name} = choice;
  const mine = points.filter(p => p.what === what), here = mine.filter(p => p.mapping === mapping);
  const bySize = here.filter(p => p.ranks === ranks && p.bytes > 0);
  const ofSize = lines(bySize, "bytes", p => p.name, names, true);
  show("by-size", `${what}, ${ranks} ranks, ${mapping}: time against size`,
    ofSize, layout(sizes(bySize), TIME(ofSize)),
    numbers(bySize.map(p => p.bytes)).length > 1);
  const byRanks = here.filter(p => p.bytes === bytes);
  const size = bytes ? `${what} of ${sizeText(bytes)} bytes` : what;
  const several = numbers(byRanks.map(p => p.ranks));
  const RANKS = () => axis("ranks", {tickvals: several});
  const ofRanks = lines(byRanks, "ranks", p => p.name, names, true);
  show("by-ranks", `${size}, ${mapping}: time against ranks`,
    ofRanks, layout(RANKS(), TIME(ofRanks)), several.length > 1);
  const byMapping = mine.filter(p => p.bytes === bytes && p.name === name);
  const traces = lines(byMapping, "ranks", p => p.mapping, mappings, false)
    .filter(trace => trace.name !== "the network allows");
  show("by-mapping", `${size}, ${name}: mappings`, traces, layout(RANKS(), TIME(traces)),
    traces.length > 1 && several.length > 1);
  drawSurface(here.filter(p => p.name === name && p.bytes > 0), `${what}, ${name}, ${mapping}`);
}

function drawSurface(list, title) {
  const x = numbers(list.map(p => p.bytes)), y = numbers(list.map(p => p.ranks));
  const at = new Map(list.map(p => [p.ranks + "/" + p.bytes, p.us]));
  const us = y.map(ranks => x.map(bytes => at.get(ranks + "/" + bytes) ?? null));
  const z = us.map(row => row.map(value => value && Math.log10(value)));
  const low = Math.floor(Math.min(...z.flat().filter(v => v !== null)));
  const high = Math.ceil(Math.max(...z.flat().filter(v => v !== null)));
  const ticks = Array.from({length: high - low + 1}, (_, i) => low + i);
  const bar = {tickvals: ticks, ticktext: ticks.map(t => 10 ** t + " us"), thickness: 12};
  const trace = {
    type: solid ? "surface" : "heatmap", x: x.map(sizeText), y: y.map(String), z, colorscale: "Viridis",
    colorbar: bar, customdata: us, hoverongaps: false,
    hovertemplate: "%{x} bytes, %{y} ranks: %{customdata:.4g} us<extra></extra>",
  };
  const flat = layout(axis("bytes", {type: "category"}), axis("ranks", {type: "category"}));
  flat.margin.b = 10;
  if (solid) {
    delete trace.hoverongaps;
    flat.scene = {
      aspectmode: "cube",
      xaxis: axis("bytes", {type: "category"}), yaxis: axis("ranks", {type: "category"}),
      zaxis: axis("log10(us)"),
    };
    delete flat.xaxis;
    delete flat.yaxis;
  }
  Plotly.purge("surface");
  show("surface", title + ": the surface over size and ranks", [trace], flat, x.length > 1 && y.length > 1);
}

// -- tables as files

function save(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function csv(table) {
  const cell = value => {
    const text = value === null ? "" : String(value);
    return /[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  return [table.columns, ...table.rows].map(row => row.map(cell).join(",") + "\r\n").join("");
}

for (const table of tables) {
  const [asCsv, asJson] = element("save-" + table.name).querySelectorAll("button");
  asCsv.onclick = () => save(table.name + ".csv", csv(table), "text/csv");
  asJson.onclick = () => {
    const rows = table.rows.map(row => Object.fromEntries(row.map((v, i) => [table.columns[i], v])));
    save(table.name + ".json", JSON.stringify({title: table.title, note: table.note, rows}, null, 1), "application/json");
  };
}

element("turn").onclick = () => {
  solid = !solid;
  element("turn").textContent = solid ? "Flat" : "3-D";
  draw();
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
addEventListener("beforeprint", () => {
  paper = true;
  draw();
  for (const id of CHARTS)
    if (!element(id).parentElement.hidden) Plotly.relayout(id, {width: 680, height: 380});
});
addEventListener("afterprint", () => { paper = false; draw(); });
choose();
draw();
