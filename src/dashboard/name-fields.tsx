import { EntityInput } from "./entity-input.tsx";
import { Field } from "./parts.tsx";

interface NameFieldsProps {
  /** What the test ids of the two begin with. */
  readonly id: string;
  /** What an empty field stands for. */
  readonly none: string;
  readonly entity: string;
  readonly onEntity: (entity: string) => void;
  readonly resource: string;
  readonly onResource: (resource: string) => void;
  /** Resources to choose from; any other can be typed. */
  readonly resources: readonly string[] | undefined;
}

/** An entity and a resource to look for. */
export function NameFields({ id, none, entity, onEntity, resource, onResource, resources }: NameFieldsProps) {
  return (
    <>
      <Field label="Entity">
        <EntityInput testid={`${id}-entity`} placeholder={none} value={entity} onValue={onEntity} />
      </Field>
      <Field label="Resource">
        <input
          data-testid={`${id}-resource`}
          placeholder={none}
          list={`${id}-resources`}
          value={resource}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => onResource(event.currentTarget.value)}
        />
        <datalist id={`${id}-resources`}>
          {resources?.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      </Field>
    </>
  );
}
