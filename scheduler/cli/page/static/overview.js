// The whole scheduler on one page: how many pods wait and for what, time lines, how full the nodes are.

import { useEffect } from "./vendor/hooks.js";
import { html } from "./html.js";
import { useAnswer } from "./api.js";
import { FirstPod, NoNodes } from "./empty.js";
import { Causes, Groups } from "./groups.js";
import { Facts, Meter, NodeLink, Pending, PodLink, Standby, Table, filtered, podOf } from "./parts.js";
import { TimeLines } from "./timeline.js";
import { Text, amount, clock, number, plural, span, visible } from "./text.js";

const EVERY = 3;
const GROUPS = 6;
const ROWS = 10;

const RESOURCES = [
  { title: "Resource", cell: (each) => html`<${Text} of=${each.resource} limit=${80} />` },
  { title: "Requested", numeric: true, cell: (each) => amount(each.resource, each.requested) },
  { title: "Allocatable", numeric: true, cell: (each) => amount(each.resource, each.allocatable) },
  { title: "Fill", cell: (each) => html`<${Meter} label=${visible(each.resource, 80)} used=${each.requested} total=${each.allocatable} />` },
];

const PLACED = [
  { title: "Pod", cell: (each) => html`<${PodLink} ...${podOf(each.pod)} />` },
  { title: "Node", cell: (each) => html`<${NodeLink} name=${each.node} />` },
  { title: "Time", cell: (each) => clock(each.time) },
  { title: "Score", numeric: true, cell: (each) => each.score ?? "" },
  { title: "Took", numeric: true, cell: (each) => (each.seconds ? span(each.seconds) : "") },
];

const bucket = (index) => (index === 10 ? "100 % or more" : `${index * 10} to ${index * 10 + 9} %`);

/** Nodes by the share of their fullest resource, as columns; the list for a screen reader says the same. */
function Fill({ fill }) {
  const most = Math.max(...fill, 1);
  return html`<ol class="fills" aria-label="Nodes by fill of their fullest resource">
    ${fill.map((count, index) => html`<li key=${index} title=${`${bucket(index)}: ${plural(count, "node")}`}>
      <span class="unseen">${bucket(index)}: </span><span class="small">${number(count)}</span>
      <span class=${`column step-${Math.min(6, Math.floor(index / 2))}`} style=${{ height: `${Math.max(count ? 3 : 1, (72 * count) / most)}px` }}></span>
    </li>`)}</ol>
    <p class="times small" aria-hidden="true"><span>empty</span><span>half full</span><span>full</span></p>`;
}

function Figures({ page }) {
  const rate = page.rates?.attempts?.scheduled ?? 0;
  return html`<${Facts} facts=${[
    ["Nodes", html`<a href="#/nodes">${number(page.nodes)}</a>`],
    ["Pods on them", number(page.pods)],
    ["Placed a second, lately", number(Math.round(rate * 10) / 10)],
    ["Placed since the start", number(page.attempts?.scheduled)],
    ["Attempts without a node", number(page.attempts?.unschedulable)],
    ["Attempts with an error", number(page.attempts?.error)],
    ["Started", clock(page.started)],
  ]} />`;
}

export function Overview({ at, usual, every = EVERY }) {
  const answer = useAnswer("summary", { rows: ROWS, at }, every);
  const waiting = useAnswer("waiting", { groups: GROUPS, at }, every);
  const page = answer.data;
  const queue = waiting.data;
  useEffect(() => {
    // Nothing here is for a user of one namespace.
    if (answer.status === 403 && usual) location.replace(filtered("waiting", { namespace: usual }));
  }, [answer.status, usual]);
  const unused = page && queue && !queue.total && !page.placed.length && !page.attempts?.scheduled;
  return html`<h1 tabindex="-1">${queue ? html`<${Text} of=${queue.headline} limit=${600} />` : "Overview"}</h1>
    ${answer.status === 403 ? html`<p>You may not see the whole cluster. <a href="#/waiting">Choose a namespace</a> whose pods you may get.</p>`
      : html`<${Pending} answer=${answer} what="the summary" />`}<${Standby} page=${page} />
    ${waiting.error && !answer.error && html`<${Pending} answer=${waiting} what="the waiting pods" />`}
    ${page && page.nodes === 0 && html`<${NoNodes} />`}
    ${unused && page.nodes > 0 && html`<${FirstPod} />`}
    ${queue && queue.total > 0 && html`<${Causes} causes=${queue.causes} chosen=${{}} />
      <section aria-labelledby="who"><h2 id="who">Who waits, and why</h2><${Groups} page=${queue} limit=${GROUPS} chosen=${{}} />
        <p><a href="#/waiting">All waiting pods</a></p></section>`}
    ${page && html`
      <section aria-labelledby="lately"><h2 id="lately">Lately</h2><${TimeLines} moments=${page.timeline} /></section>
      <section aria-labelledby="cluster"><h2 id="cluster">The cluster</h2><${Figures} page=${page} />
        ${page.nodes > 0 && html`<div class="columns">
          <div><h3>Resources of all nodes</h3>
            <${Table} caption="Resources of all nodes" columns=${RESOURCES} rows=${page.resources} id=${(each) => each.resource} /></div>
          <div><h3>Nodes by their fullest resource</h3><${Fill} fill=${page.fill} /><p><a href="#/nodes">Which node is how full</a></p></div>
        </div>`}</section>
      ${page.placed.length > 0 && html`<section aria-labelledby="placed"><h2 id="placed">Last placements</h2>
        <${Table} caption="Placements" columns=${PLACED} rows=${page.placed} id=${(each) => `${each.pod} ${each.time}`} /></section>`}`}`;
}
