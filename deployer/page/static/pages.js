// Which page an address has, and how it stays fresh.
import { Artifact } from "./artifact.js";
import { Compare } from "./compare.js";
import { currentAddress, isLive, listen, loadPage } from "./data.js";
import { Home, Project } from "./lists.js";
import { address, link, sweepAddress } from "./parts.js";
import { Run } from "./run.js";
import { Sweep } from "./sweep.js";

const PAGES = { home: Home, project: Project, sweep: Sweep, run: Run, compare: Compare, artifact: Artifact };
const trouble = document.getElementById("trouble");
let page = null;

function drawTrail(data) {
  const parts = [link("/", "deployer")];
  if (data.project) parts.push(link(address(data.entity, data.project), `${data.entity} / ${data.project}`));
  if (data.kind === "run" && data.sweep) {
    parts.push(link(sweepAddress(data.entity, data.project, data.sweep.id), data.sweep.title));
  }
  document.getElementById("trail").replaceChildren(...parts);
  document.title = [data.title ?? data.project ?? "projects", "deployer"].join(" · ");
}

async function refresh() {
  const here = currentAddress();
  const runs = new URLSearchParams(location.search).get("runs");
  const query = here.endsWith("/compare") && runs ? `?${new URLSearchParams({ runs })}` : "";
  const data = await loadPage(here, query);
  if (!data) return;
  drawTrail(data);
  page ??= new PAGES[data.kind](data, () => refresh().catch(() => {}));
  await page.update(data);
}

if (!isLive) {
  let shown = currentAddress();
  addEventListener("hashchange", () => {
    if (currentAddress() !== shown) [shown, page] = [currentAddress(), null];
    refresh();
  });
}
listen(currentAddress(), refresh, (message) => {
  trouble.textContent = message ? `No news: ${message}. Trying again.` : "";
});
