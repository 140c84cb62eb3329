// Images and tables that a run logged, the newest of each name.
import { isLive, loadText } from "./data.js";
import { el, filesAddress, show } from "./parts.js";

const MOST_ROWS = 100;

export class Media {
  constructor(page) {
    this.page = page;
    this.items = el("div", { class: "media" });
    this.element = el("section", {}, el("h2", {}, "Images and tables"), this.items);
  }

  update(media) {
    const text = JSON.stringify(media);
    this.element.hidden = !media.length || !isLive;
    if (text === this.text || !isLive) return;
    this.text = text;
    this.items.replaceChildren(...media.map((item) => this.#item(item)));
  }

  #item({ name, kind, step, paths }) {
    const caption = el("figcaption", {}, el("strong", {}, name), el("span", { class: "muted" }, `step ${show(step)}`));
    const parts = paths.map((path) => (kind === "image" ? this.#image(name, path) : this.#table(path)));
    return el("figure", { class: `card ${kind}` }, caption, el("div", { class: "row" }, ...parts));
  }

  /** Shown from bytes that the server declares to be an image, whatever the file holds. */
  #image(name, path) {
    return el("img", { alt: name, loading: "lazy", src: `${filesAddress(this.page, path)}?as=image` });
  }

  #table(path) {
    const box = el("div", { class: "table" }, el("p", { class: "muted" }, "…"));
    loadText(filesAddress(this.page, path)).then((text) => {
      const { columns, data } = JSON.parse(text);
      const heads = columns.map((column) => el("th", { scope: "col" }, show(column)));
      const rows = data.slice(0, MOST_ROWS).map((row) => el("tr", {}, ...row.map((value) => el("td", {}, show(value)))));
      const more = data.length > MOST_ROWS ? [el("caption", {}, `${MOST_ROWS} of ${data.length} rows`)] : [];
      box.replaceChildren(el("table", {}, ...more, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows)));
    }).catch((error) => box.replaceChildren(el("p", { class: "muted" }, error.message)));
    return box;
  }
}
