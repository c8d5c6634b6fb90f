// The nodes of a zone as tiles with their names, coloured by how full they are.

import { html } from "./html.js";
import { step } from "./heatmap.js";
import { address } from "./parts.js";
import { amount, percent, plural, visible } from "./text.js";

const NAME = 30;
const SHORT_ENOUGH = 12;

/** Say what a node holds. */
export const holds = (node) =>
  `${amount(node.resource, node.requested[node.index] ?? 0)} of ${amount(node.resource, node.allocatable[node.index] ?? 0)} ${visible(node.resource, 60)}`;

/** How much of the begin and end of these names is the same, up to a `-` or `.`. */
export function commonEnds(names) {
  const [first, ...others] = names;
  if (!others.length || first.length <= SHORT_ENOUGH) return [0, 0];
  let begin = 0;
  while (begin < first.length && others.every((name) => name[begin] === first[begin])) begin += 1;
  begin = Math.max(first.lastIndexOf("-", begin - 1), first.lastIndexOf(".", begin - 1)) + 1;
  let end = 0;
  const last = (name) => name.length - 1 - end;
  while (end < first.length - begin && others.every((name) => last(name) >= begin && name[last(name)] === first[last(first)])) end += 1;
  const dot = first.indexOf(".", first.length - end);
  return [begin, dot < 0 ? 0 : first.length - dot];
}

/** The part of a name in which it differs from its neighbours. */
function distinct(name, [begin, end]) {
  const part = name.slice(begin, name.length - end);
  const text = visible(part.length > NAME ? part.slice(-NAME) : part, 300);
  return begin || part.length > NAME ? `…${text}` : text;
}

const Tile = ({ node, ends }) => html`<li><a class=${`tile step-${step(node.share)}${node.closed ? " cordoned" : ""}`} href=${address("node", node.name)} title=${visible(node.name, 300)}>
  <span class="tile-name"><span aria-hidden="true">${distinct(node.name, ends)}</span><span class="unseen">${visible(node.name, 300)}</span></span>
  <strong>${percent(node.share)}</strong>
  <span class="tile-holds">${holds(node)}</span>
  <span class="tile-holds">${plural(node.pods, "pod")}${node.closed ? ", cordoned" : ""}</span>
</a></li>`;

export function Tiles({ nodes }) {
  const ends = commonEnds(nodes.map((node) => node.name));
  const [begin, end] = ends;
  const first = nodes[0].name;
  return html`${begin + end > 0 && html`<p class="small">Names: ${visible(first.slice(0, begin), 120)}…${visible(end ? first.slice(-end) : "", 120)}</p>`}
    <ul class="tiles">${nodes.map((node) => html`<${Tile} key=${node.name} node=${node} ends=${ends} />`)}</ul>`;
}
