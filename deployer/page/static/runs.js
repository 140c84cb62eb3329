// The runs of a sweep as objects, and which of them pass the viewer's filters.
import { isNumber } from "./parts.js";

/** Arrays of a document as objects by the names of its fields. */
export function readRuns(data) {
  const rows = data.runs.map((values, index) => {
    const row = { index };
    data.fields.forEach((name, at) => (row[name] = values[at]));
    return row;
  });
  const category = data.axes.map((axis) => axis.categories
    ? new Map(axis.categories.map((value, at) => [JSON.stringify(value), at])) : null);
  const column = data.axes.map((axis) => data.columns.indexOf(axis.name));
  for (const row of rows) {
    row.places = data.axes.map((axis, at) => placeOf(row, column[at], category[at], data, axis));
  }
  return rows;
}

/** Where a run is on an axis: a number, a category's index, or null. */
function placeOf(row, column, categories, data, axis) {
  const value = column < 0 ? (axis.name === data.metric ? row.value : data.fixed[axis.name]) : row.parameters[column];
  if (categories) return categories.get(JSON.stringify(value)) ?? null;
  return isNumber(value) ? value : null;
}

/** Brushed intervals by the name of their axis, as text for the address: `lr:0.1~0.2|0.5~1;…`. */
export function readBrush(text) {
  const found = new Map();
  for (const [, name, intervals] of text.matchAll(/([^:;]+):([^:;]+)/g)) {
    const spans = intervals.split("|").map((one) => one.split("~").map(Number));
    if (spans.every((span) => span.length === 2 && span.every(Number.isFinite))) found.set(decoded(name), spans);
  }
  return found;
}

/** A name in an address that somebody may have typed. */
function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

export function writeBrush(brush) {
  const round = (value) => Number(value.toPrecision(6));
  return [...brush].filter(([, intervals]) => intervals.length).map(([name, intervals]) =>
    `${encodeURIComponent(name)}:${intervals.map(([a, b]) => `${round(a)}~${round(b)}`).join("|")}`).join(";");
}

/** Whether a run lies in some interval of every axis that is brushed. */
export function isBrushed(row, brush, axes) {
  return axes.every((axis, at) => {
    const intervals = brush.get(axis.name);
    if (!intervals) return true;
    const place = row.places[at];
    return place !== null && intervals.some(([low, high]) => place >= low && place <= high);
  });
}

/** What is special about a run, in words; empty for most. */
export function marksOf(row) {
  const healed = row.healed && row.state === "finished" && `healed at attempt ${row.attempt}`;
  return [healed, row.note].filter(Boolean).join(", ");
}
