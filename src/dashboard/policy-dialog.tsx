import { useState } from "preact/hooks";
import { Dialog, type DialogEnds } from "./dialog.tsx";
import { EndField, endOf, FOR_GOOD } from "./ends.tsx";
import { Field, Select, TextInput } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { StoredLimits } from "./shapes.ts";
import { storedAt } from "./stored-limits.ts";
import { untilWords } from "./words.ts";

const KEEP = "keep";

const ACCESS_OPTIONS = [
  { value: KEEP, label: "Leave unchanged" },
  { value: "inherit", label: "Inherit: from the next level" },
  { value: "enforce", label: "Enforce: limits apply" },
  { value: "bypass", label: "Bypass: count, never refuse" },
  { value: "disabled", label: "Disabled: refuse everything" },
];

const CASCADE_OPTIONS = [
  { value: KEEP, label: "Leave unchanged" },
  { value: "inherit", label: "Inherit: the entity's own setting" },
  { value: "true", label: "Charged too" },
  { value: "false", label: "Not charged" },
];

/** Access and cascade of an entity, a resource, or an entity on a resource. */
export function PolicyDialog(
  props: DialogEnds & { readonly entityId: string | undefined; readonly resource: string | undefined },
) {
  const { entityId, onDone, onClose } = props;
  const { api, path, live } = useSession();
  const [resource, setResource] = useState(props.resource ?? "");
  const [access, setAccess] = useState(KEEP);
  const [end, setEnd] = useState(FOR_GOOD);
  const [cascade, setCascade] = useState(KEEP);
  const scope = {
    ...(entityId === undefined ? {} : { entityId }),
    ...(resource.trim() === "" ? {} : { resource: resource.trim() }),
  };
  const { value: stored } = useLoaded(
    (signal) => storedAt(api, path, scope, signal).catch(() => undefined),
    [JSON.stringify(scope)],
    "beside",
  );
  // To inherit is to say nothing, which has no end.
  const hasEnd = access !== KEEP && access !== "inherit";
  const save = async () => {
    const ending = hasEnd ? endOf(end, live.nowMs()) : {};
    if (access !== KEEP) await api.send("PUT", `${path}/access`, scope, { access, ...ending });
    const flag = cascade === "inherit" ? cascade : cascade === "true";
    if (cascade !== KEEP) await api.send("PUT", `${path}/cascade`, scope, { cascade: flag });
    await onDone();
  };
  const whom = entityId ?? "every entity";
  return (
    <Dialog
      title={`Access and cascade of ${whom}`}
      submit="Save"
      isDisabled={access === KEEP && cascade === KEEP}
      isDangerous={access === "disabled"}
      act={save}
      onClose={onClose}
    >
      <Field label="On the resource" hint={entityId === undefined ? undefined : "Empty: on all resources"}>
        <TextInput value={resource} onValue={setResource} />
      </Field>
      <Field label="Access" hint={`Stored here: ${accessWords(stored)}`}>
        <Select testid="policy-access" value={access} options={ACCESS_OPTIONS} onChange={setAccess} />
      </Field>
      {hasEnd && <EndField testid="policy" draft={end} hint={endHint(stored)} nowMs={live.nowMs()} onChange={setEnd} />}
      <Field label="Parents" hint={`Stored here: ${cascadeWords(stored?.cascade)}`}>
        <Select testid="policy-cascade" value={cascade} options={CASCADE_OPTIONS} onChange={setCascade} />
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

function accessWords({ access, accessUntilMs, accessThen }: Partial<StoredLimits> = {}): string {
  if (accessUntilMs === undefined) return access ?? NOTHING;
  return `${access} until ${untilWords(accessUntilMs, Date.now())}, then ${accessThen ?? NOTHING}`;
}

const NOTHING = "nothing (inherited)";

function endHint({ accessUntilMs }: Partial<StoredLimits> = {}): string | undefined {
  return accessUntilMs === undefined
    ? undefined
    : `Saving takes the place of what runs until ${untilWords(accessUntilMs, Date.now())}.`;
}

function cascadeWords(cascade: boolean | undefined): string {
  if (cascade === undefined) return "nothing (the entity's own setting)";
  return cascade ? "charged too" : "not charged";
}
