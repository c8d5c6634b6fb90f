// Waiting pods by what they wait for, and by owner: parts of the overview and of the view of waiting pods.

import { html } from "./html.js";
import { useAnswer } from "./api.js";
import { filtered, NodeLink, PodLink, Table } from "./parts.js";
import { LongText, Text, number, plural, span, visible } from "./text.js";

/** Links to the pods of each cause, and back to all. */
export function Causes({ causes, chosen }) {
  if (!causes.length) return null;
  const { cause: current, ...others } = chosen;
  return html`<ul class="causes" aria-label="What pods wait for">
    ${causes.map((each) => html`<li key=${each.cause}>
      <a href=${filtered("waiting", { ...others, owner: "", cause: each.cause === current ? "" : each.cause })} aria-current=${each.cause === current ? "true" : undefined}>
        <strong>${number(each.pods)}</strong> <${Text} of=${each.text.replace(/^[\d,]+ /, "")} limit=${120} /></a></li>`)}
  </ul>`;
}

/** Split `Kind/name`; pods of no owner are named themselves. */
function ownerOf(group) {
  const at = group.owner.indexOf("/");
  return at < 0 ? null : { kind: group.owner.slice(0, at), name: group.owner.slice(at + 1) };
}

const VERBS = { lack: "lacks", wait: "waits", are: "is" };

/** A cause as is said of one pod. */
export const ofOne = (cause) => cause.replace(/^\w+/, (verb) => VERBS[verb] ?? verb).replace("their", "its");

function Group({ group, now, chosen }) {
  const owner = ownerOf(group);
  const key = `${group.namespace}/${group.owner}`;
  const alone = group.pods === 1;
  const target = alone
    ? `#/pod/${encodeURIComponent(group.namespace)}/${encodeURIComponent(group.pod)}`
    : filtered("waiting", { ...chosen, owner: key, cause: group.cause });
  const name = owner ? owner.name : alone ? group.pod : "pods without an owner";
  return html`<li>
    <strong class="count">${number(group.pods)}</strong>
    <div>
      <p class="title"><a href=${target}><span class="kind">${owner ? visible(owner.kind, 40) : alone ? "Pod" : ""}</span> <${Text} of=${name} limit=${120} /></a>
        <span class="small">${" "}in <${Text} of=${group.namespace} limit=${80} /></span></p>
      <p><${LongText} of=${(group.text || (alone ? `It ${ofOne(group.cause)}.` : `They ${group.cause}.`)).replaceAll(" (-v)", "")} what=${`the reason of ${visible(name, 80)}`} /></p>
    </div>
    <span class="small since">waits ${span(now - group.waiting_since)}</span>
  </li>`;
}

const BINDING = 20;

const columns = (now) => [
  { title: "Pod", cell: (pod) => html`<${PodLink} ...${pod} />` },
  { title: "Node", cell: (pod) => html`<${NodeLink} name=${pod.node} />` },
  { title: "Since", numeric: true, cell: (pod) => span(now - pod.since) },
  { title: "Why", cell: (pod) => html`<${LongText} of=${pod.text} what=${`the reason of ${visible(pod.name, 80)}`} />` },
];

/** The pods that have a node and are not bound to it yet, which are in no queue. */
export function Binding({ namespace, at, every }) {
  const page = useAnswer("queue", { namespace, limit: BINDING, at }, every).data;
  if (!page?.binding?.length) return null;
  return html`<section aria-labelledby="binding"><h2 id="binding">On a node, not bound yet</h2>
    <${Table} caption="Pods that are not bound yet" columns=${columns(page.now)} rows=${page.binding} id=${(pod) => pod.uid} /></section>`;
}

/** The largest groups of pods that wait for the same, and how many others there are. */
export function Groups({ page, limit, chosen }) {
  if (!page.groups.length) return html`<p class="empty">No such pod waits.</p>`;
  const shown = page.groups.slice(0, limit);
  const left = page.group_total - shown.length;
  return html`<ul class="groups" aria-label="Waiting pods by owner">
      ${shown.map((group) => html`<${Group} key=${`${group.namespace}/${group.owner}/${group.cause}`} group=${group} now=${page.now} chosen=${chosen} />`)}
    </ul>
    ${left > 0 && html`<p>${page.groups.length > limit ? html`<a href=${filtered("waiting", chosen)}>${plural(left, "other group")}</a>` : `${plural(left, "other group")}, each with fewer pods; choose a reason or words above to see them.`}</p>`}`;
}
