// The whole scheduler on one page: counts, rates, how full the nodes are, the last placements.

import { useEffect, useRef } from "./vendor/hooks.js";
import { html } from "./html.js";
import { useAnswer } from "./api.js";
import { Facts, Meter, NodeLink, Pending, PodLink, Standby, Table, podOf } from "./parts.js";
import { Text, amount, clock, number, plural, span, visible } from "./text.js";

const EVERY = 3;
const POINTS = 120;

/** A small plot of the last values, with its newest and largest in words. */
function Sparkline({ label, values, unit }) {
  if (values.length < 2) return null;
  const last = values.at(-1);
  const most = Math.max(...values, 0);
  const points = values.map((value, index) =>
    `${(index * 200 / Math.max(1, values.length - 1)).toFixed(1)},${(38 - (most ? value / most : 0) * 36).toFixed(1)}`).join(" ");
  const words = `${label}: ${number(Math.round(last * 10) / 10)}${unit}, at most ${number(Math.round(most * 10) / 10)}${unit} lately`;
  return html`<figure class="sparkline">
    <figcaption>${words}</figcaption>
    <svg viewBox="0 0 200 40" preserveAspectRatio="none" role="img" aria-label=${words}><polyline points=${points} /></svg>
  </figure>`;
}

const bucket = (index) => (index === 10 ? "100 % or more" : `${index * 10} to ${index * 10 + 9} %`);

function Fill({ fill }) {
  const most = Math.max(...fill, 1);
  return html`<table class="bars"><caption class="unseen">Nodes by fill</caption>
    <thead><tr><th scope="col">Fill</th><th scope="col">Nodes</th><td></td></tr></thead>
    <tbody>${fill.map((count, index) => html`<tr key=${index}>
      <th scope="row">${bucket(index)}</th><td class="numeric">${number(count)}</td>
      <td class="bar"><span style=${{ width: `${(100 * count) / most}%` }}></span></td></tr>`)}</tbody></table>`;
}

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

const OLDEST = (now) => [
  { title: "Pod", cell: (pod) => html`<${PodLink} ...${pod} />` },
  { title: "Place", cell: (pod) => pod.place },
  { title: "Waits", numeric: true, cell: (pod) => span(now - (pod.waiting_since || pod.timestamp)) },
];

/** Remember values of the last answers, one for each `at`. */
function useSeries(value, at) {
  const kept = useRef({ at: 0, values: [] });
  useEffect(() => {
    if (at && at !== kept.current.at) {
      kept.current = { at, values: [...kept.current.values, value].slice(-POINTS) };
    }
  }, [at]);
  return at && at !== kept.current.at ? [...kept.current.values, value].slice(-POINTS) : kept.current.values;
}

export function Overview({ at, every = EVERY }) {
  const answer = useAnswer("summary", { rows: 20, at }, every);
  const page = answer.data;
  const queue = page?.queue;
  const waiting = queue ? queue.active + queue.backoff + queue.unschedulable + queue.gated + queue.in_flight : 0;
  const rate = page?.rates?.attempts?.scheduled ?? 0;
  const rates = useSeries(rate, answer.at);
  const lengths = useSeries(waiting, answer.at);
  return html`<h1 tabindex="-1">Overview</h1>
    <${Pending} answer=${answer} what="the summary" /><${Standby} page=${page} />
    ${page && html`
      <${Facts} facts=${[
        ["Nodes", number(page.nodes)],
        ["Pods on them", number(page.pods)],
        ["Being bound", number(page.assumed_pods)],
        ["Waiting", html`<a href="#/queue">${plural(waiting, "pod")}</a>`],
        ["Placed since the start", number(page.attempts?.scheduled)],
        ["Attempts without a node", number(page.attempts?.unschedulable)],
        ["Attempts with an error", number(page.attempts?.error)],
        ["Since", clock(page.started)],
      ]} />
      <div class="columns">
        <${Sparkline} label="Placed" values=${rates} unit=" a second" />
        <${Sparkline} label="Waiting" values=${lengths} unit=" pods" />
      </div>
      <h2>Resources of all nodes</h2>
      <${Table} caption="Resources of all nodes" columns=${RESOURCES} rows=${page.resources} id=${(each) => each.resource} />
      <div class="columns">
        <section aria-labelledby="fill"><h2 id="fill">Nodes by their fullest resource</h2><${Fill} fill=${page.fill} /></section>
        <section aria-labelledby="oldest"><h2 id="oldest">Waiting longest</h2>
          <${Table} caption="Pods that wait longest" columns=${OLDEST(page.now)} rows=${page.oldest} id=${(pod) => pod.uid} empty="No pod waits." /></section>
      </div>
      <h2>Last placements</h2>
      <${Table} caption="Last placements" columns=${PLACED} rows=${page.placed} id=${(each) => `${each.pod} ${each.time}`}
        empty="None is remembered." />`}`;
}
