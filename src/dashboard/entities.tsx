import { useEffect, useState } from "preact/hooks";
import { ApiError } from "./api.ts";
import { curl } from "./curl.ts";
import { Confirm } from "./dialog.tsx";
import { EntityForm, EntityMove } from "./entity-dialogs.tsx";
import { type Doing, EntityList } from "./entity-list.tsx";
import { type EntityNode, filtered, treeOf } from "./entity-tree.ts";
import { Empty, ErrorNote, PageHead, useSettled } from "./parts.tsx";
import { PolicyDialog } from "./policy-dialog.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { Entity } from "./shapes.ts";
import { plural, whole } from "./words.ts";

/** Read at first; more on demand. */
const ENTITIES_STEP = 2_000;

/** Entities and their parents. */
export function EntitiesPage({ params }: { readonly params: Readonly<Record<string, string>> }) {
  const session = useSession();
  const { api, path, can, live } = session;
  const [most, setMost] = useState(ENTITIES_STEP);
  const [filter, setFilter] = useState(params.entity ?? "");
  const [doing, setDoing] = useState<Doing>();
  const settled = useSettled(filter.trim(), 250);
  const { value, error, reload } = useLoaded(
    async () => {
      const all = await api.all<Entity>(`${path}/entities`, { planId: params.plan }, most);
      const isThere = settled === "" || all.items.some(({ id }) => id === settled);
      const exact = isThere || !all.more || params.plan !== undefined ? [] : await found(settled);
      return { ...all, items: [...all.items, ...exact] };
    },
    [most, settled],
    "main",
  );
  const found = async (id: string): Promise<Entity[]> => {
    try {
      return [await api.get<Entity>(`${path}/entities/${encodeURIComponent(id)}`)];
    } catch (thrown) {
      if (thrown instanceof ApiError && (thrown.status === 404 || thrown.status === 400)) return [];
      throw thrown;
    }
  };
  useEffect(
    () =>
      live.changes.subscribe(({ action }) => {
        if (action.startsWith("entity_")) void reload();
      }),
    [live, reload],
  );
  const tree = treeOf(value?.items ?? []);
  const shown = filtered(tree, settled);
  return (
    <>
      <PageHead
        title="Entities"
        note={
          value === undefined
            ? "Entities and their parents."
            : `${plural(value.items.length, "entity", "entities")}${value.more ? " read so far" : ""}${params.plan === undefined ? "" : ` of plan ${params.plan}`}`
        }
      >
        <label class="search">
          <span class="unseen">Filter by id or name</span>
          <input
            type="search"
            data-testid="entity-filter"
            placeholder="Filter by id or name"
            value={filter}
            autocomplete="off"
            spellcheck={false}
            onInput={(event) => setFilter(event.currentTarget.value)}
          />
        </label>
        {can.admin && (
          <button
            type="button"
            class="button primary"
            data-testid="entity-create"
            onClick={() => setDoing({ what: "create", parentId: undefined })}
          >
            New entity
          </button>
        )}
      </PageHead>
      <ErrorNote error={error} />
      {shown.length > 0 && <EntityList nodes={shown} depth={0} isFiltered={settled !== ""} onDo={setDoing} />}
      {value?.more === true && (
        <p class="filter-note">
          The first {whole(value.items.length)} were read.{" "}
          <button type="button" class="link-button" onClick={() => setMost(most + ENTITIES_STEP)}>
            Read more
          </button>
        </p>
      )}
      {value !== undefined && shown.length === 0 && (
        <Empty
          title={settled === "" ? "No entities yet" : "No entity matches"}
          command={curl(session, "POST", `${path}/entities`, { id: /^[\w.:@-]+$/.test(settled) ? settled : "key-1" })}
        >
          {can.admin ? "Limits apply to any id; create an entity to give it a name, a parent or a plan. " : ""}
          Create one {can.admin ? "here or " : ""}with
        </Empty>
      )}
      {doing !== undefined && <Doings doing={doing} tree={tree} onDone={reload} onClose={() => setDoing(undefined)} />}
    </>
  );
}

function Doings(props: {
  readonly doing: Doing;
  readonly tree: readonly EntityNode[];
  readonly onDone: () => Promise<void>;
  readonly onClose: () => void;
}) {
  const { doing, onDone, onClose } = props;
  const { api, path } = useSession();
  switch (doing.what) {
    case "create":
      return <EntityForm entity={undefined} parentId={doing.parentId} {...{ onDone, onClose }} />;
    case "edit":
      return <EntityForm entity={doing.entity} parentId={undefined} {...{ onDone, onClose }} />;
    case "move":
      return <EntityMove entity={doing.entity} {...{ onDone, onClose }} />;
    case "policy":
      return <PolicyDialog entityId={doing.entity.id} resource={undefined} {...{ onDone, onClose }} />;
    case "delete":
      return (
        <Confirm
          title="Delete this entity?"
          submit="Delete"
          act={async () => {
            await api.send("DELETE", `${path}/entities/${encodeURIComponent(doing.entity.id)}`, {});
            await onDone();
          }}
          onClose={onClose}
        >
          <p>
            <b class="mono wrap">{doing.entity.id}</b> will be deleted, with its limits, its buckets on all resources
            and its usage. Its audit log stays.
          </p>
        </Confirm>
      );
  }
}
