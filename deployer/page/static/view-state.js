// What a viewer has chosen (filter, order, runs, axes), kept in the address: it can be sent to
// others, and the back button undoes it.

const PAUSE = 1500; // milliseconds; changes of the same thing within it are one step back

export class ViewState {
  constructor() {
    this.listeners = [];
    this.last = { name: null, at: 0 };
    addEventListener("popstate", () => this.#tell());
  }

  get(name, fallback = "") {
    return this.#read().get(name) ?? fallback;
  }

  list(name) {
    return this.get(name).split(",").filter(Boolean).map(decodeURIComponent);
  }

  /** Set a value; an empty one leaves the address. */
  set(name, value) {
    const found = this.#read();
    if ((found.get(name) ?? "") === value) return;
    if (value) found.set(name, value);
    else found.delete(name);
    const text = found.toString();
    const now = performance.now();
    const same = this.last.name === name && now - this.last.at < PAUSE;
    this.last = { name, at: now };
    const [before] = location.hash.split("?");
    const to = location.hash ? `${before}${text ? `?${text}` : ""}` : `${location.pathname}${text ? `?${text}` : ""}`;
    history[same ? "replaceState" : "pushState"](null, "", to);
    this.#tell();
  }

  setList(name, values) {
    this.set(name, values.map(encodeURIComponent).join(","));
  }

  onChange(listener) {
    this.listeners.push(listener);
  }

  #read() {
    const [, inHash] = location.hash.split("?");
    return new URLSearchParams(location.hash ? (inHash ?? "") : location.search);
  }

  #tell() {
    for (const listener of this.listeners) listener();
  }
}
