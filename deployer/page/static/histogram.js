// A histogram that a run logged, as bars; of several, one at a step that is chosen.
import { Chart, frame } from "./charts.js";
import { el, show } from "./parts.js";

export class Histogram {
  constructor({ name, frames }) {
    this.frames = frames;
    this.range = el("input", { type: "range", min: "0", max: String(frames.length - 1), value: String(frames.length - 1),
      "aria-label": `Step of ${name}`, oninput: () => this.#draw() });
    const tools = frames.length > 1 ? [el("label", { class: "tool" }, "step ", this.range)] : [];
    this.chart = new Chart({ label: name, height: 200, tools });
    this.chart.element.classList.add("histogram");
    this.element = this.chart.element;
    this.#draw();
  }

  #draw() {
    const { step, edges, counts } = this.frames[Number(this.range.value)];
    const total = counts.reduce((sum, count) => sum + count, 0);
    this.chart.caption.textContent = `step ${show(step)}`;
    this.range.setAttribute("aria-valuetext", `step ${show(step)}`);
    this.chart.update((ink) => this.#option(ink, edges, counts), `${show(total)} values from ${show(edges[0])} to ${show(edges.at(-1))}`,
      total ? "" : "no values");
  }

  #option(ink, edges, counts) {
    const bar = (params, api) => {
      const [left, top] = api.coord([api.value(0), api.value(2)]);
      const [right, bottom] = api.coord([api.value(1), 0]);
      return { type: "rect", shape: { x: left, y: top, width: Math.max(1, right - left - 1), height: bottom - top }, style: { fill: ink.accent } };
    };
    const option = frame(ink, {
      x: { type: "value", min: edges[0], max: edges.at(-1), axisLabel: { color: ink.muted, hideOverlap: true, formatter: show } },
      y: { type: "value", min: 0, scale: false, axisLabel: { color: ink.muted, formatter: show } },
      tooltip: { trigger: "item", formatter: ({ value: [low, high, count] }) => `${show(low)} to ${show(high)}\n${show(count)} values` },
    });
    return { ...option, series: [{ type: "custom", renderItem: bar, encode: { x: [0, 1], y: 2 },
      data: counts.map((count, at) => [edges[at], edges[at + 1], count]) }] };
  }
}
