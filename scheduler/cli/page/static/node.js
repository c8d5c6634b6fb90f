// One node: its state, its resources, and the pods on it.

import { html } from "./html.js";
import { useAnswer } from "./api.js";
import { Badge, Facts, Pending, PodLink, Standby, Table } from "./parts.js";
import { LongText, Text, amount, number, percent, plural, visible } from "./text.js";

const EVERY = 5;
const MOST_PODS = 1000;
const PARTS = 12;

const PODS = (resources) => [
  { title: "Pod", cell: (pod) => html`<${PodLink} ...${pod} />`, by: (pod) => `${pod.namespace}/${pod.name}` },
  ...resources.map((name) => ({
    title: name, numeric: true, by: (pod) => pod.requests[name] ?? 0,
    cell: (pod) => pod.requests[name] === undefined ? "" : amount(name, pod.requests[name]),
  })),
  { title: "State", cell: (pod) => html`<${Badge} of=${pod.state} />`, by: (pod) => pod.state },
  { title: "Priority", numeric: true, cell: (pod) => number(pod.priority), by: (pod) => pod.priority },
  { title: "Scheduler", cell: (pod) => html`<${Text} of=${pod.profile} limit=${80} />`, by: (pod) => pod.profile },
];

/** What one resource of a node is requested by, as one bar: the largest pods, all others, and what is free. */
function Holds({ node, resource }) {
  const total = node.allocatable[resource] ?? 0;
  const used = node.requested[resource] ?? 0;
  const whole = Math.max(total, used) || 1;
  const pods = node.pods.filter((pod) => pod.state !== "nominated" && pod.requests[resource] > 0)
    .toSorted((a, b) => b.requests[resource] - a.requests[resource]);
  const parts = pods.slice(0, PARTS).map((pod) => ({ name: `${pod.namespace}/${pod.name}`, value: pod.requests[resource] }));
  const others = used - parts.reduce((sum, part) => sum + part.value, 0);
  if (others > whole / 1000) parts.push({ name: "other pods", value: others });
  const told = `${amount(resource, used)} of ${amount(resource, total)} requested (${percent(total > 0 ? used / total : used > 0 ? 1 : 0)})`;
  return html`<div class="holds"><p><strong><${Text} of=${resource} limit=${80} /></strong> <span class="small">${told}</span></p>
    <div class="stack" role="img" aria-label=${`${visible(resource, 80)}: ${told}`}>
      ${parts.map((part, at) => html`<span key=${part.name} class=${`part part-${at % 4}`} style=${{ flexGrow: part.value / whole }}
        title=${`${visible(part.name, 120)}: ${amount(resource, part.value)}`}></span>`)}
      ${total > used && html`<span class="part free" style=${{ flexGrow: (total - used) / whole }} title=${`free: ${amount(resource, total - used)}`}></span>`}
    </div></div>`;
}

const SHOWN_FIRST = ["cpu", "memory"];

/** The resources that a node has or that are requested of it: those that matter most first. */
function resourcesOf(node) {
  const names = [...new Set([...Object.keys(node.allocatable), ...Object.keys(node.requested)])]
    .filter((name) => node.allocatable[name] > 0 || node.requested[name] > 0);
  const rank = (name) => (SHOWN_FIRST.includes(name) ? SHOWN_FIRST.indexOf(name) : name.includes("/") ? 2 : 3);
  return names.sort((a, b) => rank(a) - rank(b)).slice(0, 12);
}

export function Node({ name, at, every = EVERY }) {
  const answer = useAnswer("node", { name, pods: MOST_PODS, at }, every);
  const node = answer.data;
  const asked = [...new Set((node?.pods ?? []).flatMap((pod) => Object.keys(pod.requests)))].slice(0, 12);
  return html`<h1 tabindex="-1">Node <${Text} of=${name} limit=${300} /></h1>
    ${answer.status === 404 ? html`<p class="empty">There is no such node, or no longer. <a href="#/nodes">All nodes</a></p>`
      : html`<${Pending} answer=${answer} what="the node" />`}<${Standby} page=${node} />
    ${node && html`
      <${Facts} facts=${[
        ["Zone", node.zone && html`<${Text} of=${node.zone} />`],
        ["State", node.unschedulable ? html`<${Badge} of="cordoned" />` : "schedulable"],
        ["Pods", number(node.pods_total)],
        ["Taints", node.taints.length ? html`<${LongText} of=${node.taints.join(", ")} what="the taints" />` : "none"],
      ]} />
      <h2>What it holds</h2>
      ${resourcesOf(node).map((each) => html`<${Holds} key=${each} node=${node} resource=${each} />`)}
      <h2>Pods and what they request</h2>
      <p>${plural(node.pods_total, "pod")}${node.pods.length < node.pods_total ? `; ${number(node.pods.length)} are listed` : ""}.</p>
      <${Table} caption=${`Pods of ${visible(name, 80)}`} columns=${PODS(asked)} rows=${node.pods}
        id=${(pod) => `${pod.uid} ${pod.state}`} empty="No pod is here." />
      <details><summary>Labels</summary>
        <ul>${Object.entries(node.labels).map(([key, value]) => html`<li key=${key}><${Text} of=${`${key}=${value}`} limit=${400} /></li>`)}</ul>
      </details>`}`;
}
