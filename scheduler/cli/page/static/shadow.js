// A shadow beside another scheduler: the answer, its verdicts, differences, and the pods that wait.

import { html } from "./html.js";
import { useAnswer } from "./api.js";
import { Badge, Facts, Pending, Table } from "./parts.js";
import { LongText, Text, clock, number, percent, plural, span } from "./text.js";

const EVERY = 2;

/** Verdicts in the order in which they are shown: words, and the colour of a badge. */
const VERDICTS = {
  same: ["the same node", "bound"],
  tie: ["another node with an equal total", "bound"],
  window: ["another node, one of the best when it was bound", "bound"],
  other: ["a node with a lower total here", "backoff"],
  "would-not-fit": ["a node that does not fit here", "unschedulable"],
  "would-have-waited": ["it would have waited here", "unschedulable"],
  unjudged: ["a plugin failed", "error"],
};

const signed = (difference) => (difference > 0 ? `+${difference}` : `${difference}`);

/** Why a pod is judged as it is: the scores that differ, or the filter and its reason. */
export function reason(judged) {
  const scores = judged.scores.map((each) => `${each.plugin} ${signed(each.best - each.there)}`);
  return scores.join(", ") || [judged.plugin, judged.message].filter(Boolean).join(": ");
}

const DIFFERENCES = [
  { title: "Pod", cell: (each) => html`<${Text} of=${each.pod} />`, by: (each) => each.pod },
  { title: "Bound", cell: (each) => clock(each.bound), by: (each) => each.bound },
  { title: "Verdict", cell: (each) => html`<${Badge} of=${each.verdict} kind=${VERDICTS[each.verdict]?.[1] ?? ""} />`, by: (each) => each.verdict },
  { title: "Node there", cell: (each) => html`<${Text} of=${each.there} />`, by: (each) => each.there },
  { title: "Node here", cell: (each) => html`<${Text} of=${each.best || each.here || "none"} />` },
  { title: "Score here minus there, or reason", cell: (each) => html`<${LongText} of=${reason(each)} what="the reason" />` },
];

/** How a pod waits here. */
function here(pod, now) {
  if (pod.here) return `on ${pod.here} for ${span(now - pod.since)}`;
  return pod.victims.length ? `${pod.message} Would evict ${pod.victims.join(", ")} on ${pod.nominated}.` : pod.message;
}

const waitingColumns = (now) => [
  { title: "Pod", cell: (each) => html`<${Text} of=${each.pod} />`, by: (each) => each.pod },
  { title: "Here", cell: (each) => html`<${LongText} of=${here(each, now)} what="what holds it here" />` },
  { title: "There", cell: (each) => html`<${LongText} of=${each.same_reason ? "the same reason" : each.message_there || "nothing said yet"} what="what holds it there" />` },
];

const CAUSES = [
  { title: "Plugin", cell: (each) => html`<${Text} of=${each.plugin || "none"} />`, by: (each) => each.plugin },
  { title: "Pods", numeric: true, cell: (each) => number(each.pods), by: (each) => each.pods },
  { title: "What", cell: (each) => VERDICTS[each.verdict]?.[0] ?? "" },
];

/** The verdicts with pods, as facts. */
const facts = (page) => Object.entries(VERDICTS)
  .filter(([verdict]) => page.verdicts[verdict])
  .map(([verdict, [words]]) => [words, `${number(page.verdicts[verdict])} (${percent(page.verdicts[verdict] / page.judged)})`]);

export function Shadow({ every = EVERY }) {
  const answer = useAnswer("shadow", {}, every);
  const page = answer.data;
  return html`<h1 tabindex="-1">Shadow</h1>
    <${Pending} answer=${answer} what="the shadow" />
    ${page && html`
      <p class="headline"><${Text} of=${page.sentence} limit=${1000} /></p>
      <p><${Text} of=${page.sides} limit=${1000} /></p>
      <${Facts} facts=${[...facts(page),
        ["nodes and pods", `${number(page.nodes)} and ${number(page.pods)}`],
        ["decided here only when the binding arrived", page.late ? number(page.late) : ""],
        ["deleted before they were placed there", page.gone ? number(page.gone) : ""],
        ["not compared, with a node when first seen", page.unseen ? number(page.unseen) : ""]]} />
      ${page.causes.length > 0 && html`<h2>Because of</h2>
        <${Table} caption="Causes" columns=${CAUSES} rows=${page.causes} id=${(each) => `${each.verdict} ${each.plugin}`} />`}
      <h2>Last differences</h2>
      <${Table} caption="Last differences" columns=${DIFFERENCES} rows=${page.differing} id=${(each) => each.uid}
        empty="The two have agreed about every pod so far." />
      <h2>Pods without a node</h2>
      <p role="status">${plural(page.waiting_both + page.waiting_there + page.waiting_here, "pod")} without a node.</p>
      <${Table} caption="Pods without a node" columns=${waitingColumns(page.now)} rows=${page.pending} id=${(each) => each.pod}
        empty="No pod waits here or there." />`}`;
}
