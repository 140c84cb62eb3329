// The runs of a sweep as objects, and which of them pass the viewer's filters.
import { isNumber, show } from "./parts.js";

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

const CONDITION = /^([^<>=]+)(<=|>=|=|<|>)(.+)$/;
const COMPARE = {
  "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b,
  "=": (a, b) => a === b,
};

/** A test of a run from the text of the filter: words, and conditions such as `lr>=0.01`. */
export function parseFilter(text, data) {
  const tests = text.trim().split(/\s+/).filter(Boolean).map((word) => {
    const found = CONDITION.exec(word);
    return found ? condition(found, data) : anywhere(word.toLowerCase());
  });
  return (row) => tests.every((test) => test(row));
}

function condition([word, name, sign, wanted], data) {
  const at = data.columns.indexOf(name);
  const metric = data.metrics.indexOf(name);
  const known = { state: (row) => row.state, run: (row) => row.id, agent: (row) => row.agent, rank: (row) => row.rank,
    runtime: (row) => row.seconds, [data.metric]: (row) => row.value };
  const read = at >= 0 ? (row) => row.parameters[at] : metric >= 0 ? (row) => row.metrics[metric] : known[name];
  if (!read) return anywhere(word.toLowerCase());
  const number = Number(wanted);
  return (row) => {
    const value = read(row);
    if (isNumber(value)) return COMPARE[sign](value, number);
    return sign === "=" && show(value) === wanted;
  };
}

function anywhere(word) {
  return (row) => [row.id, row.title, row.state, row.note, row.agent, ...row.parameters]
    .some((value) => value !== null && show(value).toLowerCase().includes(word));
}

/** Brushed intervals by the name of their axis, as text for the address: `lr:0.1~0.2|0.5~1;…`. */
export function readBrush(text) {
  const found = new Map();
  for (const part of text.split(";").filter(Boolean)) {
    const [name, intervals] = part.split(":");
    found.set(decodeURIComponent(name), intervals.split("|").map((one) => one.split("~").map(Number)));
  }
  return found;
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
  return [row.stopped_early && "stopped early", healed, row.note].filter(Boolean).join(", ");
}
