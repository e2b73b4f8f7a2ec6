// Shows the document that is in this page.  Texts in it are somebody's bytes: they are set as text, never as HTML.

const VERDICTS = {
  PASS: "as prescribed",
  LENIENT: "accepted, but not the one way to say it",
  INFO: "left out, or of a MAY",
  UNIMPLEMENTED: "it says that it does not know this",
  FAIL: "not as prescribed",
  ERROR: "could not be judged",
};
const packed = Uint8Array.from(atob(document.getElementById("document").textContent), (letter) => letter.charCodeAt(0));
const report = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json();

/** An element with a class, texts or elements inside, and attributes. */
function make(tag, name = "", inside = [], attributes = {}) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...[inside].flat());
  return made;
}

const place = (run) => `${run.dialect}-${run.role}-${run.agent}`.replace(/[^A-Za-z0-9.-]/g, "_");
const total = (run) => run.cases.length;

// -- who was judged

function bar(run) {
  const parts = Object.keys(VERDICTS).filter((verdict) => run.counts[verdict])
    .map((verdict) => make("i", verdict, [], { style: `flex: ${run.counts[verdict]}` }));
  return make("span", "bar", parts, { "aria-hidden": "true" });
}

function cell(run) {
  const failed = (run.counts.FAIL || 0) + (run.counts.ERROR || 0);
  const played = total(run) - (run.counts.INFO || 0);
  const said = `${(run.counts.PASS || 0) + (run.counts.LENIENT || 0)} of ${played}` + (failed ? `, ${failed} failed` : "");
  return make("a", "cell", [bar(run), make("span", failed ? "of verdict FAIL" : "of", said)], { href: `#${place(run)}` });
}

function matrix() {
  const dialects = [...new Set(report.runs.map((run) => run.dialect))];
  const agents = [...new Set(report.runs.map((run) => `${run.role}\n${run.agent}`))];
  const head = make("tr", "", [make("th", "", "judged"), ...dialects.map((name) => make("th", "", name))]);
  const rows = agents.map((key) => {
    const [role, agent] = key.split("\n");
    const cells = dialects.map((dialect) => {
      const run = report.runs.find((each) => each.dialect === dialect && each.role === role && each.agent === agent);
      return make("td", run ? "" : "none", run ? cell(run) : "·");
    });
    return make("tr", "", [make("td", "", [agent, " ", make("span", "sub", role)]), ...cells]);
  });
  return make("table", "", [make("thead", "", head), make("tbody", "", rows)]);
}

// -- one case

/** Hex with the byte marked from which on it is another one. */
function hex(octets, at) {
  const bytes = octets ? octets.split(" ") : [];
  if (at === undefined || at < 0) return make("pre", "hex", octets || "nothing");
  const before = bytes.slice(0, at).join(" ");
  const marked = make("mark", "", bytes[at] || "(end)", { title: `byte ${at}` });
  return make("pre", "hex", [before, before ? " " : "", marked, " ", bytes.slice(at + 1).join(" ")]);
}

function tree(part) {
  const line = [make("b", "", part.name), part.says ? ` ${part.says}` : ""];
  return make("li", "", part.parts ? [...line, make("ul", "tree", part.parts.map(tree))] : line);
}

function frame(shown, worst) {
  const when = `${(shown.at * 1000).toFixed(1)} ms`;
  const who = shown.on === "a" ? shown.what : `${shown.what} (${shown.on})`;
  const wrong = worst && worst.at >= 0 && shown.what === "got" && shown.octets === worst.got;
  const octets = shown.octets ? hex(shown.octets, wrong ? worst.at : -1) : make("span");
  const means = shown.means ? make("ul", "tree", tree(shown.means)) : make("span");
  return make("div", "frame", [make("div", "sub", [who, make("br"), when]), octets, means]);
}

function inside(item) {
  const parts = [make("p", "sub", `Source: ${item.source}` + (item.covers ? `. Covers ${item.covers.join(", ")}.` : ""))];
  if (item.ask) parts.push(make("p", "", `To do: ${item.ask}`));
  const ways = item.ways || [];
  const worst = ways.find((way) => way.verdict === item.verdict && item.verdict !== "PASS");
  if (item.why) {
    const said = [item.why];
    if (worst && worst.step >= 0) said.push(`; step ${worst.step + 1}`);
    if (worst && worst.at >= 0) said.push(`, byte ${worst.at}: ${worst.wanted} was wanted`);
    parts.push(make("p", `why ${item.verdict}`, said));
  }
  if (ways.length) {
    const said = ways.flatMap((way, at) => [
      at ? ", " : "", `${way.way} `, make("span", `verdict ${way.verdict}`, way.verdict),
      way.ending && way.ending !== "open" ? ` (${way.ending})` : "",
    ]);
    parts.push(make("p", "sub", ["Written: ", ...said]));
  }
  if (worst && worst.got && !(item.frames || []).some((shown) => shown.octets === worst.got)) {
    parts.push(make("div", "frame", [make("div", "sub", "judged"), hex(worst.got, worst.at), make("span")]));
  }
  parts.push(...(item.frames || []).map((shown) => frame(shown, worst)));
  return make("div", "inside", parts);
}

function row(run, item) {
  const summary = make("summary", "", [
    make("span", `verdict ${item.verdict}`, item.verdict), make("span", "id", item.id),
    make("span", "level", item.level), make("span", "", item.name),
  ]);
  const made = make("details", "case", summary, { id: `${place(run)}-${item.id}`, "data-verdict": item.verdict });
  made.addEventListener("toggle", () => {
    if (made.open && made.children.length === 1) made.append(inside(item));
  });
  return made;
}

// -- one run

function squares(run, rows) {
  const made = run.cases.map((item, at) => {
    const button = make("button", item.verdict, [], {
      type: "button", title: `${item.id} ${item.verdict}: ${item.name}`, "aria-label": `${item.id} ${item.verdict}`,
    });
    button.addEventListener("click", () => {
      rows[at].hidden = false;
      rows[at].open = true;
      rows[at].scrollIntoView({ block: "start" });
    });
    return button;
  });
  return make("div", "squares", made);
}

function choices(run, rows) {
  const kinds = Object.keys(VERDICTS).filter((verdict) => run.counts[verdict]);
  const buttons = ["all", ...kinds].map((kind) => {
    const count = kind === "all" ? total(run) : run.counts[kind];
    const button = make("button", kind, `${kind} ${count}`, { type: "button", "aria-pressed": String(kind === "all") });
    button.addEventListener("click", () => {
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      for (const each of rows) each.hidden = kind !== "all" && each.dataset.verdict !== kind;
    });
    return button;
  });
  return make("div", "choices", buttons);
}

function coverage(run) {
  const { statements, exercised, missing } = run.coverage;
  if (!statements) return make("span");
  const title = missing.length ? `not exercised: ${missing.join(", ")}` : "all of them";
  return make("span", "sub", `${exercised} of ${statements} statements exercised`, { title });
}

function section(run) {
  const rows = run.cases.map((item) => row(run, item));
  const head = make("div", "", [
    make("h2", "", `${run.dialect}, ${run.role}: ${run.agent}`),
    make("span", "sub", `${run.began.replace("T", " ").replace("Z", " UTC")}, ${run.seconds.toFixed(1)} s`), coverage(run),
  ]);
  return make("div", "run", [head, squares(run, rows), choices(run, rows), ...rows], { id: place(run) });
}

// -- from one dialect to another

function pair(run) {
  const head = make("tr", "", ["field", "verdict", "declared", "written", "read"].map((name) => make("th", "", name)));
  const rows = run.fields.map((at) => make("tr", "", [
    make("td", "", at.field), make("td", `verdict ${at.verdict}`, at.verdict),
    make("td", "", [at.declared, at.how ? make("span", "sub", ` ${at.how}`) : ""]),
    make("td", "id", at.sent || ""), make("td", "id", [at.seen || "", at.why ? make("span", "sub", ` ${at.why}`) : ""]),
  ]));
  const said = make("span", "sub", `${run.began.replace("T", " ").replace("Z", " UTC")}, ${run.seconds.toFixed(1)} s`);
  const table = make("div", "wide", make("table", "", [make("thead", "", head), make("tbody", "", rows)]));
  return make("div", "run", [make("div", "", [make("h2", "", `${run.writer} to ${run.reader}`), said]), table]);
}

const runs = report.runs.length, pairs = report.pairs.length;
document.getElementById("about").textContent =
  [runs && `${runs} runs`, pairs && `${pairs} pairs`, `made by gateway ${report.kit}`].filter(Boolean).join(", ");
if (runs) document.getElementById("matrix").append(matrix());
else document.getElementById("matrix").hidden = true;
document.getElementById("legend").append(
  ...Object.entries(VERDICTS).map(([verdict, says]) => make("span", verdict, [make("b", "", verdict), ` ${says}`])),
);
document.getElementById("runs").append(...report.runs.map(section), ...report.pairs.map(pair));
if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
