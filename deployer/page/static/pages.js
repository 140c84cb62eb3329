// Which page an address has, and how it stays fresh.
import { Artifact } from "./artifact.js";
import { Compare } from "./compare.js";
import { Missing, currentAddress, isLive, listen, loadPage, startAddress } from "./data.js";
import { Home, Project } from "./lists.js";
import { address, el, link, sweepAddress } from "./parts.js";
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
    refresh().catch(tell);
  });
}

/** What is not there is said where it would be; what went while it was looked at stays to be seen. */
function tell(error) {
  if (!error) page?.calm?.();
  trouble.textContent = error && (page || !(error instanceof Missing)) ? `No news: ${error.message}.` : "";
  if (!(error instanceof Missing)) trouble.append(error ? " Trying again." : "");
  else if (!page) showMissing(error);
}

function showMissing(error) {
  document.getElementById("main").replaceChildren(el("h1", {}, "Not found"), el("p", {}, error.message, ". ", link(startAddress(), isLive ? "All projects" : "What is there")));
  document.getElementById("trail").replaceChildren(link("/", "deployer"));
  document.title = "Not found · deployer";
}

listen(currentAddress(), refresh, tell);
