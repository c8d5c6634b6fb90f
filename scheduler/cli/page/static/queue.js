// The queue: which pods wait, where, why and until when.

import { useMemo, useState } from "./vendor/hooks.js";
import { html } from "./html.js";
import { useAnswer } from "./api.js";
import { Badge, Pending, PLACES, PodLink, Standby, Table } from "./parts.js";
import { LongText, SHORT, Text, contains, number, plural, span, visible } from "./text.js";

const FIRST_LIMIT = 200;
// More would keep the scheduler from its work while it lists them.
const LAST_LIMIT = 1_000;

const EVERY = 3;

const COUNTS = [
  ["active", "active"],
  ["backoff", "backoff"],
  ["unschedulable", "unschedulable"],
  ["gated", "gated"],
  ["in-flight", "in_flight"],
];

/** Return the gate, or the plugins that rejected the pod last. */
function heldBy(pod) {
  if (pod.gating_plugin) return `gate ${pod.gating_plugin}`;
  const pending = pod.pending_plugins.map((plugin) => `${plugin} (pending)`);
  return [...pending, ...pod.unschedulable_plugins.filter((plugin) => !pod.pending_plugins.includes(plugin))].join(", ");
}

/** Return when the pod is tried again. */
export function nextTry(pod, now) {
  if (pod.next_retry !== null && pod.next_retry !== undefined) {
    return `in ${span(pod.next_retry - now)}: ${visible(pod.next_retry_reason)}`;
  }
  const words = { gated: "when the gate opens", unschedulable: "after an event", "in-flight": "now" };
  return words[pod.place] ?? visible(pod.next_retry_reason);
}

const columns = (now) => [
  { title: "Pod", cell: (pod) => html`<${PodLink} ...${pod} />` },
  { title: "Place", cell: (pod) => html`<${Badge} of=${PLACES[pod.place] ?? pod.place} kind=${pod.place} />${" "}${pod.position ?? ""}` },
  { title: "Tries", numeric: true, cell: (pod) => number(pod.attempts) },
  { title: "Waits", numeric: true, cell: (pod) => span(now - (pod.waiting_since || pod.timestamp)) },
  { title: "Held by", cell: (pod) => html`<${Text} of=${heldBy(pod)} />` },
  { title: "Why", cell: (pod) => html`<${LongText} of=${pod.message} what=${`the reason of ${visible(pod.name, 80)}`} />` },
  { title: "Next try", cell: (pod) => nextTry(pod, now) },
];

/** Group pods by message, the most frequent first. */
function reasons(pods) {
  const groups = new Map();
  for (const pod of pods) {
    if (pod.message) groups.set(pod.message, (groups.get(pod.message) ?? 0) + 1);
  }
  return [...groups].sort((a, b) => b[1] - a[1]).slice(0, 20);
}

function Reasons({ pods, chosen, choose }) {
  const groups = reasons(pods);
  if (!groups.length) return null;
  return html`<section aria-labelledby="reasons">
    <h2 id="reasons">Reasons</h2>
    <ul class="reasons">
      ${groups.map(([message, count]) => html`<li key=${message}>
        <button type="button" aria-pressed=${chosen === message} onClick=${() => choose(chosen === message ? "" : message)}>
          <strong>${number(count)}</strong>${" "}<${Text} of=${message} limit=${SHORT} />
        </button>
      </li>`)}
    </ul>
  </section>`;
}

function Counts({ statistics, place, choose }) {
  return html`<div class="counts" role="group" aria-label="Places">
    ${COUNTS.map(([name, key]) => html`<button key=${name} type="button" aria-pressed=${place === name}
      onClick=${() => choose(place === name ? "" : name)}>
      <strong>${number(statistics[key])}</strong> ${PLACES[name]}
    </button>`)}
  </div>`;
}

export function Queue({ at, every = EVERY }) {
  const [namespace, setNamespace] = useState("");
  const [words, setWords] = useState("");
  const [place, setPlace] = useState("");
  const [message, setMessage] = useState("");
  const [limit, setLimit] = useState(FIRST_LIMIT);
  const answer = useAnswer("queue", { namespace, limit, at }, every);
  const page = answer.data;
  const pods = useMemo(() => (page?.pods ?? []).filter((pod) =>
    (!place || pod.place === place) && (!message || pod.message === message) &&
    (!words || contains(`${pod.namespace}/${pod.name} ${heldBy(pod)} ${pod.message}`, words))),
  [page, place, message, words]);
  const total = page ? COUNTS.reduce((sum, [, key]) => sum + page.statistics[key], 0) : 0;
  return html`<h1 tabindex="-1">Queue</h1>
    <${Pending} answer=${answer} what="the queue" /><${Standby} page=${page} />
    ${page && html`<${Counts} statistics=${page.statistics} place=${place} choose=${setPlace} />`}
    <form class="filters" role="search" aria-label="Filter the queue" onSubmit=${(event) => event.preventDefault()}>
      <label>Namespace <input value=${namespace} maxlength="63" autocomplete="off"
        onChange=${(event) => setNamespace(event.target.value.trim())} /></label>
      <label>Words <input type="search" value=${words} maxlength="200" autocomplete="off"
        onInput=${(event) => setWords(event.target.value.trim())} /></label>
    </form>
    ${page && html`
      <p role="status">${plural(pods.length, "pod")} shown of ${number(total)} waiting.
        ${page.pods.length < total && limit < LAST_LIMIT && !namespace && html`${" "}
          <button type="button" class="link" onClick=${() => setLimit(Math.min(LAST_LIMIT, limit * 5))}>
            Load more of each place</button>`}
        ${page.pods.length < total && limit === LAST_LIMIT && !namespace && html`${" "}Name a namespace to see others.`}</p>
      <${Table} caption="Waiting pods" columns=${columns(page.now)} rows=${pods} id=${(pod) => pod.uid}
        empty="No pod waits here." />
      <${Reasons} pods=${page.pods} chosen=${message} choose=${setMessage} />`}`;
}
