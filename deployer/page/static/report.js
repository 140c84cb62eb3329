// What a report has beyond a sweep's page: failures, coverage, the sweep's files.
import { button, definitions, el, saveBlob, section, showTime, state } from "./parts.js";
import { Table } from "./table.js";

const COUNTS = ["expected", "finished", "duplicates", "lost", "failed", "running", "waiting", "healed", "stopped_early", "cancelled"];

export class Report {
  constructor() {
    this.element = el("div", { class: "report" });
  }

  update({ report, coverage }) {
    const text = JSON.stringify([report, coverage]);
    if (!report || text === this.text) return;
    this.text = text;
    this.element.replaceChildren(coverageCard(report, coverage), failures(report), ...report.files.map(file), el("p", { class: "muted" }, madeBy(report)));
  }
}

function coverageCard({ coverage: count, curves }, sentence) {
  const counts = COUNTS.filter((name) => count[name] !== null).map((name) => [name.replace("_", " "), count[name]]);
  const verdict = count.complete ? "Every configuration is finished." : "Not every configuration is finished.";
  return el("section", { class: "card" }, el("h2", {}, "Coverage"), el("p", {}, `${sentence}. ${verdict}`), definitions(Object.fromEntries(counts)),
    el("p", { class: "muted" }, curves));
}

function failures({ failures: rows, causes }) {
  const table = new Table([
    { label: "run", value: (row) => row.run },
    { label: "state", value: (row) => row.state, cell: (row) => state(row.state) },
    { label: "cause", value: (row) => [row.cause, row.said].filter(Boolean).join(": ") },
    { label: "attempts", number: true, value: (row) => row.attempts },
    { label: "parameters", value: (row) => Object.entries(row.parameters).map(([name, value]) => `${name}=${JSON.stringify(value)}`).join("  ") },
  ], { caption: "Runs that failed", empty: "none" });
  table.update(rows.map((row) => ({ ...row, id: row.run })));
  const counted = Object.entries(causes).map(([cause, count]) => `${count} × ${cause}`);
  const said = counted.length ? [el("p", { class: "muted" }, `Attempts that did not finish: ${counted.join(", ")}`)] : [];
  return section("Failures", ...said, table.element);
}

function file({ name, text }) {
  const save = button("Save", () => saveBlob(name, new Blob([text], { type: "text/yaml" })), { class: "quiet" });
  return el("section", {}, el("div", { class: "bar-of-tools" }, el("h2", {}, name), save),
    el("details", { class: "card" }, el("summary", {}, `${text.split("\n").length - 1} lines`), el("pre", {}, text)));
}

const madeBy = ({ made_at: at, version, server, page }) => `Made by deployer ${version} at ${showTime(at)} of ${server}; the live page: ${page}`;
