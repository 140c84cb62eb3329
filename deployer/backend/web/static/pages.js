// What each page shows, and how it stays fresh: fetch the address's data, update in place.
import { Artifact, artifactColumns, artifactRows } from "./artifact.js";
import { Chart } from "./chart.js";
import {
  Table, address, commandBlock, definitions, el, filesAddress, link, plural, runAddress, runName, runState, section,
  showBytes, showSeconds, showTime, state, sweepAddress,
} from "./parts.js";
import { Sweep } from "./sweep.js";

const ACTIVE_SECONDS = 2;
const QUIET_SECONDS = 10;
const main = document.getElementById("main");

function drawTrail(data) {
  const parts = [link("/", "deployer")];
  if (data.project) parts.push(link(address(data.entity, data.project), `${data.entity} / ${data.project}`));
  if (data.kind === "run" && data.sweep) {
    parts.push(link(sweepAddress(data.entity, data.project, data.sweep.id), data.sweep.title));
  }
  document.getElementById("trail").replaceChildren(...parts);
  document.title = [data.title ?? data.project ?? "projects", "deployer"].join(" · ");
}

// --- a list of sweeps, on two pages ------------------------------------------------------------

const best = (sweep) => (sweep.best ? sweep.best.value : null);

function sweepTable(data, project) {
  return new Table([
    { label: "sweep", value: (row) => row.title,
      cell: (row) => link(sweepAddress(data.entity, project, row.id), row.title) },
    { label: "id", value: (row) => row.id },
    { label: "state", value: (row) => row.state, cell: (row) => state(row.state) },
    { label: "method", value: (row) => row.method },
    { label: "finished", number: true, value: (row) => row.progress.finished,
      cell: (row) => `${row.progress.finished}${row.progress.expected ? `/${row.progress.expected}` : ""}` },
    { label: "failed", number: true, value: (row) => row.progress.failed },
    { label: "metric", value: (row) => row.metric },
    { label: "best", number: true, value: best },
    { label: "created", value: (row) => row.created_at, cell: (row) => showTime(row.created_at) },
  ], { caption: `Sweeps of ${project}`, even: true });
}

class Home {
  constructor(data) {
    this.tables = new Map();
    main.replaceChildren(el("h1", {}, "Projects"));
    if (!data.projects.length) {
      main.append(el("p", { class: "muted" }, "Nothing here yet. ",
        el("code", {}, "deployer up SWEEP.yaml --replicas 2"), " makes a first sweep."));
    }
  }

  update(data) {
    for (const project of data.projects) {
      if (!this.tables.has(project.name)) this.#add(data, project);
      const { table, note } = this.tables.get(project.name);
      table.update(project.sweeps);
      table.element.hidden = !project.sweeps.length;
      note.textContent = `${plural(project.sweep_count, "sweep")}, ${plural(project.run_count, "run")}`;
    }
    return data.projects.some((project) => project.sweeps.some((sweep) => sweep.progress.running));
  }

  #add(data, project) {
    const table = sweepTable(data, project.name);
    const note = el("span", { class: "muted" });
    const title = el("h2", {}, link(address(data.entity, project.name), project.name), " ", note);
    main.append(el("section", {}, title, table.element));
    this.tables.set(project.name, { table, note });
  }
}

class Project {
  constructor(data) {
    this.sweeps = sweepTable(data, data.project);
    this.runs = new Table([
      { label: "run", value: runName, cell: (row) => link(runAddress(data, row.id), runName(row)) },
      { label: "state", value: (row) => row.state, cell: (row) => state(row.state) },
      { label: "sweep", value: (row) => row.sweep,
        cell: (row) => row.sweep ? link(sweepAddress(data.entity, data.project, row.sweep), row.sweep) : "–" },
      { label: "created", value: (row) => row.created_at, cell: (row) => showTime(row.created_at) },
    ], { caption: "Recent runs", even: true });
    this.artifacts = new Table([...artifactColumns(data),
      { label: "created", value: (row) => row.created_at, cell: (row) => showTime(row.created_at) },
    ], { caption: "Recent artifacts", even: true, empty: "no artifacts" });
    main.replaceChildren(el("h1", {}, data.project),
      section("Sweeps", this.sweeps.element), section("Recent runs", this.runs.element),
      section("Recent artifacts", this.artifacts.element));
  }

  update(data) {
    this.sweeps.update(data.sweeps);
    this.runs.update(data.runs);
    this.artifacts.update(artifactRows(data.artifacts));
    return data.sweeps.some((sweep) => sweep.progress.running);
  }
}

// --- one run -----------------------------------------------------------------------------------

class Run {
  constructor(data) {
    this.state = el("span");
    this.facts = el("p", { class: "muted" });
    this.attempts = el("div");
    this.charts = new Map();
    this.grid = el("div", { class: "charts" });
    this.config = el("div", { class: "card" });
    this.summary = el("div", { class: "card" });
    this.console = el("pre", { class: "card", tabindex: "0" });
    this.files = new Table([
      { label: "file", value: (row) => row.name, cell: (row) => link(filesAddress(runAddress(data, data.id), row.name), row.name) },
      { label: "size", number: true, value: (row) => row.size_bytes, cell: (row) => showBytes(row.size_bytes) },
    ], { caption: "Files", empty: "no files" });
    this.artifacts = new Table([...artifactColumns(data),
      { label: "aliases", value: (row) => row.aliases.join(", ") },
      { label: "the run", value: (row) => row.role },
    ], { caption: "Artifacts", empty: "no artifacts" });
    main.replaceChildren(el("div", { class: "title" }, el("h1", {}, runName(data)), this.state), this.facts,
      this.attempts, this.grid, el("div", { class: "halves" }, this.config, this.summary),
      section("Console", this.console), section("Files", this.files.element),
      section("Artifacts", this.artifacts.element));
  }

  update(data) {
    this.state.replaceChildren(runState(data));
    this.#updateAttempts(data);
    const facts = [showSeconds(data.seconds), data.host, showTime(data.created_at)];
    if (data.exit_code) facts.push(`exit code ${data.exit_code}`);
    this.facts.textContent = facts.filter(Boolean).join("  ·  ");
    for (const { metric, points } of data.curves) this.#updateChart(data, metric, points);
    this.config.replaceChildren(el("h2", {}, "Configuration"), definitions(data.config),
      ...[commandBlock(data.command)].filter(Boolean));
    this.summary.replaceChildren(el("h2", {}, "Summary"), definitions(data.summary));
    this.#updateConsole(data);
    this.files.update(data.files.map((file) => ({ ...file, id: file.name })));
    this.artifacts.update(artifactRows(data.artifacts));
    return data.active;
  }

  #updateChart(data, metric, points) {
    if (!this.charts.has(metric)) {
      const chart = new Chart({ label: metric, height: 200 });
      this.charts.set(metric, chart);
      this.grid.append(chart.element);
    }
    this.charts.get(metric).update([{ id: data.id, name: data.title, points }], { best: data.id });
  }

  /** Drawn anew only for something new: what is folded out stays so. */
  #updateAttempts(data) {
    const text = JSON.stringify(data.attempts);
    if (this.toldAttempts !== text) this.attempts.replaceChildren(...attempts(data));
    this.toldAttempts = text;
  }

  #updateConsole(data) {
    const atEnd = this.console.scrollTop + this.console.clientHeight >= this.console.scrollHeight - 4;
    const colours = /\x1b\[[0-9;?]*[A-Za-z]/g;
    const lines = data.console.map((line) => line.replace(colours, "").replace(/\n$/, ""));
    const text = lines.join("\n") || withoutOutput(data);
    if (this.console.textContent !== text) this.console.textContent = text;
    if (atEnd) this.console.scrollTop = this.console.scrollHeight;
  }
}

/** How attempts ended, where there is more to say than that the first one finished. */
function attempts(data) {
  const told = data.attempts.filter((row) => row.cause && row.cause !== "finished");
  return told.map((row) => {
    const where = row.agent ? ` under ${row.agent}` : "";
    const line = el("p", {}, `Attempt ${row.number}${where}: ${row.words}`);
    // What the last one printed is the console.
    if (!row.output || row === data.attempts.at(-1)) return line;
    return el("details", {}, el("summary", {}, line.textContent), el("pre", { class: "card" }, row.output));
  });
}

/** What a run before `wandb.init` printed is told by its agent's supervisor, if it has one. */
function withoutOutput(data) {
  const last = data.attempts.at(-1);
  if (last?.output !== null || !["never started", "usage error"].includes(last?.cause)) return "nothing printed";
  const path = [data.entity, data.project, data.sweep?.id].join("/");
  return "nothing came here, since the program ended before wandb.init; its agent may have what it printed:\n" +
    `deployer agents logs ${path}`;
}

// --- staying fresh -----------------------------------------------------------------------------

const PAGES = { home: Home, project: Project, sweep: Sweep, run: Run, artifact: Artifact };
const trouble = document.getElementById("trouble");
let page = null;
let tag = "";
let active = true;

async function refresh() {
  const reply = await fetch(`/api/pages${location.pathname}`, { cache: "no-store", headers: { "If-None-Match": tag } });
  if (reply.status === 401) location.reload(); // which asks for the key
  if (reply.status === 304 || reply.status === 401) return;
  if (!reply.ok) throw new Error(await reason(reply));
  const data = await reply.json();
  drawTrail(data);
  page ??= new PAGES[data.kind](data);
  active = page.update(data);
  tag = reply.headers.get("ETag") ?? "";
}

/** What the server says is in the way, such as a full disk. */
async function reason(reply) {
  const body = await reply.json().catch(() => ({}));
  return body.errors?.[0]?.message ?? `the server answered ${reply.status}`;
}

async function keepFresh() {
  try {
    if (!document.hidden || !page) await refresh();
    trouble.textContent = "";
  } catch (error) {
    trouble.textContent = `No news: ${error.message}. Trying again.`;
  }
  setTimeout(keepFresh, 1000 * (active ? ACTIVE_SECONDS : QUIET_SECONDS));
}

document.addEventListener("visibilitychange", () => document.hidden || refresh().catch(() => {}));
keepFresh();
