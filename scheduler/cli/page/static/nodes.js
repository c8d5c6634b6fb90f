// All nodes by zone, coloured by how full they are, and one node with its pods.

import { useMemo, useState } from "./vendor/hooks.js";
import { html } from "./html.js";
import { ask, useAnswer, usePolled } from "./api.js";
import { HeatMap, Legend } from "./heatmap.js";
import { Badge, Facts, Meter, NodeLink, Pending, PodLink, Standby, Table } from "./parts.js";
import { LongText, Text, amount, contains, number, plural, visible } from "./text.js";

const CHUNK = 500;
const MOST_PODS = 1000;
const MOST_NODES = 20_000;
const MOST_ZONES = 30;
const EVERY = 5;

export const FULLEST = "the fullest resource";

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

/** Return the share of one resource that is requested; of the fullest one without a name. */
export function shareOf(node, resources, resource) {
  const share = (index) => {
    const [used, total] = [node.requested[index], node.allocatable[index]];
    return total > 0 ? used / total : used > 0 ? 1.01 : 0;
  };
  const index = resources.indexOf(resource);
  return index >= 0 ? share(index) : Math.max(...resources.map((_, each) => share(each)));
}

const byName = new Intl.Collator("en", { numeric: true });

/** Group by zone, by name; the zones beyond the limit are joined. */
export function zonesOf(nodes) {
  const zones = new Map();
  // By name, so that a node keeps its square while it fills.
  for (const node of nodes.toSorted((a, b) => byName.compare(a.name, b.name))) {
    const found = zones.get(node.zone);
    if (found) found.push(node);
    else zones.set(node.zone, [node]);
  }
  const sorted = [...zones].sort((a, b) => b[1].length - a[1].length);
  const rest = sorted.slice(MOST_ZONES).flatMap(([, members]) => members);
  const shown = sorted.slice(0, MOST_ZONES).sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([zone, members]) => [zone || "no zone", members]);
  return rest.length ? [...shown, ["other zones", rest]] : shown;
}

const columns = (resource) => [
  { title: "Node", cell: (node) => html`<${NodeLink} name=${node.name} />` },
  { title: "Zone", cell: (node) => html`<${Text} of=${node.zone} />` },
  { title: "Fill", cell: (node) => html`<${Meter} label=${`${visible(node.name, 80)}: ${resource}`} used=${node.share} total=${1} />` },
  { title: "Pods", numeric: true, cell: (node) => number(node.pods) },
  { title: "State", cell: (node) => html`${node.closed ? html`<${Badge} of="cordoned" />` : ""}${" "}${node.taints ? plural(node.taints, "taint") : ""}` },
];

export function Nodes({ at, every = EVERY }) {
  const [resource, setResource] = useState(FULLEST);
  const [words, setWords] = useState("");
  const answer = usePolled((signal) => allNodes(at, signal), `nodes ${at ?? ""}`, every, "nodes");
  const page = answer.data;
  const nodes = useMemo(() => (page?.nodes ?? [])
    .filter((node) => !words || contains(`${node.name} ${node.zone}`, words))
    .map((node) => ({ ...node, closed: node.unschedulable, share: shareOf(node, page.resources, resource) }))
    .sort((a, b) => b.share - a.share || (a.name < b.name ? -1 : 1)), [page, resource, words]);
  const zones = useMemo(() => zonesOf(nodes), [nodes]);
  return html`<h1 tabindex="-1">Nodes</h1>
    <${Pending} answer=${answer} what="the nodes" /><${Standby} page=${page} />
    ${page && html`
      <form class="filters" role="search" aria-label="Choose nodes" onSubmit=${(event) => event.preventDefault()}>
        <label>Colour by <select value=${resource} onChange=${(event) => setResource(event.target.value)}>
          ${[FULLEST, ...page.resources].map((name) => html`<option key=${name} value=${name}>${visible(name, 80)}</option>`)}
        </select></label>
        <label>Words <input type="search" value=${words} maxlength="200" autocomplete="off"
          onInput=${(event) => setWords(event.target.value.trim())} /></label>
      </form>
      <p role="status">${plural(nodes.length, "node")} of ${number(page.total)}.</p>
      <${Legend} />
      ${zones.map(([zone, members]) => html`<section key=${zone} aria-label=${visible(zone, 80)}>
        <h2><${Text} of=${zone} limit=${80} /> <span class="small">${plural(members.length, "node")}</span></h2>
        <${HeatMap} zone=${zone} nodes=${members} resource=${resource} />
      </section>`)}
      <section aria-labelledby="list"><h2 id="list">The same as a list, the fullest first</h2>
        <${Table} caption="Nodes" columns=${columns(resource)} rows=${nodes} id=${(node) => node.name} empty="No node." />
      </section>`}`;
}

const PODS = (resources) => [
  { title: "Pod", cell: (pod) => html`<${PodLink} ...${pod} />` },
  { title: "State", cell: (pod) => html`<${Badge} of=${pod.state} />` },
  { title: "Priority", numeric: true, cell: (pod) => number(pod.priority) },
  { title: "Scheduler", cell: (pod) => html`<${Text} of=${pod.profile} limit=${80} />` },
  ...resources.map((name) => ({
    title: html`<${Text} of=${name} limit=${60} />`, numeric: true,
    cell: (pod) => pod.requests[name] === undefined ? "" : amount(name, pod.requests[name]),
  })),
];

const USE = (node) => [
  { title: "Resource", cell: (name) => html`<${Text} of=${name} limit=${80} />` },
  { title: "Requested", numeric: true, cell: (name) => amount(name, node.requested[name] ?? 0) },
  { title: "Allocatable", numeric: true, cell: (name) => amount(name, node.allocatable[name] ?? 0) },
  { title: "Fill", cell: (name) => html`<${Meter} label=${visible(name, 80)} used=${node.requested[name] ?? 0} total=${node.allocatable[name] ?? 0} />` },
];

export function Node({ name, at, every = EVERY }) {
  const answer = useAnswer("node", { name, pods: MOST_PODS, at }, every);
  const node = answer.data;
  const asked = [...new Set((node?.pods ?? []).flatMap((pod) => Object.keys(pod.requests)))].slice(0, 12);
  const names = node ? [...new Set([...Object.keys(node.allocatable), ...Object.keys(node.requested)])] : [];
  return html`<h1 tabindex="-1">Node <${Text} of=${name} limit=${300} /></h1>
    <${Pending} answer=${answer} what="the node" /><${Standby} page=${node} />
    ${node && html`
      <${Facts} facts=${[
        ["Zone", node.zone && html`<${Text} of=${node.zone} />`],
        ["State", node.unschedulable ? html`<${Badge} of="cordoned" />` : "schedulable"],
        ["Taints", node.taints.length ? html`<${LongText} of=${node.taints.join(", ")} what="the taints" />` : ""],
      ]} />
      <h2>Resources</h2>
      <${Table} caption="Resources" columns=${USE(node)} rows=${names} id=${(each) => each} />
      <h2>Pods and what they request</h2>
      <p>${plural(node.pods_total, "pod")}.</p>
      <${Table} caption=${`Pods of ${visible(name, 80)}`} columns=${PODS(asked)} rows=${node.pods}
        id=${(pod) => `${pod.uid} ${pod.state}`} empty="No pod is here." />
      <details><summary>Labels</summary>
        <ul>${Object.entries(node.labels).map(([key, value]) => html`<li key=${key}><${Text} of=${`${key}=${value}`} limit=${400} /></li>`)}</ul>
      </details>`}`;
}
