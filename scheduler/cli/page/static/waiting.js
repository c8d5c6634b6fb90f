// The pods that wait: for what, of which owner, and one by one. The filters are in the address.

import { useMemo } from "./vendor/hooks.js";
import { html } from "./html.js";
import { useAnswer } from "./api.js";
import { Binding, Causes, Groups, ofOne } from "./groups.js";
import { NothingYet } from "./empty.js";
import { Badge, Pending, PLACES, PodLink, Standby, Table, Words, filtered, nextTry } from "./parts.js";
import { LongText, Text, number, plural, span, visible } from "./text.js";

const EVERY = 3;
const GROUPS = 30;
const PODS = 500;

const since = (pod) => pod.waiting_since || pod.timestamp;

const columns = (now) => [
  { title: "Pod", cell: (pod) => html`<${PodLink} ...${pod} />`, by: (pod) => `${pod.namespace}/${pod.name}` },
  { title: "Why", cell: (pod) => html`<${Text} of=${ofOne(pod.cause)} />`, by: (pod) => pod.cause },
  { title: "State", cell: (pod) => html`<${Badge} of=${PLACES[pod.place] ?? pod.place} kind=${pod.place} />`, by: (pod) => pod.place },
  { title: "Waits", numeric: true, cell: (pod) => span(now - since(pod)), by: (pod) => now - since(pod) },
  { title: "Attempts", numeric: true, cell: (pod) => number(pod.attempts), by: (pod) => pod.attempts },
  { title: "Next attempt", cell: (pod) => nextTry(pod, now), by: (pod) => pod.next_retry ?? Infinity },
  { title: "Message", cell: (pod) => pod.message && html`<details><summary>show<span class="unseen"> the message of ${visible(pod.name, 80)}</span></summary><${LongText} of=${pod.message} what="the message" /></details>` },
];

/** Whether a key of an owner, whom users name as they like, is safe to be copied into a shell. */
const COPYABLE = /^[a-z0-9.-]+\/[A-Za-z]+\/[a-z0-9.-]+$/;

/** The chosen owner in words. */
function ownerName(owner) {
  const [namespace, kind, ...name] = owner.split("/");
  return kind ? `${kind} ${name.join("/")} in ${namespace}` : `pods without an owner in ${namespace}`;
}

function Filters({ chosen, choose }) {
  return html`<form class="filters" role="search" aria-label="Filter the waiting pods" onSubmit=${(event) => event.preventDefault()}>
    <${Words} label="Namespace" value=${chosen.namespace ?? ""} onWords=${(namespace) => choose({ namespace })} />
    <${Words} label="Words in the name or owner" value=${chosen.words ?? ""} onWords=${(words) => choose({ words })} />
  </form>
  ${chosen.owner && html`<p>Only <strong><${Text} of=${ownerName(chosen.owner)} limit=${300} /></strong>${chosen.cause ? html`, and only those that <${Text} of=${chosen.cause} limit=${120} />` : ""}.${" "}
    <a href=${filtered("waiting", { ...chosen, owner: "", cause: "" })}>Show all</a>${COPYABLE.test(chosen.owner) && html`. What would help: <code>kubestow explain <${Text} of=${chosen.owner} limit=${300} /></code>`}</p>`}`;
}

export function Waiting({ chosen, at, every = EVERY }) {
  const { namespace, words, owner, cause } = chosen;
  const answer = useAnswer("waiting", { namespace, words, owner, cause, groups: GROUPS, limit: PODS, at }, every);
  const page = answer.data;
  const pods = useMemo(() => (page?.pods ?? []).map((each) => ({ ...each.pod, cause: each.cause })), [page]);
  const choose = (change) => { location.hash = filtered("waiting", { ...chosen, ...change }); };
  const narrowed = Boolean(words || owner || cause);
  return html`<h1 tabindex="-1">${page ? html`<${Text} of=${page.headline} limit=${600} />` : "Waiting pods"}</h1>
    ${answer.status === 403 && !namespace ? html`<p>You may not see the pods of all namespaces. Write the name of one whose pods you may get.</p>`
      : html`<${Pending} answer=${answer} what="the waiting pods" />`}<${Standby} page=${page} />
    <${Filters} chosen=${chosen} choose=${choose} />
    ${page && html`<${Causes} causes=${page.causes} chosen=${chosen} />
      ${page.total === 0 ? html`<${NothingYet} namespace=${namespace} />` : html`
        <section aria-labelledby="owners"><h2 id="owners">By owner</h2>
          <${Groups} page=${page} limit=${GROUPS} chosen=${chosen} /></section>
        <section aria-labelledby="pods"><h2 id="pods">${narrowed ? "These pods" : "Pod by pod"}</h2>
          <p role="status">${plural(page.selected, "pod")}${narrowed ? ` of ${number(page.total)}` : ""}${page.pods.length < page.selected ? `; the ${number(page.pods.length)} that have waited longest are listed.` : "."}</p>
          <${Table} caption="Waiting pods" columns=${columns(page.now)} rows=${pods} id=${(pod) => pod.uid} empty="No such pod waits." />
        </section>`}
      <${Binding} namespace=${namespace} at=${at} every=${every} />`}`;
}
