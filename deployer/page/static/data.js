// Where documents come from: a server that tells when they change, or the page's own file.
// Nothing else on the page knows which.

const element = document.getElementById("documents");
const embedded = element ? JSON.parse(element.textContent) : null;
const tags = new Map();

/** Whether there is a server that can be asked again, and told what to do. */
export const isLive = embedded === null;

/** The address of the page that is shown, such as /entity/project/sweeps/id. */
export function currentAddress() {
  if (isLive) return location.pathname;
  return location.hash.slice(1).split("?")[0] || embedded.start;
}

/** Where all begins. */
export const startAddress = () => (isLive ? "/" : embedded.start);

/** Where a link to a page leads; null if this file does not hold it. */
export function linkTo(address) {
  if (isLive) return address;
  return address.split("?")[0] in embedded.pages ? `#${address}` : null;
}

/** What was asked for is not there, and will not come. */
export class Missing extends Error {}

/** A page's document; null if it is the one that was loaded before. Throws Missing. */
export async function loadPage(address, query = "") {
  if (!isLive && !(address in embedded.pages)) throw new Missing(`this file does not hold ${decodeURI(address)}`);
  if (!isLive) return embedded.pages[address];
  return ask(`/api/pages${address}${query}`);
}

/** The curves of one metric of some runs: [{ run, steps, values, seconds?, epochs? }]. */
export async function loadCurves(project, metric, runs) {
  if (!isLive) {
    const wanted = new Set(runs);
    return (embedded.curves[metric] ?? []).filter((curve) => wanted.has(curve.run));
  }
  if (!runs.length) return [];
  const query = new URLSearchParams({ metric, runs: runs.join(",") });
  return (await ask(`/api/pages${project}/curves?${query}`, false)).curves;
}

/** Whether there may be curves of a metric: a file holds few. */
export const hasCurves = (metric) => isLive || Object.hasOwn(embedded.curves, metric);

/** What the parameters of a sweep explain of a metric. */
export async function loadImportance(sweep, metric) {
  if (!isLive) return embedded.importance?.[metric] ?? null;
  return ask(`/api/pages${sweep}/importance?${new URLSearchParams({ metric })}`, false);
}

export class Unanswered extends Error {}

/** Fetch, in our words where nobody answers: each browser has its own. */
async function request(address, options) {
  try {
    return await fetch(address, options);
  } catch {
    throw new Unanswered("the server does not answer");
  }
}

/** The text of a run's file. */
export async function loadText(file) {
  const reply = await request(file, { cache: "no-store" });
  if (!reply.ok) throw new Error(await reason(reply));
  return reply.text();
}

/** Have something done to a sweep: pause, resume, stop or cancel. */
export async function act(sweep, action) {
  const headers = { "Content-Type": "application/json" };
  const reply = await request(`/api/pages${sweep}/state`, { method: "POST", headers, body: JSON.stringify({ action }) });
  if (reply.status === 401) location.reload();
  if (!reply.ok) throw new Error(await reason(reply));
}

/**
 * Call `onChange()` now and whenever the page at an address has changed; what it throws, and that a
 * server is away, goes to `onTrouble(error)`, which gets null once all is well again.
 * A page that nobody sees holds no connection, nor does one that is Missing.
 */
export function listen(address, onChange, onTrouble) {
  const fresh = new Freshness(onChange, onTrouble);
  fresh.wake();
  if (!isLive) return;
  let source = null;
  const open = () => {
    if (document.hidden || source || fresh.over) return;
    source = new EventSource(`/api/events${address}${location.search}`);
    source.onmessage = () => fresh.wake();
    // A stream that ends is opened again by the browser; what it missed is asked for at once.
    source.onerror = () => { fresh.wake(); if (source?.readyState === EventSource.CLOSED) close(); };
  };
  const close = () => { source?.close(); source = null; };
  fresh.whenOver = close;
  document.addEventListener("visibilitychange", () => { close(); open(); });
  setInterval(open, 5000);
  open();
}

/** Calls that follow each other, never two at once, and never the whole time. */
class Freshness {
  constructor(call, onTrouble) {
    Object.assign(this, { call, onTrouble, busy: false, again: false, over: false, whenOver: () => {} });
  }

  async wake() {
    if (this.over) return;
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    const begun = performance.now();
    try {
      await this.call();
      this.onTrouble(null);
    } catch (error) {
      this.onTrouble(error);
      this.over = error instanceof Missing;
      this.again = !this.over;
      if (this.over) this.whenOver();
    }
    const rest = Math.max(500, 3 * (performance.now() - begun));
    setTimeout(() => {
      this.busy = false;
      if (this.again) [this.again] = [false, this.wake()];
    }, this.again ? Math.max(rest, 2000) : rest);
  }
}

async function ask(url, tagged = true) {
  const headers = tagged && tags.has(url) ? { "If-None-Match": tags.get(url) } : {};
  const reply = await request(url, { cache: "no-store", headers });
  if (reply.status === 304) return null;
  if (reply.status === 401) {
    location.reload(); // which asks for the key
    return new Promise(() => {});
  }
  if (reply.status === 404) throw new Missing(await reason(reply));
  if (!reply.ok) throw new Error(await reason(reply));
  tags.set(url, reply.headers.get("ETag") ?? "");
  return reply.json();
}

/** What the server says is in the way, such as a full disk. */
async function reason(reply) {
  const body = await reply.json().catch(() => ({}));
  return body.errors?.[0]?.message ?? `the server answered ${reply.status}`;
}
