// Elements, numbers and tables. Users' values go into the page as text, never as markup.

/** Make an element: `el("a", { href, class: "x" }, "text", child)`. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

const isNumber = (value) => typeof value === "number";

// Addresses of pages.
export const address = (...parts) => `/${parts.map(encodeURIComponent).join("/")}`;
export const runAddress = (data, id) => address(data.entity, data.project, "runs", id);
export const sweepAddress = (entity, project, id) => address(entity, project, "sweeps", id);
export const artifactAddress = (entity, { project, type, name, version }) =>
  address(entity, project, "artifacts", type, name, version);
export const filesAddress = (page, name) => `/api/pages${page}/files/${name.split("/").map(encodeURIComponent).join("/")}`;
export const link = (href, text) => el("a", { href }, text);
export const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
export const section = (title, ...children) => el("section", {}, el("h2", {}, title), ...children);

/** A number in five significant digits; what is no number as it stands; nothing as a dash. */
export function show(value) {
  if (value === null || value === undefined) return "–";
  if (isNumber(value)) return showNumber(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

function showNumber(value) {
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value);
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e7) return value.toExponential(3).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(5)));
}

export function showSeconds(seconds) {
  if (!isNumber(seconds)) return "–";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (h) return `${h} h ${String(m).padStart(2, "0")} m`;
  return m ? `${m} m ${String(s).padStart(2, "0")} s` : `${s} s`;
}

export function showBytes(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = bytes ?? 0;
  let unit = 0;
  for (; size >= 1024 && unit < units.length - 1; unit += 1) size /= 1024;
  return `${unit ? size.toFixed(1) : size} ${units[unit]}`;
}

export const showTime = (seconds) =>
  new Date(seconds * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });

export const state = (word) => el("span", { class: `state ${word}` }, word);

/** A run by the name that the terminal has, and by the one that its user gave it, if any. */
export const runName = (row) => (row.title && row.title !== row.id ? `${row.id} ${row.title}` : row.id);

export function runState(row) {
  const said = [row.stopped_early && "stopped early", row.note].filter(Boolean).join(", ");
  return said ? el("span", {}, state(row.state), ` ${said}`) : state(row.state);
}

/** Names and values in two columns. */
export function definitions(values) {
  const list = el("dl");
  for (const [name, value] of Object.entries(values)) {
    list.append(el("dt", {}, name), el("dd", { title: show(value) }, show(value)));
  }
  return list;
}

function copyButton(text) {
  const button = el("button", { class: "quiet", type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text); // only on localhost and https
      button.textContent = "Copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(button.parentElement.querySelector("code"));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = "Selected: press Ctrl-C";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  return button;
}

/** A command line that wraps between its words and can be copied. */
export function commandBlock(command) {
  if (!command) return null;
  const words = command.split(" ").flatMap((word) => [el("span", {}, word), " "]).slice(0, -1);
  return el("div", { class: "command" }, el("code", {}, ...words), copyButton(command));
}

/**
 * A table that can be sorted and is updated in place.
 * A column is { label, value(row), cell?(row), number? }; `value` sorts and is shown unless `cell`
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
    return el("th", { class: column.number ? "number" : "", scope: "col" }, button);
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
function compare(a, b, sign) {
  const kind = (value) => (isNumber(value) ? 0 : value === null || value === undefined || value === "NaN" ? 2 : 1);
  if (kind(a) !== kind(b)) return kind(a) - kind(b);
  if (kind(a) === 2) return 0;
  if (kind(a) === 0) return sign * (a - b);
  return sign * show(a).localeCompare(show(b), undefined, { numeric: true });
}
