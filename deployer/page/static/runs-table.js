// The table of a sweep's runs: thousands of them, of which only those in sight are elements.
import { lineSample } from "./charts.js";
import { linkTo } from "./data.js";
import { button, compareAddress, el, isNumber, link, plural, runAddress, runName, saveCsv, show, showParameter, showSeconds, state, wordOf } from "./parts.js";
import { marksOf } from "./runs.js";
import { compare } from "./table.js";

const ROW = 29; // pixels
const BEYOND = 12; // rows drawn above and below what is in sight
const SHOWN_METRICS = 4;
const CHOOSE = 46; // pixels of the first column

export class RunsTable {
  constructor(data, view, { onChoose, onHover, lookOf }) {
    Object.assign(this, { data, view, onChoose, onHover, lookOf, rows: [], chosen: new Set() });
    this.head = el("tr");
    this.body = el("tbody");
    this.columnsBox = menu();
    this.compareLink = el("a", { class: "quiet button", hidden: "" }, "Compare");
    this.clear = button("Choose none", () => this.onChoose([]), { class: "quiet", hidden: "" });
    this.count = el("span", { class: "muted", role: "status" });
    this.csv = button("CSV", () => this.#saveCsv(), { class: "quiet", title: "Save the rows and columns shown as a CSV file" });
    this.tools = [this.count, this.compareLink, this.clear, this.columnsBox, this.csv];
    this.colgroup = el("colgroup");
    this.grid = el("table", { class: "runs" }, this.colgroup, el("thead", {}, this.head), this.body);
    this.element = el("div", { class: "table long", tabindex: "0", role: "region", "aria-label": "Runs" }, this.grid);
    this.element.addEventListener("scroll", () => this.#drawRows(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#drawRows()).observe(this.element);
  }

  /** Show the rows that pass, all in the order that the viewer chose. */
  update(data, rows, total) {
    Object.assign(this, { data, all: rows, total, chosen: new Set(this.view.list("runs")) });
    this.columns = columnsOf(data);
    this.shownColumns = this.columns.filter((column) => this.#isShown(column));
    this.#sortRows();
    this.#drawHead();
    this.#drawMenu();
    const chosen = this.chosen.size;
    this.count.textContent = `${rows.length === total ? "" : `${rows.length} of `}${plural(total, "run")}${chosen ? `, ${chosen} chosen` : ""}`;
    this.compareLink.hidden = chosen < 2 || linkTo(compareAddress(data, [])) === null;
    this.compareLink.href = linkTo(compareAddress(data, [...this.chosen])) ?? "#";
    this.clear.hidden = chosen === 0;
    this.grid.setAttribute("aria-rowcount", rows.length + 1);
    this.first = null;
    this.#drawRows();
  }

  #isShown(column) {
    const flipped = this.view.list("columns").includes(column.key);
    return flipped ? column.hidden : !column.hidden;
  }

  #sortRows() {
    const wanted = this.view.get("sort");
    const down = wanted.startsWith("-");
    const column = this.columns.find((one) => one.key === wanted.replace(/^-/, ""));
    const sign = down ? -1 : 1;
    this.rows = column ? [...this.all].sort((a, b) => compare(column.value(a), column.value(b), sign)) : this.all;
    this.sorted = { key: column?.key, down };
  }

  /** First click ascending, second descending, third the ranking again. */
  #sort(column) {
    const { key, down } = this.sorted;
    this.view.set("sort", key !== column.key ? column.key : down ? "" : `-${column.key}`);
  }

  #drawHead() {
    const text = JSON.stringify([this.shownColumns.map((one) => one.key), this.sorted, this.rows.length]);
    if (text === this.headText) return;
    this.headText = text;
    const heads = this.shownColumns.map((column) => {
      const order = this.sorted.key !== column.key ? "none" : this.sorted.down ? "descending" : "ascending";
      return el("th", { class: classOf(column), scope: "col", "aria-sort": order, title: column.label },
        button(column.label, () => this.#sort(column)));
    });
    this.head.replaceChildren(el("th", { scope: "col", class: "choose" }, el("span", { class: "unseen" }, "chosen")), ...heads);
    const sample = this.rows.length > 300 ? this.rows.filter((_, at) => at % Math.ceil(this.rows.length / 300) === 0) : this.rows;
    const widths = this.shownColumns.map((column) => widthOf(column, sample));
    const cols = [CHOOSE, ...widths].map((width) => { const col = el("col"); col.style.width = `${width}px`; return col; });
    this.colgroup.replaceChildren(...cols);
    this.grid.style.minWidth = `${widths.reduce((sum, width) => sum + width, CHOOSE)}px`;
  }

  #drawMenu() {
    const offered = this.columns.filter((column) => column.key !== "run");
    const text = JSON.stringify(offered.map((one) => one.key));
    if (text !== this.menuText) {
      this.menuText = text;
      this.boxes = offered.map(({ key }) => el("input", { type: "checkbox", onchange: () => this.#flip(key) }));
      const labels = offered.map(({ label }, at) => el("label", {}, this.boxes[at], ` ${label}`));
      this.columnsBox.replaceChildren(el("summary", { class: "quiet button" }, "Columns"), el("div", { class: "card" }, ...labels));
    }
    offered.forEach((column, at) => { this.boxes[at].checked = this.#isShown(column); });
  }

  #flip(key) {
    const flipped = new Set(this.view.list("columns"));
    if (!flipped.delete(key)) flipped.add(key);
    this.view.setList("columns", [...flipped]);
  }

  #drawRows() {
    if (!this.columns) return;
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW) - BEYOND);
    const height = this.element.clientHeight || 600;
    const last = Math.min(this.rows.length, first + Math.ceil(height / ROW) + 2 * BEYOND);
    if (first === this.first && last === this.last) return;
    Object.assign(this, { first, last });
    const focused = document.activeElement?.closest?.("tr[data-id]")?.dataset.id;
    const rows = this.rows.slice(first, last).map((row, at) => this.#row(row, first + at));
    this.body.replaceChildren(spacer(first, this.shownColumns.length), ...rows, spacer(this.rows.length - last, this.shownColumns.length));
    if (focused) this.body.querySelector(`tr[data-id="${CSS.escape(focused)}"] input`)?.focus({ preventScroll: true });
  }

  #row(row, at) {
    const box = el("input", { type: "checkbox", "aria-label": `Choose ${row.id}`, onchange: () => this.#choose(row.id) });
    box.checked = this.chosen.has(row.id);
    const cells = this.shownColumns.map((column) => cell(column, row, this.data));
    const made = el("tr", { class: `${row.rank === 1 ? "best" : ""} ${row.state}`, "data-id": row.id, "aria-rowindex": at + 2 },
      el("td", { class: "choose" }, el("label", {}, box, lineSample(this.lookOf(row.id)))), ...cells);
    made.addEventListener("pointerenter", () => this.onHover(row.id));
    made.addEventListener("pointerleave", () => this.onHover(null));
    return made;
  }

  #choose(id) {
    const chosen = new Set(this.chosen);
    if (!chosen.delete(id)) chosen.add(id);
    this.onChoose([...chosen]);
  }

  /** Up and down go from row to row; Enter opens the run, space chooses it. */
  #key(event) {
    const here = event.target.closest?.("tr[data-id]");
    if (!here) return;
    const move = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (move) {
      event.preventDefault();
      here[move]?.querySelector("input")?.focus();
    } else if (event.key === "Enter") here.querySelector("a")?.click();
  }

  /** Save what is shown, in the words of `results -o csv`: each column has a name of its own. */
  #saveCsv() {
    const columns = this.shownColumns.flatMap((one) => one.saved ?? one);
    const labels = columns.map((one) => one.label);
    const prefixes = { "p.": "config.", "m.": "summary." };
    const heads = columns.map(({ key, label }) => labels.indexOf(label) === labels.lastIndexOf(label) ? label : `${prefixes[key?.slice(0, 2)] ?? ""}${label}`);
    saveCsv(`${this.data.id}.csv`, heads, this.rows.map((row) => columns.map((one) => one.value(row))));
  }
}

/** A box that folds out, and away again with Escape or a click beside it. */
function menu() {
  const box = el("details", { class: "menu", onkeydown: (event) => {
    if (event.key !== "Escape" || !box.open) return;
    box.open = false;
    box.querySelector("summary").focus();
  } });
  addEventListener("pointerdown", (event) => { if (!box.contains(event.target)) box.open = false; });
  return box;
}

/** What can be shown of a run; `hidden` ones are shown once they are asked for. */
function columnsOf(data) {
  const hasNull = (label) => data.axes.some(({ name, categories }) => name === label && categories?.includes(null));
  const writer = (label) => (hasNull(label) ? showParameter : (value) => showParameter(value ?? undefined)); // null: not there
  const numeric = (at) => data.runs.every((row) => row[13][at] === null || isNumber(row[13][at]));
  return [
    { key: "rank", label: "rank", number: true, value: (row) => row.rank },
    { key: "run", label: "run", value: runName, cell: (row) => link(runAddress(data, row.id), runName(row)),
      saved: [{ label: "run_id", value: (row) => row.id }, { label: "title", value: (row) => row.title }] },
    { key: "state", label: "state", value: wordOf, cell: stateCell },
    ...(data.metric ? [{ key: "metric", label: data.metric, number: true, value: (row) => row.value }] : []),
    ...data.columns.map((label, at) => ({ key: `p.${label}`, label, number: numeric(at), value: (row) => row.parameters[at], write: writer(label) })),
    ...data.metrics.map((label, at) => ({ key: `m.${label}`, label, number: true, value: (row) => row.metrics[at], hidden: at >= SHOWN_METRICS })),
    { key: "seconds", label: "runtime", number: true, value: (row) => row.seconds, cell: (row) => showSeconds(row.seconds),
      saved: { label: "duration_seconds", value: (row) => row.seconds } },
    { key: "agent", label: "agent", value: (row) => row.agent },
    { key: "attempt", label: "attempt", number: true, value: (row) => row.attempt, hidden: true,
      saved: { label: "attempts", value: (row) => row.attempt } },
    { key: "exit", label: "exit code", number: true, value: (row) => row.exit_code, hidden: true,
      saved: { label: "exit_code", value: (row) => row.exit_code } },
  ];
}

function stateCell(row) {
  const [shown, marks] = [state(row.state, wordOf(row)), marksOf(row)];
  return marks ? el("span", {}, shown, ` ${marks}`) : shown;
}

function cell(column, row) {
  const value = column.value(row);
  const content = column.cell ? column.cell(row) : (column.write ?? show)(value);
  const title = typeof content === "string" ? String(value ?? "") : content.textContent;
  return el("td", { class: classOf(column), title }, content);
}

const classOf = ({ key, number }) => (key === "run" ? "name" : number ? "number" : "");

function widthOf(column, sample) {
  let longest = column.label.length + 3; // with room for the mark of the order
  for (const row of sample) {
    const content = column.cell ? column.cell(row) : (column.write ?? show)(column.value(row));
    longest = Math.max(longest, typeof content === "string" ? content.length : content.textContent.length + 2);
  }
  return Math.round(Math.min(column.key === "state" ? 20 : 30, Math.max(5, longest)) * 9 + 32);
}

function spacer(rows, columns) {
  const cell = el("td", { colspan: columns + 1 });
  cell.style.height = `${rows * ROW}px`;
  return el("tr", { class: "spacer", "aria-hidden": "true", ...(rows ? {} : { hidden: "" }) }, cell);
}
