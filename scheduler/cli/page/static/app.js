// The frame of the page: header, views by address, theme, and the time of a recorded run.

import { render } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useState } from "./vendor/hooks.js";
import { html } from "./html.js";
import { useAnswer } from "./api.js";
import { address, Pending } from "./parts.js";
import { Text, clock, span, visible } from "./text.js";
import { Decisions } from "./decisions.js";
import { Gangs } from "./gangs.js";
import { Node } from "./node.js";
import { Nodes } from "./nodes.js";
import { Overview } from "./overview.js";
import { Pod } from "./pod.js";
import { Shadow } from "./shadow.js";
import { Waiting } from "./waiting.js";

const VIEWS = { overview: Overview, waiting: Waiting, nodes: Nodes, decisions: Decisions, gangs: Gangs };
const TITLES = { overview: "Overview", waiting: "Waiting pods", nodes: "Nodes", decisions: "Decisions", gangs: "Gangs" };
// A finished run tells nothing about groups, and a shadow has a view of its own.
const LIVE_ONLY = new Set(["gangs"]);
const shown = (kind) => Object.keys(VIEWS).filter((name) => kind === "live" || (kind === "recorded" && !LIVE_ONLY.has(name)));

/** Return the view of the address: its name, arguments and chosen filters. */
function route() {
  try {
    const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
    const [name, ...parts] = path.split("/").map(decodeURIComponent);
    if (name === "pod" && parts.length === 2 && parts.every(Boolean)) return { name, namespace: parts[0], pod: parts[1] };
    if (name === "node" && parts.length === 1 && parts[0]) return { name, node: parts[0] };
    if (Object.hasOwn(VIEWS, name)) return { name, chosen: Object.fromEntries(new URLSearchParams(search)) };
  } catch {
    // An address that cannot be decoded leads to the first view.
  }
  return { name: "overview", chosen: {} };
}

const sameView = (a, b) => a.name === b.name && a.namespace === b.namespace && a.pod === b.pod && a.node === b.node;

function useRoute() {
  const [current, setCurrent] = useState(route);
  // An effect would begin to listen only after a frame is painted: an address that changes before it would be missed.
  useLayoutEffect(() => {
    const changed = () => setCurrent((before) => {
      const next = route();
      // As after loading a page: what is read next is the heading of the new view.
      if (!sameView(before, next)) {
        requestAnimationFrame(() => {
          scrollTo(0, 0);
          document.querySelector("h1")?.focus();
        });
      }
      return next;
    });
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return current;
}

function titleOf(view) {
  if (view.name === "pod") return `Pod ${visible(`${view.namespace}/${view.pod}`, 80)}`;
  if (view.name === "node") return `Node ${visible(view.node, 80)}`;
  return TITLES[view.name];
}

const THEMES = { "": "system", light: "light", dark: "dark" };

function Theme() {
  const [theme, setTheme] = useState("");
  useEffect(() => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    document.dispatchEvent(new Event("themechange"));
  }, [theme]);
  return html`<label class="theme"><span>Theme</span> <select value=${theme} onChange=${(event) => setTheme(event.target.value)}>
    ${Object.entries(THEMES).map(([value, word]) => html`<option key=${value} value=${value}>${word}</option>`)}
  </select></label>`;
}

function FindPod({ usual }) {
  const [problem, setProblem] = useState("");
  function onSubmit(event) {
    event.preventDefault();
    const text = new FormData(event.target).get("pod").trim();
    const [namespace, name, ...more] = text.includes("/") ? text.split("/") : [usual || "default", text];
    const complete = namespace && name && !more.length;
    setProblem(complete ? "" : "Write namespace/name.");
    if (complete) location.hash = address("pod", namespace, name);
  }
  return html`<form class="find" role="search" aria-label="Find a pod" onSubmit=${onSubmit}>
    <label><span class="unseen">Pod</span> <input name="pod" type="search" placeholder="namespace/pod" maxlength="320" autocomplete="off"
      aria-describedby="find-problem" /></label>
    <button>Find</button> <span id="find-problem" class="problem" role="status">${problem}</span>
  </form>`;
}

const STEPS = 1000;
const FRAME_SECONDS = 0.5;

/** The time of a recorded run: a slider, steps, and playing it in about a minute. */
function Player({ source, at, setAt }) {
  const [playing, setPlaying] = useState(false);
  const length = Math.max(source.end - source.begin, 0.001);
  const moved = (next) => setAt(Math.min(source.end, Math.max(source.begin, next)));
  useEffect(() => {
    if (!playing) return undefined;
    if (at >= source.end) {
      setPlaying(false);
      return undefined;
    }
    const timer = setTimeout(() => moved(at + (length / 60) * FRAME_SECONDS), FRAME_SECONDS * 1000);
    return () => clearTimeout(timer);
  }, [playing, at]);
  const told = `${clock(at)}, ${span(at - source.begin)} after the begin`;
  return html`<section class="time" aria-label="Time of the run">
    <button type="button" aria-pressed=${playing} onClick=${() => setPlaying(!playing)}>${playing ? "Pause" : "Play"}</button>
    <label><span class="unseen">Time</span>
      <input type="range" min="0" max=${STEPS} step="1" value=${Math.round(((at - source.begin) / length) * STEPS)}
        aria-valuetext=${told} onInput=${(event) => moved(source.begin + (Number(event.target.value) / STEPS) * length)} /></label>
    <output>${told} of ${span(length)}</output>
  </section>`;
}

function View({ view, at, every, usual }) {
  const common = { at, every };
  if (view.name === "pod") return html`<${Pod} key=${`${view.namespace}/${view.pod}`} namespace=${view.namespace} name=${view.pod} ...${common} />`;
  if (view.name === "node") return html`<${Node} key=${view.node} name=${view.node} ...${common} />`;
  return html`<${VIEWS[view.name]} key=${view.name} chosen=${view.chosen} usual=${usual} ...${common} />`;
}

// The views that a view about one object belongs to.
const PARENTS = { pod: "waiting", node: "nodes" };

function App() {
  const view = useRoute();
  const source = useAnswer("source", {}, 0);
  const [chosen, setChosen] = useState(null);
  const recorded = source.data?.kind === "recorded";
  const shadow = source.data?.kind === "shadow";
  const at = recorded ? chosen ?? source.data.end : undefined;
  useEffect(() => { document.title = `${shadow ? "Shadow" : titleOf(view)} · kubestow`; }, [view, shadow]);
  const current = (name) => view.name === name ? "page" : PARENTS[view.name] === name ? "true" : undefined;
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("h1")?.focus(); }}>Skip to content</a>
    <header>
      <p class="name"><a href="#/overview">kubestow</a>${" "}<span class="small source">${source.data && html`<${Text} of=${source.data.title} limit=${80} />`}</span></p>
      <nav aria-label="Views"><ul>
        ${shown(source.data?.kind ?? "live").map((name) => html`<li key=${name}>
          <a href=${address(name)} aria-current=${current(name)}>${TITLES[name]}</a></li>`)}
      </ul></nav>
      <div class="tools">${!shadow && html`<${FindPod} usual=${source.data?.namespace} />`}<${Theme} /></div>
    </header>
    <main id="main">
      <${Pending} answer=${source} what="the scheduler" />
      ${recorded && html`<${Player} source=${source.data} at=${at} setAt=${setChosen} />`}
      ${shadow && html`<${Shadow} />`}
      ${source.data && !shadow && html`<${View} view=${view} at=${at} usual=${source.data.namespace} every=${recorded ? 0 : undefined} />`}
    </main>
    <footer class="small">Read-only. Everything here comes from the scheduler, through kubestow ui on this machine.</footer>`;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
