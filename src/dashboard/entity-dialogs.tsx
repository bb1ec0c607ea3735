import { useState } from "preact/hooks";
import { Dialog } from "./dialog.tsx";
import { metadataOf, metadataText } from "./entity-tree.ts";
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
  const [id, setId] = useState("");
  const [name, setName] = useState(entity?.name ?? "");
  const [parentId, setParentId] = useState(props.parentId ?? "");
  const [planId, setPlanId] = useState(entity?.planId ?? "");
  const plans = useLoaded(async () => (await api.all<Plan>(`${path}/plans`, {}, 1_000)).items, [], "beside");
  const planIds = [...new Set([...(plans.value ?? []).map((plan) => plan.id), planId])].filter((each) => each !== "");
  const [cascade, setCascade] = useState(entity?.cascade ?? true);
  const [metadata, setMetadata] = useState(metadataText(entity?.metadata ?? {}));
  const { isBusy, error, run } = useAction();
  const hasParent = entity === undefined ? parentId.trim() !== "" : entity.parentId !== undefined;
  const save = async () => {
    const done = await run(async () => {
      const shared = { metadata: metadataOf(metadata), ...(hasParent ? { cascade } : {}) };
      if (entity === undefined) {
        const parent = parentId.trim() === "" ? {} : { parentId: parentId.trim() };
        const named = name.trim() === "" ? {} : { name: name.trim() };
        const plan = planId === "" ? {} : { planId };
        await api.send("POST", `${path}/entities`, {}, { id: id.trim(), ...named, ...parent, ...plan, ...shared });
      } else {
        const { version } = entity;
        const plan = planId === (entity.planId ?? "") ? {} : { planId: planId === "" ? null : planId };
        await api.send(
          "PATCH",
          `${path}/entities/${encodeURIComponent(entity.id)}`,
          {},
          { name: name.trim(), ...plan, ...shared, version },
        );
      }
      await onDone();
    });
    if (done) onClose();
  };
  return (
    <Dialog
      title={entity === undefined ? "New entity" : `Edit ${entity.id}`}
      submit={entity === undefined ? "Create" : "Save"}
      {...{ isBusy, error, onClose }}
      isDisabled={entity === undefined && id.trim() === ""}
      onSubmit={() => void save()}
    >
      {entity === undefined && (
        <>
          <Field label="Id" hint="Letters, digits and _ . - : @; it is the name in every request">
            <input
              data-testid="entity-id"
              value={id}
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => setId(event.currentTarget.value)}
            />
          </Field>
          <Field label="Parent" hint="The id of another entity; empty for none">
            <input
              data-testid="entity-parent"
              value={parentId}
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => setParentId(event.currentTarget.value)}
            />
          </Field>
        </>
      )}
      <Field label="Name" hint="For people; the id where it is empty">
        <input
          data-testid="entity-label"
          value={name}
          autocomplete="off"
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </Field>
      {planIds.length > 0 && (
        <Field label="Plan" hint="Where it has no limits of its own, those of its plan count">
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
          <span>What it takes is taken from its parent, too</span>
        </label>
      )}
      <Field label="Metadata" hint="A line each: key=value">
        <textarea
          rows={3}
          value={metadata}
          spellcheck={false}
          onInput={(event) => setMetadata(event.currentTarget.value)}
        />
      </Field>
    </Dialog>
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
      <p>
        From the next request on it is charged to its new parent. Leases that are open settle where they were taken.
      </p>
      <Field label="New parent" hint={`The id of an entity; empty for none. Now: ${entity.parentId ?? "none"}`}>
        <input
          data-testid="move-parent"
          value={parentId}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => setParentId(event.currentTarget.value)}
        />
      </Field>
    </Dialog>
  );
}
