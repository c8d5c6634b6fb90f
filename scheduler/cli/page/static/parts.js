// Components that several views share: links, states of an answer, tables with pages, meters.

import { useEffect, useMemo, useState } from "./vendor/hooks.js";
import { html } from "./html.js";
import { Lines, Text, number, percent, sortKey, span, visible } from "./text.js";

/** The address of a view: its name and arguments, each escaped. */
export const address = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

/** The address of a view with filters; those without a value are left out. */
export function filtered(view, filters) {
  const set = Object.entries(filters).filter(([, value]) => value);
  return set.length ? `${address(view)}?${new URLSearchParams(set)}` : address(view);
}

export const PodLink = ({ namespace, name }) =>
  html`<a href=${address("pod", namespace, name)}><${Text} of=${`${namespace}/${name}`} /></a>`;

export const NodeLink = ({ name }) =>
  name ? html`<a href=${address("node", name)}><${Text} of=${name} /></a>` : "";

/** Split `namespace/name`. */
export function podOf(key) {
  const at = key.indexOf("/");
  return { namespace: key.slice(0, at), name: key.slice(at + 1) };
}

/** Return when the pod is tried again. */
export function nextTry(pod, now) {
  if (pod.next_retry_reason === "periodic flush") return `after an event, or in ${span(pod.next_retry - now)}`;
  if (pod.next_retry !== null && pod.next_retry !== undefined) {
    return `in ${span(pod.next_retry - now)}: ${visible(pod.next_retry_reason)}`;
  }
  const words = { gated: "when the gate opens", unschedulable: "after an event", "in-flight": "now" };
  return words[pod.place] ?? visible(pod.next_retry_reason);
}

/** What stands in place of an answer: an error, or that it is awaited. */
export function Pending({ answer, what }) {
  if (answer.error) {
    const old = answer.data ? " Shown is the last answer." : "";
    return html`<p class="problem" role="alert"><${Lines} of=${answer.error} limit=${2000} />${old}</p>`;
  }
  return answer.data ? null : html`<p class="loading" role="status">Asking for ${what} …</p>`;
}

/** A note that the replica asked does not lead. */
export const Standby = ({ page }) =>
  page && page.leading === false
    ? html`<p class="note">This replica stands by: it schedules nothing, and its queue is not the leader's.</p>`
    : null;

export const PAGE_ROWS = 50;

/** Sort rows by what `by` returns of each, which is asked once. */
export function sortedBy(rows, by) {
  const keys = new Map(rows.map((row) => {
    const value = by(row);
    return [row, typeof value === "string" ? sortKey(value) : value];
  }));
  return rows.toSorted((a, b) => {
    const [one, other] = [keys.get(a), keys.get(b)];
    return one < other ? -1 : one > other ? 1 : 0;
  });
}

/** Rows in the order of a column, and what chooses it. */
function useSorted(columns, rows) {
  const [order, setOrder] = useState({ title: "", down: false });
  const column = columns.find((each) => each.title === order.title && each.by);
  const sorted = useMemo(() => {
    if (!column) return rows;
    const found = sortedBy(rows, column.by);
    return order.down ? found.reverse() : found;
  }, [rows, order.title, order.down]);
  // Numbers begin with the largest, which is what one looks for; then the other way, then as given.
  function choose(title) {
    const first = Boolean(columns.find((each) => each.title === title)?.numeric);
    setOrder((before) => before.title !== title ? { title, down: first }
      : before.down === first ? { title, down: !first } : { title: "", down: false });
  }
  return { sorted, order: column ? order : { title: "" }, choose };
}

function Head({ column, order, choose }) {
  const chosen = order.title === column.title;
  const sort = chosen ? (order.down ? "descending" : "ascending") : undefined;
  return html`<th scope="col" role="columnheader" class=${column.numeric ? "numeric" : ""} aria-sort=${sort}>
    ${column.by
      ? html`<button type="button" class="order" onClick=${() => choose(column.title)}>${visible(column.title, 60)}<span aria-hidden="true">${chosen ? (order.down ? " ▾" : " ▴") : ""}</span></button>`
      : visible(column.title, 60)}</th>`;
}

/**
 * A table of at most PAGE_ROWS rows at a time, with buttons for the others; a list of cards where it is narrow.
 *
 * `columns` are {title, cell(row), numeric, by(row)}, `rows` all rows, `id(row)` a key, `caption` its name.
 */
export function Table({ caption, columns, rows, id, empty = "none" }) {
  const [page, setPage] = useState(0);
  const { sorted, order, choose } = useSorted(columns, rows);
  const pages = Math.max(1, Math.ceil(rows.length / PAGE_ROWS));
  const current = Math.min(page, pages - 1);
  useEffect(() => setPage(0), [caption, order.title, order.down]);
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  const first = current * PAGE_ROWS;
  const shown = sorted.slice(first, first + PAGE_ROWS);
  const sortable = columns.filter((each) => each.by);
  // The roles are said, since a table that is laid out as cards has none of its own.
  return html`${sortable.length > 0 && html`<label class="sort">Sort by${" "}
      <select value=${order.title} onChange=${(event) => choose(event.target.value)}>
        <option value="">as listed</option>${sortable.map((each) => html`<option key=${each.title} value=${each.title}>${each.title}</option>`)}
      </select></label>`}
    <div class="table" role="region" aria-label=${caption} tabindex="0">
      <table role="table" aria-rowcount=${rows.length + 1}>
        <caption class="unseen">${caption}</caption>
        <thead role="rowgroup"><tr role="row" aria-rowindex="1">
          ${columns.map((column) => html`<${Head} key=${column.title} column=${column} order=${order} choose=${choose} />`)}</tr></thead>
        <tbody role="rowgroup">
          ${shown.map((row, index) => html`<tr key=${id(row)} role="row" aria-rowindex=${first + index + 2}>
            ${columns.map((column, at) => at === 0
              ? html`<th scope="row" role="rowheader">${column.cell(row)}</th>`
              : html`<td role="cell" class=${column.numeric ? "numeric" : ""} data-title=${visible(column.title, 60)}><div>${column.cell(row)}</div></td>`)}
          </tr>`)}
        </tbody>
      </table>
    </div>
    ${pages > 1 && html`<nav class="pages" aria-label=${`Pages of: ${caption}`}>
      <button type="button" disabled=${!current} onClick=${() => setPage(current - 1)}>Previous</button>
      <span>${number(first + 1)} to ${number(first + shown.length)} of ${number(rows.length)}</span>
      <button type="button" disabled=${current === pages - 1} onClick=${() => setPage(current + 1)}>Next</button>
    </nav>`}`;
}

/** How much of something is used, in words and as a bar. */
export function Meter({ label, used, total }) {
  const share = total > 0 ? used / total : used > 0 ? 1 : 0;
  return html`<span class="fill">
    <meter min="0" max="1" high="0.9" value=${Math.min(1, Math.max(0, share))} aria-label=${label}></meter>
    ${" "}${percent(share)}
  </span>`;
}

/** A list of facts; those without a value are left out. */
export function Facts({ facts }) {
  const known = facts.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return html`<dl class="facts">
    ${known.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

/** A search for words, which are asked for when typing pauses. */
export function Words({ label, value, onWords }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text.trim() === value) return undefined;
    const timer = setTimeout(() => onWords(text.trim()), 250);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<label>${label} <input type="search" value=${text} maxlength="200" autocomplete="off" onInput=${(event) => setText(event.target.value)} /></label>`;
}

/** The words of a place in the queue. */
export const PLACES = {
  active: "active",
  backoff: "backoff",
  unschedulable: "unschedulable",
  gated: "gated",
  "in-flight": "in flight",
};

export const Badge = ({ of, kind }) => html`<span class=${`badge ${kind ?? of}`}><${Text} of=${of} limit=${40} /></span>`;
