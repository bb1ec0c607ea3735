import { useState } from "preact/hooks";
import { ApiError, curl } from "./api.ts";
import { Confirm, Dialog, type DialogEnds, NamedDialog, type NamedDraft } from "./dialog.tsx";
import { type Doing, EntityList } from "./entity-list.tsx";
import { filtered, treeOf } from "./entity-tree.ts";
import { EntityInput } from "./name-fields.tsx";
import { Button, Check, Empty, ErrorNote, Field, LinkButton, PageHead, SearchInput, Select } from "./parts.tsx";
import { PolicyDialog } from "./policy-dialog.tsx";
import type { PageProps } from "./route.ts";
import { useChanges, useLoaded, useSession, useSettled } from "./session.tsx";
import type { Entity, Plan } from "./shapes.ts";
import { plural, whole } from "./words.ts";

/** The number of entities that are read at first, and of those that are read on request. */
const ENTITIES_STEP = 2_000;

export function EntitiesPage({ params }: PageProps) {
  const session = useSession();
  const { api, path, can } = session;
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
  useChanges(/^entity_/, () => void reload());
  const shown = filtered(treeOf(value?.items ?? []), settled);
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
        <SearchInput
          label="Filter by id or name"
          testid="entity-filter"
          placeholder="Filter by id or name"
          value={filter}
          onValue={setFilter}
        />
        {can.admin && (
          <Button
            kind="primary"
            testid="entity-create"
            onClick={() => setDoing({ what: "create", parentId: undefined })}
          >
            New entity
          </Button>
        )}
      </PageHead>
      <ErrorNote error={error} />
      {shown.length > 0 && <EntityList nodes={shown} depth={0} isFiltered={settled !== ""} onDo={setDoing} />}
      {value?.more === true && (
        <p class="filter-note">
          The first {whole(value.items.length)} were read.{" "}
          <LinkButton onClick={() => setMost(most + ENTITIES_STEP)}>Read more</LinkButton>
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
      {doing !== undefined && <Doings doing={doing} onDone={reload} onClose={() => setDoing(undefined)} />}
    </>
  );
}

function Doings({ doing, onDone, onClose }: DialogEnds & { readonly doing: Doing }) {
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
            await api.send("DELETE", entityPath(path, doing.entity), {});
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

function EntityForm(
  props: DialogEnds & { readonly entity: Entity | undefined; readonly parentId: string | undefined },
) {
  const { entity, onDone, onClose } = props;
  const { api, path } = useSession();
  const [parentId, setParentId] = useState(props.parentId ?? "");
  const [planId, setPlanId] = useState(entity?.planId ?? "");
  const plans = useLoaded(async () => (await api.all<Plan>(`${path}/plans`, {}, 1_000)).items, [], "beside");
  const planIds = [...new Set([...(plans.value ?? []).map((plan) => plan.id), planId])].filter((each) => each !== "");
  const [cascade, setCascade] = useState(entity?.cascade ?? true);
  const hasParent = entity === undefined ? parentId.trim() !== "" : entity.parentId !== undefined;
  const save = async ({ id, name, metadata }: NamedDraft) => {
    const shared = { metadata, ...(hasParent ? { cascade } : {}) };
    if (entity === undefined) {
      const named = Object.entries({ id, name, parentId: parentId.trim(), planId }).filter(([, text]) => text !== "");
      await api.send("POST", `${path}/entities`, {}, { ...Object.fromEntries(named), ...shared });
    } else {
      const plan = planId === (entity.planId ?? "") ? {} : { planId: planId || null };
      await api.send("PATCH", entityPath(path, entity), {}, { name, ...plan, ...shared, version: entity.version });
    }
    await onDone();
  };
  return (
    <NamedDialog
      what="entity"
      named={entity}
      idHint="Letters, digits and _ . - : @; requests name the entity by it"
      {...{ save, onClose }}
      afterId={
        <Field label="Parent" hint="The id of another entity; empty for none">
          <EntityInput testid="entity-parent" value={parentId} onValue={setParentId} />
        </Field>
      }
    >
      {planIds.length > 0 && (
        <Field label="Plan" hint="Its limits apply where the entity has none of its own">
          <Select
            testid="entity-plan"
            value={planId}
            options={[{ value: "", label: "none" }, ...planIds]}
            onChange={setPlanId}
          />
        </Field>
      )}
      {hasParent && <Check label="Charge the parent too (cascade)" isChecked={cascade} onChange={setCascade} />}
    </NamedDialog>
  );
}

/** Puts an entity below another one, or below none. */
function EntityMove(props: DialogEnds & { readonly entity: Entity }) {
  const { entity, onDone, onClose } = props;
  const { api, path } = useSession();
  const [parentId, setParentId] = useState(entity.parentId ?? "");
  const move = async () => {
    const patch = { parentId: parentId.trim() || null, version: entity.version };
    await api.send("PATCH", entityPath(path, entity), {}, patch);
    await onDone();
  };
  return (
    <Dialog title={`Move ${entity.id}`} submit="Move" act={move} onClose={onClose}>
      <p>From the next request on, the new parent is charged. Open leases settle with the old parent.</p>
      <Field label="New parent" hint={`The id of an entity; empty for none. Now: ${entity.parentId ?? "none"}`}>
        <EntityInput testid="move-parent" value={parentId} onValue={setParentId} except={entity.id} />
      </Field>
    </Dialog>
  );
}

function entityPath(path: string, { id }: Entity): string {
  return `${path}/entities/${encodeURIComponent(id)}`;
}
