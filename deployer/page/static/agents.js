// The agents of a sweep: where each is, and what it does now.
import { el, link, runAddress, showTime } from "./parts.js";
import { Table } from "./table.js";

export class Agents {
  constructor(data) {
    this.table = new Table([
      { label: "agent", value: (row) => row.name },
      { label: "machine", value: (row) => row.host, cell: machineCell },
      { label: "GPU", value: (row) => row.gpus, cell: (row) => row.gpus || "–" },
      { label: "now", value: (row) => row.doing, cell: (row) => el("span", {}, el("span", { class: `state ${row.doing}` }, row.doing),
        ...(row.run ? [" on ", link(runAddress(data, row.run), row.run)] : [])) },
      { label: "finished", number: true, value: (row) => row.finished },
      { label: "last heard of", value: (row) => row.heartbeat_at, cell: (row) => (row.heartbeat_at ? showTime(row.heartbeat_at) : "–") },
    ], { caption: "Agents", empty: "no agent has joined: deployer agents up starts some" });
    this.element = this.table.element;
  }

  update(data) {
    this.table.update(data.agents.map((agent, at) => ({ ...agent, id: `${agent.name}/${at}` })));
  }
}

/** A pod's name, and the node that it is on. */
const machineCell = ({ host, node }) => el("span", {}, host, ...(node ? [el("div", { class: "muted" }, `on ${node}`)] : []));
