// Questions to the local server, and their repetition.

import { useEffect, useRef, useState } from "./vendor/hooks.js";

/** Ask one question; throws an Error whose message tells people why there is no answer. */
export async function ask(question, query = {}, signal = undefined) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const search = new URLSearchParams(pairs).toString();
  let response;
  try {
    response = await fetch(`api/${question}${search ? `?${search}` : ""}`, { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("kubestow ui does not answer: was it ended? Start it again, and open its new address.");
  }
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  const error = new Error(body.message || `kubestow ui answered with status ${response.status}`);
  error.status = response.status;
  throw error;
}

// At most this part of the time is spent on answering a question again and again.
const SHARE = 20;

/**
 * Ask at once, and again every `every` seconds while the page is seen.
 *
 * `fetcher(signal)` asks; it is started anew when `key` changes. The former answer stays until the
 * next one comes if `group` is the same (another moment of the same question), else it is dropped.
 * Slow answers are asked for less often. `every` 0 asks once.
 */
export function usePolled(fetcher, key, every, group = key) {
  const [state, setState] = useState({ group, round: 0, data: null, error: null, at: 0 });
  const latest = useRef({ rounds: 0 });
  latest.current = { fetcher, group, rounds: latest.current.rounds };
  // Before the next effect, whose end then sees that the view is gone.
  useEffect(() => () => { latest.current.group = null; }, []);
  useEffect(() => {
    const controller = new AbortController();
    let ended = false;
    let timer = 0;
    async function again() {
      if (document.hidden) {
        timer = setTimeout(again, 1000);
        return;
      }
      const began = performance.now();
      const round = ++latest.current.rounds;
      let news;
      try {
        news = { data: await latest.current.fetcher(controller.signal), error: null, status: 0, at: Date.now() / 1000 };
      } catch (error) {
        // What was known stays visible beside the error.
        news = { error: error.message, status: error.status };
      }
      if (controller.signal.aborted) return;
      setState((before) => {
        const former = before.group === group ? before : { data: null, at: 0, round: 0 };
        return former.round > round ? before : { ...former, ...news, group, round };
      });
      if (every && !ended) timer = setTimeout(again, Math.max(every * 1000, SHARE * (performance.now() - began)));
    }
    again();
    return () => {
      ended = true;
      clearTimeout(timer);
      // An answer about the moment before is better than none while a slider moves.
      if (latest.current.group !== group) controller.abort();
    };
  }, [key, every]);
  return state.group === group ? state : { group, data: null, error: null, at: 0 };
}

/** Ask a question as `usePolled` does. */
export function useAnswer(question, query, every) {
  const { at, ...same } = query;
  const group = `${question} ${JSON.stringify(same)}`;
  return usePolled((signal) => ask(question, query, signal), `${group} ${at ?? ""}`, every, group);
}
