// The page of one sweep: progress, the metric's curves, the best run, the table of runs.
import { Chart } from "./chart.js";
import {
  Table, commandBlock, definitions, el, link, runAddress, runName, runState, show, showSeconds, showTime, state,
} from "./parts.js";

const main = document.getElementById("main");

export class Sweep {
  constructor(data) {
    this.state = el("span");
    this.facts = el("p", { class: "muted" });
    this.progress = el("div", { class: "progress" });
    this.bestCard = el("div", { class: "card best-run" });
    this.command = el("div");
    this.fixed = el("p", { class: "muted" });
    this.chart = data.metric ? new Chart({
      label: data.metric, onHover: (id) => this.table?.highlight(id),
      onPick: (id) => location.assign(runAddress(data, id)),
    }) : null;
    this.runs = el("section");
    main.replaceChildren(el("div", { class: "title" }, el("h1", {}, data.title), this.state), this.facts,
      this.progress, el("div", { class: "pair" }, ...[this.chart?.element, this.bestCard].filter(Boolean)),
      this.command, this.runs);
  }

  update(data) {
    this.state.replaceChildren(state(data.state));
    const goal = data.metric ? `${data.goal} ${data.metric}` : "no metric";
    const facts = [data.id, data.method, goal, showTime(data.created_at)];
    if (data.reason) facts.push(`stopped: ${data.reason}`);
    this.facts.textContent = facts.join("  ·  ");
    this.progress.replaceChildren(...progress(data));
    this.#updateBest(data);
    this.#updateChart(data);
    this.#updateTable(data);
    return data.active;
  }

  #updateBest(data) {
    const text = JSON.stringify([data.best, data.command]);
    if (text === this.bestText) return; // a selection in it stays
    this.bestText = text;
    if (!data.best) {
      this.bestCard.replaceChildren(el("h2", {}, "Best run"), el("p", { class: "muted" },
        data.metric ? `No run has finished with a ${data.metric} yet.` : "Without a metric no run is better."));
      return;
    }
    const row = data.runs.find((run) => run.id === data.best.run);
    const values = Object.fromEntries(data.columns.map((name, at) => [name, row.parameters[at]]));
    this.bestCard.replaceChildren(
      el("h2", {}, "Best run ", link(runAddress(data, row.id), runName(row))),
      el("p", { class: "figure" }, show(data.best.value), el("span", { class: "muted" }, ` ${data.metric}`)),
      definitions({ ...values, ...data.fixed }));
    this.command.replaceChildren(...[commandBlock(data.command)].filter(Boolean));
  }

  #updateChart(data) {
    if (!this.chart) return;
    const rows = new Map(data.runs.map((row) => [row.id, row]));
    const named = (id) => ({ id, name: runName(rows.get(id)), rank: rows.get(id).rank });
    const short = data.curves.every((curve) => curve.points.length < 2);
    const settled = data.runs.every((row) => !["pending", "running"].includes(row.state));
    if (short && settled) return this.#updateScatter(data, named);
    const series = data.curves.map((curve) => ({ ...named(curve.run), points: curve.points }));
    const caption = series.length < data.runs.length ? `${series.length} of ${data.runs.length} runs` : "";
    return this.chart.update(series, { best: data.best?.run, caption });
  }

  /** Runs that logged their metric once are points in the order in which they began. */
  #updateScatter(data, named) {
    const usable = data.runs.filter((row) => typeof row.value === "number");
    const series = usable.map((row) => ({ ...named(row.id), points: [[(row.ordinal ?? 0) + 1, row.value]] }));
    this.chart.update(series, { best: data.best?.run, xLabel: "run" });
  }

  #updateTable(data) {
    const shape = JSON.stringify([data.columns, Object.keys(data.fixed)]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.table = runTable(data, (id) => this.chart?.highlight(id), () => this.bestId);
      this.runs.replaceChildren(el("h2", {}, "Runs"), this.fixed, this.table.element);
    }
    this.bestId = data.best?.run;
    const same = Object.entries(data.fixed).map(([name, value]) => `${name}=${show(value)}`);
    this.fixed.textContent = same.length ? `The same in all: ${same.join("  ")}` : "";
    this.table.update(data.runs);
  }
}

function runTable(data, onHover, bestId) {
  const numeric = (at) => data.runs.every((row) => ["number", "object"].includes(typeof row.parameters[at]));
  return new Table([
    { label: "rank", number: true, value: (row) => row.rank },
    { label: "run", value: runName, cell: (row) => link(runAddress(data, row.id), runName(row)) },
    { label: "state", value: (row) => row.state, cell: (row) => runState(row) },
    ...(data.metric ? [{ label: data.metric, number: true, value: (row) => row.value }] : []),
    ...data.columns.map((label, at) => ({ label, number: numeric(at), value: (row) => row.parameters[at] })),
    { label: "runtime", number: true, value: (row) => row.seconds, cell: (row) => showSeconds(row.seconds) },
    { label: "agent", value: (row) => row.agent },
  ], { onHover, mark: (row) => (row.id === bestId() ? "best" : ""), caption: "Runs" });
}

function progress({ progress: count, best: top, metric, runs }) {
  const { expected, finished, running, failed, lost } = count;
  const total = Math.max(expected ?? 0, finished + running + failed + lost, 1);
  const bar = el("div", { class: "bar", "aria-hidden": "true" });
  for (const [name, size] of Object.entries({ finished, running, failed, lost })) {
    const part = el("span", { class: name });
    part.style.width = `${(100 * size) / total}%`;
    bar.append(part);
  }
  const words = [`${finished}${expected ? `/${expected}` : ""} finished`, `${running} running`, `${failed} failed`];
  if (lost) words.push(`${lost} lost`);
  const early = runs.filter((row) => row.stopped_early).length;
  if (early) words.push(`${early} stopped early`);
  if (count.duplicates) words.push(`${count.duplicates} duplicates`);
  if (top) words.push(`best ${metric} ${show(top.value)}`);
  return [bar, el("p", {}, words.join("  ·  "))];
}
