import { useEffect, useRef, useState } from "preact/hooks";
import { AuditPage } from "./audit.tsx";
import { BucketsPage } from "./buckets.tsx";
import { EntitiesPage } from "./entities.tsx";
import { LeasesPage } from "./leases.tsx";
import { LimitsPage } from "./limits.tsx";
import { NamespaceField } from "./namespace-field.tsx";
import { NamespacesPage } from "./namespaces.tsx";
import { useObserved } from "./observable.ts";
import { Select } from "./parts.tsx";
import { PlansPage } from "./plans.tsx";
import { RefusalsPage } from "./refusals.tsx";
import { hrefOf, PAGES, type PageName, type Route } from "./route.ts";
import { useSession } from "./session.tsx";
import { applyTheme, storedTheme, THEMES, type Theme } from "./theme.ts";
import { UsagePage } from "./usage.tsx";
import { plural, whole } from "./words.ts";

const TITLES: Readonly<Record<PageName, string>> = {
  buckets: "Buckets",
  refusals: "Refusals",
  leases: "Leases",
  usage: "Usage",
  entities: "Entities",
  plans: "Plans",
  limits: "Limits",
  audit: "Audit",
  namespaces: "Namespaces",
};

export function Brand() {
  return (
    <span class="brand">
      <svg width="24" height="24" viewBox="0 0 32 32" aria-hidden="true">
        <rect class="mark" width="32" height="32" rx="8" />
        <rect class="mark-full" x="7" y="8" width="18" height="4" rx="2" />
        <rect class="mark-full" x="7" y="14" width="12" height="4" rx="2" />
        <rect class="mark-low" x="7" y="20" width="6" height="4" rx="2" />
      </svg>
      <span>zae-limiter</span>
    </span>
  );
}

/** What stands around every page: where one is, how the connection stands, and where one can go. */
export function Shell(props: { readonly route: Route; readonly isReady: boolean; readonly leave: () => void }) {
  const { route, isReady, leave } = props;
  const { me, namespace } = useSession();
  const main = useRef<HTMLElement>(null);
  useTitle(route.page, main);
  return (
    <div class="shell" data-testid="app" data-ready={String(isReady)} data-page={route.page}>
      {/* biome-ignore lint/a11y/useValidAnchor: it leads to a place on this page; what stands behind the # is the page's own. */}
      <a
        class="skip-link"
        data-testid="skip-link"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.querySelector("h1")?.focus();
        }}
      >
        Skip to the content
      </a>
      <header class="side">
        <div class="side-top">
          <Brand />
          <LiveState />
        </div>
        <NamespaceField />
        <Navigation page={route.page} />
        <div class="side-foot">
          <ThemeSelect />
          <p class="who">
            <span title={`Scopes: ${me.scopes.join(", ")}`}>
              {me.id === "local" ? "Open to this machine" : `Signed in as ${me.id}`}
            </span>
            {me.id !== "local" && (
              <button type="button" class="link-button" data-testid="sign-out" onClick={leave}>
                Sign out
              </button>
            )}
          </p>
        </div>
      </header>
      <main class="main" ref={main} id="main">
        {me.scopes.includes("read") ? (
          <Page key={`${namespace} ${JSON.stringify(route)}`} route={route} />
        ) : (
          <Unreadable leave={leave} />
        )}
      </main>
    </div>
  );
}

function Page({ route }: { readonly route: Route }) {
  const { params } = route;
  switch (route.page) {
    case "buckets":
      return <BucketsPage params={params} />;
    case "refusals":
      return <RefusalsPage params={params} />;
    case "leases":
      return <LeasesPage params={params} />;
    case "usage":
      return <UsagePage params={params} />;
    case "entities":
      return <EntitiesPage params={params} />;
    case "plans":
      return <PlansPage />;
    case "limits":
      return <LimitsPage params={params} />;
    case "audit":
      return <AuditPage params={params} />;
    case "namespaces":
      return <NamespacesPage />;
  }
}

function Unreadable({ leave }: { readonly leave: () => void }) {
  const { me, ready } = useSession();
  useEffect(ready, [ready]);
  return (
    <div class="note bad" role="alert" data-testid="error" data-code="insufficient_scope">
      <h1 data-testid="page-title">This token lacks the read scope</h1>
      <span>
        The token {me.id} has the scopes {me.scopes.join(", ")}; the dashboard needs <code>read</code>.
      </span>
      <button type="button" class="button" onClick={leave}>
        Use another token
      </button>
    </div>
  );
}

function Navigation({ page }: { readonly page: PageName }) {
  const { live } = useSession();
  const count = useObserved(live.refusalCount);
  return (
    <nav class="nav" aria-label="Pages">
      <ul>
        {PAGES.map((name) => (
          <li key={name}>
            <a href={hrefOf(name)} data-testid={`nav-${name}`} aria-current={name === page ? "page" : undefined}>
              <span>{TITLES[name]}</span>
              {name === "refusals" && count > 0 && (
                <span class="count" data-testid="refusal-count">
                  {whole(count)}
                  <span class="unseen"> since this page was opened</span>
                </span>
              )}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

const STATE_WORDS = { open: "Live", retrying: "Reconnecting…", closed: "Not connected" } as const;

function LiveState() {
  const { live } = useSession();
  const { state, reason } = useObserved(live.connection);
  return (
    <span class="live" role="status" data-testid="live" data-state={state} title={reason}>
      <i aria-hidden="true" />
      {STATE_WORDS[state]}
    </span>
  );
}

function ThemeSelect() {
  const [theme, setTheme] = useState<Theme>(storedTheme());
  const choose = (next: Theme) => {
    applyTheme(next);
    setTheme(next);
  };
  return (
    <label class="side-field inline">
      <span>Theme</span>
      <Select
        testid="theme"
        value={theme}
        options={THEMES.map((value) => ({ value, label: value[0]?.toUpperCase() + value.slice(1) }))}
        onChange={(value) => choose(THEMES.find((each) => each === value) ?? "auto")}
      />
    </label>
  );
}

/** Another page is told by its title, and read from its heading on. */
function useTitle(page: PageName, main: { current: HTMLElement | null }): void {
  const { live, namespace } = useSession();
  const count = useObserved(live.refusalCount);
  const isFirst = useRef(true);
  useEffect(() => {
    const refused = count === 0 ? "" : ` (${plural(count, "refusal")})`;
    document.title = `${TITLES[page]} · ${namespace}${refused} · zae-limiter`;
  }, [page, namespace, count]);
  useEffect(() => {
    if (!isFirst.current) main.current?.querySelector("h1")?.focus();
    isFirst.current = false;
    window.scrollTo(0, 0);
  }, [page]);
}
