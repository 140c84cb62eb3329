// How much of the metric each parameter explains, with its uncertainty and its correlation.
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
    const most = Math.max(0.01, ...found.parameters.map(({ share, deviation }) => share + deviation));
    const rows = found.parameters.map((one) => el("tr", { class: one.told ? "" : "untold" },
      el("th", { scope: "row", title: one.name }, el("span", {}, one.name)), el("td", { class: "bar-cell" }, bar(one, most)),
      el("td", { class: "number" }, `${percent(one.share)} ± ${Math.ceil(100 * one.deviation)} %`),
      el("td", { class: "number" }, one.correlation === null ? "–" : signed(one.correlation))));
    const heads = ["parameter", "explains", "", "correlation"].map((text) => el("th", { scope: "col" }, text));
    this.body.replaceChildren(el("p", {}, found.sentence), el("div", { class: "rows", tabindex: "0", role: "region", "aria-label": "Importance" },
      el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows))),
      el("p", { class: "muted" }, [together(found), "Paler: cannot be told from noise."].join(" ")));
  }
}

const together = ({ runs, left_out: out, metric, explained }) => [
  out ? `${plural(runs, "run")}; ${out} not finished, or without a finite ${metric}.` : `${plural(runs, "run")}.`,
  explained !== null && `Together they explain ${percent(explained)} % of ${metric} in unseen runs; their shares need not add up to that.`,
].filter(Boolean).join(" ");
const percent = (share) => String(Math.round(100 * share)); // as the sentence has them
const signed = (value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(2)}`;

/** A bar with its standard error as a whisker. */
function bar({ share, deviation }, most) {
  const fill = el("span", { class: "fill" });
  fill.style.width = `${(100 * Math.max(0, share)) / most}%`;
  const whisker = el("span", { class: "whisker" });
  whisker.style.left = `${(100 * Math.max(0, share - deviation)) / most}%`;
  whisker.style.width = `${(100 * (share + deviation - Math.max(0, share - deviation))) / most}%`;
  return el("span", { class: "share", "aria-hidden": "true" }, fill, whisker);
}
