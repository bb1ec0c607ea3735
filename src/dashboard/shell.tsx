import type { ComponentChild } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { AuditPage } from "./audit.tsx";
import { BucketsPage } from "./buckets.tsx";
import { EntitiesPage } from "./entities.tsx";
import { LeasesPage } from "./leases.tsx";
import { LimitsPage } from "./limits.tsx";
import { isNamespace } from "./namespace-choice.ts";
import { NamespacesPage } from "./namespaces.tsx";
import { useObserved } from "./observable.ts";
import { OverviewPage } from "./overview.tsx";
import { Button, Form, Link, LinkButton, Select, TextInput } from "./parts.tsx";
import { PlansPage } from "./plans.tsx";
import { RefusalsPage } from "./refusals.tsx";
import { hrefOf, MAIN_PAGES, PAGES, type PageName, type PageProps, type Route } from "./route.ts";
import { useAction, useChanges, useEvery, useLoaded, useSession, useSettled } from "./session.tsx";
import type { Listed, Namespace, NamespaceShown } from "./shapes.ts";
import { applyTheme, storedTheme, THEMES, type Theme } from "./theme.ts";
import { UsagePage } from "./usage.tsx";
import { capitalized, FormError, plural, whole } from "./words.ts";

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

/** The frame of every page: the namespace, the state of the connection, and the navigation. */
export function Shell(props: { readonly route: Route; readonly isReady: boolean; readonly leave: () => void }) {
  const { route, isReady, leave } = props;
  const { me, namespace } = useSession();
  const main = useRef<HTMLElement>(null);
  const View = PAGE_VIEWS[route.page];
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
              <LinkButton testid="sign-out" onClick={leave}>
                Sign out
              </LinkButton>
            )}
          </p>
        </div>
      </header>
      <main class="main" ref={main} id="main">
        {me.scopes.includes("read") && <FrozenNote key={namespace} />}
        {me.scopes.includes("read") ? (
          <View key={`${namespace} ${JSON.stringify(route)}`} params={route.params} />
        ) : (
          <Unreadable leave={leave} />
        )}
      </main>
    </div>
  );
}

const PAGE_VIEWS: Readonly<Record<PageName, (props: PageProps) => ComponentChild>> = {
  overview: OverviewPage,
  buckets: BucketsPage,
  refusals: RefusalsPage,
  leases: LeasesPage,
  usage: UsagePage,
  entities: EntitiesPage,
  plans: PlansPage,
  limits: LimitsPage,
  audit: AuditPage,
  namespaces: NamespacesPage,
};

/** A process far from here may freeze it, which no event tells. */
const FROZEN_REREAD_MS = 60_000;

/** Says on every page that nothing is taken in the namespace. */
function FrozenNote() {
  const { api, path } = useSession();
  const { value, reload } = useLoaded((signal) => api.get<NamespaceShown>(path, {}, signal), [], "beside");
  useChanges(/^namespace_/, () => void reload());
  useEvery(FROZEN_REREAD_MS, () => void reload());
  const frozen = value?.frozen;
  return (
    <div role="status" data-testid="frozen">
      {frozen !== undefined && (
        <div class="note frozen">
          <strong>This namespace is frozen{frozen.reason === undefined ? "." : `: ${frozen.reason}`}</strong>
          <span>Nothing is taken, topped up or reset in it, whatever access is set.</span>
          <Link page="namespaces">Namespaces</Link>
        </div>
      )}
    </div>
  );
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
      <Button onClick={leave}>Use another token</Button>
    </div>
  );
}

/** Lines of the icons that a phone shows above the names. */
const ICONS: Readonly<Partial<Record<PageName | "more", string>>> = {
  overview: "M4 4h6v6H4zM14 4h6v6h-6zM4 14h6v6H4zM14 14h6v6h-6z",
  buckets: "M4 6h16M4 12h11M4 18h6",
  refusals: "M12 4a8 8 0 1 0 0 16a8 8 0 1 0 0-16zM6.5 6.5l11 11",
  usage: "M5 20v-9M12 20V5M19 20v-6",
  limits: "M4 8h9M17 8h3M15 5v6M4 16h3M11 16h9M9 13v6",
  more: "M5.5 12h.01M12 12h.01M18.5 12h.01",
};

function Icon({ name }: { readonly name: PageName | "more" }) {
  const lines = ICONS[name];
  if (lines === undefined) return null;
  return (
    <svg viewBox="0 0 24 24" aria-hidden="true">
      <path d={lines} stroke-width={name === "more" ? 3 : undefined} />
    </svg>
  );
}

function Navigation({ page }: { readonly page: PageName }) {
  const { live } = useSession();
  const count = useObserved(live.refusalCount);
  const [isOpen, setOpen] = useState(false);
  const more = useRef<HTMLButtonElement>(null);
  const id = useId();
  useEffect(() => setOpen(false), [page]);
  const others = PAGES.slice(MAIN_PAGES);
  const link = (name: PageName) => (
    <li key={name}>
      <a
        href={hrefOf(name)}
        data-testid={`nav-${name}`}
        aria-current={name === page ? "page" : undefined}
        onClick={() => setOpen(false)}
      >
        <Icon name={name} />
        <span>{capitalized(name)}</span>
        {name === "refusals" && count > 0 && (
          <span class="count" data-testid="refusal-count">
            {whole(count)}
            <span class="unseen"> since this page was opened</span>
          </span>
        )}
      </a>
    </li>
  );
  const close = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !isOpen) return;
    setOpen(false);
    more.current?.focus();
  };
  return (
    <nav class="nav" data-testid="nav" aria-label="Pages" onKeyDown={close}>
      <ul>{PAGES.slice(0, MAIN_PAGES).map(link)}</ul>
      <button
        ref={more}
        type="button"
        class="nav-more"
        data-testid="nav-more"
        data-current={others.includes(page) ? "true" : undefined}
        aria-expanded={isOpen}
        aria-controls={id}
        onClick={() => setOpen(!isOpen)}
      >
        <Icon name="more" />
        <span>More</span>
      </button>
      <ul class="others" id={id} data-open={isOpen ? "true" : undefined}>
        {others.map(link)}
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
  const choose = (value: string) => {
    const next = THEMES.find((each) => each === value) ?? "auto";
    applyTheme(next);
    setTheme(next);
  };
  return (
    <label class="side-field inline">
      <span>Theme</span>
      <Select
        testid="theme"
        value={theme}
        options={THEMES.map((value) => ({ value, label: capitalized(value) }))}
        onChange={choose}
      />
    </label>
  );
}

/** Sets the title of a new page, and moves the focus to its heading. */
function useTitle(page: PageName, main: { current: HTMLElement | null }): void {
  const { live, namespace } = useSession();
  const count = useObserved(live.refusalCount);
  const isFirst = useRef(true);
  useEffect(() => {
    const refused = count === 0 ? "" : ` (${plural(count, "refusal")})`;
    document.title = `${capitalized(page)} · ${namespace}${refused} · zae-limiter`;
  }, [page, namespace, count]);
  useEffect(() => {
    if (!isFirst.current) main.current?.querySelector("h1")?.focus();
    isFirst.current = false;
    window.scrollTo(0, 0);
  }, [page]);
}

const NAMESPACES_OFFERED_MAX = 50;
const TYPING_MS = 250;

/** Chooses a namespace from a list, or by searching if there are more than the list can have. */
function NamespaceField() {
  const { namespace, namespaces, choose } = useSession();
  const { names, hasMore } = namespaces;
  const options = names.includes(namespace) ? names : [namespace, ...names];
  return (
    <>
      <label class="side-field">
        <span>Namespace</span>
        <Select testid="namespace-select" value={namespace} options={options} onChange={choose} />
      </label>
      {hasMore && <NamespaceSearch />}
    </>
  );
}

/** Completes the names of namespaces at the service. */
function NamespaceSearch() {
  const { api, choose } = useSession();
  const [text, setText] = useState("");
  const search = useSettled(text.trim(), TYPING_MS);
  const { error, run, clear } = useAction();
  const found = useLoaded(
    async (signal) =>
      search === ""
        ? []
        : (await api.get<Listed<Namespace>>("/v1/namespaces", { search, limit: NAMESPACES_OFFERED_MAX }, signal)).items,
    [search],
    "beside",
  );
  const go = (name: string) =>
    run(async () => {
      if (name === "") return;
      if (!(await isNamespace(api, name)))
        throw new FormError(`There is no namespace ${name}, or the token has no access to it.`);
      setText("");
      choose(name);
    });
  return (
    <Form class="side-field" onSubmit={() => void go(text.trim())}>
      <TextInput
        type="search"
        aria-label="Find a namespace"
        testid="namespace-search"
        placeholder="Find a namespace"
        value={text}
        onValue={(typed) => {
          clear();
          setText(typed);
        }}
        offered={found.value?.map(({ name }) => ({ value: name })) ?? []}
      />
      {error !== undefined && (
        <small class="bad-text" role="alert" data-testid="namespace-search-error">
          {error.message}
        </small>
      )}
    </Form>
  );
}
