// Elements, numbers, addresses. Users' values go into the page as text, never as markup.
import { linkTo } from "./data.js";

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

export const isNumber = (value) => typeof value === "number";

// Addresses of pages.
export const address = (...parts) => `/${parts.map(encodeURIComponent).join("/")}`;
export const runAddress = (data, id) => address(data.entity, data.project, "runs", id);
export const projectAddress = (data) => address(data.entity, data.project);
export const sweepAddress = (entity, project, id) => address(entity, project, "sweeps", id);
export const artifactAddress = (entity, { project, type, name, version }) =>
  address(entity, project, "artifacts", type, name, version);
export const filesAddress = (page, name) => `/api/pages${page}/files/${name.split("/").map(encodeURIComponent).join("/")}`;
export const compareAddress = (data, ids) => `${address(data.entity, data.project, "compare")}?runs=${ids.map(encodeURIComponent).join(",")}`;

/** A link to a page; the text alone if a page is not there. */
export function link(to, text) {
  const href = linkTo(to);
  return href === null ? el("span", {}, text) : el("a", { href }, text);
}

/** Open a page, if it is there. */
export function go(to) {
  const href = linkTo(to);
  if (href !== null) location.assign(href);
}
export const download = (href, text) => el("a", { href, download: "" }, text);
export const button = (text, onclick, properties = {}) => el("button", { type: "button", onclick, ...properties }, text);
export const select = (label, options, value, onchange) => {
  const made = el("select", { "aria-label": label, onchange: () => onchange(made.value) },
    ...options.map(([key, text]) => el("option", { value: key }, text)));
  made.value = value;
  return made;
};

/** Choose a value that an address asks for, or another if there is none such. */
export function choose(box, value, otherwise) {
  box.value = value;
  if (box.selectedIndex < 0) box.value = otherwise;
}

/** Let the browser save a file. */
export function saveBlob(name, blob) {
  const href = URL.createObjectURL(blob);
  el("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
}

// As `results -o csv` writes them.
const WORDS_OF_CSV = { true: "True", false: "False", NaN: "nan", Infinity: "inf", "-Infinity": "-inf" };

/** Save rows as CSV. A text that a spreadsheet would compute gets an apostrophe, as in `results -o csv`. */
export function saveCsv(name, heads, rows) {
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    const plain = typeof value === "object" ? JSON.stringify(value) : String(value);
    const text = WORDS_OF_CSV[plain] ?? plain;
    const computed = /^[=+\-@\t\r]/.test(text) && !isNumber(value) && !/^-(\d+|inf)$/.test(text);
    const safe = computed ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const text = [heads, ...rows].map((row) => row.map(cell).join(",")).join("\n");
  saveBlob(name, new Blob([`${text}\n`], { type: "text/csv" }));
}
export const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
export const section = (title, ...children) => el("section", {}, el("h2", {}, title), ...children);

// Texts that look like another kind of value; a whole number that a double cannot hold comes as text.
const LIKE_A_WORD = /^(?:true|false|null|none)$/i;
const NO_TEXT = /^(?:NaN|-?Infinity|-?\d{16,})$/;

/** A parameter's value, so that 1 and "1", null and "null" and what is not there can be told apart. */
export function showParameter(value) {
  const alike = typeof value === "string" && !NO_TEXT.test(value)
    && (value.trim() === "" || LIKE_A_WORD.test(value) || !Number.isNaN(Number(value)));
  if (value === null) return "null";
  return alike ? JSON.stringify(value) : show(value);
}

/** A number in five significant digits; what is no number as it stands; nothing as a dash. */
export function show(value) {
  if (value === null || value === undefined) return "–";
  if (isNumber(value)) return showNumber(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** How to write the ticks of an axis of these values, so that two of them never read alike. */
export function writeTicks(values, areSeconds = false) {
  const finite = values.filter(isNumber);
  const low = finite.reduce((a, b) => Math.min(a, b), Infinity);
  const high = finite.reduce((a, b) => Math.max(a, b), -Infinity);
  const largest = Math.max(Math.abs(low), Math.abs(high));
  const digits = high > low ? Math.min(15, Math.max(5, Math.ceil(Math.log10(largest / (high - low))) + 3)) : 5;
  if (!areSeconds) return (value) => showNumber(value, digits);
  return high < 10 ? (value) => `${showNumber(value, digits)} s` : showSeconds;
}

function showNumber(value, digits = 5) {
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value);
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e7) return value.toExponential(digits - 2).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(digits)));
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

export const showTime = (seconds, timeStyle = "short") =>
  new Date(seconds * 1000).toLocaleString([], { dateStyle: "medium", timeStyle });

/** Values by their names in order, with 2 before 10. */
export const sortNames = (values) => Object.fromEntries(Object.entries(values).sort(([a], [b]) => compareNames(a, b)));
export const compareNames = (a, b) => a.localeCompare(b, "en", { numeric: true });

/** When something is expected to be over: `done in about 5 m (14:03)`. */
export function showFuture(seconds) {
  const at = new Date(seconds * 1000).toLocaleTimeString([], { timeStyle: "short" });
  return `done in about ${showSeconds(Math.max(10, seconds - Date.now() / 1000))} (${at})`;
}

export const state = (name, word = name) => el("span", { class: `state ${name}` }, word);

const STATE_WORDS = { pending: "starting", preempted: "queued" };

/** A run's state, in plain words where W&B's say little. */
export const wordOf = (row) => (row.stopped_early ? "stopped early" : STATE_WORDS[row.state] ?? row.state);

/** A run by the name that the terminal has, and by the one that its user gave it, if any. */
export const runName = (row) => (row.title && row.title !== row.id ? `${row.id} ${row.title}` : row.id);

export function runState(row) {
  const shown = state(row.state, wordOf(row));
  return row.note ? el("span", {}, shown, ` ${row.note}`) : shown;
}

/** Names and values in two columns. */
export function definitions(values, write = show) {
  const list = el("dl");
  for (const [name, value] of Object.entries(values)) {
    const exact = isNumber(value) ? String(value) : write(value);
    list.append(el("dt", {}, ...breakable(name)), el("dd", { title: exact }, write(value)));
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

/** A dotted name that breaks, if it must, where its parts end. */
export const breakable = (name) => name.split(/(?<=[./_])/).flatMap((part) => [part, el("wbr")]).slice(0, -1);

/** A command line that wraps between its words and can be copied. */
export function commandBlock(command) {
  if (!command) return null;
  const words = command.split(" ").flatMap((word) => [el("span", {}, word), " "]).slice(0, -1);
  return el("div", { class: "command" }, el("code", {}, ...words), copyButton(command));
}
