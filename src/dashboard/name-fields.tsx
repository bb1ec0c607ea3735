import { useState } from "preact/hooks";
import { Field, TextInput } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { Entity } from "./shapes.ts";

/** A list of completions has at most this many names; any other can be typed. */
const OFFERED_MAX = 1_000;

interface EntityInputProps {
  readonly testid: string;
  readonly value: string;
  readonly onValue: (value: string) => void;
  readonly placeholder?: string;
  readonly type?: "search";
  /** An entity that is not offered. */
  readonly except?: string;
}

/** The id of an entity, completed from those that exist. */
export function EntityInput({ except, ...rest }: EntityInputProps) {
  const { api, path } = useSession();
  const known = useLoaded(async () => (await api.all<Entity>(`${path}/entities`, {}, OFFERED_MAX)).items, [], "beside");
  const offered = (known.value ?? [])
    .filter(({ id }) => id !== except)
    .map(({ id, name }) => ({ value: id, label: name === id ? undefined : name }));
  return <TextInput offered={offered} {...rest} />;
}

/** The texts of the two fields of `NameFields`. */
export function useNames(entityAtFirst = "", resourceAtFirst = "") {
  const [entity, setEntity] = useState(entityAtFirst);
  const [resource, setResource] = useState(resourceAtFirst);
  return { entity, setEntity, resource, setResource };
}

interface NameFieldsProps {
  /** The test ids of the two begin with it. */
  readonly id: string;
  /** The meaning of an empty field. */
  readonly none: string;
  readonly names: ReturnType<typeof useNames>;
  readonly onChange?: () => void;
}

/** An entity and a resource to look for, each completed from those that exist. */
export function NameFields({ id, none, names, onChange }: NameFieldsProps) {
  const { api, path } = useSession();
  const known = useLoaded(
    async () => (await api.all<string>(`${path}/resources`, {}, OFFERED_MAX)).items,
    [],
    "beside",
  );
  const changing = (set: (text: string) => void) => (text: string) => {
    set(text);
    onChange?.();
  };
  return (
    <>
      <Field label="Entity">
        <EntityInput
          testid={`${id}-entity`}
          placeholder={none}
          value={names.entity}
          onValue={changing(names.setEntity)}
        />
      </Field>
      <Field label="Resource">
        <TextInput
          testid={`${id}-resource`}
          placeholder={none}
          value={names.resource}
          onValue={changing(names.setResource)}
          offered={known.value?.map((value) => ({ value })) ?? []}
        />
      </Field>
    </>
  );
}
