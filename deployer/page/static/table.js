// Tables that can be sorted: short ones whole, long ones only where they are in sight.
import { el, isNumber, show } from "./parts.js";

/**
 * A table that can be sorted and is updated in place.
 * A column is { label, value(row), cell?(row), number?, wide? }; `value` sorts and is shown unless `cell`
 * gives something else. Sorting and scrolling stay when new rows come.
 */
export class Table {
  constructor(columns, { onHover = () => {}, mark = () => "", caption, even = false, empty = "" }) {
    Object.assign(this, { columns, onHover, mark, sorted: null, down: false, rows: [] });
    this.known = new Map();
    this.body = el("tbody");
    this.heads = columns.map((column, index) => this.#head(column, index));
    this.empty = el("caption", {}, empty || "nothing yet");
    const head = el("thead", {}, el("tr", {}, ...this.heads));
    this.element = el("div", { class: "table", tabindex: "0", role: "region", "aria-label": caption },
      el("table", { class: even ? "even" : "" }, head, this.body, this.empty));
  }

  #head(column, index) {
    const button = el("button", { type: "button", onclick: () => this.#sort(index) }, column.label);
    return el("th", { class: [column.number && "number", column.wide && "wide"].filter(Boolean).join(" "), scope: "col" }, button);
  }

  /** First click ascending, second descending, third the server's own order again. */
  #sort(index) {
    if (this.sorted !== index) [this.sorted, this.down] = [index, false];
    else if (!this.down) this.down = true;
    else [this.sorted, this.down] = [null, false];
    this.heads.forEach((head, at) => {
      const order = at === this.sorted ? (this.down ? "descending" : "ascending") : "none";
      head.setAttribute("aria-sort", order);
    });
    this.#place();
  }

  update(rows) {
    this.rows = rows;
    this.empty.hidden = rows.length > 0;
    const gone = new Set(this.known.keys());
    for (const row of rows) {
      gone.delete(row.id);
      this.#refresh(row);
    }
    for (const id of gone) {
      this.known.get(id).element.remove();
      this.known.delete(id);
    }
    this.#place();
  }

  #refresh(row) {
    const text = JSON.stringify(row) + this.mark(row);
    const known = this.known.get(row.id);
    if (known?.text === text) return;
    const element = known?.element ?? el("tr", {
      onpointerenter: () => this.onHover(row.id), onpointerleave: () => this.onHover(null),
    });
    element.className = this.mark(row);
    element.replaceChildren(...this.columns.map((column) => this.#cell(column, row)));
    this.known.set(row.id, { text, element });
  }

  #cell(column, row) {
    const value = column.value(row);
    const content = column.cell ? column.cell(row) : show(value);
    const title = isNumber(value) || typeof value === "string" ? value : null;
    return el("td", { class: column.number ? "number" : "", title }, content);
  }

  #place() {
    const ordered = this.#ordered().map((row) => this.known.get(row.id).element);
    const moved = ordered.some((element, index) => this.body.children[index] !== element);
    if (moved) this.body.append(...ordered);
  }

  #ordered() {
    if (this.sorted === null) return this.rows;
    const { value } = this.columns[this.sorted];
    const sign = this.down ? -1 : 1;
    return [...this.rows].sort((a, b) => compare(value(a), value(b), sign));
  }

  /** Show which row the chart points at. */
  highlight(id) {
    this.body.querySelector("tr.hovered")?.classList.remove("hovered");
    this.known.get(id)?.element.classList.add("hovered");
  }
}

/** Numbers by size, then texts; what is missing or NaN comes last in both directions. */
export function compare(a, b, sign) {
  const kind = (value) => (isNumber(value) ? 0 : value === null || value === undefined || value === "NaN" ? 2 : 1);
  if (kind(a) !== kind(b)) return kind(a) - kind(b);
  if (kind(a) === 2) return 0;
  if (kind(a) === 0) return sign * (a - b);
  return sign * show(a).localeCompare(show(b), undefined, { numeric: true });
}
