import { useState } from "preact/hooks";
import { Dialog, type DialogEnds, NamedDialog, type NamedDraft } from "./dialog.tsx";
import { EntityInput } from "./name-fields.tsx";
import { Check, Field, Select } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { Entity, Plan } from "./shapes.ts";

/** Creates an entity, or changes one. */
export function EntityForm(
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
export function EntityMove(props: DialogEnds & { readonly entity: Entity }) {
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

export function entityPath(path: string, { id }: Entity): string {
  return `${path}/entities/${encodeURIComponent(id)}`;
}
