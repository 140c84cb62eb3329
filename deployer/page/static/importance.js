// How important each parameter is for the metric, and its correlation with it.
import { loadImportance } from "./data.js";
import { el, plural } from "./parts.js";

const PATIENCE = 1000; // milliseconds

export class Importance {
  constructor(address) {
    this.address = address;
    this.body = el("div", { class: "importance" }, el("p", { class: "muted" }, "computing …"));
    this.element = el("div", { class: "card" }, el("h2", {}, "Parameter importance"), this.body);
  }

  /** Ask again when more runs have ended: it takes the server a while. */
  async update(data) {
    this.element.hidden = !data.metric;
    const shape = JSON.stringify([data.metric, data.progress.finished]);
    if (shape === this.shape || !data.metric) return;
    const first = !this.shape;
    this.shape = shape;
    if (first) await new Promise((done) => setTimeout(done, PATIENCE)); // what can be seen at once comes first
    try {
      this.#draw(await loadImportance(this.address, data.metric));
    } catch (error) {
      this.body.replaceChildren(el("p", { class: "muted" }, error.message));
    }
  }

  #draw(found) {
    if (!found || found.missing) {
      this.body.replaceChildren(el("p", { class: "muted" }, found?.missing ?? "not in this file"));
      return;
    }
    if (!found.parameters.length) {
      this.body.replaceChildren(el("p", {}, found.sentence));
      return;
    }
    const most = Math.max(0.01, ...found.parameters.map(({ importance }) => importance));
    const rows = found.parameters.map((one) => el("tr", {},
      el("th", { scope: "row", title: one.name }, el("span", {}, one.name)), el("td", { class: "bar-cell" }, bar(one.importance / most)),
      el("td", { class: "number" }, one.importance.toFixed(2)),
      el("td", { class: "number" }, one.correlation === null ? "–" : signed(one.correlation))));
    const heads = ["parameter", "importance", "", "correlation"].map((text) => el("th", { scope: "col" }, text));
    this.body.replaceChildren(el("p", {}, found.sentence), el("div", { class: "rows", tabindex: "0", role: "region", "aria-label": "Importance" },
      el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows))),
      el("p", { class: "muted" }, leftOut(found)));
  }
}

const leftOut = ({ runs, stopped_early: stopped, left_out: out, metric }) => [
  plural(runs, "run"),
  stopped && `${stopped} stopped early left out`,
  out && `${out} not finished, or without a finite ${metric}`,
].filter(Boolean).join("; ");
const signed = (value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(2)}`;

function bar(part) {
  const fill = el("span", { class: "fill" });
  fill.style.width = `${100 * part}%`;
  return el("span", { class: "share", "aria-hidden": "true" }, fill);
}
