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
 * `fetcher(signal)` asks; it is started anew when `key` changes, and the former answer is forgotten
 * then. Slow answers are asked for less often. `every` 0 asks once.
 */
export function usePolled(fetcher, key, every) {
  const [state, setState] = useState({ key, data: null, error: null, at: 0 });
  const latest = useRef(fetcher);
  latest.current = fetcher;
  useEffect(() => {
    const controller = new AbortController();
    let timer = 0;
    async function round() {
      if (document.hidden) {
        timer = setTimeout(round, 1000);
        return;
      }
      const began = performance.now();
      try {
        const data = await latest.current(controller.signal);
        if (controller.signal.aborted) return;
        setState({ key, data, error: null, at: Date.now() / 1000 });
      } catch (error) {
        if (controller.signal.aborted) return;
        // What was known stays visible beside the error.
        setState((before) => ({ ...(before.key === key ? before : { data: null, at: 0 }), key, error: error.message, status: error.status }));
      }
      if (every) timer = setTimeout(round, Math.max(every * 1000, SHARE * (performance.now() - began)));
    }
    round();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [key, every]);
  return state.key === key ? state : { key, data: null, error: null, at: 0 };
}

/** Ask a question as `usePolled` does. */
export function useAnswer(question, query, every) {
  const key = `${question} ${JSON.stringify(query)}`;
  return usePolled((signal) => ask(question, query, signal), key, every);
}
