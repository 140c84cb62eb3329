// What a run logged beside numbers, the newest of each name: images, tables, pages, histograms.
import { isLive, loadText } from "./data.js";
import { Histogram } from "./histogram.js";
import { download, el, filesAddress, show } from "./parts.js";

const MOST_ROWS = 100;
const NO_JSON = /"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/g; // what the SDK writes bare, and texts, which may hold it

export class Media {
  constructor(page) {
    this.page = page;
    this.known = new Map();
    this.items = el("div", { class: "media" });
    this.element = el("section", {}, el("h2", {}, "Media"), this.items);
  }

  /** What is as it was stays: a page in a frame would be loaded again. */
  update(media) {
    this.element.hidden = !media.length || !isLive;
    if (!isLive) return;
    const shown = media.map((item) => {
      const text = JSON.stringify(item);
      const known = this.known.get(item.name);
      if (known?.text === text) return known.element;
      const element = item.kind === "histogram" ? new Histogram(item).element : this.#item(item);
      this.known.set(item.name, { text, element });
      return element;
    });
    if (shown.length !== this.items.children.length || shown.some((element, at) => this.items.children[at] !== element)) {
      this.items.replaceChildren(...shown);
    }
  }

  #item({ name, kind, step, files }) {
    const caption = el("figcaption", {}, el("strong", { title: name }, name), el("span", { class: "muted" }, `step ${show(step)}`));
    const draw = { image: ({ path, caption: said }) => this.#image(name, path, said), table: ({ path }) => this.#table(path), html: ({ path }) => this.#html(name, path) }[kind];
    return el("figure", { class: `card ${kind}` }, caption, el("div", { class: "row" }, ...files.map(draw)));
  }

  /** Shown from bytes that the server declares to be an image, whatever the file holds. */
  #image(name, path, said) {
    const image = el("img", { alt: said || name, loading: "lazy", src: `${filesAddress(this.page, path)}?as=image` });
    return said ? el("div", {}, image, el("p", { class: "muted" }, said)) : image;
  }

  /** In a frame that runs no script and knows nothing of this site; saved, it is all there. */
  #html(name, path) {
    const address = filesAddress(this.page, path);
    return el("div", { class: "framed" }, el("iframe", { title: name, sandbox: "", loading: "lazy", src: `${address}?as=html` }),
      el("p", { class: "muted" }, "without its scripts: ", download(address, "save the page")));
  }

  #table(path) {
    const box = el("div", { class: "table" }, el("p", { class: "muted" }, "…"));
    loadText(filesAddress(this.page, path)).then((text) => {
      const { columns, data } = JSON.parse(text.replace(NO_JSON, (part) => (part.startsWith('"') ? part : `"${part}"`)));
      const heads = columns.map((column) => el("th", { scope: "col" }, show(column)));
      const rows = data.slice(0, MOST_ROWS).map((row) => el("tr", {}, ...row.map((value) => el("td", {}, show(value)))));
      const more = data.length > MOST_ROWS ? [el("caption", {}, `${MOST_ROWS} of ${data.length} rows`)] : [];
      box.replaceChildren(el("table", {}, ...more, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows)));
    }).catch((error) => box.replaceChildren(el("p", { class: "muted" }, error.message)));
    return box;
  }
}
