// Which step of a medium is shown.
import { el, show } from "./parts.js";

/** The newest step, also as others come, until another one is chosen. */
export class Steps {
  constructor(name, onChange) {
    this.range = el("input", { type: "range", min: "0", "aria-label": `Step of ${name}`, oninput: () => {
      const at = Number(this.range.value);
      this.chosen = at < this.frames.length - 1 ? this.frames[at].step : null;
      onChange();
    } });
    this.element = el("span", { class: "tool" }, this.range);
    this.chosen = null;
  }

  /** Take the frames, each with its step, and return the one that is shown. */
  choose(frames) {
    this.frames = frames;
    const at = this.chosen === null ? -1 : frames.findLastIndex(({ step }) => step <= this.chosen);
    const place = at < 0 ? frames.length - 1 : at;
    this.element.hidden = frames.length < 2;
    this.range.max = String(frames.length - 1);
    this.range.value = String(place);
    this.range.setAttribute("aria-valuetext", `step ${show(frames[place].step)}`);
    return frames[place];
  }
}
