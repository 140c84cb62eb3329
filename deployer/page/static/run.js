// The page of one run: how it went and ended, what it logged, and on which machine and code.
import { artifactColumns, artifactRows } from "./artifact.js";
import { CurveCard, CurveTools } from "./curves.js";
import { Media } from "./media.js";
import {
  button, commandBlock, definitions, download, el, filesAddress, runAddress, runName, runState, section, showBytes,
  showParameter, showSeconds, showTime, sortNames,
} from "./parts.js";
import { Table } from "./table.js";
import { ViewState } from "./view-state.js";

// How attempts end that never came to `wandb.init`.
const EARLY = [
  "never started", "usage error", "no run", "offline", "other project", "own sweep", "missing program",
  "authentication error", "no server",
];
const main = document.getElementById("main");

export class Run {
  constructor(data) {
    this.view = new ViewState();
    this.tools = new CurveTools(this.view, () => {});
    this.view.onChange(() => this.cards.forEach((card) => card.draw()));
    this.cards = new Map();
    this.state = el("span");
    this.facts = el("p", { class: "muted" });
    this.attempts = el("div", { class: "attempts" });
    this.grid = el("div", { class: "charts" });
    this.system = el("div", { class: "charts" });
    this.systemSection = el("section", {}, el("h2", {}, "System"), this.system);
    this.config = el("div", { class: "card" });
    this.summary = el("div", { class: "card" });
    this.environment = el("div", { class: "card" });
    this.patch = el("details", { class: "card" });
    this.console = el("pre", { class: "card", tabindex: "0", "aria-label": "Console" });
    this.media = new Media(runAddress(data, data.id));
    this.#buildTables(data);
    this.csv = el("a", { class: "quiet button", href: `/api/pages${runAddress(data, data.id)}/history`, download: `${data.id}.csv`,
      title: "Save all numbers that were logged as a CSV file" }, "CSV");
    main.replaceChildren(el("div", { class: "title" }, el("h1", {}, runName(data)), this.state), this.facts, this.attempts,
      el("div", { class: "bar-of-tools" }, el("h2", {}, "Metrics"), ...this.tools.elements, this.csv), this.grid,
      el("div", { class: "halves" }, this.config, this.summary), this.media.element, section("Console", this.console),
      this.systemSection, el("section", {}, el("h2", {}, "Machine and code"), this.environment, this.patch),
      section("Files", this.files.element), section("Artifacts", this.artifacts.element));
  }

  #buildTables(data) {
    this.files = new Table([
      { label: "file", value: (row) => row.name, cell: (row) => download(filesAddress(runAddress(data, data.id), row.name), row.name) },
      { label: "size", number: true, value: (row) => row.size_bytes, cell: (row) => showBytes(row.size_bytes) },
    ], { caption: "Files", empty: "no files" });
    this.artifacts = new Table([...artifactColumns(data),
      { label: "aliases", value: (row) => row.aliases.join(", ") },
      { label: "the run", value: (row) => row.role },
    ], { caption: "Artifacts", empty: "no artifacts" });
  }

  update(data) {
    this.data = data;
    this.state.replaceChildren(runState(data));
    this.#updateAttempts(data);
    const facts = [showSeconds(data.seconds), data.host, showTime(data.created_at)];
    if (data.exit_code) facts.push(`exit code ${data.exit_code}`);
    this.facts.textContent = facts.filter(Boolean).join("  ·  ");
    for (const curve of data.curves) this.#updateCard(data, curve, this.grid, "m");
    const system = data.system.filter(({ steps }) => steps.length > 1); // a curve of one sample is none
    for (const curve of system) this.#updateCard(data, curve, this.system, "s");
    this.systemSection.hidden = !system.length;
    this.config.replaceChildren(el("h2", {}, "Configuration"), definitions(sortNames(data.config), showParameter),
      ...[commandBlock(data.command)].filter(Boolean));
    this.summary.replaceChildren(el("h2", {}, "Summary"), definitions(sortNames(data.summary)));
    this.environment.parentElement.hidden = !Object.keys(data.environment).length && !data.patch;
    this.environment.replaceChildren(definitions(data.environment));
    this.#updatePatch(data);
    this.#updateConsole(data);
    this.media.update(data.media);
    this.files.update(data.files.map((file) => ({ ...file, id: file.name })));
    this.artifacts.update(artifactRows(data.artifacts));
  }

  #updateCard(data, curve, grid, kind) {
    const key = `${kind}/${curve.metric}`;
    const tools = kind === "s" ? { read: () => ({ x: "seconds", log: false, weight: 0 }) } : this.tools;
    if (!this.cards.has(key)) {
      const card = new CurveCard(curve.metric, tools, kind === "s" ? 150 : 200);
      this.cards.set(key, card);
      grid.append(card.element);
    }
    const drawn = kind === "s" ? { ...curve, seconds: curve.steps } : curve;
    this.cards.get(key).update([{ id: data.id, name: data.title, curve: drawn, best: true }]);
  }

  #updatePatch({ patch }) {
    this.patch.hidden = !patch;
    if (this.patchText === patch) return;
    this.patchText = patch;
    this.patch.replaceChildren(el("summary", {}, "What differed from the commit"), el("pre", {}, patch));
  }

  /** Drawn anew only for something new: what is folded out stays so. */
  #updateAttempts(data) {
    const text = JSON.stringify(data.attempts);
    if (this.toldAttempts !== text) this.attempts.replaceChildren(...attempts(data));
    this.toldAttempts = text;
  }

  #updateConsole(data) {
    const atEnd = this.console.scrollTop + this.console.clientHeight >= this.console.scrollHeight - 4;
    const ansi = /\x1b\[[0-9;?]*[A-Za-z]/g;
    const lines = data.console.map((line) => line.replace(ansi, "").replace(/\n$/, ""));
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
  if (last?.output !== null || !EARLY.includes(last?.cause)) return "nothing printed";
  const path = [data.entity, data.project, data.sweep?.id].join("/");
  return "nothing came here, since the program ended before wandb.init; its agent may have what it printed:\n" +
    `deployer agents logs ${path}`;
}
