// The page of one sweep: what is chosen, filtered or brushed in one place holds in all of them.
import { Agents } from "./agents.js";
import { BestSoFar } from "./best.js";
import { Chart, lineLook } from "./charts.js";
import { Controls } from "./controls.js";
import { CurveTools, MOST_COLOURED, curveOption, endOf, notesOf, whyEmpty } from "./curves.js";
import { hasCurves, isLive, loadCurves } from "./data.js";
import { parseFilter } from "./filter.js";
import { Importance } from "./importance.js";
import { Parallel } from "./parallel.js";
import { button, choose, commandBlock, definitions, el, go, isNumber, link, projectAddress, runAddress, runName, section, select, show, showFuture, showParameter, showTime, state, sweepAddress, wordOf } from "./parts.js";
import { Report } from "./report.js";
import { isBrushed, readBrush, readRuns } from "./runs.js";
import { RunsTable } from "./runs-table.js";
import { ViewState } from "./view-state.js";

const main = document.getElementById("main");
const FILTER_HELP = "words and conditions, all of which hold: adam lr<0.01 opt!=sgd state=killed,failed runtime>2m loss=nan\nor between them, not before one; in quotes what has spaces";
const COUNTS = [["10", "best 10"], ["25", "best 25"], ["100", "best 100"]];

export class Sweep {
  constructor(data, refresh) {
    this.address = sweepAddress(data.entity, data.project, data.id);
    this.view = new ViewState();
    this.view.onChange(() => this.#draw());
    const open = (id) => go(runAddress(data, id));
    this.state = el("span");
    this.facts = el("p", { class: "muted" });
    this.progress = el("div", { class: "progress" });
    this.bestCard = el("div", { class: "card best-run" });
    this.command = el("div");
    this.fixed = el("p", { class: "muted" });
    this.controls = new Controls(this.address, data.title, refresh);
    this.best = new BestSoFar(this.view, open);
    this.parallel = new Parallel(this.view, open);
    this.importance = new Importance(this.address);
    this.agents = new Agents(data);
    this.report = new Report();
    this.#buildCurves(data, open);
    this.#buildFilter();
    this.table = new RunsTable(data, this.view, { onChoose: (ids) => this.view.setList("runs", ids),
      onHover: (id) => this.#highlight(id), lookOf: (id) => this.looks?.get(id) });
    main.replaceChildren(
      el("div", { class: "title" }, el("h1", {}, data.title), this.state, this.controls.element), this.facts, this.progress,
      el("div", { class: "pair" }, this.best.element, this.bestCard), this.command, this.filterBar,
      el("div", { class: "stack" }, this.parallel.element),
      el("div", { class: "pair" }, this.curves.element, this.importance.element),
      el("section", {}, el("div", { class: "bar-of-tools" }, el("h2", {}, "Runs"), ...this.table.tools), this.fixed, this.table.element),
      section("Agents", this.agents.element), this.report.element);
  }

  #buildCurves(data, open) {
    this.tools = new CurveTools(this.view, () => {});
    this.metric = el("select", { "aria-label": "Metric", onchange: () => this.view.set("metric", this.metric.value === data.metric ? "" : this.metric.value) });
    this.howMany = select("How many curves", COUNTS, this.view.get("curves", "10"), (value) => this.view.set("curves", value === "10" ? "" : value));
    this.curves = new Chart({ label: "Curves", height: 340, tools: [this.metric, this.howMany, ...this.tools.elements] });
    this.curves.on("click", (event) => event.seriesId && open(event.seriesId.replace(/ raw$/, "")));
  }

  #buildFilter() {
    this.filter = el("input", { type: "search", placeholder: "/  filter: words, lr<0.01, state=failed", title: FILTER_HELP, "aria-label": "Filter runs", spellcheck: "false",
      oninput: () => this.view.set("q", this.filter.value) });
    this.states = el("div", { class: "chips", role: "group", "aria-label": "Filter by state" });
    addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.target.closest("input, select, textarea")) return;
      event.preventDefault();
      this.filter.focus();
    });
    this.reset = button("Show all", () => { for (const name of ["q", "states", "brush"]) this.view.set(name, ""); }, { class: "quiet" });
    this.unclear = el("p", { class: "error", role: "status" });
    this.filterBar = el("div", { class: "filter", role: "search" }, this.filter, this.states, this.reset, this.unclear);
  }

  update(data) {
    this.data = data;
    this.rows = readRuns(data);
    this.state.replaceChildren(state(data.state));
    const goal = data.metric ? `${data.goal} ${data.metric}` : "no metric";
    const facts = [data.id, data.method, goal, showTime(data.created_at)];
    if (data.report) facts.push(`as of ${showTime(data.report.made_at, "medium")}`);
    if (data.reason) facts.push(`stopped: ${data.reason}`);
    this.facts.textContent = facts.join("  ·  ");
    const leader = findLeader(data, this.rows);
    this.progress.replaceChildren(...drawProgress(data, leader));
    this.controls.update(data);
    this.agents.update(data);
    this.report.update(data);
    this.importance.update(data);
    this.#updateBest(data, leader);
    const metrics = [data.metric, ...data.metrics].filter((name) => name && hasCurves(name));
    [this.firstMetric] = metrics;
    if (JSON.stringify(metrics) !== this.metricsText) {
      this.metricsText = JSON.stringify(metrics);
      this.metric.replaceChildren(...metrics.map((name) => el("option", { value: name }, name)));
    }
    const same = Object.entries(data.fixed).map(([name, value]) => `${name}=${showParameter(value)}`);
    this.fixed.textContent = same.length ? `The same in all: ${same.join("  ")}` : "";
    this.best.update(data, this.rows);
    this.#draw(true);
  }

  calm() {
    this.controls.calm();
  }

  /** Whatever follows from what is chosen. */
  #draw(fresh = false) {
    if (!this.rows) return;
    const { passes, unclear } = parseFilter(this.view.get("q"), this.data, this.rows);
    this.unclear.textContent = unclear.map((said) => `Not understood: ${said}${said.endsWith("?") ? "" : "."}`).join(" ");
    this.filter.setAttribute("aria-invalid", String(unclear.length > 0));
    const [brush, states] = [readBrush(this.view.get("brush")), this.view.list("states")];
    const found = this.rows.filter((row) => passes(row) && (!states.length || states.includes(wordOf(row))));
    const passing = found.filter((row) => isBrushed(row, brush, this.data.axes));
    if (document.activeElement !== this.filter) this.filter.value = this.view.get("q");
    this.reset.hidden = passing.length === this.rows.length;
    this.#drawStates(states);
    this.parallel.update(this.data, found, new Set(passing));
    this.parallel.follow();
    this.best.update(this.data, this.rows);
    this.#chooseCurves(passing, fresh);
    this.table.update(this.data, passing, this.rows.length);
  }

  #drawStates(states) {
    const counted = new Map();
    const names = new Map(this.rows.map((row) => [wordOf(row), row.state]));
    for (const row of this.rows) counted.set(wordOf(row), (counted.get(wordOf(row)) ?? 0) + 1);
    const flip = (name) => this.view.setList("states", states.includes(name) ? states.filter((one) => one !== name) : [...states, name]);
    const text = JSON.stringify([[...counted], states]);
    if (text === this.statesText) return;
    this.statesText = text;
    this.states.replaceChildren(...[...counted].map(([name, count]) => button("", () => flip(name), { class: "quiet", "aria-pressed": states.includes(name) })));
    [...counted].forEach(([word, count], at) => this.states.children[at].append(state(names.get(word), word), ` ${count}`));
  }

  #chooseCurves(passing, fresh) {
    const wished = this.view.get("metric");
    const metric = JSON.parse(this.metricsText).includes(wished) ? wished : this.firstMetric ?? "";
    this.curves.element.hidden = !metric;
    if (!metric) return;
    this.metric.value = metric;
    choose(this.howMany, this.view.get("curves"), "10");
    const chosen = this.view.list("runs");
    const active = passing.filter((row) => row.state === "running").slice(0, 10);
    const count = Number(this.howMany.value);
    const ids = chosen.length ? chosen : [...new Set([...passing.slice(0, count), ...active].map((row) => row.id))];
    const shown = ids.length <= MOST_COLOURED ? ids : [];
    this.looks = new Map(shown.map((id, at) => [id, lineLook(at)]));
    const wanted = JSON.stringify([metric, ids]);
    if (wanted !== this.wanted || fresh) this.#fetchCurves(metric, ids, wanted);
    else this.#drawCurves();
  }

  async #fetchCurves(metric, ids, wanted) {
    this.wanted = wanted;
    try {
      const found = await loadCurves(projectAddress(this.data), metric, ids);
      if (this.wanted !== wanted) return; // another choice was made meanwhile
      this.fetched = new Map(found.map((curve) => [curve.run, curve]));
    } catch (error) {
      this.curves.caption.textContent = error.message;
      return;
    }
    this.#drawCurves();
  }

  #drawCurves() {
    const [metric, ids] = JSON.parse(this.wanted);
    const rows = new Map(this.rows.map((row) => [row.id, row]));
    const lines = ids.filter((id) => this.fetched?.has(id) && rows.has(id)).map((id) => ({ id, name: runName(rows.get(id)),
      curve: this.fetched.get(id), look: this.looks.get(id), best: rows.get(id).rank === 1 && ids.length > MOST_COLOURED, end: endOf(rows.get(id)) }));
    const choices = this.tools.read();
    const short = lines.every(({ curve }) => curve.values.length < 2);
    const legend = [lines.some(({ end }) => end === "stopped early") && "◆ stopped early", lines.some(({ end }) => end?.startsWith("healed")) && "▲ healed"];
    this.curves.caption.textContent = [`${lines.length} of ${this.rows.length} runs`, short && lines.length && "logged once", ...legend].filter(Boolean).join("  ");
    this.curves.note.textContent = notesOf(lines, choices);
    this.curves.update((ink) => curveOption(ink, lines, choices), `${metric} of ${lines.length} runs`, whyEmpty(lines));
  }

  #highlight(id) {
    this.curves.chart?.dispatchAction(id ? { type: "highlight", seriesId: id } : { type: "downplay" });
  }

  #updateBest(data, leader) {
    const text = JSON.stringify([leader && [leader.id, leader.state, leader.value, leader.title], data.command]);
    if (text === this.bestText) return; // a selection in it stays
    this.bestText = text;
    if (!leader) {
      this.bestCard.replaceChildren(el("h2", {}, "Best run"), el("p", { class: "muted" },
        data.metric ? `No run has logged a finite ${data.metric} yet.` : "Without a metric no run is better."));
      return;
    }
    const values = Object.fromEntries(data.columns.map((name, at) => [name, leader.parameters[at]]));
    const soFar = leader.state === "running" ? ", still running" : "";
    this.bestCard.replaceChildren(
      el("h2", {}, "Best run ", link(runAddress(data, leader.id), runName(leader))),
      el("p", { class: "figure" }, show(leader.value), el("span", { class: "muted" }, ` ${data.metric}${soFar}`)),
      definitions({ ...values, ...data.fixed }, showParameter));
    this.command.replaceChildren(...[commandBlock(data.command)].filter(Boolean));
  }
}

/** The best run: one that has finished, or one that is still running and better by now. */
function findLeader(data, rows) {
  const better = (a, b) => (data.goal === "maximize" ? a > b : a < b);
  let leader = data.best && rows.find((row) => row.id === data.best.run);
  for (const row of data.metric ? rows : []) {
    if (row.state === "running" && isNumber(row.value) && (!leader || better(row.value, leader.value))) leader = row;
  }
  return leader;
}

function drawProgress({ progress: count, coverage, warnings, metric, ends_at: end }, leader) {
  const { expected, finished, running, failed, lost } = count;
  const total = Math.max(expected ?? 0, finished + running + failed + lost, 1);
  const bar = el("div", { class: "bar", "aria-hidden": "true" });
  for (const [name, size] of Object.entries({ finished, running, failed, lost })) {
    const part = el("span", { class: name });
    part.style.width = `${(100 * size) / total}%`;
    bar.append(part);
  }
  const words = [coverage];
  if (end && isLive) words.push(showFuture(end));
  if (leader) words.push(`best ${metric} ${show(leader.value)}${leader.state === "running" ? " so far" : ""}`);
  return [bar, el("p", {}, words.join("  ·  ")), ...warnings.map((said) => el("p", { class: "warning" }, said))];
}
