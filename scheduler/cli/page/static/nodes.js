// A map of all nodes by zone or pool, coloured by how much of a resource is requested.

import { useMemo, useState } from "./vendor/hooks.js";
import { html } from "./html.js";
import { ask, usePolled } from "./api.js";
import { NoNodes } from "./empty.js";
import { HeatMap, Legend } from "./heatmap.js";
import { Badge, Meter, NodeLink, Pending, Standby, Table, Words, sortedBy } from "./parts.js";
import { Tiles, holds } from "./tiles.js";
import { Text, contains, number, percent, plural, visible } from "./text.js";

const CHUNK = 500;
const MOST_NODES = 20_000;
const MOST_GROUPS = 30;
// Up to so many nodes each is a tile with its name; more are squares.
const MOST_TILES = 400;
const EVERY = 5;

export const FULLEST = "the fullest resource";
const GROUPINGS = { zone: "zone", pool: "pool" };

/** Ask for all nodes, chunk by chunk. */
async function allNodes(at, signal) {
  const nodes = new Map();
  let from = 0;
  let page;
  do {
    page = await ask("nodes", { limit: CHUNK, from, at }, signal);
    // A node may have moved between two chunks: it counts once.
    for (const node of page.nodes) nodes.set(node.name, node);
    from = page.next;
  } while (from !== null && nodes.size < MOST_NODES);
  return { ...page, nodes: [...nodes.values()] };
}

/** Return the share of a resource that is requested, by its index. */
function shareAt(node, index) {
  const [used, total] = [node.requested[index], node.allocatable[index]];
  return total > 0 ? used / total : used > 0 ? 1.01 : 0;
}

/** A node as the map shows it: the share of one resource, or of its fullest one. */
function shown(node, resources, resource) {
  let index = resources.indexOf(resource);
  if (index < 0) {
    index = 0;
    for (let each = 1; each < resources.length; each += 1) if (shareAt(node, each) > shareAt(node, index)) index = each;
  }
  return { ...node, closed: node.unschedulable, share: shareAt(node, index), resource: resources[index] ?? "", index };
}

/** Group by a field; a node keeps its place while it fills. The groups beyond the limit are joined. */
function grouped(nodes, field) {
  const groups = new Map();
  for (const node of nodes) {
    const found = groups.get(node[field]);
    if (found) found.push(node);
    else groups.set(node[field], [node]);
  }
  const sorted = [...groups].sort((a, b) => b[1].length - a[1].length);
  const rest = sorted.slice(MOST_GROUPS).flatMap(([, members]) => members);
  const first = sortedBy(sorted.slice(0, MOST_GROUPS), ([name]) => name)
    .map(([name, members]) => [name || `no ${field}`, members]);
  return rest.length ? [...first, [`other ${field}s`, rest]] : first;
}

const COLUMNS = [
  { title: "Node", cell: (node) => html`<${NodeLink} name=${node.name} />`, by: (node) => node.name },
  { title: "Fill", numeric: false, cell: (node) => html`<${Meter} label=${`${visible(node.name, 80)}: ${visible(node.resource, 60)}`} used=${node.share} total=${1} />`, by: (node) => node.share },
  { title: "Holds", cell: (node) => holds(node) },
  { title: "Pods", numeric: true, cell: (node) => number(node.pods), by: (node) => node.pods },
  { title: "Zone", cell: (node) => html`<${Text} of=${node.zone} />`, by: (node) => node.zone },
  { title: "Pool", cell: (node) => html`<${Text} of=${node.pool} />`, by: (node) => node.pool },
  { title: "State", cell: (node) => html`${node.closed ? html`<${Badge} of="cordoned" />` : ""}${" "}${node.taints ? plural(node.taints, "taint") : ""}`, by: (node) => Number(node.closed) },
];

function Group({ name, nodes, resource, tiles }) {
  const mean = nodes.reduce((sum, node) => sum + Math.min(1, node.share), 0) / nodes.length;
  return html`<section aria-label=${visible(name, 80)}>
    <h2><${Text} of=${name} limit=${80} /> <span class="small">${plural(nodes.length, "node")}, ${percent(mean)} full on average</span></h2>
    ${tiles ? html`<${Tiles} nodes=${nodes} />` : html`<${HeatMap} zone=${name} nodes=${nodes} resource=${resource} />`}
  </section>`;
}

function Choices({ page, resource, setResource, field, setField, words, setWords }) {
  return html`<form class="filters" role="search" aria-label="Choose nodes" onSubmit=${(event) => event.preventDefault()}>
    <label>Colour by <select value=${resource} onChange=${(event) => setResource(event.target.value)}>
      ${[FULLEST, ...page.resources].map((name) => html`<option key=${name} value=${name}>${visible(name, 80)}</option>`)}
    </select></label>
    <label>Group by <select value=${field} onChange=${(event) => setField(event.target.value)}>
      ${Object.entries(GROUPINGS).map(([value, word]) => html`<option key=${value} value=${value}>${word}</option>`)}
    </select></label>
    <${Words} label="Words" value=${words} onWords=${setWords} />
  </form>`;
}

export function Nodes({ at, every = EVERY }) {
  const [resource, setResource] = useState(FULLEST);
  const [field, setField] = useState("zone");
  const [words, setWords] = useState("");
  const answer = usePolled((signal) => allNodes(at, signal), `nodes ${at ?? ""}`, every, "nodes");
  const page = answer.data;
  const ordered = useMemo(() => sortedBy(page?.nodes ?? [], (node) => node.name), [page]);
  const nodes = useMemo(() => ordered
    .filter((node) => !words || contains(`${node.name} ${node.zone} ${node.pool}`, words))
    .map((node) => shown(node, page.resources, resource)), [ordered, resource, words]);
  const groups = useMemo(() => grouped(nodes, field), [nodes, field]);
  const fullest = useMemo(() => sortedBy(nodes, (node) => -node.share), [nodes]);
  return html`<h1 tabindex="-1">Nodes</h1>
    <${Pending} answer=${answer} what="the nodes" /><${Standby} page=${page} />
    ${page && page.total === 0 && html`<${NoNodes} />`}
    ${page && page.total > 0 && html`
      <${Choices} page=${page} ...${{ resource, setResource, field, setField, words, setWords }} />
      <p role="status">${plural(nodes.length, "node")} of ${number(page.total)}.</p>
      <${Legend} />
      ${groups.map(([name, members]) => html`<${Group} key=${name} name=${name} nodes=${members} resource=${resource} tiles=${nodes.length <= MOST_TILES} />`)}
      <section aria-labelledby="list"><h2 id="list">The same as a list, the fullest first</h2>
        <${Table} caption="Nodes" columns=${COLUMNS} rows=${fullest} id=${(node) => node.name} empty="No node." />
      </section>`}`;
}
