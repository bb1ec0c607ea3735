import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Dialog } from "./dialog.tsx";
import { metadataOf, metadataText } from "./entity-tree.ts";
import { Field } from "./parts.tsx";
import { useAction } from "./session.tsx";

/** What an entity and a plan have in common. */
interface Named {
  readonly id: string;
  readonly name: string;
  readonly metadata: Readonly<Record<string, string>>;
}

/** As it stands in the fields; an empty name means that there is none. */
export interface NamedDraft {
  readonly id: string;
  readonly name: string;
  readonly metadata: Record<string, string>;
}

/** Makes something that has an id, a name and metadata, or changes it. */
export function NamedDialog(props: {
  /** What it is, for the title and the test ids. */
  readonly what: "entity" | "plan";
  /** Undefined: a new one. */
  readonly named: Named | undefined;
  readonly idHint: string;
  readonly save: (draft: NamedDraft) => Promise<void>;
  readonly onClose: () => void;
  /** What only a new one is asked for, below its id. */
  readonly afterId?: ComponentChildren;
  readonly children?: ComponentChildren;
}) {
  const { what, named, idHint, save, onClose, afterId, children } = props;
  const [id, setId] = useState(named?.id ?? "");
  const [name, setName] = useState(named?.name ?? "");
  const [metadata, setMetadata] = useState(metadataText(named?.metadata ?? {}));
  const { isBusy, error, run } = useAction();
  const submit = async () => {
    const done = await run(() => save({ id: id.trim(), name: name.trim(), metadata: metadataOf(metadata) }));
    if (done) onClose();
  };
  return (
    <Dialog
      title={named === undefined ? `New ${what}` : `Edit ${named.id}`}
      submit={named === undefined ? "Create" : "Save"}
      {...{ isBusy, error, onClose }}
      isDisabled={id.trim() === ""}
      onSubmit={() => void submit()}
    >
      {named === undefined && (
        <>
          <Field label="Id" hint={idHint}>
            <input
              data-testid={`${what}-id`}
              value={id}
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => setId(event.currentTarget.value)}
            />
          </Field>
          {afterId}
        </>
      )}
      <Field label="Name" hint="Display name; empty: the id">
        <input
          data-testid={`${what}-label`}
          value={name}
          autocomplete="off"
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </Field>
      {children}
      <Field label="Metadata" hint="One key=value per line">
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
