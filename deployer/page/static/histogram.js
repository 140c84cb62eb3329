// A histogram that a run logged, as bars; of several, one at a step that is chosen.
import { Chart, frame } from "./charts.js";
import { show, writeTicks } from "./parts.js";
import { Steps } from "./steps.js";

export class Histogram {
  constructor(name) {
    this.steps = new Steps(name, () => this.#draw());
    this.chart = new Chart({ label: name, height: 200, tools: [this.steps.element] });
    this.chart.element.classList.add("histogram");
    this.element = this.chart.element;
  }

  update(frames) {
    this.frames = frames;
    this.#draw();
  }

  #draw() {
    const { step, edges, counts } = this.steps.choose(this.frames);
    const total = counts.reduce((sum, count) => sum + count, 0);
    this.chart.caption.textContent = `step ${show(step)}`;
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
      x: { type: "value", min: edges[0], max: edges.at(-1), axisLabel: { color: ink.muted, hideOverlap: true,
        alignMaxLabel: "right", formatter: writeTicks(edges) } },
      y: { type: "value", min: 0, scale: false, axisLabel: { color: ink.muted, formatter: show } },
      tooltip: { trigger: "item", formatter: ({ value: [low, high, count] }) => `${show(low)} to ${show(high)}\n${show(count)} values` },
    });
    return { ...option, series: [{ type: "custom", renderItem: bar, encode: { x: [0, 1], y: 2 },
      data: counts.map((count, at) => [edges[at], edges[at + 1], count]) }] };
  }
}
