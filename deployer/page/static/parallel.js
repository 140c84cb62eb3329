// Parallel coordinates: a line for each run, an axis for each parameter, brushed to filter all else.
import { Chart } from "./charts.js";
import { button, el, runName, show, showParameter } from "./parts.js";
import { readBrush, writeBrush } from "./runs.js";

const MOST_LINES = 2000; // more cannot be told apart, and take seconds to draw
const MOST_LABELS = 16; // of a category axis
const MOST_VALUES = 8; // so few have a tick each, more a scale
const LETTER = 7.5; // pixels, about
const MOST_NAME_LINES = 3;
const [LEFT, RIGHT] = [40, 84]; // pixels beside the first and the last axis
const BAND = 22; // pixels, of what is brushed and of what counts as on an axis
const AROUND = 0.25; // so far beyond a category's place what is brushed of it reaches
const STOPS = { light: [[208, 209, 230], [54, 144, 192], [2, 56, 88]], dark: [[50, 60, 72], [40, 120, 170], [150, 220, 255]] };

export class Parallel {
  constructor(view, onPick) {
    this.view = view;
    this.clear = button("Clear", () => view.set("brush", ""), { class: "quiet" });
    this.chart = new Chart({ label: "Parallel coordinates", height: 360, tools: [this.clear] });
    this.chart.caption.dataset.hint = "drag along an axis to filter; click it to clear"; // no words of a picture
    this.element = this.chart.element;
    this.sideways = el("div", { class: "sideways" });
    this.chart.plot.replaceWith(this.sideways);
    this.sideways.append(this.chart.plot);
    this.chart.on("axisareaselected", () => this.restoring || this.#read());
    this.chart.on("click", ({ dataIndex, event }) => {
      const row = this.drawn[dataIndex];
      if (row && this.#axisAt(event.offsetX) === null) onPick(row.id);
    });
    this.chart.afterDraw = () => {
      this.listening ??= this.chart.chart.getZr().on("click", (event) => this.#unbrush(this.#axisAt(event.offsetX)));
      this.#restore();
    };
    // News that come while somebody drags along an axis wait until it is let go.
    this.chart.plot.addEventListener("pointerdown", () => { this.dragging = true; }, true);
    addEventListener("pointerup", () => {
      this.dragging = false;
      if (this.waiting) setTimeout(() => this.redraw(), 0);
    });
  }

  update(data, rows, passing) {
    this.axes = data.axes;
    this.element.hidden = data.axes.length < 2;
    this.chart.plot.style.minWidth = `max(100%, ${130 + 90 * (data.axes.length - 1)}px)`; // on a phone, scrolled sideways
    this.clear.hidden = !this.view.get("brush");
    const count = passing.size;
    this.chart.caption.textContent = this.view.get("brush") ? `${count} of ${rows.length} runs` : "";
    const drawn = thin(rows);
    const joined = drawn.some(({ places }) => places.some((place, at) => place !== null && at > 0 && places[at - 1] !== null));
    const empty = joined ? "" : "no run has values on two axes";
    const text = JSON.stringify([data.axes, drawn.map(({ id, rank, state, places }) => [id, rank, state, places])]);
    if (text === this.text || this.reading) return;
    Object.assign(this, { text, drawn });
    const words = `${rows.length} runs over ${data.axes.map((axis) => axis.name).join(", ")}`;
    this.redraw = () => {
      this.waiting = false;
      this.chart.update((ink) => this.#option(ink, data), words, empty);
    };
    this.waiting = this.dragging;
    if (!this.dragging) this.redraw();
  }

  #option(ink, data) {
    const rank = (row) => (row.rank === null ? null : (row.rank - 1) / Math.max(1, this.drawn.length - 1));
    const room = Math.max(60, this.#gap() - 10);
    const wide = Math.floor(room / LETTER);
    const names = data.axes.map(({ name }) => broken(inTheMiddle(name, wide * MOST_NAME_LINES), wide));
    const lines = Math.max(...names.map((name) => name.split("\n").length));
    return {
      animation: false, backgroundColor: "transparent",
      parallel: { left: LEFT, right: RIGHT, top: 46 + 15 * (lines - 1), bottom: 24, parallelAxisDefault: {
        nameTextStyle: { color: ink.text, fontSize: 12, lineHeight: 15 }, nameGap: 16,
        axisLine: { lineStyle: { color: ink.muted } }, axisTick: { lineStyle: { color: ink.edge } },
        axisLabel: { color: ink.text }, // without a halo, which would cut a line into a minus sign
        areaSelectStyle: { width: BAND, color: ink.accent, opacity: 0.25, borderColor: ink.accent, borderWidth: 1 },
      } },
      parallelAxis: data.axes.map((axis, dim) => ({ dim, id: `axis${dim}`, ...axisOption(axis, this.drawn.map(({ places }) => places[dim])), name: names[dim] })),
      tooltip: { renderMode: "richText", backgroundColor: ink.card, borderColor: ink.edge, textStyle: { color: ink.text, fontSize: 12 },
        confine: true, formatter: ({ dataIndex }) => this.#tip(data, this.drawn[dataIndex]) },
      series: [{
        type: "parallel", inactiveOpacity: 0.03, activeOpacity: this.drawn.length > 300 ? 0.35 : 0.7, progressive: 500,
        emphasis: { lineStyle: { width: 3, opacity: 1, color: ink.hover } },
        data: this.drawn.map((row) => ({
          value: row.places.map((place) => place ?? "-"),
          lineStyle: { color: row.rank === 1 ? ink.hover : shade(rank(row), ink), width: row.rank === 1 ? 3 : 1.2,
            ...(row.state === "running" ? { type: "dashed" } : {}) },
        })),
      }],
    };
  }

  #tip(data, row) {
    if (!row) return "";
    const facts = data.axes.map((axis, at) => [axis.name, axis.categories ? showParameter(axis.categories[row.places[at]]) : show(row.places[at])]);
    return [runName(row), ...facts.map(([name, value]) => `${name}  ${value}`)].join("\n");
  }

  /** What is brushed now goes into the address, which filters everything. */
  #read() {
    const brush = new Map();
    this.axes.forEach((axis, dim) => {
      const model = this.chart.chart.getModel().getComponent("parallelAxis", dim);
      if (model?.activeIntervals.length) brush.set(axis.name, model.activeIntervals.map((one) => (axis.categories ? snap(one, axis) : [...one])));
    });
    this.reading = true;
    this.view.set("brush", writeBrush(brush));
    this.reading = false;
    this.brushed = this.view.get("brush");
  }

  #gap() {
    return (this.chart.plot.clientWidth - LEFT - RIGHT) / (this.axes.length - 1);
  }

  /** The number of the axis at a place, in pixels; null between two. */
  #axisAt(x) {
    const dim = Math.round((x - LEFT) / this.#gap());
    return dim in this.axes && Math.abs(x - LEFT - dim * this.#gap()) <= BAND / 2 ? dim : null;
  }

  /** ECharts itself clears an axis by a click beside what is brushed alone. */
  #unbrush(dim) {
    const brush = readBrush(this.view.get("brush"));
    if (dim !== null && brush.delete(this.axes[dim].name)) this.view.set("brush", writeBrush(brush));
  }

  /** The address says what is brushed, after the back button too. */
  #restore() {
    const brush = readBrush(this.view.get("brush"));
    const intervals = this.axes.map(({ name }) => brush.get(name) ?? []);
    const dims = intervals.flatMap((spans, dim) => (spans.length ? [dim] : []));
    // ECharts draws what is brushed on every axis but the one that an action names: so one more.
    if (dims.length) dims.push(dims.at(-1) ? 0 : 1);
    this.restoring = true;
    for (const dim of dims) this.chart.chart.dispatchAction({ type: "axisAreaSelect", parallelAxisId: `axis${dim}`, intervals: intervals[dim] });
    this.restoring = false;
    this.brushed = this.view.get("brush");
  }

  /** Draw anew if the brush in the address is another one than on the axes. */
  follow() {
    if (!this.reading && this.view.get("brush") !== (this.brushed ?? "")) this.chart.draw();
  }
}

/** What is brushed of a category axis: the values in the span, or the nearest one to a span between two. */
export function snap([low, high], { categories }) {
  const last = categories.length - 1;
  let [first, end] = [Math.max(0, Math.ceil(low)), Math.min(last, Math.floor(high))];
  if (first > end) first = end = Math.min(last, Math.max(0, Math.round((low + high) / 2)));
  return [first - AROUND, end + AROUND];
}

/** A long name without its middle: what tells it from others is mostly at its ends. */
const inTheMiddle = (name, most) => (name.length <= most ? name
  : `${name.slice(0, Math.ceil(most / 2) - 1)}…${name.slice(1 - Math.floor(most / 2))}`);

/** In lines of so many letters: ECharts cuts a name off where its line ends. */
const broken = (name, wide) => name.match(new RegExp(`.{1,${wide}}`, "gu"))?.join("\n") ?? name;

function axisOption({ scale, domain, categories }, places) {
  if (scale === "category") { // as numbers: ECharts would round what is brushed to whole categories
    const label = (place) => (place in categories ? showParameter(categories[place]) : "");
    const interval = Math.ceil(categories.length / MOST_LABELS);
    return { type: "value", min: -interval, max: categories.length, interval,
      axisLabel: { width: 90, overflow: "truncate", formatter: label } };
  }
  const [min, max] = domain[0] === domain[1] ? [domain[0] - 0.5, domain[1] + 0.5] : domain;
  const values = [...new Set(places.filter((place) => place !== null))];
  const ticks = values.length <= MOST_VALUES ? { customValues: values } : {};
  const axisLabel = { formatter: (value) => show(value), showMinLabel: true, showMaxLabel: true, hideOverlap: true, ...ticks };
  return { type: scale === "log" ? "log" : "value", min, max, axisLabel, axisTick: ticks, ...(values.every(Number.isInteger) ? { minInterval: 1 } : {}) };
}

/** The ranked first, evenly thinned, so that the best stay. */
function thin(rows) {
  if (rows.length <= MOST_LINES) return [...rows].reverse(); // the best lie on top
  const stride = rows.length / MOST_LINES;
  return Array.from({ length: MOST_LINES }, (_, at) => rows[Math.floor(at * stride)]).reverse();
}

/** From dark for the best to pale for the worst; grey without a rank. */
function shade(place, ink) {
  if (place === null) return ink.curve;
  const stops = STOPS[matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"];
  const at = (1 - Math.min(1, place)) * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(at));
  const mixed = stops[low].map((part, index) => Math.round(part + (stops[low + 1][index] - part) * (at - low)));
  return `rgb(${mixed.join(",")})`;
}
