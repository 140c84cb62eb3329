// What a run logged beside numbers, of each name what it has at one step: images, tables, pages, histograms.
import { isLive, loadText } from "./data.js";
import { Histogram } from "./histogram.js";
import { download, el, filesAddress, show } from "./parts.js";
import { Steps } from "./steps.js";

const MOST_ROWS = 100;
const NO_JSON = /"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/g; // what the SDK writes bare, and texts, which may hold it

export class Media {
  constructor(page) {
    this.page = page;
    this.known = new Map();
    this.items = el("div", { class: "media" });
    this.element = el("section", {}, el("h2", {}, "Media"), this.items);
  }

  update(media) {
    this.element.hidden = !media.length || !isLive;
    if (!isLive) return;
    const shown = media.map(({ name, kind, frames }) => {
      const key = `${kind} ${name}`;
      if (!this.known.has(key)) this.known.set(key, kind === "histogram" ? new Histogram(name) : new Files(this.page, name, kind));
      const card = this.known.get(key);
      card.update(frames);
      return card.element;
    });
    if (shown.length !== this.items.children.length || shown.some((element, at) => this.items.children[at] !== element)) {
      this.items.replaceChildren(...shown);
    }
  }
}

/** A card with the files of one name. */
class Files {
  constructor(page, name, kind) {
    Object.assign(this, { page, name });
    this.steps = new Steps(name, () => this.#draw());
    this.said = el("span", { class: "muted" });
    this.row = el("div", { class: "row" });
    this.element = el("figure", { class: `card ${kind}` },
      el("figcaption", {}, el("strong", { title: name }, name), this.said, this.steps.element), this.row);
    this.make = { image: (file) => this.#image(file), table: (file) => this.#table(file), html: (file) => this.#html(file) }[kind];
  }

  update(frames) {
    this.frames = frames;
    this.#draw();
  }

  /** What is as it was stays: a page in a frame would be loaded again. */
  #draw() {
    const { step, files } = this.steps.choose(this.frames);
    this.said.textContent = `step ${show(step)}`;
    const text = JSON.stringify(files);
    if (text === this.text) return;
    this.text = text;
    this.row.replaceChildren(...files.map(this.make));
  }

  /** Shown from bytes that the server declares to be an image, whatever the file holds. */
  #image({ path, caption }) {
    const image = el("img", { alt: caption || this.name, loading: "lazy", src: `${filesAddress(this.page, path)}?as=image` });
    return caption ? el("div", {}, image, el("p", { class: "muted" }, caption)) : image;
  }

  /** In a frame that runs no script and knows nothing of this site; saved, it is all there. */
  #html({ path }) {
    const address = filesAddress(this.page, path);
    return el("div", { class: "framed" }, el("iframe", { title: this.name, sandbox: "", loading: "lazy", src: `${address}?as=html` }),
      el("p", { class: "muted" }, "without its scripts: ", download(address, "save the page")));
  }

  #table({ path }) {
    const box = el("div", { class: "table" }, el("p", { class: "muted" }, "…"));
    loadText(filesAddress(this.page, path)).then((text) => {
      const { columns, data } = JSON.parse(text.replace(NO_JSON, (part) => (part.startsWith('"') ? part : `"${part}"`)));
      const heads = columns.map((column) => el("th", { scope: "col" }, show(column)));
      const rows = data.slice(0, MOST_ROWS).map((row) => el("tr", {}, ...row.map((value) => el("td", { title: show(value) }, show(value)))));
      const more = data.length > MOST_ROWS ? [el("caption", {}, `${MOST_ROWS} of ${data.length} rows`)] : [];
      box.replaceChildren(el("table", {}, ...more, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows)));
    }).catch((error) => box.replaceChildren(el("p", { class: "muted" }, error.message)));
    return box;
  }
}
