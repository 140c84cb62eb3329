// The page of one version of an artifact, and artifacts in the tables of other pages.
import { artifactAddress, definitions, download, el, filesAddress, link, plural, runAddress, section, showBytes, showTime } from "./parts.js";
import { Table } from "./table.js";

const main = document.getElementById("main");
const label = (row) => `${row.name}:${row.version}`;

/** Columns that name a version and lead to its page. */
export const artifactColumns = (data) => [
  { label: "artifact", value: label, cell: (row) => link(artifactAddress(data.entity, row), label(row)) },
  { label: "type", value: (row) => row.type },
  { label: "files", number: true, value: (row) => row.file_count },
  { label: "size", number: true, value: (row) => row.size_bytes, cell: (row) => showBytes(row.size_bytes) },
];

/** Rows for a table, which knows them by `id`: a run may have logged a version and used it. */
export const artifactRows = (rows) =>
  rows.map((row) => ({ ...row, id: [row.role, row.project, row.name, row.version].join("/") }));

export class Artifact {
  constructor(data) {
    this.address = artifactAddress(data.entity, data);
    this.facts = el("p", { class: "muted" });
    this.description = el("p");
    this.metadata = el("div", { class: "card" });
    this.files = new Table([
      { label: "file", value: (row) => row.name, cell: (row) => this.#file(row) },
      { label: "size", number: true, value: (row) => row.size_bytes, cell: (row) => showBytes(row.size_bytes) },
    ], { caption: "Files", empty: "no files" });
    this.versions = new Table([
      { label: "version", value: (row) => row.version,
        cell: (row) => link(artifactAddress(data.entity, { ...data, version: row.version }), row.version) },
      { label: "aliases", value: (row) => row.aliases.join(", ") },
      { label: "files", number: true, value: (row) => row.file_count },
      { label: "size", number: true, value: (row) => row.size_bytes, cell: (row) => showBytes(row.size_bytes) },
      { label: "created", value: (row) => row.created_at, cell: (row) => showTime(row.created_at) },
    ], { caption: "Versions", even: true });
    this.runs = new Table([
      { label: "run", value: (row) => row.title,
        cell: (row) => link(runAddress({ ...data, project: row.project }, row.run), row.title) },
      { label: "the run", value: (row) => row.role },
    ], { caption: "Runs", empty: "no runs" });
    main.replaceChildren(el("div", { class: "title" }, el("h1", {}, data.title)), this.facts, this.description,
      section("Files", this.files.element), section("Versions", this.versions.element),
      section("Runs", this.runs.element), section("Metadata", this.metadata));
  }

  /** A reference is only named: its address is a user's text. */
  #file(row) {
    return row.reference ? `${row.name} → ${row.reference}` : download(filesAddress(this.address, row.name), row.name);
  }

  update(data) {
    const facts = [data.type, ...data.aliases, plural(data.file_count, "file"), showBytes(data.size_bytes),
      showTime(data.created_at), data.digest];
    this.facts.textContent = facts.join("  ·  ");
    this.description.textContent = data.description ?? "";
    this.metadata.replaceChildren(definitions(data.metadata));
    this.metadata.parentElement.hidden = !Object.keys(data.metadata).length;
    this.files.update(data.files.map((file) => ({ ...file, id: file.name })));
    this.versions.update(data.versions.map((row) => ({ ...row, id: row.version })));
    this.runs.update(data.runs.map((row) => ({ ...row, run: row.id, id: `${row.role}/${row.project}/${row.id}` })));
  }
}
