// A pod's story: where it stands, what every node says to it, and what was decided before.

import { useState } from "./vendor/hooks.js";
import { html } from "./html.js";
import { ask, useAnswer, usePolled } from "./api.js";
import { outcome, score } from "./decisions.js";
import { Badge, Facts, NodeLink, Pending, PLACES, PodLink, Standby, Table, nextTry, podOf } from "./parts.js";
import { Lines, LongText, Text, clock, more, number, plural, span, visible } from "./text.js";

const EVERY = 5;
const NODES = 20;

function Standing({ pod }) {
  const queue = pod.queue;
  const place = queue && html`<${Badge} of=${PLACES[queue.place] ?? queue.place} kind=${queue.place} />${" "}
    ${queue.position === null ? "" : `${plural(queue.position, "pod")} before it`}`;
  const woken = queue && [queue.last_event, queue.last_hint && `hint of ${queue.last_hint}`].filter(Boolean).join(", ");
  return html`<${Facts} facts=${[
    ["State", html`<${Text} of=${pod.state} />`],
    ["Node", pod.node && html`<${NodeLink} name=${pod.node} />`],
    ["Since", pod.since && html`<${Text} of=${pod.since} />`],
    ["Queue", place || ""],
    ["Attempts", queue ? number(queue.attempts) : ""],
    ["Waits", queue ? span(pod.now - (queue.waiting_since || queue.timestamp)) : ""],
    ["Next try", queue ? nextTry(queue, pod.now) : ""],
    ["Last event", woken ? html`<${Text} of=${woken} />` : ""],
    ["Nominated to", queue?.nominated_node ? html`<${NodeLink} name=${queue.nominated_node} />` : ""],
    ["Priority", number(pod.priority)],
    ["Profile", html`<${Text} of=${pod.profile} />`],
  ]} />
  ${queue?.message && html`<details><summary>Message in the pod's condition, as kube-scheduler words it</summary><p><${LongText} of=${queue.message} what="the message" /></p></details>`}`;
}

/** The sentences of `kubestow explain`: the first says why. */
function Story({ page }) {
  const [first, ...others] = (page.story?.length ? page.story : [page.pod.summary]).map((each) => each.replaceAll(" (-v)", ""));
  return html`<p class="lead"><${Text} of=${first} limit=${2000} /></p>
    ${others.length > 0 && html`<ul class="story">${others.map((each) => html`<li key=${each}><${Text} of=${each} limit=${2000} /></li>`)}</ul>`}`;
}

const NUMBERS = { title: "Numbers", cell: (each) => html`<${LongText} of=${each.detail} what="the numbers" />` };

const REJECTIONS = [
  { title: "Plugin", cell: (each) => html`<${Text} of=${each.plugin} />` },
  { title: "Nodes", numeric: true, cell: (each) => number(each.nodes) },
  { title: "Reason", cell: (each) => html`<${LongText} of=${each.reasons.join(", ")} what="the reason" />${each.only_nominated ? " (only beside nominated pods)" : ""}` },
  { title: "For example", cell: (each) => each.examples.map((name, at) => html`${at ? ", " : ""}<${NodeLink} name=${name} />`).concat(each.examples.length ? more(each.nodes - each.examples.length) : "") },
];

/** The columns of a table of scores: one for each plugin that gave any. */
function scoreColumns(nodes) {
  const plugins = [...new Set(nodes.flatMap((node) => node.scores.map((each) => each.plugin)))];
  const cell = (plugin) => (node) => {
    const found = node.scores.find((each) => each.plugin === plugin);
    if (!found) return "";
    const raw = found.raw === found.normalized ? "" : `raw ${found.raw}, normalized ${found.normalized}`;
    return html`<span title=${raw}>${number(found.weighted)}</span>`;
  };
  return [
    { title: "Node", cell: (node) => html`<${NodeLink} name=${node.node} />` },
    { title: "Total", numeric: true, cell: (node) => html`<strong>${number(node.total)}</strong>` },
    ...plugins.map((plugin) => ({ title: plugin, numeric: true, cell: cell(plugin) })),
  ];
}

const Scores = ({ nodes, caption }) => html`<${Table} caption=${caption} columns=${scoreColumns(nodes)} rows=${nodes}
  id=${(node) => node.node} empty="Nothing was scored." />`;

function Examination({ nodes }) {
  const explained = Object.entries(nodes.explanations ?? {});
  return html`<section aria-labelledby="now">
    <h2 id="now">What each node says now</h2>
    ${nodes.error && html`<p class="problem">An attempt now would end with an error of <${Text} of=${nodes.error_plugin} />: <${Text} of=${nodes.error} limit=${2000} /></p>`}
    ${nodes.notes.length > 0 && html`<ul>${nodes.notes.map((note) => html`<li><${Text} of=${note} limit=${1000} /></li>`)}</ul>`}
    ${nodes.feasible > 0 && html`<h3>The best of those that fit</h3><${Scores} nodes=${nodes.best} caption="Best nodes with scores by plugin" />`}
    ${nodes.rejections.length > 0 && html`<h3>${nodes.feasible > 0 ? "Why not the others" : "Why none of them"}</h3>
      <${Table} caption="Rejections by plugin and reason" columns=${nodes.rejections.some((each) => each.detail) ? [...REJECTIONS, NUMBERS] : REJECTIONS} rows=${nodes.rejections}
        id=${(each) => `${each.plugin} ${each.reasons} ${each.only_nominated}`} />`}
    ${explained.length > 0 && html`<h3>What plugins add</h3>
      <ul>${explained.map(([plugin, texts]) => texts.map((text) => html`<li><strong><${Text} of=${plugin} /></strong>: <${LongText} of=${text} what="it" /></li>`))}</ul>`}
  </section>`;
}

const PHASES = ["queued", "prefilter", "filter", "postfilter", "prescore", "score", "reserve", "permit", "prebind", "bind"];

/** The durations of a decision as a bar; the list beside it says the same in words. */
function Phases({ phases }) {
  const known = Object.entries(phases).sort(([a], [b]) => PHASES.indexOf(a) - PHASES.indexOf(b)).slice(0, 20);
  const whole = known.reduce((sum, [, seconds]) => sum + seconds, 0) || 1;
  if (!known.length) return null;
  return html`<div class="phases" aria-hidden="true">
      ${known.map(([name, seconds], at) => html`<span class=${`phase phase-${at % 6}`} style=${{ flexGrow: Math.max(0.01, seconds / whole) }} title=${visible(name, 40)}></span>`)}
    </div>
    <p class="small">${known.map(([name, seconds]) => `${visible(name, 40)} ${span(seconds)}`).join(", ")}</p>`;
}

/** The end of an attempt in few words; what nodes said is below it. */
const ended = (decision) => decision.rejections.length
  ? `fits on none of ${plural(decision.evaluated || decision.nodes, "node")}` : html`<${outcomeOf} decision=${decision} />`;

function Attempt({ decision, open }) {
  const fits = decision.nodes
    ? `fitted on ${number(decision.feasible)} of ${number(decision.evaluated)} nodes looked at (${number(decision.nodes)} in all)` : "";
  const woken = [decision.event, decision.hint_plugin && `hint of ${decision.hint_plugin}`].filter(Boolean).join(", ");
  const total = score(decision);
  return html`<li>
    <h3><time>${clock(decision.time)}</time> <${Badge} of=${decision.result} />${" "}
      ${decision.result === "gated" ? "" : `attempt ${number(decision.attempt)}: `}${ended(decision)}</h3>
    ${decision.rejections.length > 0 && html`<ul>${decision.rejections.slice(0, 20).map((each) => html`<li>
      ${plural(each.nodes, "node")}: <${LongText} of=${each.reason} what="the reason" />
      ${each.detail && html` (<${Text} of=${each.detail} limit=${1000} />)`} <span class="small"><${Text} of=${each.plugin} /></span></li>`)}${decision.rejections.length > 20 && html`<li>${more(decision.rejections.length - 20).trim()}</li>`}</ul>`}
    <details open=${open}><summary>Details<span class="unseen"> of attempt ${number(decision.attempt)}</span></summary>
    <${Facts} facts=${[
      ["Search", fits],
      ["Score", total === null ? "" : number(total)],
      ["Came from", decision.queue && html`<${Text} of=${decision.queue} />`],
      ["Woken by", woken && html`<${Text} of=${woken} />`],
      ["Evicted for it", decision.victims.length ? decision.victims.slice(0, 20).map((key, at) => html`${at ? ", " : ""}<${PodLink} ...${podOf(key)} />`).concat(more(decision.victims.length - 20)) : ""],
      ["Nominated to", decision.nominated_node && html`<${NodeLink} name=${decision.nominated_node} />`],
      ["Bound", clock(decision.bound)],
    ]} />
    <${Phases} phases=${decision.phases} />
    ${decision.best.length > 0 && html`<p>Scores of the best nodes</p>
      <${Scores} nodes=${decision.best} caption=${`Scores of attempt ${decision.attempt}`} />`}
    </details>
  </li>`;
}

const outcomeOf = ({ decision }) => outcome(decision);

/** What an attempt said of the pod, without its time and number. */
const finding = ({ result, queue, rejections, nodes, best, nominated_node }) =>
  JSON.stringify([result, queue, rejections, nodes, best, nominated_node]);

/** Runs of successive decisions that found the same, the newest first. */
function runs(decisions) {
  const found = [];
  for (const each of decisions) {
    const last = found.at(-1);
    if (last && finding(last[0]) === finding(each)) last.push(each);
    else found.push([each]);
  }
  return found;
}

const keyOf = (decision) => `${decision.seq} ${decision.attempt} ${decision.time}`;

/** Decisions that found the same: the newest whole, the others folded away. */
function Run({ decisions: [newest, ...others], open }) {
  return html`<${Attempt} decision=${newest} open=${open} />
    ${others.length > 0 && html`<li class="same"><details>
      <summary>${plural(others.length, "earlier attempt")} found the same, since ${clock(others.at(-1).time)}</summary>
      <ol class="timeline">${others.map((each) => html`<${Attempt} key=${keyOf(each)} decision=${each} />`)}</ol>
    </details></li>`}`;
}

function History({ answer }) {
  const decisions = [...(answer.data?.decisions ?? [])].sort((a, b) => b.seq - a.seq || b.time - a.time);
  return html`<section aria-labelledby="history">
    <h2 id="history">What was decided before</h2>
    ${answer.status === 404 ? html`<p class="empty"><${Lines} of=${answer.error} limit=${1000} /></p>`
      : html`<${Pending} answer=${answer} what="its history" />`}
    <ol class="timeline" reversed>${runs(decisions).map((each, at) => html`<${Run} key=${keyOf(each[0])} decisions=${each} open=${at === 0} />`)}</ol>
  </section>`;
}

const REMEDIES = 5;

/** Changes that would place a pending pod, each tried by the scheduler; asked for once, as trials take time. */
function Remedies({ pod }) {
  const [asked, setAsked] = useState(0);
  const answer = usePolled((signal) => ask("explain", { pod, nodes: 0, examples: 0, remedies: "all", limit: REMEDIES }, signal),
    `remedies ${pod} ${asked}`, 0, `remedies ${pod}`);
  const found = answer.data?.remedies;
  if (answer.data && !found) return null;
  return html`<section aria-labelledby="remedies">
    <h2 id="remedies">What would make it fit</h2>
    <${Pending} answer=${answer} what="remedies, which are tried one by one" />
    ${found && html`
      ${found.fits && html`<p>Nothing has to change: it fits on <${NodeLink} name=${found.fits} /> now.</p>`}
      ${found.note && html`<p><${Text} of=${found.note} limit=${1000} /></p>`}
      ${found.remedies.length > 0 && found.first?.length > 0 && html`<p>First <${LongText} of=${found.first.map((each) => each.text).join(", and ")} what="what comes first" />. Then one of these:</p>`}
      <ol>${found.remedies.map((each) => html`<li key=${each.text}>
        <${LongText} of=${each.text} what="the remedy" />${each.codes.includes("AddNode") ? "" : html`: it then goes to <${NodeLink} name=${each.node} />`}</li>`)}</ol>
      <p class="small">${plural(found.tried, "change")} tried on the state of that moment; nothing was changed or reserved.
        ${found.complete ? "" : " The time was over before everything was tried."}${" "}
        <button type="button" class="link" onClick=${() => setAsked(asked + 1)}>Try again</button></p>`}
  </section>`;
}

const PENDING = new Set(["queued", "not-ours", "unknown"]);

export function Pod({ namespace, name, at, every = EVERY }) {
  const pod = `${namespace}/${name}`;
  const answer = useAnswer("explain", { pod, nodes: NODES, at }, every);
  const history = useAnswer("decisions", { pod, limit: 50, at }, every);
  const found = answer.data?.pod;
  return html`<h1 tabindex="-1">Pod <${Text} of=${pod} limit=${400} /></h1>
    ${answer.status === 404 ? html`<p class="empty">There is no such pod now: it was deleted, it has ended, or its name is another. <a href="#/waiting">The pods that wait</a></p>`
      : html`<${Pending} answer=${answer} what="its state" />`}<${Standby} page=${answer.data} />
    ${found && html`
      <${Story} page=${answer.data} />
      ${at === undefined && PENDING.has(found.state) && html`<${Remedies} pod=${pod} />`}
      <h2>Where it stands</h2>
      <${Standing} pod=${found} />
      ${found.nodes && html`<${Examination} nodes=${found.nodes} />`}`}
    <${History} answer=${history} />`;
}
