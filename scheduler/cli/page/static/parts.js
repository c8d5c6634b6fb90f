// Components that several views share: links, states of an answer, tables with pages, meters.

import { useEffect, useState } from "./vendor/hooks.js";
import { html } from "./html.js";
import { Text, number, percent, plural } from "./text.js";

/** The address of a view: its name and arguments, each escaped. */
export const address = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

export const PodLink = ({ namespace, name }) =>
  html`<a href=${address("pod", namespace, name)}><${Text} of=${`${namespace}/${name}`} /></a>`;

export const NodeLink = ({ name }) =>
  name ? html`<a href=${address("node", name)}><${Text} of=${name} /></a>` : "";

/** Split `namespace/name`. */
export function podOf(key) {
  const at = key.indexOf("/");
  return { namespace: key.slice(0, at), name: key.slice(at + 1) };
}

/** What stands in place of an answer: an error, or that it is awaited. */
export function Pending({ answer, what }) {
  if (answer.error) {
    const old = answer.data ? " Shown is the last answer." : "";
    return html`<p class="problem" role="alert"><${Text} of=${answer.error} limit=${2000} />${old}</p>`;
  }
  return answer.data ? null : html`<p class="loading" role="status">Asking for ${what} …</p>`;
}

/** A note that the replica asked does not lead. */
export const Standby = ({ page }) =>
  page && page.leading === false
    ? html`<p class="note">This replica stands by: it schedules nothing, and its queue is not the leader's.</p>`
    : null;

export const PAGE_ROWS = 100;

/**
 * A table of at most PAGE_ROWS rows at a time, with buttons for the others.
 *
 * `columns` are {title, cell(row), numeric}, `rows` all rows, `id(row)` a key, `caption` its name.
 */
export function Table({ caption, columns, rows, id, empty = "none" }) {
  const [page, setPage] = useState(0);
  const pages = Math.max(1, Math.ceil(rows.length / PAGE_ROWS));
  const current = Math.min(page, pages - 1);
  useEffect(() => setPage(0), [caption]);
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  const first = current * PAGE_ROWS;
  const shown = rows.slice(first, first + PAGE_ROWS);
  const head = columns.map(
    (column) => html`<th scope="col" class=${column.numeric ? "numeric" : ""}>${column.title}</th>`,
  );
  return html`<div class="table" role="region" aria-label=${caption} tabindex="0">
      <table aria-rowcount=${rows.length + 1}>
        <caption class="unseen">${caption}</caption>
        <thead><tr aria-rowindex="1">${head}</tr></thead>
        <tbody>
          ${shown.map((row, index) => html`<tr key=${id(row)} aria-rowindex=${first + index + 2}>
            ${columns.map((column, at) => at === 0
              ? html`<th scope="row">${column.cell(row)}</th>`
              : html`<td class=${column.numeric ? "numeric" : ""}>${column.cell(row)}</td>`)}
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

/** The words of a place in the queue. */
export const PLACES = {
  active: "active",
  backoff: "backoff",
  unschedulable: "unschedulable",
  gated: "gated",
  "in-flight": "in flight",
};

export const Badge = ({ of, kind }) => html`<span class=${`badge ${kind ?? of}`}><${Text} of=${of} limit=${40} /></span>`;

export const howMany = (shown, all, noun) =>
  shown === all ? plural(all, noun) : `${number(shown)} of ${plural(all, noun)}`;
