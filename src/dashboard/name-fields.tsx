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
        <NameInput testId={`${id}-entity`} none={none} value={entity} onValue={onEntity} />
      </Field>
      <Field label="Resource">
        <NameInput
          testId={`${id}-resource`}
          none={none}
          value={resource}
          onValue={onResource}
          list={`${id}-resources`}
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

interface NameInputProps {
  readonly testId: string;
  readonly none: string;
  readonly value: string;
  readonly onValue: (value: string) => void;
  readonly list?: string;
}

function NameInput({ testId, none, value, onValue, list }: NameInputProps) {
  return (
    <input
      data-testid={testId}
      placeholder={none}
      list={list}
      value={value}
      autocomplete="off"
      spellcheck={false}
      onInput={(event) => onValue(event.currentTarget.value)}
    />
  );
}
