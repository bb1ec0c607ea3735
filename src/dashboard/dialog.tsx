import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { ApiError } from "./api.ts";
import { ErrorNote } from "./parts.tsx";
import { useAction } from "./session.tsx";

interface DialogProps {
  readonly title: string;
  readonly submit: string;
  readonly isDangerous?: boolean;
  readonly isDisabled?: boolean;
  readonly isBusy?: boolean;
  readonly error?: ApiError | undefined;
  readonly testid?: string;
  readonly onSubmit: () => void;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** A modal dialog with a form in it: the browser holds the focus inside, Escape closes, and the focus goes back. */
export function Dialog(props: DialogProps) {
  const { title, submit, isDangerous, isDisabled, isBusy, error, testid, onSubmit, onClose, children } = props;
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const opener = document.activeElement;
    ref.current?.showModal();
    return () => {
      // What opened it may be gone with what was done; then reading goes on from the page's heading.
      const back = opener instanceof HTMLElement && opener.isConnected ? opener : document.querySelector("h1");
      back?.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      class="dialog"
      aria-labelledby={id}
      data-testid={testid ?? "dialog"}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === ref.current) onClose();
      }}
      onKeyDown={(event) => event.stopPropagation()}
    >
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          if (!isDisabled && !isBusy) onSubmit();
        }}
      >
        <h2 id={id}>{title}</h2>
        <div class="dialog-body">
          {children}
          <ErrorNote error={error} testid="dialog-error" />
        </div>
        <div class="dialog-actions">
          <button type="button" class="button" data-testid="dialog-cancel" onClick={onClose}>
            Cancel
          </button>
          <button
            type="submit"
            class={isDangerous ? "button danger" : "button primary"}
            data-testid="dialog-submit"
            disabled={isDisabled || isBusy}
          >
            {isBusy ? "Working…" : submit}
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** Asks before something is gone, naming what. With `type` its name has to be typed: there is no way back. */
export function Confirm(props: {
  readonly title: string;
  readonly submit: string;
  readonly type?: string;
  readonly act: () => Promise<void>;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}) {
  const { title, submit, type, act, onClose, children } = props;
  const [typed, setTyped] = useState("");
  const { isBusy, error, run } = useAction();
  const confirm = async () => {
    if (await run(act)) onClose();
  };
  return (
    <Dialog
      {...{ title, submit, isBusy, error, onClose }}
      isDangerous
      isDisabled={type !== undefined && typed !== type}
      testid="confirm"
      onSubmit={() => void confirm()}
    >
      {children}
      {type !== undefined && (
        <label class="field">
          <span>
            Type <code>{type}</code> to confirm
          </span>
          <input
            data-testid="confirm-type"
            value={typed}
            autocomplete="off"
            spellcheck={false}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
      )}
    </Dialog>
  );
}
