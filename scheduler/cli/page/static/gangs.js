// Pod groups: the members that each has and needs, and why it waits.

import { useMemo, useState } from "./vendor/hooks.js";
import { html } from "./html.js";
import { useAnswer } from "./api.js";
import { Badge, Pending, Standby, Table, Words, filtered } from "./parts.js";
import { LongText, Text, contains, number, plural, visible } from "./text.js";

const FIRST_LIMIT = 200;
// More are not answered at once.
const LAST_LIMIT = 1_000;

const EVERY = 3;

/** Colours of stages, as of places in the queue; any other one has none. */
const KINDS = {
  AllBound: "bound",
  MinimumBound: "bound",
  Finished: "bound",
  Unschedulable: "unschedulable",
  Partial: "error",
  Invalid: "error",
  QuotaExceeded: "gated",
  WaitingForMembers: "gated",
  Reserved: "nominated",
};

const placed = (group) => group.bound + group.succeeded;
const waiting = (group) => group.pending + group.gated;

/** A stage such as `WaitingForMembers` in words. */
const inWords = (stage) => stage.replace(/(?!^)[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

/** How many pods wait, as a link to them. */
function waitingLink(group) {
  const [namespace, name] = group.group.split("/", 2);
  const count = number(waiting(group));
  return waiting(group) ? html`<a href=${filtered("waiting", { owner: `${namespace}/PodGroup/${name}` })}>${count}<span class="unseen"> pods of ${visible(name, 80)}</span></a>` : count;
}

const COLUMNS = [
  { title: "Group", cell: (group) => html`<${Text} of=${group.group} />`, by: (group) => group.group },
  { title: "Source", cell: (group) => html`<${Text} of=${group.source} limit=${40} />` },
  { title: "State", cell: (group) => html`<${Badge} of=${inWords(group.stage)} kind=${KINDS[group.stage] ?? ""} />`, by: (group) => group.stage },
  { title: "Needs", numeric: true, cell: (group) => number(group.minimum), by: (group) => group.minimum },
  { title: "Have a node", numeric: true, cell: (group) => number(placed(group)), by: placed },
  { title: "Being bound", numeric: true, cell: (group) => number(group.reserved), by: (group) => group.reserved },
  { title: "Wait", numeric: true, cell: waitingLink, by: waiting },
  { title: "Why", cell: (group) => html`<${LongText} of=${group.text} what=${`the reason of ${group.group.slice(0, 80)}`} />` },
];

export function Gangs({ at, every = EVERY }) {
  const [namespace, setNamespace] = useState("");
  const [words, setWords] = useState("");
  const [limit, setLimit] = useState(FIRST_LIMIT);
  const answer = useAnswer("gangs", { namespace, limit, at }, every);
  const page = answer.data;
  const groups = useMemo(() => (page?.groups ?? []).filter((group) =>
    !words || contains(`${group.group} ${group.stage} ${group.text}`, words)),
  [page, words]);
  return html`<h1 tabindex="-1">Gangs</h1>
    <${Pending} answer=${answer} what="the pod groups" /><${Standby} page=${page} />
    <form class="filters" role="search" aria-label="Filter the groups" onSubmit=${(event) => event.preventDefault()}>
      <label>Namespace <input value=${namespace} maxlength="63" autocomplete="off"
        onChange=${(event) => setNamespace(event.target.value.trim())} /></label>
      <${Words} label="Words" value=${words} onWords=${setWords} />
    </form>
    ${page && html`
      <p role="status">${plural(groups.length, "group")} shown of ${number(page.total)}.
        ${page.groups.length < page.total && limit < LAST_LIMIT && html`${" "}
          <button type="button" class="link" onClick=${() => setLimit(LAST_LIMIT)}>Load more</button>`}
        ${page.groups.length < page.total && limit === LAST_LIMIT && !namespace && html`${" "}Name a namespace to see others.`}</p>
      <p class="small">Needs: how many pods of the group must have a node at once; pods that succeeded count.</p>
      <${Table} caption="Pod groups" columns=${COLUMNS} rows=${groups} id=${(group) => `${group.source} ${group.group}`}
        empty="There are no pod groups, or none of these words. Pods that must start together form one: see Gang scheduling in the documentation." />`}`;
}
