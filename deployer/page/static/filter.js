// The text of the filter: words, and conditions such as `lr>=0.01`; and what in it is not understood.
import { isNumber, showParameter } from "./parts.js";

const SIGN = /\s*(<=|>=|=|<|>)\s*/g;
const PART = /(?:"[^"]*"|[^\s"])+/g; // in quotes, a name or a value may hold spaces
const COMPARE = {
  "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b, "=": (a, b) => a === b,
};
const NO_FINITE = ["NaN", "Infinity", "-Infinity"]; // as documents have them
const MOST_NAMES = 8;

/**
 * A test of a run from the text of the filter, and a sentence for each part that is not understood,
 * which then filters nothing: { passes(row), unclear: [text] }.
 */
export function parseFilter(text, data, rows) {
  const [tests, unclear] = [[], []];
  for (const part of joinSigns(text).match(PART) ?? []) {
    const found = splitCondition(part);
    const made = found ? condition(part, found, data, rows) : anywhere(unquote(part).toLowerCase());
    if (typeof made === "string") unclear.push(made);
    else tests.push(made);
  }
  return { passes: (row) => tests.every((test) => test(row)), unclear };
}

/** Take away spaces around signs, but for those in quotes. */
const joinSigns = (text) => text.split(/("[^"]*")/).map((part, at) => (at % 2 ? part : part.replace(SIGN, "$1"))).join("");
const unquote = (text) => text.replaceAll('"', "");

function splitCondition(part) {
  const hidden = part.replace(/"[^"]*"/g, (quoted) => "_".repeat(quoted.length));
  const sign = /<=|>=|=|<|>/.exec(hidden);
  return sign && { name: part.slice(0, sign.index), sign: sign[0], wanted: part.slice(sign.index + sign[0].length) };
}

/** A test, or in words why there is none. */
function condition(part, { name, sign, wanted }, data, rows) {
  const example = exampleOf(data, rows, unquote(name));
  if (!name || !wanted) return `${part} lacks ${name ? "what it is compared with" : "a column"}: write ${example}`;
  const read = readerOf(unquote(name), data);
  if (!read) return `${unquote(name)} is no column: write ${example}; columns are ${listNames(data)}`;
  const [text, quoted] = [unquote(wanted), wanted.startsWith('"')];
  const number = quoted ? NaN : Number(wanted);
  const known = rows.map(read).filter((value) => value !== null && value !== undefined);
  const numeric = known.length > 0 && known.every((value) => isNumber(value) || NO_FINITE.includes(value));
  if (numeric && Number.isNaN(number) && !NO_FINITE.includes(text)) return `${unquote(name)} holds numbers, and ${wanted} is none: write ${example}`;
  if (sign !== "=" && known.length && !known.some(isNumber)) return `${unquote(name)} holds text, which has no order: write ${name}=${quoteIfNeeded(known[0])}`;
  return (row) => {
    const value = read(row);
    if (isNumber(value)) return COMPARE[sign](value, number);
    if (sign !== "=") return false;
    if (value === null || value === undefined) return text === "null" && !quoted;
    return typeof value === "string" ? value === text : showParameter(value).toLowerCase() === text.toLowerCase();
  };
}

function readerOf(name, data) {
  const [parameter, metric] = [data.columns.indexOf(name), data.metrics.indexOf(name)];
  if (parameter >= 0) return (row) => row.parameters[parameter];
  if (name === data.metric) return (row) => row.value;
  if (metric >= 0) return (row) => row.metrics[metric];
  if (Object.hasOwn(data.fixed, name)) return () => data.fixed[name];
  return Object.hasOwn(OF_RUNS, name) ? OF_RUNS[name] : null;
}

const OF_RUNS = {
  state: (row) => row.state, run: (row) => row.id, agent: (row) => row.agent, rank: (row) => row.rank, runtime: (row) => row.seconds,
};

function listNames(data) {
  const names = [...data.columns, data.metric, ...Object.keys(OF_RUNS)].filter(Boolean);
  return names.length > MOST_NAMES ? `${names.slice(0, MOST_NAMES - 1).join(", ")} and ${names.length - MOST_NAMES + 1} more` : names.join(", ");
}

/** A condition that is understood here, of the column that was meant if it holds numbers. */
function exampleOf(data, rows, name) {
  const numeric = data.columns.map((_, at) => at).filter((at) => rows.some((row) => isNumber(row.parameters[at])));
  if (!numeric.length) return "state=failed";
  const meant = data.columns.indexOf(name);
  const at = numeric.includes(meant) ? meant : numeric[0];
  return `${quoteIfNeeded(data.columns[at])}<${Number(rows.map((row) => row.parameters[at]).find(isNumber).toPrecision(2))}`;
}

const quoteIfNeeded = (value) => (/[\s<>=]/.test(String(value)) ? `"${value}"` : String(value));

function anywhere(word) {
  return (row) => [row.id, row.title, row.state, row.note, row.agent, ...row.parameters]
    .some((value) => value !== null && showParameter(value).toLowerCase().includes(word));
}
