// Time lines: how something changed until now, with its scale and times in words.

import { html } from "./html.js";
import { clock, number, span } from "./text.js";

const WIDTH = 600;
const HEIGHT = 80;

/** Return a number at or above a value that people count to: 1, 2 or 5 with zeros. */
function rounded(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value);
}

/**
 * One time line. `points` are {time, value}, the oldest first; `kind` is "area" for a state, "bars" for events.
 */
export function TimeLine({ title, points, kind, told }) {
  const top = rounded(Math.max(...points.map((each) => each.value), 1));
  const [begin, end] = [points[0].time, points.at(-1).time];
  const length = Math.max(end - begin, 1);
  const x = (time) => ((time - begin) / length) * WIDTH;
  const y = (value) => HEIGHT - (value / top) * HEIGHT;
  const width = Math.max(1, (WIDTH / points.length) * 0.7);
  const line = points.map((each) => `${x(each.time).toFixed(1)},${y(each.value).toFixed(1)}`).join(" ");
  return html`<figure class="timeline-chart">
    <figcaption><strong>${title}</strong> <span class="small">${told}</span></figcaption>
    <div class="plot"><span class="scale small" aria-hidden="true"><span>${number(top)}</span><span>0</span></span>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`${title}: ${told}`}>
        <line class="grid" x1="0" x2=${WIDTH} y1=${HEIGHT / 2} y2=${HEIGHT / 2} />
        ${kind === "area"
          ? html`<polygon points=${`0,${HEIGHT} ${line} ${WIDTH},${HEIGHT}`} /><polyline points=${line} />`
          : points.map((each) => html`<rect key=${each.time} x=${Math.min(WIDTH - width, x(each.time)).toFixed(1)} y=${y(each.value).toFixed(1)} width=${width.toFixed(1)} height=${(HEIGHT - y(each.value)).toFixed(1)} />`)}
      </svg></div>
    <p class="times small" aria-hidden="true"><span>${clock(begin)}</span><span>${clock(end)}</span></p>
  </figure>`;
}

/** The time lines of the scheduler: pods that waited, and placements. */
export function TimeLines({ moments }) {
  if (moments.length < 3) {
    return html`<p class="empty">The scheduler has just started: in a minute there are time lines here.</p>`;
  }
  const length = span(moments.at(-1).time - moments[0].time);
  const waiting = moments.map((each) => ({ time: each.time, value: each.waiting }));
  const placed = moments.map((each) => ({ time: each.time, value: each.placed }));
  const [least, most] = [Math.min(...waiting.map((each) => each.value)), Math.max(...waiting.map((each) => each.value))];
  const sum = placed.reduce((total, each) => total + each.value, 0);
  return html`<div class="columns">
    <${TimeLine} title="Pods waiting" points=${waiting} kind="area"
      told=${`${number(waiting.at(-1).value)} now, ${number(least)} to ${number(most)} in the last ${length}`} />
    <${TimeLine} title="Pods placed" points=${placed} kind="bars" told=${`${number(sum)} in the last ${length}`} />
  </div>`;
}
