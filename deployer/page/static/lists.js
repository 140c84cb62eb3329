// The pages that list: all projects, and one project with its sweeps, runs and artifacts.
import { artifactColumns, artifactRows } from "./artifact.js";
import { el, link, plural, projectAddress, runAddress, runName, section, showSeconds, showTime, state, sweepAddress } from "./parts.js";
import { Table } from "./table.js";

const main = document.getElementById("main");

function sweepTable(entity, project) {
  return new Table([
    { label: "sweep", value: (row) => row.title, cell: (row) => link(sweepAddress(entity, project, row.id), row.title) },
    { label: "state", value: (row) => row.state, cell: (row) => state(row.state) },
    { label: "progress", number: true, wide: true, value: (row) => row.progress.finished, cell: progressCell },
    { label: "metric", value: (row) => row.metric },
    { label: "best", number: true, value: (row) => row.best?.value ?? null },
    { label: "done in", value: (row) => row.ends_at, cell: (row) => (row.ends_at ? showSeconds(Math.max(10, row.ends_at - Date.now() / 1000)) : "–") },
    { label: "method", value: (row) => row.method },
    { label: "id", value: (row) => row.id },
    { label: "created", value: (row) => row.created_at, cell: (row) => showTime(row.created_at) },
  ], { caption: `Sweeps of ${project}`, even: true });
}

function progressCell({ progress: { finished, expected, failed, lost } }) {
  const total = Math.max(expected ?? 0, finished + failed + lost, 1);
  const bar = el("span", { class: "bar small", "aria-hidden": "true" });
  for (const [name, size] of Object.entries({ finished, failed, lost })) {
    const part = el("span", { class: name });
    part.style.width = `${(100 * size) / total}%`;
    bar.append(part);
  }
  const said = `${finished}${expected ? `/${expected}` : ""}${failed ? `, ${failed} failed` : ""}`;
  return el("span", { class: "with-bar" }, said, bar);
}

export class Home {
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
  }

  #add(data, project) {
    const table = sweepTable(data.entity, project.name);
    const note = el("span", { class: "muted" });
    const title = el("h2", {}, link(projectAddress({ ...data, project: project.name }), project.name), " ", note);
    main.append(el("section", {}, title, table.element));
    this.tables.set(project.name, { table, note });
  }
}

export class Project {
  constructor(data) {
    this.sweeps = sweepTable(data.entity, data.project);
    this.runs = new Table([
      { label: "run", value: runName, cell: (row) => link(runAddress(data, row.id), runName(row)) },
      { label: "state", value: (row) => row.state, cell: (row) => state(row.state) },
      { label: "sweep", value: (row) => row.sweep,
        cell: (row) => (row.sweep ? link(sweepAddress(data.entity, data.project, row.sweep), row.sweep) : "–") },
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
  }
}
