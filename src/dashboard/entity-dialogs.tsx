import { useState } from "preact/hooks";
import { Dialog } from "./dialog.tsx";
import { EntityInput } from "./entity-input.tsx";
import { NamedDialog, type NamedDraft } from "./named-dialog.tsx";
import { Field, Select } from "./parts.tsx";
import { useAction, useLoaded, useSession } from "./session.tsx";
import type { Entity, Plan } from "./shapes.ts";

interface DialogEnds {
  readonly onDone: () => Promise<void>;
  readonly onClose: () => void;
}

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
      const parent = parentId.trim() === "" ? {} : { parentId: parentId.trim() };
      const named = name === "" ? {} : { name };
      const plan = planId === "" ? {} : { planId };
      await api.send("POST", `${path}/entities`, {}, { id, ...named, ...parent, ...plan, ...shared });
    } else {
      const { version } = entity;
      const plan = planId === (entity.planId ?? "") ? {} : { planId: planId === "" ? null : planId };
      const patch = { name, ...plan, ...shared, version };
      await api.send("PATCH", `${path}/entities/${encodeURIComponent(entity.id)}`, {}, patch);
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
            options={[{ value: "", label: "none" }, ...planIds.map((each) => ({ value: each, label: each }))]}
            onChange={setPlanId}
          />
        </Field>
      )}
      {hasParent && (
        <label class="check">
          <input type="checkbox" checked={cascade} onChange={(event) => setCascade(event.currentTarget.checked)} />
          <span>Charge the parent too (cascade)</span>
        </label>
      )}
    </NamedDialog>
  );
}

/** Hangs an entity below another one, or below none. */
export function EntityMove(props: DialogEnds & { readonly entity: Entity }) {
  const { entity, onDone, onClose } = props;
  const { api, path } = useSession();
  const [parentId, setParentId] = useState(entity.parentId ?? "");
  const { isBusy, error, run } = useAction();
  const move = async () => {
    const done = await run(async () => {
      const patch = { parentId: parentId.trim() === "" ? null : parentId.trim(), version: entity.version };
      await api.send("PATCH", `${path}/entities/${encodeURIComponent(entity.id)}`, {}, patch);
      await onDone();
    });
    if (done) onClose();
  };
  return (
    <Dialog title={`Move ${entity.id}`} submit="Move" {...{ isBusy, error, onClose }} onSubmit={() => void move()}>
      <p>From the next request on, the new parent is charged. Open leases settle with the old parent.</p>
      <Field label="New parent" hint={`The id of an entity; empty for none. Now: ${entity.parentId ?? "none"}`}>
        <EntityInput testid="move-parent" value={parentId} onValue={setParentId} except={entity.id} />
      </Field>
    </Dialog>
  );
}
