import { createContext } from "preact";
import { useCallback, useContext, useEffect, useRef, useState } from "preact/hooks";
import { type Api, ApiError } from "./api.ts";
import { FormError } from "./form-error.ts";
import type { Live } from "./live.ts";
import type { ListedNamespaces } from "./namespace-choice.ts";
import type { Me } from "./shapes.ts";

/** Everything a page works with: who is looking, at what, and how it hears of changes. */
export interface Session {
  readonly api: Api;
  readonly me: Me;
  /** What is not allowed is not offered. */
  readonly can: { readonly admin: boolean; readonly leases: boolean; readonly namespaces: boolean };
  readonly namespace: string;
  readonly namespaces: ListedNamespaces;
  /** `/v1/namespaces/NAME`. */
  readonly path: string;
  readonly live: Live;
  /** Tells that the page has what it shows. */
  readonly ready: () => void;
  /** Goes to another namespace. */
  readonly choose: (namespace: string) => void;
  readonly reloadNamespaces: () => Promise<void>;
}

export const SessionContext = createContext<Session | undefined>(undefined);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error("A page was drawn outside of a session.");
  return session;
}

/** What was loaded; `error` stands beside older data where a reload failed. */
interface Loaded<Value> {
  readonly value: Value | undefined;
  readonly error: ApiError | undefined;
  readonly isLoading: boolean;
  readonly reload: () => Promise<void>;
}

/**
 * Loads at first, whenever `keys` change, and anew when events were missed. Older data stays until newer is there. The page is
 * ready when its `main` data stands; what is loaded beside it does not count.
 */
export function useLoaded<Value>(
  load: (signal: AbortSignal) => Promise<Value>,
  keys: readonly (string | number | undefined)[],
  role: "main" | "beside",
): Loaded<Value> {
  const { live, path, ready } = useSession();
  const [state, setState] = useState<{ value?: Value; error?: ApiError; isLoading: boolean }>({ isLoading: true });
  const current = useRef(load);
  current.current = load;
  const told = useRef(ready);
  told.current = ready;
  const running = useRef<AbortController | undefined>(undefined);
  const reload = useCallback(async () => {
    running.current?.abort();
    const stopping = new AbortController();
    running.current = stopping;
    setState((before) => ({ ...before, isLoading: true }));
    try {
      const value = await current.current(stopping.signal);
      if (!stopping.signal.aborted) setState({ value, isLoading: false });
    } catch (error) {
      if (stopping.signal.aborted) return;
      setState((before) => ({ ...before, error: asApiError(error), isLoading: false }));
    }
    if (!stopping.signal.aborted && role === "main") told.current();
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

/** A change that somebody asked for: under way, and what became of it. */
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
