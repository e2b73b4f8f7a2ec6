// Shows what /events says, once a second.  Everything that came from a client becomes a text node and nothing else.
"use strict";

const FEW = 10; // rows of a table until more are asked for
const KEPT = 120; // seconds of history
const SILENCE = 10000; // milliseconds without an event after which we try again
const SVG = "http://www.w3.org/2000/svg";

const byId = (id) => document.getElementById(id);

// -- what numbers look like

const NONE = "–";
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });

function count(value) {
  return value === null ? NONE : whole.format(value);
}

function rate(value) {
  return value === null ? NONE : (value < 10 ? tenth : whole).format(value);
}

function size(value) {
  if (value === null) return [NONE, ""];
  const units = ["B", "kB", "MB", "GB", "TB"];
  let step = 0;
  while (value >= 1000 && step < units.length - 1) {
    value /= 1000;
    step += 1;
  }
  return [(step && value < 100 ? tenth : whole).format(value), units[step]];
}

function span(seconds) {
  const all = Math.max(0, Math.floor(seconds));
  if (all < 60) return `${all} s`;
  if (all < 3600) return `${Math.floor(all / 60)} min`;
  if (all < 86400) return `${Math.floor(all / 3600)} h ${Math.floor((all % 3600) / 60)} min`;
  return `${Math.floor(all / 86400)} d ${Math.floor((all % 86400) / 3600)} h`;
}

function many(value, one, more) {
  return `${count(value)} ${value === 1 ? one : more}`;
}

// -- elements

function make(tag, kind, text) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function setClass(element, kind) {
  if (element.className !== kind) element.className = kind;
}

function sparkline() {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS(SVG, "polygon"), document.createElementNS(SVG, "polyline"));
  return svg;
}

function draw(svg, values, kept) {
  const known = values.filter((value) => value !== null);
  const top = Math.max(...known, 1e-9);
  svg.setAttribute("viewBox", `0 0 ${kept - 1} 20`);
  const from = kept - known.length;
  const points = known.map((value, at) => `${from + at},${(19 - (18 * value) / top).toFixed(2)}`);
  svg.lastChild.setAttribute("points", points.join(" "));
  svg.firstChild.setAttribute("points", known.length ? `${from},20 ${points.join(" ")} ${kept - 1},20` : "");
}

// -- what was seen before

const histories = new Map(); // key -> {values, seen}
let turn = 0;

function remember(key, value, kept) {
  let history = histories.get(key);
  if (!history) histories.set(key, (history = { values: [], seen: 0 }));
  if (history.seen !== turn) {
    history.values.push(value);
    if (history.values.length > kept) history.values.shift();
    history.seen = turn;
  }
  return history.values;
}

function forget() {
  for (const [key, history] of histories) if (history.seen < turn - KEPT) histories.delete(key);
}

// A lag that only rises, or stays, wants a look: in half a minute it was never less than in the half before.
function lagKind(key, lag) {
  const values = remember(`lag ${key}`, lag || 0, 60);
  if (!lag) return "number zero";
  const rises = values.length === 60 && Math.min(...values.slice(30)) >= Math.max(...values.slice(0, 30));
  return rises ? "number look" : "number";
}

// The order of a minute, so that rows do not jump from second to second.
function steady({ rows, total }, key) {
  const busy = new Map(rows.map((row) => [row, remember(`topics ${key(row)}`, row.rate, 60).reduce((a, b) => a + b, 0)]));
  return { rows: [...rows].sort((one, other) => busy.get(other) - busy.get(one)), total };
}

// -- figures

const FIGURES = [
  { label: "written", unit: "records/s", value: (s) => s.stored.rate, format: rate, spark: true },
  { label: "commands", unit: "/s", value: (s) => sum(s.listeners, "commands_rate"), format: rate, spark: true },
  { label: "received", unit: "/s", value: (s) => sum(s.listeners, "in_rate"), format: size, spark: true },
  { label: "sent", unit: "/s", value: (s) => sum(s.listeners, "out_rate"), format: size, spark: true },
  { label: "connections", value: (s) => s.sessions.total, format: count, spark: true },
  { label: "group lag", unit: "records", value: (s) => s.stored.lag, format: count, spark: true },
  { label: "kept", unit: "records", value: (s) => s.stored.records, format: count, sub: kept },
  { label: "reactor delay", unit: "ms", value: (s) => s.delay * 1000, format: rate, spark: true },
];

function sum(rows, field) {
  return rows.some((row) => row[field] === null) ? null : rows.reduce((total, row) => total + row[field], 0);
}

function kept(s) {
  return `${size(s.stored.bytes).join(" ")} in ${many(s.stored.topics.total, "topic", "topics")}`;
}

function makeFigure(figure) {
  const box = make("div", "figure");
  figure.number = make("span");
  figure.after = make("span", "unit");
  const value = make("div", "value");
  value.append(figure.number, figure.after);
  box.append(make("div", "label", figure.label), value);
  if (figure.spark) box.append((figure.svg = sparkline()));
  if (figure.sub) box.append((figure.below = make("div", "sub")));
  byId("figures").append(box);
}

function showFigure(figure, snapshot) {
  const value = figure.value(snapshot);
  const said = figure.format(value);
  const [text, unit] = Array.isArray(said) ? said : [said, ""];
  setText(figure.number, text);
  setText(figure.after, value === null ? "" : `${unit}${figure.unit || ""}`);
  if (figure.spark) draw(figure.svg, remember(`figure ${figure.label}`, value, KEPT), KEPT);
  if (figure.below) setText(figure.below, figure.sub(snapshot));
}

// -- tables: a cell is text, or {text, sub, kind, spark}

const place = (row) => (row.namespace === "default" ? "" : `${row.namespace} / `);

const TABLES = {
  topics: {
    heads: ["", "records", "lag", "records/s"],
    asides: [1],
    rows: (s) => steady(s.stored.topics, TABLES.topics.key),
    key: (row) => `${row.namespace}\n${row.name}`,
    cells: (row, key) => [
      { text: place(row) + row.name, sub: `${many(row.partitions, "partition", "partitions")}, ${size(row.bytes).join(" ")}` },
      { text: count(row.records), kind: "number" },
      { text: count(row.lag), kind: lagKind(`topic ${key}`, row.lag) },
      { text: rate(row.rate), kind: row.rate ? "number rate" : "number rate zero", spark: row.rate },
    ],
    which: "busiest",
    none: (s) => {
      const pipe = s.listeners.find((row) => row.dialect === "pipe" && !row.tls && row.address.includes(":"));
      if (!pipe) return ["A topic is made by its first record: publish one with any client."];
      const [, host, port] = /^(.*):(\d+)$/.exec(pipe.address) || ["", "", ""];
      const line = `printf 'V1|1|PRODUCE|orders user1:created\\n' | nc -w 1 ${host.replace(/[[\]]/g, "")} ${port}`;
      return ["A topic is made by its first record. Try:", line];
    },
  },
  groups: {
    heads: ["", "members", "lag"],
    asides: [],
    rows: (s) => s.stored.groups,
    key: (row) => `${row.namespace}\n${row.topic}\n${row.name}`,
    cells: (row, key) => [
      { text: row.name, sub: `reads ${place(row)}${row.topic}, generation ${count(row.generation)}` },
      { text: count(row.members), kind: row.members ? "number" : "number zero" },
      { text: count(row.lag), kind: lagKind(`group ${key}`, row.lag) },
    ],
    which: "furthest behind",
    none: () => ["Consumers that join a group, or commit offsets as one, are shown here with how far they are behind."],
  },
  listeners: {
    heads: ["", "open", "in/s", "out/s", "commands/s"],
    asides: [2, 3],
    rows: (s) => ({ rows: s.listeners, total: s.listeners.length }),
    key: (row) => row.name,
    cells: (row) => [
      { text: row.name, sub: listenerSub(row) },
      { text: count(row.connections), kind: row.connections ? "number" : "number zero" },
      { text: size(row.in_rate).join(" "), kind: row.in_rate ? "number" : "number zero" },
      { text: size(row.out_rate).join(" "), kind: row.out_rate ? "number" : "number zero" },
      { text: rate(row.commands_rate), kind: row.commands_rate ? "number rate" : "number rate zero", spark: row.commands_rate },
    ],
    none: () => ["Nothing listens. Name a listener in the configuration, or none at all to have every dialect."],
  },
  sessions: {
    heads: ["", "running", "open for"],
    asides: [],
    rows: (s) => s.sessions,
    key: (row) => String(row.id),
    cells: (row, key, s) => [
      { text: row.peer, sub: [`session ${row.id}`, row.dialect, row.principal].filter(Boolean).join(", ") },
      { text: count(row.running), kind: row.running ? "number" : "number zero" },
      { text: span((s.at - row.opened) / 1e6), kind: "number" },
    ],
    which: "newest",
    none: (s) => {
      const open = s.listeners.map((row) => `${row.dialect} ${row.address}`);
      return ["Nobody is connected. Clients find us here:", open.join("\n")];
    },
  },
  losses: {
    heads: ["", "times"],
    asides: [],
    rows: (s) => s.losses,
    key: (row) => `${row.from}\n${row.to}\n${row.field}`,
    cells: (row) => [
      { text: `${row.from} → ${row.to}`, sub: row.field },
      { text: count(row.times), kind: "number" },
    ],
    which: "most frequent",
    none: () => ["Every record could be shown whole to everybody who read it."],
  },
  faults: {
    heads: ["", "ago"],
    asides: [],
    rows: (s) => ({ rows: s.faults, total: s.faults.length }),
    headline: "newest first",
    key: (row, at) => `${at}`,
    cells: (row, key, s) => [
      {
        text: row.fault,
        kind: "failed",
        sub: [`${row.kind || "a frame"} of session ${row.session} on ${row.listener}`, row.detail].filter(Boolean).join(": "),
      },
      { text: span((s.at - row.at) / 1e6), kind: "number" },
    ],
    none: () => ["No command has failed."],
  },
};

function listenerSub(row) {
  const said = row.name === row.dialect ? [] : [row.dialect];
  said.push(row.address);
  if (row.tls) said.push("TLS");
  if (row.auth !== "optional") said.push(`auth ${row.auth}`);
  if (row.faults) said.push(many(row.faults, "fault", "faults"));
  if (row.refused) said.push(`${count(row.refused)} refused`);
  if (row.turned_away) said.push(`${count(row.turned_away)} turned away`);
  return said.join(", ");
}

function makeTable(name, table) {
  const section = byId(name);
  table.more = make("span", "more");
  section.firstElementChild.append(table.more);
  table.element = make("table");
  table.body = make("tbody");
  const head = make("tr");
  table.heads.forEach((text, at) => {
    const cell = make("th", [at ? "number" : "", table.asides.includes(at) ? "aside" : ""].join(" ").trim(), text);
    cell.scope = "col";
    head.append(cell);
  });
  const heads = make("thead");
  heads.append(head);
  table.element.append(heads, table.body);
  table.empty = make("div", "none");
  table.button = make("button");
  table.button.type = "button";
  table.button.onclick = () => {
    table.open = !table.open;
    if (last) showTable(name, table, last);
  };
  table.known = new Map();
  section.append(table.element, table.button, table.empty);
}

function showTable(name, table, snapshot) {
  const { rows, total } = table.rows(snapshot);
  const shown = table.open ? rows : rows.slice(0, FEW);
  setText(table.more, headline(table, rows.length, total));
  table.element.hidden = !rows.length;
  table.empty.hidden = rows.length > 0;
  table.button.hidden = rows.length <= FEW;
  setText(table.button, table.open ? "show fewer" : `show all ${count(rows.length)}`);
  if (!rows.length) showNone(table.empty, table.none(snapshot));
  const before = table.known;
  table.known = new Map();
  let next = table.body.firstChild;
  shown.forEach((row, at) => {
    const key = table.key(row, at);
    const element = before.get(key) || makeRow(table);
    before.delete(key);
    table.known.set(key, element);
    showRow(element, table.cells(row, key, snapshot), `${name} ${key}`);
    if (element === next) next = next.nextSibling;
    else table.body.insertBefore(element, next);
  });
  for (const element of before.values()) element.remove();
}

function headline(table, here, total) {
  if (!total) return "";
  if (table.headline) return table.headline;
  return total > here ? `the ${count(here)} ${table.which} of ${count(total)}` : count(total);
}

function showNone(element, [sentence, line]) {
  const text = line ? `${sentence}${line}` : sentence;
  if (element.textContent === text) return;
  element.replaceChildren(sentence);
  if (line) for (const each of line.split("\n")) element.append(make("code", "", each));
}

function makeRow(table) {
  const row = make("tr");
  table.heads.forEach((text, at) => {
    const cell = make("td");
    cell.append(make("span"));
    if (table.asides.includes(at)) cell.classList.add("aside");
    row.append(cell);
  });
  return row;
}

function showRow(element, cells, key) {
  cells.forEach((cell, at) => {
    const shown = element.children[at];
    const kind = cell.kind || "";
    setText(shown.firstChild, cell.text);
    if (at) setClass(shown, shown.classList.contains("aside") ? `${kind} aside` : kind);
    else setClass(shown.firstChild, kind);
    if (cell.sub !== undefined) {
      if (!shown.querySelector(".sub")) shown.append(make("span", "sub"));
      setText(shown.lastChild, cell.sub);
    }
    if (cell.spark !== undefined) {
      if (!shown.querySelector("svg")) shown.append(sparkline());
      draw(shown.lastChild, remember(key, cell.spark, 60), 60);
    }
  });
}

// -- the whole

let last = null;
let version = null;

function show(snapshot) {
  if (version !== null && version !== snapshot.version) location.reload(); // another release has another page
  version = snapshot.version;
  last = snapshot;
  turn += 1;
  for (const figure of FIGURES) showFigure(figure, snapshot);
  for (const [name, table] of Object.entries(TABLES)) showTable(name, table, snapshot);
  forget();
  const up = span((snapshot.at - snapshot.started) / 1e6);
  setText(byId("about"), `version ${snapshot.version}, up ${up}, writes reach ${snapshot.durability}`);
  const problem = snapshot.ready || snapshot.stored.problem;
  byId("problem").hidden = !problem;
  setText(byId("problem"), problem ? `Not all is well: ${problem}.` : "");
  if (!snapshot.ready) showStatus("well", "ready");
  else if (snapshot.ready === "draining") showStatus("look", "draining");
  else showStatus("failed", "not ready");
  setClass(byId("main"), "");
}

function showStatus(kind, text) {
  setClass(byId("status"), `status ${kind}`);
  setText(byId("status"), text);
  document.title = text === "ready" ? "gateway" : `${text}: gateway`;
}

function lost() {
  showStatus("waiting", last ? "reconnecting" : "connecting");
  setClass(byId("main"), last ? "stale" : "");
}

// -- events

let source = null;
let silence = 0;

function connect() {
  disconnect();
  source = new EventSource("events");
  source.onmessage = (event) => {
    listen();
    show(JSON.parse(event.data));
  };
  source.onerror = () => {
    lost();
    if (source && source.readyState === EventSource.CLOSED) listen(2000); // the browser gave up, we do not
  };
  listen();
}

function listen(patience = SILENCE) {
  clearTimeout(silence);
  silence = setTimeout(() => {
    lost();
    connect();
  }, patience);
}

function disconnect() {
  clearTimeout(silence);
  if (source) source.close();
  source = null;
}

FIGURES.forEach(makeFigure);
Object.entries(TABLES).forEach(([name, table]) => makeTable(name, table));
document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect())); // no one looks, no one asks
connect();
