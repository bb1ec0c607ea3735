import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { metadataOf, metadataText } from "./entity-tree.ts";
import { Button, ErrorNote, Field, Form, TextInput } from "./parts.tsx";
import { useAction } from "./session.tsx";

/** The functions that a dialog calls when its work is done, and when it closes. */
export interface DialogEnds {
  readonly onDone: () => Promise<void>;
  readonly onClose: () => void;
}

interface DialogProps {
  readonly title: string;
  readonly submit: string;
  readonly isDangerous?: boolean;
  readonly isDisabled?: boolean;
  readonly testid?: string;
  /** Does the work. The dialog closes afterwards; an error is shown in it. */
  readonly act: () => Promise<void>;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** A modal dialog with a form in it: the browser holds the focus inside, Escape closes, and the focus goes back. */
export function Dialog(props: DialogProps) {
  const { title, submit, isDangerous, isDisabled, testid = "dialog", act, onClose, children } = props;
  const { isBusy, error, run } = useAction();
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const opener = document.activeElement;
    ref.current?.showModal();
    return () => {
      // The opener may have been deleted. Reading then goes on from the page's heading.
      const back = opener instanceof HTMLElement && opener.isConnected ? opener : document.querySelector("h1");
      back?.focus();
    };
  }, []);
  const confirm = async () => {
    if (!isDisabled && !isBusy && (await run(act))) onClose();
  };
  return (
    <dialog
      ref={ref}
      class="dialog"
      aria-labelledby={id}
      data-testid={testid}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === ref.current) onClose();
      }}
      onKeyDown={(event) => event.stopPropagation()}
    >
      <Form method="dialog" onSubmit={() => void confirm()}>
        <h2 id={id}>{title}</h2>
        <div class="dialog-body">
          {children}
          <ErrorNote error={error} testid="dialog-error" />
        </div>
        <div class="dialog-actions">
          <Button testid="dialog-cancel" onClick={onClose}>
            Cancel
          </Button>
          <Button
            type="submit"
            kind={isDangerous ? "danger" : "primary"}
            testid="dialog-submit"
            disabled={isDisabled || isBusy}
          >
            {isBusy ? "Working…" : submit}
          </Button>
        </div>
      </Form>
    </dialog>
  );
}

/** Asks before something is deleted. With `type`, its name has to be typed, because it cannot be recovered. */
export function Confirm({ type, children, ...rest }: Omit<DialogProps, "isDisabled"> & { readonly type?: string }) {
  const [typed, setTyped] = useState("");
  return (
    <Dialog isDangerous testid="confirm" isDisabled={type !== undefined && typed !== type} {...rest}>
      {children}
      {type !== undefined && (
        // biome-ignore lint/a11y/noLabelWithoutControl: the control is inside TextInput.
        <label class="field">
          <span>
            Type <code>{type}</code> to confirm
          </span>
          <TextInput testid="confirm-type" value={typed} onValue={setTyped} />
        </label>
      )}
    </Dialog>
  );
}

/** The fields that entities and plans share. */
export interface NamedDraft {
  readonly id: string;
  /** Empty if there is none. */
  readonly name: string;
  readonly metadata: Readonly<Record<string, string>>;
}

/** Creates or changes an entity or a plan. */
export function NamedDialog(props: {
  readonly what: "entity" | "plan";
  /** Undefined for a new one. */
  readonly named: NamedDraft | undefined;
  readonly idHint: string;
  readonly save: (draft: NamedDraft) => Promise<void>;
  readonly onClose: () => void;
  /** Fields below the id that only a new one has. */
  readonly afterId?: ComponentChildren;
  readonly children?: ComponentChildren;
}) {
  const { what, named, idHint, save, onClose, afterId, children } = props;
  const [id, setId] = useState(named?.id ?? "");
  const [name, setName] = useState(named?.name ?? "");
  const [metadata, setMetadata] = useState(metadataText(named?.metadata ?? {}));
  return (
    <Dialog
      title={named === undefined ? `New ${what}` : `Edit ${named.id}`}
      submit={named === undefined ? "Create" : "Save"}
      isDisabled={id.trim() === ""}
      act={async () => save({ id: id.trim(), name: name.trim(), metadata: metadataOf(metadata) })}
      onClose={onClose}
    >
      {named === undefined && (
        <>
          <Field label="Id" hint={idHint}>
            <TextInput testid={`${what}-id`} value={id} onValue={setId} />
          </Field>
          {afterId}
        </>
      )}
      <Field label="Name" hint="Display name; empty: the id">
        <TextInput testid={`${what}-label`} value={name} onValue={setName} />
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
