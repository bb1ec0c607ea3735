import { createParser } from "eventsource-parser";
import { type Api, ApiError } from "./api.ts";

/** How the connection stands. `closed`: it is not tried again, and `reason` says why. */
export interface Connection {
  readonly state: "open" | "retrying" | "closed";
  readonly reason: string;
}

interface StreamOptions {
  readonly api: Api;
  readonly path: string;
  readonly types: readonly string[];
  readonly onState: (connection: Connection) => void;
  readonly onEvent: (name: string, data: unknown) => void;
  /** Events were missed: what is shown may be old, so everything has to be read anew. */
  readonly onMissed: () => void;
}

/** The service sends at least a comment every 5 s. */
const SILENCE_MAX_MS = 12_000;
const RETRY_MS = 2_000;
const RETRY_MAX_MS = 15_000;

/** Follows the events of a namespace until it is told to stop, and connects again by itself. */
export function follow(options: StreamOptions): () => void {
  const stopping = new AbortController();
  void keepFollowing(options, stopping.signal);
  return () => stopping.abort();
}

async function keepFollowing(options: StreamOptions, stop: AbortSignal): Promise<void> {
  const seen: Seen = { lastEventId: undefined, retryMs: RETRY_MS, wasOpen: false };
  for (let failures = 0; !stop.aborted; failures++) {
    const outcome = await followOnce(options, seen, stop);
    if (stop.aborted) return;
    if (outcome.kind === "refused") {
      options.onState({ state: "closed", reason: outcome.reason });
      return;
    }
    if (outcome.kind === "ended") failures = 0;
    options.onState({ state: "retrying", reason: outcome.reason });
    // Spread, so that all open pages do not come back in the same moment after a restart.
    const waitMs = Math.min(RETRY_MAX_MS, seen.retryMs * 1.5 ** failures) * (0.8 + 0.4 * Math.random());
    await wait(waitMs, stop);
  }
}

interface Seen {
  lastEventId: string | undefined;
  retryMs: number;
  wasOpen: boolean;
}

type Outcome = { readonly kind: "ended" | "failed" | "refused"; readonly reason: string };

async function followOnce(options: StreamOptions, seen: Seen, stop: AbortSignal): Promise<Outcome> {
  const { api, path, types, onState, onEvent, onMissed } = options;
  const silent = new AbortController();
  let timer = setTimeout(() => silent.abort(), SILENCE_MAX_MS);
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silent.abort(), SILENCE_MAX_MS);
  };
  let isOpen = false;
  try {
    const signal = AbortSignal.any([stop, silent.signal]);
    const answer = await api.events(path, { types: types.join(",") }, seen.lastEventId, signal);
    isOpen = true;
    onState({ state: "open", reason: "" });
    if (seen.wasOpen) onMissed();
    seen.wasOpen = true;
    const parser = createParser({
      onRetry: (ms) => {
        seen.retryMs = ms;
      },
      onEvent: ({ id, event = "message", data }) => {
        if (id !== undefined) seen.lastEventId = id;
        if (event === "gap") onMissed();
        else if (event !== "bye") onEvent(event, JSON.parse(data));
      },
    });
    const decoder = new TextDecoder();
    const reader = answer.body?.getReader();
    for (let part = await reader?.read(); part !== undefined && !part.done; part = await reader?.read()) {
      alive();
      parser.feed(decoder.decode(part.value, { stream: true }));
    }
    return { kind: "ended", reason: "The service closed the connection." };
  } catch (error) {
    if (silent.signal.aborted) return { kind: isOpen ? "ended" : "failed", reason: "No data for 12 s." };
    if (error instanceof ApiError && [400, 401, 403, 404].includes(error.status)) {
      return { kind: "refused", reason: error.message };
    }
    return {
      kind: isOpen ? "ended" : "failed",
      reason: error instanceof ApiError ? error.message : "The connection was lost.",
    };
  } finally {
    clearTimeout(timer);
  }
}

function wait(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    stop.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
