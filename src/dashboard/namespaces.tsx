import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { curl } from "./curl.ts";
import { Confirm } from "./dialog.tsx";
import { Empty, ErrorNote, Field, Name, PageHead, Pager, useSettled } from "./parts.tsx";
import { useAction, useLoaded, useSession } from "./session.tsx";
import type { Listed, Namespace } from "./shapes.ts";
import { ActionsHead } from "./table-cells.tsx";
import { plural, stampWords, whole } from "./words.ts";

const PAGE_SIZE = 100;
const ORPHANS_MAX = 1_000;
const TYPING_MS = 250;

/** Tenants on one store: made, hidden, brought back, removed for good. */
export function NamespacesPage() {
  const session = useSession();
  const { api, can, namespace, choose, reloadNamespaces } = session;
  const [filter, setFilter] = useState("");
  const search = useSettled(filter.trim(), TYPING_MS);
  // Where each page begins; the last one is shown.
  const [cursors, setCursors] = useState<readonly (string | undefined)[]>([undefined]);
  const list = useLoaded(
    (signal) =>
      api.get<Listed<Namespace>>("/v1/namespaces", { search, limit: PAGE_SIZE, cursor: cursors.at(-1) }, signal),
    [search, cursors.at(-1)],
    "main",
  );
  const orphans = useLoaded(
    async () => (can.namespaces ? (await api.all<Namespace>("/v1/orphans", {}, ORPHANS_MAX)).items : []),
    [],
    "beside",
  );
  const [name, setName] = useState("");
  const [asks, setAsks] = useState<{ readonly what: "delete" | "purge"; readonly of: Namespace }>();
  const [told, setTold] = useState("");
  const making = useAction();
  const recovering = useAction();
  const reloadAll = async () => {
    await Promise.all([list.reload(), orphans.reload(), reloadNamespaces()]);
  };
  const create = () =>
    making.run(async () => {
      await api.send("POST", "/v1/namespaces", {}, { name: name.trim() });
      setTold(`The namespace ${name.trim()} is ready.`);
      setName("");
      await reloadAll();
    });
  const purge = async ({ id }: Namespace) => {
    let records = 0;
    for (let done = false; !done; ) {
      const step = await api.send<{ records: number; done: boolean }>(
        "POST",
        `/v1/orphans/${encodeURIComponent(id)}/purge`,
        {},
      );
      records += step.records;
      done = step.done;
      setTold(`${whole(records)} records removed${done ? "." : " so far…"}`);
    }
    await reloadAll();
  };
  const active = list.value?.items ?? [];
  const next = list.value?.cursor;
  const page = cursors.length - 1;
  return (
    <>
      <PageHead title="Namespaces" note="Tenants that share a store but no data.">
        <label class="search">
          <span class="unseen">Find a namespace</span>
          <input
            type="search"
            data-testid="namespace-filter"
            placeholder="Find by a part of the name"
            value={filter}
            autocomplete="off"
            spellcheck={false}
            onInput={(event) => {
              setFilter(event.currentTarget.value);
              setCursors([undefined]);
            }}
          />
        </label>
      </PageHead>
      <ErrorNote error={list.error ?? orphans.error ?? making.error ?? recovering.error} />
      <p class="saved" role="status" data-testid="namespace-told">
        {told}
      </p>
      {can.namespaces && (
        <form
          class="filters"
          onSubmit={(event) => {
            event.preventDefault();
            if (name.trim() !== "") void create();
          }}
        >
          <Field label="New namespace">
            <input
              data-testid="namespace-new"
              placeholder="tenant-b"
              value={name}
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => setName(event.currentTarget.value)}
            />
          </Field>
          <button
            type="submit"
            class="button primary"
            data-testid="namespace-create"
            disabled={making.isBusy || name.trim() === ""}
          >
            Create
          </button>
        </form>
      )}
      {active.length > 0 && (
        <NamespaceTable
          caption="Namespaces"
          items={active}
          actions={(each) => (
            <>
              {each.name !== namespace && (
                <button
                  type="button"
                  class="button small"
                  data-testid="namespace-open"
                  onClick={() => choose(each.name)}
                >
                  Open
                </button>
              )}
              {can.namespaces && (
                <button
                  type="button"
                  class="button small danger"
                  data-testid="namespace-delete"
                  disabled={each.name === namespace}
                  title={each.name === namespace ? "This namespace is open; choose another first." : undefined}
                  onClick={() => setAsks({ what: "delete", of: each })}
                >
                  Remove
                </button>
              )}
            </>
          )}
        />
      )}
      {list.value !== undefined && active.length === 0 && search !== "" && (
        <Empty title="No namespace matches">
          {next === undefined
            ? "No name contains this."
            : "No name so far contains this; the next page continues the search."}
        </Empty>
      )}
      {list.value !== undefined && (
        <Pager
          {...{ page, count: active.length, what: "namespaces", hasNext: next !== undefined }}
          onPage={(to) => setCursors(to > page ? [...cursors, next] : cursors.slice(0, -1))}
        />
      )}
      {list.value !== undefined && active.length === 0 && search === "" && (
        <Empty title="No namespaces" command={curl(session, "POST", "/v1/namespaces", { name: "tenant-b" })}>
          The token has no namespaces. Create one{can.namespaces ? " above, or" : ""} with
        </Empty>
      )}
      {can.namespaces && (orphans.value?.length ?? 0) > 0 && (
        <section class="orphans">
          <h2>Deleted, still recoverable</h2>
          <NamespaceTable
            caption="Deleted namespaces"
            testid="orphan-row"
            items={orphans.value ?? []}
            actions={(each) => (
              <>
                <button
                  type="button"
                  class="button small"
                  data-testid="orphan-recover"
                  disabled={recovering.isBusy}
                  onClick={() =>
                    void recovering.run(async () => {
                      await api.send("POST", `/v1/orphans/${encodeURIComponent(each.id)}/recover`, {});
                      setTold(`The namespace ${each.name} is active again.`);
                      await reloadAll();
                    })
                  }
                >
                  Recover
                </button>
                <button
                  type="button"
                  class="button small danger"
                  data-testid="orphan-purge"
                  onClick={() => setAsks({ what: "purge", of: each })}
                >
                  Purge
                </button>
              </>
            )}
          />
        </section>
      )}
      {asks?.what === "delete" && (
        <Confirm
          title="Remove this namespace?"
          submit="Remove"
          act={async () => {
            await api.send("DELETE", `/v1/namespaces/${encodeURIComponent(asks.of.name)}`, {});
            setTold(`The namespace ${asks.of.name} is deleted; it can be recovered below.`);
            await reloadAll();
          }}
          onClose={() => setAsks(undefined)}
        >
          <p>
            Every request in <b class="mono wrap">{asks.of.name}</b> will fail. Its data stays, and you can recover it
            on this page.
          </p>
        </Confirm>
      )}
      {asks?.what === "purge" && (
        <Confirm
          title="Purge permanently?"
          submit="Purge"
          type={asks.of.name}
          act={() => purge(asks.of)}
          onClose={() => setAsks(undefined)}
        >
          <p>
            All of <b class="mono wrap">{asks.of.name}</b> will be deleted: entities, limits, buckets, usage and audit
            log. This cannot be undone.
          </p>
          <p class="quiet">{told}</p>
        </Confirm>
      )}
      {list.value !== undefined && next === undefined && page === 0 && search === "" && (
        <p class="quiet small">{plural(active.length, "namespace")}</p>
      )}
    </>
  );
}

function NamespaceTable(props: {
  readonly caption: string;
  readonly testid?: string;
  readonly items: readonly Namespace[];
  readonly actions: (namespace: Namespace) => ComponentChildren;
}) {
  return (
    <table class="cards">
      <caption class="unseen">{props.caption}</caption>
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Id</th>
          <th scope="col">Created</th>
          <th scope="col">Status</th>
          <ActionsHead />
        </tr>
      </thead>
      <tbody>
        {props.items.map((each) => (
          <tr key={each.id} data-testid={props.testid ?? "namespace-row"} data-namespace={each.name}>
            <td data-label="Name">
              <Name text={each.name} class="mono strong" />
            </td>
            <td data-label="Id">
              <Name text={each.id} class="mono quiet" />
            </td>
            <td data-label="Created" class="nowrap">
              {each.createdAtMs === 0 ? "with the store" : stampWords(each.createdAtMs)}
            </td>
            <td data-label="Status">
              <span class={each.status === "active" ? "tag" : "tag warn"}>{each.status}</span>
            </td>
            <td class="actions">{props.actions(each)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
