// Charts: ECharts in the colours of the page's theme, drawn once they are in sight.
import { currentAddress } from "./data.js";
import { button, el, saveBlob } from "./parts.js";
import { makePicture } from "./picture.js";

/* global echarts */
// After Okabe and Ito: told apart by every kind of sight, on light and on dark.
const SERIES_COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b3a100", "#7b6fd0"];
const DASHES = ["solid", "dashed", "dotted", "double"];
const ON_CANVAS = { double: [10, 3, 2, 3] };
const dark = matchMedia("(prefers-color-scheme: dark)");
const all = new Set();

dark.addEventListener("change", () => all.forEach((chart) => chart.draw()));

/** How one of several lines is drawn: after eight, the colours come again in another dash. */
export const lineLook = (at) => ({ colour: SERIES_COLOURS[at % SERIES_COLOURS.length],
  dash: DASHES[Math.floor(at / SERIES_COLOURS.length) % DASHES.length] });

/** The same as a style of ECharts. */
export const strokeOf = ({ colour, dash }) => ({ color: colour, type: ON_CANVAS[dash] ?? dash });

/** A piece of such a line, beside the name of its run; empty without one. */
export function lineSample(look) {
  const sample = el("span", { class: "sample" });
  if (look) sample.style.borderTop = `3px ${look.dash} ${look.colour}`;
  return sample;
}

/** The theme's colours, as the style sheet has them. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  return Object.fromEntries(["text", "muted", "edge", "soft", "card", "accent", "finished", "failed", "warn", "curve", "hover"]
    .map((name) => [name, read(name)]));
}

/** What every chart with two axes has. */
export function frame(ink, { x, y, tooltip = {}, zoom = false }) {
  const lines = { lineStyle: { color: ink.edge } };
  const axis = (given) => ({
    nameTextStyle: { color: ink.muted }, axisLabel: { color: ink.muted, hideOverlap: true }, axisLine: lines,
    axisTick: { show: false }, splitLine: lines, ...given,
  });
  return {
    animation: false, backgroundColor: "transparent", textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
    grid: { left: 12, right: 18, top: 18, bottom: 30, containLabel: true },
    xAxis: axis({ nameLocation: "middle", nameGap: 28, splitLine: { show: false }, ...x }),
    yAxis: axis({ scale: true, ...y }),
    // Drawn on the canvas: a run's name can never be markup.
    tooltip: { renderMode: "richText", backgroundColor: ink.card, borderColor: ink.edge, textStyle: { color: ink.text, fontSize: 12 },
      confine: true, ...tooltip },
    ...(zoom ? { dataZoom: [{ type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false }] } : {}),
  };
}

/** What stands in the place of a chart that has nothing to draw. */
const nothing = (ink, text, width) => ({ title: { text, left: "center", top: "middle",
  textStyle: { color: ink.muted, fontSize: 13, fontWeight: 400, width: Math.max(80, width - 32), overflow: "break" } } });

/**
 * A card with one chart. `update(build, words, empty)` draws `build(colours)`; `words` say what it
 * shows, and `empty` why there is nothing to show, if so.
 */
export class Chart {
  constructor({ label, height = 300, tools = [] }) {
    this.label = label;
    this.title = el("strong", { title: label }, label);
    this.caption = el("span", { class: "muted" });
    this.note = el("p", { class: "note muted" });
    this.plot = el("div", { class: "plot", role: "img", "aria-label": label });
    this.plot.style.height = `${height}px`;
    this.picture = button("Picture", () => this.#savePicture(), { class: "quiet", title: "Save as a PNG file" });
    this.element = el("figure", { class: "card chart" },
      el("figcaption", {}, this.title, this.caption, ...tools, this.picture), this.note, this.plot);
    this.handlers = [];
    this.inSight = false;
    all.add(this);
    new ResizeObserver(() => this.chart?.resize()).observe(this.plot);
    new IntersectionObserver((entries) => {
      this.inSight = entries.at(-1).isIntersecting;
      if (this.inSight && this.waiting) this.draw();
    }, { rootMargin: "300px" }).observe(this.plot);
  }

  update(build, words = "", empty = "") {
    Object.assign(this, { build, empty });
    this.picture.hidden = empty !== "";
    this.plot.setAttribute("aria-label", [this.label, empty || words].filter(Boolean).join(": "));
    if (this.inSight) this.draw();
    else this.waiting = true;
  }

  draw() {
    this.waiting = !this.inSight && !this.chart;
    if (!this.build || this.waiting) return;
    if (!this.chart) {
      this.chart = echarts.init(this.plot, null, { renderer: "canvas" });
      for (const [name, handler] of this.handlers) this.chart.on(name, handler);
    }
    const ink = colours();
    const option = this.empty ? nothing(ink, this.empty, this.plot.clientWidth) : this.build(ink);
    this.chart.setOption({ animation: false, ...option }, { notMerge: true });
    if (!this.empty) this.afterDraw?.();
  }

  on(name, handler) {
    this.handlers.push([name, handler]);
    this.chart?.on(name, handler);
  }

  async #savePicture() {
    this.inSight = true;
    if (!this.chart) this.draw();
    if (!this.chart) return;
    const page = document.title.replace(/ · deployer$/, "");
    const filter = new URLSearchParams(location.search).get("q");
    const about = [page, this.caption.textContent, this.note.textContent, filter && `filter: ${filter}`].filter(Boolean).join("  ·  ");
    const blob = await makePicture(this.chart, [this.plot.getAttribute("aria-label"), about], colours());
    const id = currentAddress().split("/").at(-1);
    saveBlob(`${id} ${this.label}.png`.replace(/[^\w.-]+/g, "-"), blob);
  }
}
