// Decisions as they are made, and those about one pod.

import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { html } from "./html.js";
import { ask, usePolled } from "./api.js";
import { Badge, NodeLink, Pending, PodLink, Standby, Table, Words, podOf } from "./parts.js";
import { Label, LongText, clock, contains, number, plural, span } from "./text.js";

const KEPT = 1000;
const CHUNK = 200;
const EVERY = 2;

/** Add decisions to those known, newest first; a later state of the same decision replaces it. */
export function merged(known, arrived) {
  const bySeq = new Map(known.map((each) => [each.seq, each]));
  for (const each of arrived) bySeq.set(each.seq, each);
  return [...bySeq.values()].sort((a, b) => b.seq - a.seq).slice(0, KEPT);
}

export const score = (decision) =>
  decision.best.find((each) => each.node === decision.node)?.total ?? null;

/** A message without what preemption could not do, which comes after the first sentence. */
const firstSentence = (message) => message.split(". preemption: ", 1)[0];

/** What came of an attempt, in a cell. */
export const outcome = (decision) => decision.result === "placed"
  ? html`<${NodeLink} name=${decision.node} />`
  : html`<${LongText} of=${firstSentence(decision.message)} what="the message" />`;

const COLUMNS = [
  { title: "Pod", cell: (each) => html`<${PodLink} ...${podOf(each.pod)} />`, by: (each) => each.pod },
  { title: "Time", cell: (each) => clock(each.time), by: (each) => each.time },
  { title: "Try", numeric: true, cell: (each) => number(each.attempt) },
  { title: "Result", cell: (each) => html`<${Badge} of=${each.result} />`, by: (each) => each.result },
  { title: "Node, or why not", cell: outcome },
  { title: "Score", numeric: true, cell: (each) => score(each) ?? "", by: (each) => score(each) ?? -1 },
  { title: "Fits on", numeric: true, cell: (each) => each.nodes ? `${number(each.feasible)} of ${number(each.evaluated)}` : "" },
  { title: "Victims", numeric: true, cell: (each) => each.victims.length || "" },
  { title: "Woken by", cell: (each) => html`<${Label} of=${each.event} /> <${Label} of=${each.hint_plugin} />` },
  { title: "Took", numeric: true, cell: (each) => each.bound ? span(each.bound - each.time) : "" },
];

export function Decisions({ at, every = EVERY }) {
  const [paused, setPaused] = useState(false);
  const [result, setResult] = useState("");
  const [words, setWords] = useState("");
  const kept = useRef([]);
  useEffect(() => { kept.current = []; }, [at]);
  const answer = usePolled(async (signal) => {
    const since = kept.current[0]?.seq;
    const page = await ask("decisions", { limit: CHUNK, since, at }, signal);
    // The first and the missed ones may be more than a chunk: the newest matter.
    kept.current = merged(kept.current, page.decisions);
    return { ...page, decisions: kept.current };
  }, `decisions ${at ?? ""} ${paused}`, paused ? 0 : every, "decisions");
  const all = answer.data?.decisions ?? [];
  const shown = all.filter((each) => (!result || each.result === result) &&
    (!words || contains(`${each.pod} ${each.node} ${each.message}`, words)));
  return html`<h1 tabindex="-1">Decisions</h1>
    <${Pending} answer=${answer} what="the last decisions" /><${Standby} page=${answer.data} />
    <form class="filters" role="search" aria-label="Filter decisions" onSubmit=${(event) => event.preventDefault()}>
      <label>Result <select value=${result} onChange=${(event) => setResult(event.target.value)}>
        <option value="">all</option>
        ${["placed", "unschedulable", "error", "gated", "dropped"].map((each) => html`<option key=${each}>${each}</option>`)}
      </select></label>
      <${Words} label="Words" value=${words} onWords=${setWords} />
      ${every > 0 && html`<button type="button" aria-pressed=${paused} onClick=${() => setPaused(!paused)}>Pause</button>`}
    </form>
    ${answer.data && html`<p role="status" aria-live="off">${plural(shown.length, "decision")} shown.</p>
      <${Table} caption="Decisions" columns=${COLUMNS} rows=${shown} id=${(each) => each.seq}
        empty="No such decision is remembered." />`}`;
}
