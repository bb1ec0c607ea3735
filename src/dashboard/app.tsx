import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { Api, type ApiError, pathOf } from "./api.ts";
import { Live } from "./live.ts";
import { ErrorNote } from "./parts.tsx";
import { parseRoute, type Route } from "./route.ts";
import { asApiError, type Session, SessionContext } from "./session.tsx";
import type { Listed, Me, Namespace } from "./shapes.ts";
import { Brand, Shell } from "./shell.tsx";
import { namespaceKeeper, tokenKeeper } from "./theme.ts";
import { TokenForm } from "./token-form.tsx";

/** Who is looking: not known yet, asked for a token, known, or nobody can tell. */
type Entry =
  | { readonly kind: "asking" }
  | { readonly kind: "token"; readonly error: string | undefined }
  | {
      readonly kind: "known";
      readonly api: Api;
      readonly me: Me;
      readonly namespaces: readonly { readonly name: string }[];
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
      const namespaces = await namespacesOf(api, me);
      if (token !== undefined) tokenKeeper.set(token);
      setEntry({ kind: "known", api, me, namespaces });
    } catch (thrown) {
      const error = asApiError(thrown);
      if (error.status !== 401) setEntry({ kind: "failed", error });
    }
  }, []);
  useEffect(() => void enter(tokenKeeper.get()), [enter]);
  // A service that is just starting answers in a moment.
  useEffect(() => {
    if (entry.kind !== "failed") return;
    const timer = setTimeout(() => void enter(tokenKeeper.get()), RETRY_MS);
    return () => clearTimeout(timer);
  }, [entry, enter]);

  if (entry.kind === "known") {
    const { api, me } = entry;
    const reloadNamespaces = async () => setEntry({ ...entry, namespaces: await namespacesOf(api, me) });
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

/** Those the token has; whoever may not read the list still knows what the token names. */
async function namespacesOf(api: Api, { namespaces, scopes }: Me): Promise<readonly { readonly name: string }[]> {
  if (!scopes.includes("read"))
    return namespaces === "*" ? [{ name: "default" }] : namespaces.map((name) => ({ name }));
  const { items } = await api.get<Listed<Namespace>>("/v1/namespaces");
  return items.filter(({ status }) => status === "active");
}

function Known(props: {
  readonly api: Api;
  readonly me: Me;
  readonly namespaces: readonly { readonly name: string }[];
  readonly reloadNamespaces: () => Promise<void>;
  readonly leave: () => void;
}) {
  const { api, me, namespaces, reloadNamespaces, leave } = props;
  const route = useRoute();
  const [chosen, setChosen] = useState(namespaceKeeper.get());
  const known = (name: string | undefined) => namespaces.find((each) => each.name === name)?.name;
  const namespace =
    known(route.params.namespace) ?? known(chosen) ?? known("default") ?? namespaces[0]?.name ?? "default";
  const path = pathOf(namespace);
  const live = useMemo(() => new Live(), [api, path]);
  useEffect(() => live.start(api, path), [api, path, live]);

  const key = `${namespace} ${JSON.stringify(route)}`;
  const [readyKey, setReadyKey] = useState("");
  const ready = useCallback(() => setReadyKey(key), [key]);
  const session: Session = {
    ...{ api, me, namespace, namespaces, path, live, ready, reloadNamespaces },
    can: { admin: me.scopes.includes("admin"), namespaces: me.scopes.includes("admin") && me.namespaces === "*" },
  };
  const choose = (name: string) => {
    namespaceKeeper.set(name);
    setChosen(name);
  };
  return (
    <SessionContext.Provider value={session}>
      <Shell {...{ route, isReady: readyKey === key, choose, leave }} />
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
