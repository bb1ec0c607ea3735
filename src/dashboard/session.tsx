import { createContext } from "preact";
import { useCallback, useContext, useEffect, useRef, useState } from "preact/hooks";
import { type Api, ApiError } from "./api.ts";
import type { Live } from "./live.ts";
import type { ListedNamespaces } from "./namespace-choice.ts";
import { useLatest } from "./observable.ts";
import { hrefOf, type PageName } from "./route.ts";
import type { Me } from "./shapes.ts";
import { FormError } from "./words.ts";

/** The caller, the namespace and the connection that every page works with. */
export interface Session {
  readonly api: Api;
  readonly me: Me;
  /** The actions that the token allows; others are not offered. */
  readonly can: { readonly admin: boolean; readonly leases: boolean; readonly namespaces: boolean };
  readonly namespace: string;
  readonly namespaces: ListedNamespaces;
  /** `/v1/namespaces/NAME`. */
  readonly path: string;
  readonly live: Live;
  /** Reports that the page has loaded what it shows. */
  readonly ready: () => void;
  readonly choose: (namespace: string) => void;
  readonly reloadNamespaces: () => Promise<void>;
}

export const SessionContext = createContext<Session | undefined>(undefined);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error("A page was drawn outside of a session.");
  return session;
}

/** Loaded data; if a reload failed, `error` stands beside the older data. */
interface Loaded<Value> {
  readonly value: Value | undefined;
  readonly error: ApiError | undefined;
  readonly isLoading: boolean;
  readonly reload: () => Promise<void>;
}

/**
 * Loads at first, whenever `keys` change, and when events were missed. Older data stays until newer is there. The page is ready when
 * its `main` data is loaded, whether or not the data `beside` it is.
 */
export function useLoaded<Value>(
  load: (signal: AbortSignal) => Promise<Value>,
  keys: readonly (string | number | undefined)[],
  role: "main" | "beside",
): Loaded<Value> {
  const { live, path, ready } = useSession();
  const [state, setState] = useState<{ value?: Value; error?: ApiError; isLoading: boolean }>({ isLoading: true });
  const latest = useLatest({ load, ready });
  const running = useRef<AbortController | undefined>(undefined);
  const reload = useCallback(async () => {
    running.current?.abort();
    const stopping = new AbortController();
    running.current = stopping;
    setState((before) => ({ ...before, isLoading: true }));
    try {
      const value = await latest.current.load(stopping.signal);
      if (!stopping.signal.aborted) setState({ value, isLoading: false });
    } catch (error) {
      if (stopping.signal.aborted) return;
      setState((before) => ({ ...before, error: asApiError(error), isLoading: false }));
    }
    if (!stopping.signal.aborted && role === "main") latest.current.ready();
  }, []);
  const key = JSON.stringify([path, ...keys]);
  useEffect(() => {
    void reload();
    const unsubscribe = live.missed.subscribe(() => void reload());
    return () => {
      unsubscribe();
      running.current?.abort();
    };
  }, [key, live]);
  return { value: state.value, error: state.error, isLoading: state.isLoading, reload };
}

/** Runs an action of the user, and tells whether it is under way or has failed. */
export function useAction(): {
  readonly isBusy: boolean;
  readonly error: ApiError | undefined;
  readonly run: (action: () => Promise<void>) => Promise<boolean>;
  readonly clear: () => void;
} {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const run = async (action: () => Promise<void>): Promise<boolean> => {
    setBusy(true);
    setError(undefined);
    try {
      await action();
      return true;
    } catch (thrown) {
      setError(asApiError(thrown));
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { isBusy, error, run, clear: () => setError(undefined) };
}

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof FormError) return new ApiError(0, "form", error.message, []);
  return new ApiError(0, "page_failed", error instanceof Error ? error.message : String(error), []);
}

/** Calls back at every change of configuration whose action matches. */
export function useChanges(actions: RegExp, act: (action: string) => void): void {
  const { live } = useSession();
  const latest = useLatest(act);
  useEffect(
    () =>
      live.changes.subscribe(({ action }) => {
        if (actions.test(action)) latest.current(action);
      }),
    [live],
  );
}

/** A timer counts no longer than this. */
const TIMER_MAX_MS = 2 ** 31 - 1;
/** The service may read its clock a little later. */
const SPARE_MS = 250;

/** Calls back once the service's clock has come to an instant; undefined, or far ahead: never. */
export function useAt(atMs: number | undefined, act: () => void): void {
  const { live } = useSession();
  const latest = useLatest(act);
  useEffect(() => {
    const leftMs = (atMs ?? Number.POSITIVE_INFINITY) - live.nowMs() + SPARE_MS;
    if (leftMs > TIMER_MAX_MS) return;
    const timer = setTimeout(() => latest.current(), leftMs);
    return () => clearTimeout(timer);
  }, [atMs, live]);
}

/** The value once it has not changed for `ms`, so that a filter does not ask the service at every key. */
export function useSettled<Value>(value: Value, ms: number): Value {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

/** Calls back every `ms` while the page can be seen. */
export function useEvery(ms: number, act: () => void): void {
  const latest = useLatest(act);
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") latest.current();
    }, ms);
    return () => clearInterval(timer);
  }, [ms]);
}

/** The pages of a list by the service's cursors, of which the last is that of the page that is shown. */
export function usePages() {
  const [cursors, setCursors] = useState<readonly (string | undefined)[]>([undefined]);
  const page = cursors.length - 1;
  return {
    page,
    cursor: cursors.at(-1),
    /** Back to the first page. */
    begin: () => setCursors([undefined]),
    /** To the next page, which begins at `next`, or to the one before. */
    go: (to: number, next: string | undefined) => setCursors(to > page ? [...cursors, next] : cursors.slice(0, -1)),
  };
}

/** Writes the state of a page into the address without navigating, so that the address can be copied and reloaded. */
export function keepAddress(page: PageName, params: Readonly<Record<string, string | undefined>>): void {
  history.replaceState(null, "", hrefOf(page, params));
}
