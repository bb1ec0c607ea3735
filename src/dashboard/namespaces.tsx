import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { curl, pathOf } from "./api.ts";
import { Confirm, Dialog, type DialogEnds } from "./dialog.tsx";
import { Button, Empty, ErrorNote, Field, Form, Name, PageHead, SearchInput, TextInput } from "./parts.tsx";
import { useAction, useChanges, useLoaded, usePages, useSession, useSettled } from "./session.tsx";
import type { Listed, Namespace, NamespaceShown } from "./shapes.ts";
import { CursorPager, Table } from "./table.tsx";
import { plural, stampWords, whole } from "./words.ts";

const PAGE_SIZE = 100;
const ORPHANS_MAX = 1_000;
const TYPING_MS = 250;
const DEFAULT = "default";

/** Creates, deletes, recovers and purges namespaces of the store. */
export function NamespacesPage() {
  const session = useSession();
  const { api, can, namespace, choose, reloadNamespaces } = session;
  const [filter, setFilter] = useState("");
  const search = useSettled(filter.trim(), TYPING_MS);
  const pages = usePages();
  const list = useLoaded(
    (signal) =>
      api.get<Listed<NamespaceShown>>(
        "/v1/namespaces",
        { search, frozen: "true", limit: PAGE_SIZE, cursor: pages.cursor },
        signal,
      ),
    [search, pages.cursor],
    "main",
  );
  const orphans = useLoaded(
    async () => (can.namespaces ? (await api.all<Namespace>("/v1/orphans", {}, ORPHANS_MAX)).items : []),
    [],
    "beside",
  );
  const [name, setName] = useState("");
  const [asks, setAsks] = useState<{ readonly what: "delete" | "purge" | "freeze"; readonly of: Namespace }>();
  const [told, setTold] = useState("");
  const making = useAction();
  const recovering = useAction();
  const unfreezing = useAction();
  useChanges(/^namespace_/, () => void list.reload());
  const reloadAll = async () => {
    await Promise.all([list.reload(), orphans.reload(), reloadNamespaces()]);
  };
  const create = async () => {
    if (name.trim() === "") return;
    await making.run(async () => {
      await api.send("POST", "/v1/namespaces", {}, { name: name.trim() });
      setTold(`The namespace ${name.trim()} is ready.`);
      setName("");
      await reloadAll();
    });
  };
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
  return (
    <>
      <PageHead title="Namespaces" note="Tenants that share a store but no data.">
        <SearchInput
          label="Find a namespace"
          testid="namespace-filter"
          placeholder="Find by a part of the name"
          value={filter}
          onValue={(text) => {
            setFilter(text);
            pages.begin();
          }}
        />
      </PageHead>
      <ErrorNote error={list.error ?? orphans.error ?? making.error ?? recovering.error ?? unfreezing.error} />
      <p class="saved" role="status" data-testid="namespace-told">
        {told}
      </p>
      {can.namespaces && (
        <Form class="filters" onSubmit={() => void create()}>
          <Field label="New namespace">
            <TextInput testid="namespace-new" placeholder="tenant-b" value={name} onValue={setName} />
          </Field>
          <Button type="submit" kind="primary" testid="namespace-create" disabled={making.isBusy || name.trim() === ""}>
            Create
          </Button>
        </Form>
      )}
      {active.length > 0 && (
        <NamespaceTable
          caption="Namespaces"
          items={active}
          actions={(each) => (
            <>
              {each.name !== namespace && (
                <Button kind="small" testid="namespace-open" onClick={() => choose(each.name)}>
                  Open
                </Button>
              )}
              {can.admin &&
                (each.frozen === undefined ? (
                  <Button kind="small" testid="namespace-freeze" onClick={() => setAsks({ what: "freeze", of: each })}>
                    Freeze
                  </Button>
                ) : (
                  <Button
                    kind="small"
                    testid="namespace-unfreeze"
                    disabled={unfreezing.isBusy}
                    onClick={() =>
                      void unfreezing.run(async () => {
                        await api.send("POST", `${pathOf(each.name)}/unfreeze`, {});
                        setTold(`The namespace ${each.name} is not frozen any more.`);
                        await list.reload();
                      })
                    }
                  >
                    Unfreeze
                  </Button>
                ))}
              {can.namespaces && (
                <Button
                  kind="small danger"
                  testid="namespace-delete"
                  disabled={keptWhy(each.name, namespace) !== undefined}
                  title={keptWhy(each.name, namespace)}
                  onClick={() => setAsks({ what: "delete", of: each })}
                >
                  Remove
                </Button>
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
      {list.value !== undefined && <CursorPager pages={pages} next={next} count={active.length} what="namespaces" />}
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
                <Button
                  kind="small"
                  testid="orphan-recover"
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
                </Button>
                <Button kind="small danger" testid="orphan-purge" onClick={() => setAsks({ what: "purge", of: each })}>
                  Purge
                </Button>
              </>
            )}
          />
        </section>
      )}
      {asks?.what === "freeze" && (
        <FreezeDialog
          name={asks.of.name}
          onDone={async () => {
            setTold(`The namespace ${asks.of.name} is frozen.`);
            await list.reload();
          }}
          onClose={() => setAsks(undefined)}
        />
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
      {list.value !== undefined && next === undefined && pages.page === 0 && search === "" && (
        <p class="quiet small">{plural(active.length, "namespace")}</p>
      )}
    </>
  );
}

/** Asks why a namespace is frozen, and says what that does. */
function FreezeDialog({ name, onDone, onClose }: DialogEnds & { readonly name: string }) {
  const { api } = useSession();
  const [reason, setReason] = useState("");
  const freeze = async () => {
    const given = reason.trim() === "" ? {} : { reason: reason.trim() };
    await api.send("POST", `${pathOf(name)}/freeze`, {}, given);
    await onDone();
  };
  return (
    <Dialog title="Freeze this namespace?" submit="Freeze" isDangerous act={freeze} onClose={onClose}>
      <p>
        Every acquire, top-up and reset in <b class="mono wrap">{name}</b> will be refused until it is unfrozen,
        whatever access is set. Leases are settled and rolled back as ever, and limits can be changed.
      </p>
      <Field label="Reason" hint="Those who are refused are told; empty: none">
        <TextInput testid="freeze-reason" placeholder="maintenance" value={reason} onValue={setReason} />
      </Field>
    </Dialog>
  );
}

/** Why a namespace cannot be removed now; undefined: it can. */
function keptWhy(name: string, open: string): string | undefined {
  if (name === DEFAULT) return "The namespace default cannot be removed.";
  return name === open ? "This namespace is open; choose another first." : undefined;
}

function NamespaceTable(props: {
  readonly caption: string;
  readonly testid?: string;
  readonly items: readonly NamespaceShown[];
  readonly actions: (namespace: NamespaceShown) => ComponentChildren;
}) {
  return (
    <Table caption={props.caption} columns={["Name", "Id", "Created", "Status"]} hasActions>
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
            <span>
              <span class={each.status === "active" ? "tag" : "tag warn"}>{each.status}</span>{" "}
              {each.frozen !== undefined && (
                <>
                  <span class="tag bad">frozen</span> <Name text={each.frozen.reason ?? ""} class="quiet" />
                </>
              )}
            </span>
          </td>
          <td class="actions">{props.actions(each)}</td>
        </tr>
      ))}
    </Table>
  );
}
