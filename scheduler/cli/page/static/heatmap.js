// The nodes of a zone as a canvas of small squares, one for each node, where there are many.
//
// A canvas, because thousands of elements are slow. It can be walked with the arrow keys; the node
// under the cursor or pointer is read out below it. The table of the view lists the same nodes.

import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { html } from "./html.js";
import { address } from "./parts.js";
import { percent, plural, visible } from "./text.js";

const GAP = 2;

// From empty to full, in both themes darker or lighter than the background by the same steps;
// readable without telling red from green. The last is for nodes that hold more than they have.
const STEPS = {
  light: ["#e3eef8", "#b9d5ec", "#83b4dc", "#4a8cc4", "#1f649f", "#0b3c6b", "#a3123a"],
  dark: ["#15283a", "#1c4263", "#25608f", "#3b84bd", "#6badde", "#b5dcf7", "#ff7b9c"],
};

/** Return the step of a share: five of a fifth each, then full, then more than full. */
export function step(share) {
  if (share > 1) return 6;
  return share >= 0.995 ? 5 : Math.min(4, Math.floor(share * 5));
}

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

function draw(canvas, nodes, { columns, size, cursor, dark }) {
  const scale = window.devicePixelRatio || 1;
  const rows = Math.ceil(nodes.length / columns);
  const [width, height] = [columns * (size + GAP) + GAP, rows * (size + GAP) + GAP];
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const colours = STEPS[dark ? "dark" : "light"];
  // The stroke of a cordoned node stands out from its step.
  const line = (share) => ((step(share) >= 3) === dark ? "#10202f" : "#ffffff");
  nodes.forEach((node, index) => {
    const x = GAP + (index % columns) * (size + GAP);
    const y = GAP + Math.floor(index / columns) * (size + GAP);
    context.fillStyle = colours[step(node.share)];
    context.fillRect(x, y, size, size);
    if (node.closed) {
      context.strokeStyle = line(node.share);
      context.beginPath();
      context.moveTo(x, y + size);
      context.lineTo(x + size, y);
      context.stroke();
    }
    if (index === cursor) {
      context.strokeStyle = dark ? "#fff" : "#000";
      context.lineWidth = 2;
      context.strokeRect(x - 1, y - 1, size + 2, size + 2);
      context.lineWidth = 1;
    }
  });
}

const MOVES = { ArrowLeft: -1, ArrowRight: 1 };

/** Say which node this is and how full. */
const told = (node) =>
  `${visible(node.name, 120)}: ${percent(node.share)} of ${visible(node.resource, 80)}, ${plural(node.pods, "pod")}${node.closed ? ", cordoned" : ""}`;

export function HeatMap({ zone, nodes, resource }) {
  const canvas = useRef(null);
  const [width, setWidth] = useState(600);
  const [cursor, setCursor] = useState(-1);
  const [, redraw] = useState(0);
  const size = nodes.length > 1000 ? 8 : nodes.length > 200 ? 12 : 18;
  const columns = Math.max(1, Math.floor((width - GAP) / (size + GAP)));
  const at = Math.min(cursor, nodes.length - 1);

  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(entry.contentRect.width));
    observer.observe(canvas.current.parentElement);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const changed = () => redraw((count) => count + 1);
    scheme.addEventListener("change", changed);
    document.addEventListener("themechange", changed);
    return () => {
      observer.disconnect();
      scheme.removeEventListener("change", changed);
      document.removeEventListener("themechange", changed);
    };
  }, []);
  useEffect(() => draw(canvas.current, nodes, { columns, size, cursor: at, dark: isDark() }));

  const open = (index) => { if (nodes[index]) location.hash = address("node", nodes[index].name); };
  function onKeyDown(event) {
    const moves = { ...MOVES, ArrowUp: -columns, ArrowDown: columns };
    if (event.key === "Enter") open(at);
    else if (event.key === "Home") setCursor(0);
    else if (event.key === "End") setCursor(nodes.length - 1);
    else if (event.key in moves) setCursor(Math.max(0, Math.min(nodes.length - 1, at + moves[event.key])));
    else return;
    event.preventDefault();
  }
  function under(event) {
    const box = canvas.current.getBoundingClientRect();
    const [column, row] = [event.clientX - box.left, event.clientY - box.top].map((each) => Math.floor((each - GAP) / (size + GAP)));
    return column >= 0 && column < columns ? row * columns + column : -1;
  }
  const label = `${visible(zone, 80)}: ${nodes.length} nodes by ${visible(resource, 80)}. Arrow keys move, Enter opens a node.`;
  return html`<div class="heatmap">
    <canvas ref=${canvas} tabindex="0" role="application" aria-roledescription="heat map" aria-label=${label}
      onKeyDown=${onKeyDown} onFocus=${() => at < 0 && setCursor(0)} onBlur=${() => setCursor(-1)}
      onMouseMove=${(event) => setCursor(under(event))} onMouseLeave=${() => setCursor(-1)}
      onClick=${(event) => open(under(event))}></canvas>
    <p class="small" aria-live="polite">${at >= 0 ? told(nodes[at]) : "\u00a0"}</p>
  </div>`;
}

/** The steps of the colours, in words. */
export function Legend() {
  const words = ["under 20 %", "20 %", "40 %", "60 %", "80 %", "full", "over"];
  return html`<ul class="legend" aria-label="Colours">
    ${words.map((word, index) => html`<li><span class=${`swatch step-${index}`}></span>${word}</li>`)}
    <li><span class="swatch closed"></span>cordoned</li>
  </ul>`;
}
