// The text of the filter: words and conditions such as `lr>=0.01` or `state=killed,failed`, all of which
// must hold; with `or` between them, and `not` or `-` before one. And what in it is not understood.
import { isNumber, showParameter, wordOf } from "./parts.js";
import { marksOf } from "./runs.js";

const SIGN = /<=|>=|!=|==|=|<|>/;
const AROUND_SIGN = new RegExp(`\\s*(${SIGN.source})\\s*`, "g");
const PART = /(?:"[^"]*"|[^\s"])+/g; // in quotes, a name or a value may hold spaces
const ORDER = { "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b };
const NO_FINITE = { nan: "NaN", inf: "Infinity", "-inf": "-Infinity", infinity: "Infinity", "-infinity": "-Infinity" }; // as documents have them
const SECONDS = { s: 1, m: 60, h: 3600, d: 86400 };
const MOST_NAMES = 8;

/**
 * A test of a run from the text of the filter, and a sentence for each part that is not understood,
 * which then filters nothing: { passes(row), unclear: [text] }.
 */
export function parseFilter(text, data, rows) {
  const [unclear, choices] = [[], [[]]];
  const open = text.split('"').length % 2 === 0;
  if (open) unclear.push("a quote is not closed");
  let negated = false;
  for (const part of joinSigns(open ? text.slice(0, text.lastIndexOf('"')) : text).match(PART) ?? []) {
    const word = part.toLowerCase();
    if (word === "or") choices.push([]);
    if (word === "not") negated = !negated;
    if (["or", "and", "not"].includes(word)) continue;
    const minus = /^-[^\d.]/.test(part);
    const made = term(minus ? part.slice(1) : part, data, rows);
    if (typeof made === "string") unclear.push(made);
    else choices.at(-1).push(negated === minus ? made : (row) => !made(row));
    negated = false;
  }
  if (negated) unclear.push("not stands before a word or a condition");
  const usable = choices.filter((tests) => tests.length);
  if (usable.length < choices.length && choices.length > 1 && !unclear.length) unclear.push("or stands between two words or conditions");
  return { passes: (row) => !usable.length || usable.some((tests) => tests.every((test) => test(row))), unclear };
}

/** Take away spaces around signs, but for those in quotes. */
const joinSigns = (text) => text.split(/("[^"]*")/).map((part, at) => (at % 2 ? part : part.replace(AROUND_SIGN, "$1"))).join("");
const unquote = (text) => text.replaceAll('"', "");

/** A test, or in words why there is none. */
function term(part, data, rows) {
  const sign = SIGN.exec(part.replace(/"[^"]*"/g, (quoted) => "_".repeat(quoted.length)));
  if (!sign) return anywhere(unquote(part).toLowerCase());
  return condition(part, part.slice(0, sign.index), sign[0], part.slice(sign.index + sign[0].length), data, rows);
}

function condition(part, name, sign, wanted, data, rows) {
  const [column, read] = findColumn(unquote(name), data);
  const example = exampleOf(data, rows, column);
  if (!name || !wanted) return `${part} lacks ${name ? "what it is compared with" : "a column"}: write ${example}`;
  if (!read) return `${unquote(name)} is no column: ${nearTo(unquote(name), data) ?? `write ${example}; columns are ${listNames(data)}`}`;
  const known = rows.map(read).filter((value) => value !== null && value !== undefined);
  const numeric = known.length > 0 && known.every((value) => isNumber(value) || Object.values(NO_FINITE).includes(value));
  const values = (sign in ORDER ? [wanted] : wanted.match(/(?:"[^"]*"|[^,"])+/g) ?? [wanted]).map((text) => readValue(text, column));
  const odd = values.find(({ number, word }) => Number.isNaN(number) && !word);
  if (numeric && odd) return `${column} holds numbers, and ${odd.text} is none: write ${example}`;
  if (sign in ORDER) {
    if (known.length && !known.some(isNumber)) return `${column} holds text, which has no order: write ${quoteIfNeeded(column)}=${quoteIfNeeded(known[0])}`;
    return (row) => isNumber(read(row)) && ORDER[sign](read(row), values[0].number);
  }
  const equals = (row) => values.some((value) => isSame(read(row), value));
  return sign === "!=" ? (row) => !equals(row) : equals;
}

/** What a value is compared with; in quotes it is text. A time may have a unit. */
function readValue(wanted, column) {
  const [quoted, text] = [wanted.startsWith('"'), unquote(wanted)];
  const time = column === "runtime" && /^([\d.]+)([smhd])$/.exec(text);
  const number = quoted ? NaN : time ? Number(time[1]) * SECONDS[time[2]] : Number(text);
  return { quoted, text, number, word: quoted ? "" : NO_FINITE[text.toLowerCase()] };
}

function isSame(value, { quoted, text, number, word }) {
  if (isNumber(value)) return value === number;
  if (value === null || value === undefined) return text === "null" && !quoted;
  return typeof value === "string" ? value === (word ?? text) || value === text : showParameter(value).toLowerCase() === text.toLowerCase();
}

/** A column by its name, in another case if no other is meant: [its name, its reader or null]. */
function findColumn(name, data) {
  if (readerOf(name, data)) return [name, readerOf(name, data)];
  const alike = namesOf(data).filter((one) => one.toLowerCase() === name.toLowerCase());
  return alike.length === 1 ? [alike[0], readerOf(alike[0], data)] : [name, null];
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

const namesOf = (data) => [...new Set([...data.columns, data.metric, ...data.metrics, ...Object.keys(data.fixed), ...Object.keys(OF_RUNS)].filter(Boolean))];

function listNames(data) {
  const names = [...data.columns, data.metric, ...Object.keys(OF_RUNS)].filter(Boolean);
  return names.length > MOST_NAMES ? `${names.slice(0, MOST_NAMES - 1).join(", ")} and ${names.length - MOST_NAMES + 1} more` : names.join(", ");
}

/** A question after the column that may have been meant, if there is one. */
function nearTo(name, data) {
  const [text, start] = [name.toLowerCase(), name.toLowerCase().slice(0, 3)];
  const near = namesOf(data).find((one) => one.toLowerCase().includes(text)) ?? namesOf(data).find((one) => one.toLowerCase().startsWith(start));
  return near && `did you mean ${quoteIfNeeded(near)}?`;
}

/** A condition that is understood here, of the column that was meant if it holds numbers. */
function exampleOf(data, rows, meant) {
  for (const name of [meant, ...data.columns]) {
    const read = readerOf(name, data);
    const number = read && rows.map(read).find(isNumber);
    if (isNumber(number)) return `${quoteIfNeeded(name)}<${name === "runtime" ? "60s" : Number(number.toPrecision(2))}`;
  }
  return "state=failed";
}

const quoteIfNeeded = (value) => (/[\s<>=!,]/.test(String(value)) ? `"${value}"` : String(value));

function anywhere(word) {
  return (row) => [row.id, row.title, row.state, wordOf(row), row.agent, marksOf(row), ...row.parameters]
    .some((value) => value !== null && showParameter(value).toLowerCase().includes(word));
}
