// The nodes of a zone as tiles with their names, coloured by how full they are.

import { html } from "./html.js";
import { step } from "./heatmap.js";
import { address } from "./parts.js";
import { amount, percent, plural, visible } from "./text.js";

const NAME = 22;

/** Say what a node holds. */
export const holds = (node) =>
  `${amount(node.resource, node.requested[node.index] ?? 0)} of ${amount(node.resource, node.allocatable[node.index] ?? 0)} ${visible(node.resource, 60)}`;

/** The end of a long name, in which names of nodes differ. */
function ending(name) {
  const text = visible(name, 300);
  return text.length > NAME ? `…${text.slice(1 - NAME)}` : text;
}

const Tile = ({ node }) => html`<li><a class=${`tile step-${step(node.share)}${node.closed ? " cordoned" : ""}`} href=${address("node", node.name)} title=${visible(node.name, 300)}>
  <span class="tile-name"><span aria-hidden="true">${ending(node.name)}</span><span class="unseen">${visible(node.name, 300)}</span></span>
  <strong>${percent(node.share)}</strong>
  <span class="tile-holds">${holds(node)}</span>
  <span class="tile-holds">${plural(node.pods, "pod")}${node.closed ? ", cordoned" : ""}</span>
</a></li>`;

export const Tiles = ({ nodes }) => html`<ul class="tiles">${nodes.map((node) => html`<${Tile} key=${node.name} node=${node} />`)}</ul>`;
