// Best so far: each finished run as a point, and the best value up to it as steps.
import { Chart, frame } from "./charts.js";
import { runName, select, show, showTime, writeTicks } from "./parts.js";

export class BestSoFar {
  constructor(view, onPick) {
    this.view = view;
    this.x = select("Horizontal axis of best so far", [["", "over runs"], ["time", "over time"]], view.get("best"),
      (value) => view.set("best", value));
    this.chart = new Chart({ label: "Best so far", height: 300, tools: [this.x] });
    this.element = this.chart.element;
    this.chart.on("click", (event) => event.data?.id && onPick(event.data.id));
  }

  update(data, rows) {
    this.element.hidden = !data.metric;
    const overTime = this.view.get("best") === "time" && data.best_so_far.ended_at.some((at) => at !== null);
    this.x.value = this.view.get("best");
    const byId = new Map(rows.map((row) => [row.id, row]));
    const points = data.best_so_far.runs.map((id, at) => ({ row: byId.get(id), best: data.best_so_far.best[at],
      x: overTime ? data.best_so_far.ended_at[at] * 1000 : at + 1 })).filter(({ row, x }) => row && x);
    const last = points.at(-1);
    this.chart.caption.textContent = last ? `${data.metric} ${show(last.best)} of ${points.length} runs` : "";
    const text = JSON.stringify([overTime, points.length, last?.best, points[0]?.x]);
    if (text === this.text) return;
    this.text = text;
    const empty = last ? "" : `no run has finished with a finite ${data.metric}`;
    this.chart.update((ink) => this.#option(ink, data, points, overTime), this.chart.caption.textContent, empty);
  }

  #option(ink, data, points, overTime) {
    const option = frame(ink, {
      x: overTime ? { type: "time" } : { type: "value", name: "finished runs", min: points.length > 1 ? 1 : 0, max: "dataMax", minInterval: 1 },
      y: { type: "value", axisLabel: { color: ink.muted, formatter: writeTicks(points.flatMap(({ row, best }) => [row.value, best])) } },
      tooltip: { trigger: "item", formatter: ({ data: point }) => (point.id
        ? [point.name, `${data.metric} ${show(point.value[1])}`, overTime ? showTime(point.value[0] / 1000) : ""].filter(Boolean).join("\n") : "") },
    });
    return { ...option, series: [
      { type: "scatter", symbolSize: points.length > 500 ? 4 : 6, itemStyle: { color: ink.curve, opacity: 0.6 },
        data: points.map(({ row, x }) => ({ id: row.id, name: runName(row), value: [x, row.value] })) },
      { type: "line", step: "end", showSymbol: false, silent: true, data: points.map(({ x, best }) => [x, best]),
        itemStyle: { color: ink.accent }, lineStyle: { color: ink.accent, width: 2.4 } },
    ] };
  }
}
