import { useState } from "preact/hooks";
import { Dialog } from "./dialog.tsx";
import { Field, Select } from "./parts.tsx";
import { useAction, useLoaded, useSession } from "./session.tsx";
import type { StoredLimits } from "./shapes.ts";
import { storedAt } from "./stored-limits.ts";

const KEEP = "keep";

/** Whether limits count, and whether parents are charged: for an entity, a resource, or an entity on a resource. */
export function PolicyDialog(props: {
  readonly entityId: string | undefined;
  readonly resource: string | undefined;
  readonly onDone: () => Promise<void>;
  readonly onClose: () => void;
}) {
  const { api, path } = useSession();
  const [resource, setResource] = useState(props.resource ?? "");
  const [access, setAccess] = useState(KEEP);
  const [cascade, setCascade] = useState(KEEP);
  const { isBusy, error, run } = useAction();
  const scope = {
    ...(props.entityId === undefined ? {} : { entityId: props.entityId }),
    ...(resource.trim() === "" ? {} : { resource: resource.trim() }),
  };
  const stored = useLoaded<StoredLimits | undefined>(
    (signal) => storedAt(api, path, scope, signal).catch(() => undefined),
    [JSON.stringify(scope)],
    "beside",
  );
  const save = async () => {
    const done = await run(async () => {
      if (access !== KEEP) await api.send("PUT", `${path}/access`, scope, { access });
      const flag = cascade === "inherit" ? cascade : cascade === "true";
      if (cascade !== KEEP) await api.send("PUT", `${path}/cascade`, scope, { cascade: flag });
      await props.onDone();
    });
    if (done) props.onClose();
  };
  const whom = props.entityId ?? "every entity";
  return (
    <Dialog
      title={`Access and cascade of ${whom}`}
      submit="Save"
      {...{ isBusy, error }}
      isDisabled={access === KEEP && cascade === KEEP}
      isDangerous={access === "disabled"}
      onSubmit={() => void save()}
      onClose={props.onClose}
    >
      <Field label="On the resource" hint={props.entityId === undefined ? undefined : "Empty: on all resources"}>
        <input
          value={resource}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => setResource(event.currentTarget.value)}
        />
      </Field>
      <Field label="Access" hint={`Stored here: ${stored.value?.access ?? "nothing (inherited)"}`}>
        <Select
          testid="policy-access"
          value={access}
          options={[
            { value: KEEP, label: "Leave unchanged" },
            { value: "inherit", label: "Inherit: from the next level" },
            { value: "enforce", label: "Enforce: limits apply" },
            { value: "bypass", label: "Bypass: count, never refuse" },
            { value: "disabled", label: "Disabled: refuse everything" },
          ]}
          onChange={setAccess}
        />
      </Field>
      <Field label="Parents" hint={`Stored here: ${cascadeWords(stored.value?.cascade)}`}>
        <Select
          testid="policy-cascade"
          value={cascade}
          options={[
            { value: KEEP, label: "Leave unchanged" },
            { value: "inherit", label: "Inherit: the entity's own setting" },
            { value: "true", label: "Charged too" },
            { value: "false", label: "Not charged" },
          ]}
          onChange={setCascade}
        />
      </Field>
      {access === "disabled" && (
        <p class="note bad">
          <span>
            Every request of <b class="mono wrap">{whom}</b> {resource === "" ? "on any resource" : `on ${resource}`}{" "}
            will be refused.
          </span>
        </p>
      )}
    </Dialog>
  );
}

function cascadeWords(cascade: boolean | undefined): string {
  if (cascade === undefined) return "nothing (the entity's own setting)";
  return cascade ? "charged too" : "not charged";
}
