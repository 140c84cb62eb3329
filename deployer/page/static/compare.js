// Runs side by side: where their configurations differ, and their curves on top of each other.
import { CurveCard, CurveTools } from "./curves.js";
import { lineLook, lineSample } from "./charts.js";
import { loadCurves } from "./data.js";
import { breakable, button, compareNames, el, link, projectAddress, runAddress, runName, saveCsv, show, showParameter, showSeconds, state, wordOf } from "./parts.js";
import { ViewState } from "./view-state.js";

const main = document.getElementById("main");
const MOST_CHARTS = 40;

export class Compare {
  constructor(data) {
    this.view = new ViewState();
    this.tools = new CurveTools(this.view, () => {});
    this.view.onChange(() => this.#draw());
    this.cards = new Map();
    this.all = el("input", { type: "checkbox", onchange: () => this.view.set("all", this.all.checked ? "1" : "") });
    this.config = el("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Configurations" });
    this.summary = el("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Summaries" });
    this.grid = el("div", { class: "charts" });
    const csv = button("CSV", () => this.#saveCsv(), { class: "quiet" });
    this.missing = el("p", { class: "error", role: "status" });
    main.replaceChildren(el("h1", {}, data.title), this.missing,
      el("div", { class: "bar-of-tools" }, el("h2", {}, "Configuration"), el("label", { class: "tool" }, this.all, " also what is the same"), csv),
      this.config, el("section", {}, el("h2", {}, "Last values"), this.summary),
      el("div", { class: "bar-of-tools" }, el("h2", {}, "Curves"), ...this.tools.elements), this.grid);
  }

  async update(data) {
    const sorted = (rows) => [...rows].sort((a, b) => compareNames(a.name, b.name));
    this.data = { ...data, config: sorted(data.config), summary: sorted(data.summary) };
    this.missing.textContent = data.missing.map((id) => `There is no run ${id} in this project.`).join(" ");
    this.#draw();
    const ids = data.runs.map((run) => run.id);
    for (const metric of data.metrics.slice(0, MOST_CHARTS)) {
      const found = new Map((await loadCurves(projectAddress(data), metric, ids)).map((curve) => [curve.run, curve]));
      if (!this.cards.has(metric)) {
        this.cards.set(metric, new CurveCard(metric, this.tools));
        this.grid.append(this.cards.get(metric).element);
      }
      this.cards.get(metric).update(data.runs.flatMap((run, at) => (found.has(run.id)
        ? [{ id: run.id, name: runName(run), curve: found.get(run.id), look: lineLook(at) }] : [])));
    }
  }

  #draw() {
    this.all.checked = this.view.get("all") === "1";
    this.config.replaceChildren(this.#table(this.data.config, true));
    this.summary.replaceChildren(this.#table(this.data.summary, false));
    this.cards.forEach((card) => card.draw());
  }

  #table(rows, filtered) {
    const shown = rows.filter((row) => !filtered || !row.same || this.all.checked);
    const heads = this.data.runs.map((run, at) => el("th", { scope: "col", class: "number", title: runName(run) }, lineSample(lineLook(at)),
      link(runAddress(this.data, run.id), runName(run)), el("div", {}, state(run.state, wordOf(run)), ` ${showSeconds(run.seconds)}`)));
    const lines = shown.map((row) => el("tr", { class: row.same ? "" : "differs" }, el("th", { scope: "row", title: row.name }, ...breakable(row.name)),
      ...row.values.map((value) => {
        const text = filtered ? showParameter(value ?? undefined) : show(value);
        return el("td", { class: "number", title: typeof value === "number" ? value : text }, text);
      })));
    const none = shown.length ? [] : [el("caption", {}, rows.length ? "no difference" : "nothing here")];
    return el("table", { class: "compare" }, ...none, el("thead", {}, el("tr", {}, el("th"), ...heads)), el("tbody", {}, ...lines));
  }

  #saveCsv() {
    const rows = [...this.data.config, ...this.data.summary].map((row) => [row.name, ...row.values]);
    saveCsv("comparison.csv", ["name", ...this.data.runs.map((run) => run.id)], rows);
  }
}
