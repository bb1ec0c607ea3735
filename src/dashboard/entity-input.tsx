import { useId } from "preact/hooks";
import { useLoaded, useSession } from "./session.tsx";
import type { Entity } from "./shapes.ts";

/** As many as a list of completions can be looked through; whoever is not among them can be typed. */
const OFFERED_MAX = 1_000;

interface EntityInputProps {
  readonly testid: string;
  readonly value: string;
  readonly onValue: (value: string) => void;
  readonly placeholder?: string;
  readonly type?: "search";
  /** One that cannot be meant. */
  readonly except?: string;
}

/** The id of an entity: those that there are complete it, and any other can be typed. */
export function EntityInput({ testid, value, onValue, placeholder, type, except }: EntityInputProps) {
  const { api, path } = useSession();
  const list = useId();
  const known = useLoaded(async () => (await api.all<Entity>(`${path}/entities`, {}, OFFERED_MAX)).items, [], "beside");
  return (
    <>
      <input
        type={type ?? "text"}
        data-testid={testid}
        placeholder={placeholder}
        list={list}
        value={value}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => onValue(event.currentTarget.value)}
      />
      <datalist id={list}>
        {known.value
          ?.filter(({ id }) => id !== except)
          .map(({ id, name }) => (
            <option key={id} value={id}>
              {name === id ? undefined : name}
            </option>
          ))}
      </datalist>
    </>
  );
}
