import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Api, type ApiError, pathOf } from "./api.ts";
import { Live } from "./live.ts";
import { type ListedNamespaces, listedNamespaces, useNamespace } from "./namespace-choice.ts";
import { Button, ErrorNote, Form } from "./parts.tsx";
import { hrefOf, parseRoute, type Route } from "./route.ts";
import { asApiError, type Session, SessionContext } from "./session.tsx";
import type { Me } from "./shapes.ts";
import { Brand, Shell } from "./shell.tsx";
import { namespaceKeeper, tokenKeeper } from "./theme.ts";

/** Asks for the token, which stays in this tab and is sent as a header only. */
function TokenForm(props: { readonly error: string | undefined; readonly onToken: (token: string) => Promise<void> }) {
  const [token, setToken] = useState("");
  const [isBusy, setBusy] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), [props.error]);
  const enter = async () => {
    const given = token.trim();
    if (given === "") {
      input.current?.focus();
      return;
    }
    setBusy(true);
    await props.onToken(given);
    setBusy(false);
  };
  return (
    <Form class="token-form" data-testid="token-form" onSubmit={() => void enter()}>
      <h1 data-testid="page-title">Sign in with a token</h1>
      <p class="quiet">
        This service requires a token. It needs the scope <code>read</code>; to change something, it needs{" "}
        <code>admin</code> besides. Neither includes the other.
      </p>
      <label class="field">
        <span>Token</span>
        <input
          ref={input}
          data-testid="token-input"
          type="password"
          autocomplete="off"
          spellcheck={false}
          placeholder="zael_…"
          value={token}
          aria-invalid={props.error !== undefined}
          aria-describedby={props.error === undefined ? undefined : "token-error"}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
      </label>
      {props.error !== undefined && (
        <p class="note bad" id="token-error" role="alert" data-testid="token-error">
          {props.error}
        </p>
      )}
      <Button type="submit" kind="primary wide" testid="token-submit" disabled={isBusy}>
        {isBusy ? "Checking…" : "Sign in"}
      </Button>
      <p class="quiet small">The token is kept in this tab until you close it. Create one with</p>
      <code class="quiet small command-line">
        zae-limiter token add tokens.json --id me --namespaces default --scopes read
      </code>
    </Form>
  );
}

/** The caller: not known yet, asked for a token, known, or not to be found out. */
type Entry =
  | { readonly kind: "asking" }
  | { readonly kind: "token"; readonly error: string | undefined }
  | {
      readonly kind: "known";
      readonly api: Api;
      readonly me: Me;
      readonly namespaces: ListedNamespaces;
    }
  | { readonly kind: "failed"; readonly error: ApiError };

const RETRY_MS = 3_000;

export function App() {
  const [entry, setEntry] = useState<Entry>({ kind: "asking" });
  const enter = useCallback(async (token: string | undefined) => {
    const api = new Api(token, () => {
      tokenKeeper.clear();
      setEntry({ kind: "token", error: token === undefined ? undefined : "The service does not accept this token." });
    });
    try {
      const me = await api.get<Me>("/v1/me");
      const namespaces = await listedNamespaces(api, me);
      if (token !== undefined) tokenKeeper.set(token);
      setEntry({ kind: "known", api, me, namespaces });
    } catch (thrown) {
      const error = asApiError(thrown);
      if (error.status !== 401) setEntry({ kind: "failed", error });
    }
  }, []);
  useEffect(() => void enter(tokenKeeper.get()), [enter]);
  // A service that is starting answers in a moment.
  useEffect(() => {
    if (entry.kind !== "failed") return;
    const timer = setTimeout(() => void enter(tokenKeeper.get()), RETRY_MS);
    return () => clearTimeout(timer);
  }, [entry, enter]);

  if (entry.kind === "known") {
    const { api, me } = entry;
    const reloadNamespaces = async () => setEntry({ ...entry, namespaces: await listedNamespaces(api, me) });
    const leave = () => {
      tokenKeeper.clear();
      setEntry({ kind: "token", error: undefined });
    };
    return <Known {...entry} {...{ reloadNamespaces, leave }} />;
  }
  return (
    <div class="entry" data-testid="app" data-ready="false">
      <main class="entry-card">
        <Brand />
        {entry.kind === "asking" && <p class="quiet">Connecting…</p>}
        {entry.kind === "failed" && <ErrorNote error={entry.error} />}
        {entry.kind === "token" && <TokenForm error={entry.error} onToken={enter} />}
      </main>
    </div>
  );
}

interface KnownProps {
  readonly api: Api;
  readonly me: Me;
  readonly namespaces: ListedNamespaces;
  readonly reloadNamespaces: () => Promise<void>;
  readonly leave: () => void;
}

/** Finds the namespace before anything of it is shown. */
function Known(props: KnownProps) {
  const { api, me, namespaces } = props;
  const route = useRoute();
  const [kept, setKept] = useState(namespaceKeeper.get());
  const keep = useCallback((name: string) => {
    namespaceKeeper.set(name);
    setKept(name);
  }, []);
  const linked = route.params.namespace;
  const chosen = useNamespace(api, me, namespaces, { linked, kept });
  // Links to other pages do not name the namespace, so the tab keeps it.
  useEffect(() => {
    if (chosen.kind === "known" && chosen.name === linked) keep(linked);
  }, [chosen.kind, chosen.name, linked, keep]);
  const choose = (name: string) => {
    keep(name);
    if (linked !== undefined) location.hash = hrefOf(route.page);
  };
  if (chosen.kind === "known") return <Looking {...{ ...props, route, choose, namespace: chosen.name }} />;
  return (
    <div class="entry" data-testid="app" data-ready={String(chosen.kind === "missing")}>
      <main class="entry-card">
        <Brand />
        {chosen.kind === "looking" ? (
          <p class="quiet">Connecting…</p>
        ) : (
          <div class="note bad" role="alert" data-testid="error" data-code="namespace_not_found">
            <strong>There is no namespace {chosen.name}.</strong>
            <span>It was deleted, or the token has no access to it.</span>
            <a href={hrefOf("namespaces")}>Choose another</a>
          </div>
        )}
      </main>
    </div>
  );
}

function Looking(
  props: KnownProps & {
    readonly route: Route;
    readonly namespace: string;
    readonly choose: (namespace: string) => void;
  },
) {
  const { api, me, namespaces, reloadNamespaces, leave, route, namespace, choose } = props;
  const path = pathOf(namespace);
  const live = useMemo(() => new Live(), [api, path]);
  useEffect(() => live.start(api, path), [api, path, live]);

  const key = `${namespace} ${JSON.stringify(route)}`;
  const [readyKey, setReadyKey] = useState("");
  const ready = useCallback(() => setReadyKey(key), [key]);
  const isAdmin = me.scopes.includes("admin");
  const session: Session = {
    ...{ api, me, namespace, namespaces, path, live, ready, choose, reloadNamespaces },
    can: { admin: isAdmin, leases: me.scopes.includes("acquire"), namespaces: isAdmin && me.namespaces === "*" },
  };
  return (
    <SessionContext.Provider value={session}>
      <Shell {...{ route, isReady: readyKey === key, leave }} />
    </SessionContext.Provider>
  );
}

function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const changed = () => setRoute(parseRoute(location.hash));
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return route;
}
