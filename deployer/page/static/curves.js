// Curves of one metric over steps, epochs or time: of chosen runs, smoothed, marked where they ended.
import { Chart, frame, lineLook, strokeOf } from "./charts.js";
import { choose, el, plural, runName, select, show, showSeconds, writeTicks } from "./parts.js";

const X_LABELS = { steps: "step", epochs: "epoch", seconds: "time" };
export const MOST_COLOURED = 20;
const MOST_POINTS = 200; // as curves.py thins them

/** The exponential average of W&B's page, corrected for its start; gaps stay gaps. */
export function smooth(values, weight) {
  if (!weight) return values;
  let [last, count] = [0, 0];
  return values.map((value) => {
    if (value === null) return null;
    last = last * weight + (1 - weight) * value;
    count += 1;
    return last / (1 - weight ** count);
  });
}

/** Choices of a curve's axes, kept in the address. */
export class CurveTools {
  constructor(view, onChange) {
    this.view = view;
    const set = (name) => (value) => { view.set(name, value); onChange(); };
    this.x = select("Horizontal axis", Object.entries(X_LABELS), view.get("x", "steps"), set("x"));
    this.scale = select("Vertical scale", [["", "linear"], ["log", "log"]], view.get("y"), set("y"));
    this.range = el("input", { type: "range", min: "0", max: "0.98", step: "0.02", value: view.get("smooth", "0"), "aria-label": "Smoothing",
      oninput: () => set("smooth")(this.range.value === "0" ? "" : this.range.value) });
    this.elements = [el("label", { class: "tool" }, "smooth ", this.range), this.x, this.scale];
  }

  read() {
    choose(this.x, this.view.get("x"), "steps");
    choose(this.scale, this.view.get("y"), "");
    this.range.value = this.view.get("smooth", "0");
    return { x: this.x.value, log: this.scale.value === "log", weight: Number(this.range.value) };
  }
}

/** Why there is nothing to draw of some lines; empty if there is. */
export function whyEmpty(lines) {
  const values = lines.flatMap(({ curve }) => curve.values);
  if (!values.length) return "nothing logged yet";
  return values.every((value) => value === null) ? "no finite values" : "";
}

/** What a chart does not draw of the lines: what is no finite number, or not above 0 on a log axis. */
export function notesOf(lines, { log }) {
  const gaps = lines.map(({ curve }) => curve.gap).filter((step) => step !== undefined);
  const positive = lines.some(({ curve }) => curve.values.some((value) => value > 0));
  const runs = lines.length > 1 ? ` in ${plural(gaps.length, "run")}` : "";
  return [
    gaps.length && `NaN or infinite first at step ${show(Math.min(...gaps))}${runs}`,
    lines.some(({ curve }) => curve.thinned) && `drawn: ${MOST_POINTS} values${lines.length > 1 ? " of a run" : ""}, the highest and lowest among them`,
    log && lines.some(({ curve }) => curve.low) && (positive ? "values of 0 or below not shown" : "no value above 0 for a log scale"),
  ].filter(Boolean).join("; ");
}

/** `lines` are { id, name, curve, look?, best?, end? }; `end` is what became of the run, if special. */
export function curveOption(ink, lines, { x, log, weight }) {
  const column = lines.some(({ curve }) => curve[x]) ? x : "steps";
  const usable = lines.filter(({ curve }) => curve[column]);
  const scaled = log && usable.some(({ curve }) => curve.values.some((value) => value > 0));
  const few = usable.length <= MOST_COLOURED;
  const series = usable.flatMap((line, at) => drawLine(line, at, { ink, column, weight, few, scaled }));
  const ends = usable.filter((line) => line.end).map(({ curve, end, name }) => ({
    name, value: [curve[column].at(-1), smooth(curve.values, weight).at(-1)], symbol: end === "stopped early" ? "diamond" : "triangle", end,
  }));
  const option = frame(ink, {
    x: { type: "value", name: X_LABELS[column], min: "dataMin", max: "dataMax", minInterval: column === "steps" ? 1 : 0, axisLabel: { color: ink.muted, hideOverlap: true,
      alignMaxLabel: "right", formatter: writeTicks(usable.flatMap(({ curve }) => curve[column]), column === "seconds") } },
    y: scaled ? logarithmic(usable, ink)
      : { type: "value", axisLabel: { color: ink.muted, formatter: writeTicks(usable.flatMap(({ curve }) => curve.values)) } },
    tooltip: { trigger: "item", formatter: (one) => tip(one, column) }, zoom: true,
  });
  const marks = { type: "scatter", data: ends, symbolSize: 11, itemStyle: { color: ink.warn, borderColor: ink.card, borderWidth: 1 }, z: 5 };
  return { ...option, series: [...series, marks] };
}

/** From just below the least value to just above the largest, not from one power of ten to another. */
function logarithmic(lines, ink) {
  const values = lines.flatMap(({ curve }) => curve.values.filter((value) => value > 0));
  const low = values.reduce((a, b) => Math.min(a, b), Infinity);
  const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  const range = low <= high ? { min: Number((low / 1.1).toPrecision(2)), max: Number((high * 1.1).toPrecision(2)) } : {};
  return { type: "log", ...range, axisLabel: { color: ink.muted, formatter: show, showMinLabel: true, showMaxLabel: true } };
}

function drawLine(line, at, { ink, column, weight, few, scaled }) {
  const plain = { colour: line.best ? ink.accent : ink.curve, dash: "solid" };
  const look = line.look ?? (few && !line.best ? lineLook(at) : plain);
  const colour = look.colour;
  const shown = line.curve.values.map((value) => (scaled && value <= 0 ? null : value));
  const data = (values) => line.curve[column].map((x, index) => [x, shown[index] === null ? null : values[index]]);
  const width = line.best ? 2.6 : few ? 1.8 : 1;
  const base = { type: "line", id: line.id, name: line.name, ...dots(shown), symbolSize: 7, z: line.best ? 4 : 3,
    emphasis: { focus: "series", lineStyle: { width: 3, opacity: 1 } }, triggerLineEvent: true };
  const drawn = { ...base, data: data(smooth(line.curve.values, weight)), itemStyle: { color: colour },
    lineStyle: { ...strokeOf(look), width, opacity: few || line.best ? 1 : 0.45 } };
  if (!weight || !few) return [drawn];
  return [{ ...base, id: `${line.id} raw`, data: data(line.curve.values), silent: true, emphasis: { disabled: true },
    itemStyle: { color: colour }, lineStyle: { color: colour, width: 1, opacity: 0.22 } }, drawn];
}

/** Dots where no line can be drawn: at values that stand alone. */
function dots(values) {
  const alone = new Set([...values.keys()].filter((at) => values[at] !== null && (values[at - 1] ?? values[at + 1] ?? null) === null));
  return { showSymbol: alone.size > 0, symbol: alone.size ? (_, { dataIndex }) => (alone.has(dataIndex) ? "circle" : "none") : "circle" };
}

function tip({ seriesName, name, value, data }, column) {
  const at = column === "seconds" ? showSeconds(value[0]) : show(value[0]);
  return [name || seriesName, data.end, `${show(value[1])}   ${X_LABELS[column]} ${at}`].filter(Boolean).join("\n");
}

/** What became of a run that is worth a mark at the end of its curve. */
export function endOf(row) {
  if (row.stopped_early) return "stopped early";
  return row.healed ? `healed at attempt ${row.attempt}` : null;
}

/** A card with the curves of one metric of a few runs, which are all in the document. */
export class CurveCard {
  constructor(label, tools, height = 220) {
    this.tools = tools;
    this.chart = new Chart({ label, height });
    this.element = this.chart.element;
  }

  update(lines) {
    this.lines = lines;
    this.draw();
  }

  draw() {
    const curve = this.lines[0]?.curve;
    this.chart.caption.textContent = this.lines.length === 1 ? show(curve.words?.[curve.values.length - 1] ?? curve.values.at(-1)) : "";
    this.chart.note.textContent = notesOf(this.lines, this.tools.read());
    this.chart.update((ink) => curveOption(ink, this.lines, this.tools.read()), this.lines.map(runName).join(", "), whyEmpty(this.lines));
  }
}
