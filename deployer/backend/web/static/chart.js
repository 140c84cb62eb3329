// One chart: a line per run over steps, as SVG.
import { el, show } from "./parts.js";

const MARGIN = { top: 12, right: 16, bottom: 34, left: 58 };
const REACH = 28; // pixels within which the pointer finds a point

function svg(tag, attributes = {}, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

/** About `count` round numbers between two values. */
function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5].find((factor) => factor * power >= rough) ?? 10);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9; at += 1) found.push(at * step);
  return found;
}

/** Round numbers for a logarithmic axis. */
function decades(low, high) {
  const [first, last] = [Math.ceil(Math.log10(low)), Math.floor(Math.log10(high))];
  const powers = Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);
  const stride = Math.ceil(powers.length / 6) || 1;
  if (powers.length < 3) {
    const finer = [first - 1, ...powers].flatMap((power) => [1, 2, 5].map((factor) => factor * 10 ** power));
    return finer.filter((value) => value >= low && value <= high);
  }
  return powers.filter((_, i) => i % stride === 0).map((power) => 10 ** power);
}

/** Both ends of some values; a single value gets room around it. */
function extent(values, empty) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return empty;
  const room = Math.abs(low) * 0.05 || 0.5;
  return low === high ? [low - room, high + room] : [low, high];
}

/**
 * `series` are { id, name, points: [[step, value or null]], rank? }; the one whose id is `best` is
 * emphasised. `onHover(id or null)` and `onPick(id)` say what the pointer is at.
 */
export class Chart {
  constructor({ label, xLabel = "step", height = 320, onHover = () => {}, onPick = null }) {
    Object.assign(this, { label, xLabel, height, onHover, onPick, logarithmic: false });
    Object.assign(this, { series: [], best: null, hovered: null, scatter: false });
    this.svg = svg("svg", { role: "img", "aria-label": `Chart of ${label}`, height });
    this.tip = el("div", { class: "tip", hidden: "" });
    this.toggle = el("button", { class: "quiet", type: "button", "aria-pressed": "false",
      title: "Logarithmic scale", onclick: () => this.#switchScale() }, "log");
    this.caption = el("span", { class: "muted" });
    const head = el("figcaption", {}, el("strong", {}, label), this.caption, this.toggle);
    this.plot = el("div", { class: "plot" }, this.svg, this.tip);
    this.element = el("figure", { class: "card" }, head, this.plot);
    this.plot.addEventListener("pointermove", (event) => this.#point(event));
    this.plot.addEventListener("pointerleave", () => this.#hover(null));
    this.plot.addEventListener("click", () => this.hovered && this.onPick?.(this.hovered.id));
    new ResizeObserver(() => this.#draw()).observe(this.plot);
  }

  update(series, { best = null, caption = "", xLabel = "step" } = {}) {
    Object.assign(this, { series, best, xLabel });
    this.caption.textContent = caption;
    this.#draw();
  }

  #switchScale() {
    this.logarithmic = !this.logarithmic;
    this.toggle.setAttribute("aria-pressed", this.logarithmic);
    this.#draw();
  }

  #draw() {
    const width = this.plot.clientWidth;
    if (!width) return;
    this.svg.setAttribute("width", width);
    const points = this.series.flatMap((line) => line.points).filter(([, y]) => y !== null);
    const positive = points.length > 0 && points.every(([, y]) => y > 0);
    this.toggle.hidden = !positive;
    this.#scale(width, points, this.logarithmic && positive);
    this.svg.replaceChildren(...this.#axes(width, points.length === 0));
    this.lines = new Map();
    for (const line of this.#inOrder()) this.#addLine(line);
    this.mark = svg("circle", { class: "mark", r: 4.5, visibility: "hidden" });
    this.svg.append(this.mark);
    this.highlight(this.lit ?? null);
  }

  #scale(width, points, logarithmic) {
    const [left, right] = extent(points.map(([x]) => x), [0, 1]);
    const [low, high] = extent(points.map(([, y]) => y), [0, 1]);
    const form = logarithmic ? Math.log10 : (y) => y;
    const floor = logarithmic && low <= 0 ? high / 10 : low;
    const [bottom, top] = [this.height - MARGIN.bottom, MARGIN.top];
    const across = width - MARGIN.left - MARGIN.right;
    this.x = (x) => MARGIN.left + ((x - left) / (right - left)) * across;
    this.y = (y) => bottom - ((form(y) - form(floor)) / (form(high) - form(floor))) * (bottom - top);
    this.xTicks = ticks(left, right, Math.max(2, width / 110)).filter(Number.isInteger);
    this.yTicks = logarithmic ? decades(floor, high) : [];
    if (this.yTicks.length < 2) this.yTicks = ticks(floor, high, this.height / 45);
  }

  #axes(width, empty) {
    const bottom = this.height - MARGIN.bottom;
    const parts = this.yTicks.flatMap((value) => [
      svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: this.y(value), y2: this.y(value) }),
      svg("text", { x: MARGIN.left - 8, y: this.y(value) + 4, "text-anchor": "end" }, show(value)),
    ]);
    const below = this.xTicks.map((value) =>
      svg("text", { x: this.x(value), y: bottom + 18, "text-anchor": "middle" }, show(value)));
    const name = svg("text", { x: width - MARGIN.right, y: this.height - 2, "text-anchor": "end" }, this.xLabel);
    if (!empty) return [...parts, ...below, name];
    const middle = { x: width / 2, y: this.height / 2, "text-anchor": "middle" };
    return [svg("text", middle, "nothing logged yet")];
  }

  /** Worst first, so that the good ones lie on top. */
  #inOrder() {
    const place = (line) => (line.id === this.best ? -1 : (line.rank ?? Infinity));
    return [...this.series].sort((a, b) => place(b) - place(a) || 0);
  }

  #addLine(line) {
    const kind = line.id === this.best ? "curve best" : "curve";
    const group = svg("g", { class: kind });
    if (line.rank) group.style.setProperty("--place", Math.min(1, (line.rank - 1) / this.series.length));
    group.style.setProperty("--dense", Math.min(1, 5 / Math.sqrt(this.series.length)));
    group.append(svg("path", { d: this.#path(line.points) }));
    if (line.points.filter(([, y]) => y !== null).length === 1) {
      const [x, y] = line.points.find((point) => point[1] !== null);
      group.append(svg("circle", { cx: this.x(x), cy: this.y(y), r: 3.5 }));
    }
    this.lines.set(line.id, group);
    this.svg.append(group);
  }

  /** A value that is no number breaks the line. */
  #path(points) {
    let pen = "M";
    return points.map(([x, y]) => {
      const part = y === null ? "" : `${pen}${this.x(x).toFixed(1)},${this.y(y).toFixed(1)}`;
      pen = y === null ? "M" : "L";
      return part;
    }).join("");
  }

  #point(event) {
    const box = this.svg.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    let [found, nearest] = [null, REACH ** 2];
    for (const line of this.series) {
      for (const [x, y] of line.points) {
        const distance = y === null ? Infinity : (this.x(x) - px) ** 2 + (this.y(y) - py) ** 2;
        if (distance < nearest) [found, nearest] = [{ id: line.id, name: line.name, x, y }, distance];
      }
    }
    this.#hover(found);
  }

  #hover(found) {
    this.hovered = found;
    this.tip.hidden = found === null;
    this.plot.classList.toggle("pickable", Boolean(found && this.onPick));
    this.mark?.setAttribute("visibility", found ? "visible" : "hidden");
    this.highlight(found?.id ?? null);
    this.onHover(found?.id ?? null);
    if (!found) return;
    const [x, y] = [this.x(found.x), this.y(found.y)];
    this.mark.setAttribute("cx", x);
    this.mark.setAttribute("cy", y);
    this.tip.replaceChildren(el("strong", {}, found.name),
      el("span", {}, show(found.y)), el("span", { class: "muted" }, `${this.xLabel} ${show(found.x)}`));
    const left = Math.min(x + 12, this.plot.clientWidth - this.tip.offsetWidth - 4);
    this.tip.style.transform = `translate(${left}px, ${Math.max(0, y - this.tip.offsetHeight - 10)}px)`;
  }

  /** Bring one line out, as the table does for its row. */
  highlight(id) {
    this.lines?.get(this.lit)?.classList.remove("lit");
    this.lit = id;
    this.lines?.get(id)?.classList.add("lit");
    const top = this.lines?.get(id) ?? this.lines?.get(this.best);
    if (top && this.mark) this.svg.append(top, this.mark);
  }
}
