// Untrusted text, and numbers, as people read them.
//
// Names, messages and labels come from whoever may create a pod. They are shown as text nodes only
// (Preact escapes, and Trusted Types forbid the rest), shortened, and without characters that hide,
// reorder or fake what is beside them: those become their code point, as in [U+202E].

import { useState } from "./vendor/hooks.js";
import { html } from "./html.js";

export const SHORT = 200;
const LONG = 20_000;

// Controls, format characters (bidirectional controls, zero width, tags), line and paragraph
// separators, private use, unassigned and lone surrogates; a second mark on one letter as well.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Cs}\u115f\u1160\u3164\uffa0]/gu;
const STACKED = /(\p{M}{2})\p{M}+/gu;

const PLAIN = /^(?!.*  )[ -~]*$/;

const codePoint = (character) =>
  `[U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`;

/** Return a text with white space collapsed and every unseen character made visible. */
export function visible(text, limit = SHORT) {
  const all = typeof text === "string" ? text : String(text ?? "");
  const cut = all.length > limit;
  const part = cut ? all.slice(0, limit - 1) : all;
  // Most texts are plain, and the expressions are slow.
  if (PLAIN.test(part)) return cut ? `${part}…` : part;
  const shown = part
    .replace(/[ \t\r\n]+/g, " ")
    .replace(UNSEEN, codePoint)
    .replace(STACKED, "$1[…]");
  return cut ? `${shown}…` : shown;
}

/** An untrusted text. Its direction does not reach what is beside it. */
export const Text = ({ of, limit }) => html`<bdi>${visible(of, limit)}</bdi>`;

const MAX_LINES = 20;

/** An untrusted text of several lines, each on its own. */
export function Lines({ of, limit }) {
  const lines = String(of ?? "").slice(0, limit).trim().split(/\r?\n/);
  const shown = lines.slice(0, MAX_LINES).map((line, at) => html`${at ? html`<br />` : ""}<${Text} of=${line} limit=${limit} />`);
  return html`${shown}${more(lines.length - MAX_LINES)}`;
}

/** A short name that the scheduler chose, such as of an event or a plugin: not broken in a table. */
export const Label = ({ of }) => html`<bdi class="whole">${visible(of, 80)}</bdi>`;

/** An untrusted text that may be long, with a button that shows all of it. */
export function LongText({ of, what }) {
  const [all, setAll] = useState(false);
  const text = String(of ?? "");
  if (text.length <= SHORT) return html`<${Text} of=${text} />`;
  return html`<${Text} of=${text} limit=${all ? LONG : SHORT} />${" "}
    <button type="button" class="link" aria-expanded=${all} onClick=${() => setAll(!all)}>
      ${all ? "less" : "more"}<span class="unseen"> of ${what}</span>
    </button>`;
}

/** Whether a text contains every word of a filter, in any case. */
export function contains(text, filter) {
  const lower = text.toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => lower.includes(word));
}

/** Return a key by which texts sort as people count: `n2` before `n10`. Much quicker than a collator. */
export const sortKey = (text) => text.replace(/\d{1,15}/g, (digits) => digits.padStart(15, "0"));

const UNITS = [["d", 86_400], ["h", 3_600], ["m", 60], ["s", 1]];

/** Write seconds with the two largest units. */
export function span(seconds) {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 1 && seconds > 0) {
    const milliseconds = seconds * 1000;
    return `${milliseconds < 10 ? milliseconds.toFixed(milliseconds < 1 ? 2 : 1) : Math.round(milliseconds)} ms`;
  }
  let left = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [unit, size] of UNITS) {
    const number = Math.floor(left / size);
    left %= size;
    if (number || parts.length || unit === "s") parts.push([number, unit]);
  }
  const shown = parts.slice(0, 2).filter(([number]) => number);
  return shown.map(([number, unit]) => `${number} ${unit}`).join(" ") || "0 s";
}

/** Write wall clock seconds as local time; with the day if it is not today. */
export function clock(seconds) {
  if (!seconds) return "";
  const local = new Date(seconds * 1000 - new Date(seconds * 1000).getTimezoneOffset() * 60_000);
  if (Number.isNaN(local.getTime())) return "";
  const [day, time] = local.toISOString().slice(0, 19).split("T");
  const today = new Date().toDateString() === new Date(seconds * 1000).toDateString();
  return today ? time : `${day} ${time}`;
}

const BINARY = ["", " Ki", " Mi", " Gi", " Ti", " Pi"];

/** Write an amount of a resource: cores, or bytes in binary units, or a count. */
export function amount(resource, value) {
  if (resource === "cpu") return String(Math.round(value * 1000) / 1000);
  if (resource !== "memory" && resource !== "ephemeral-storage" && !resource.startsWith("hugepages-")) {
    return number(value);
  }
  let rest = value;
  let unit = 0;
  while (Math.abs(rest) >= 1024 && unit < BINARY.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${Math.round(rest * 10) / 10}${BINARY[unit]}`;
}

export const percent = (share) => `${Math.round(share * 100)} %`;
export const number = (value) => Number(value ?? 0).toLocaleString("en-US");
/** Say how many were left out of a list. */
export const more = (left) => (left > 0 ? ` and ${number(left)} more` : "");
export const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
