import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { RESETS } from "../domain/limits/reset-names.ts";
import { isSameText, type LimitDraft, newWindow, type WindowDraft, windowsText } from "./limit-draft.ts";
import {
  cronOf,
  KIND_NAMES,
  KINDS,
  type Kind,
  type KindDraft,
  type ResetChoice,
  type TextField,
} from "./limit-kinds.ts";
import { NextReset } from "./next-reset.tsx";
import { numberIn } from "./number-text.ts";
import { Field, Select } from "./parts.tsx";
import { whole } from "./words.ts";

interface RowProps {
  readonly draft: LimitDraft;
  /** As it was; undefined for a new one. */
  readonly before: LimitDraft | undefined;
  readonly isReadOnly: boolean;
  readonly onChange: (draft: LimitDraft) => void;
  readonly onRemove: () => void;
}

/** One limit in fields; beside each that was changed, the old value and the new one. */
export function LimitRow({ draft, before, isReadOnly, onChange, onRemove }: RowProps) {
  const set = (change: Partial<LimitDraft>) => onChange({ ...draft, ...change });
  const name = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (draft.isNew) name.current?.focus();
  }, [draft.isNew]);
  const text = ({
    field,
    label,
    hint,
    isNumber,
  }: TextField<Exclude<keyof KindDraft, "reset"> | "capacity" | "notify">) => (
    <Field label={label} key={field}>
      <input
        data-testid={`limit-${field}`}
        type="text"
        readOnly={isReadOnly}
        value={draft[field]}
        placeholder={hint}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => set({ [field]: event.currentTarget.value })}
      />
      <Was before={before?.[field]} now={draft[field]} />
      {isNumber && <Read text={draft[field]} />}
    </Field>
  );
  const kind = KINDS[draft.kind];
  if (draft.isRemoved) {
    return (
      <li class="limit-row removed" data-testid="limit-row" data-limit={draft.name} data-removed="true">
        <span>
          <b>{draft.name}</b> will be deleted when you save.
        </span>
        <button type="button" class="button small" onClick={onRemove}>
          Keep it
        </button>
      </li>
    );
  }
  return (
    <li class="limit-row" data-testid="limit-row" data-limit={draft.name}>
      <fieldset>
        <legend>
          {draft.isNew ? (
            <input
              ref={name}
              data-testid="limit-name"
              aria-label="Name of the new limit"
              placeholder="name, such as rpm"
              value={draft.name}
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => set({ name: event.currentTarget.value.trim() })}
            />
          ) : (
            <span class="name strong" title={draft.name}>
              {draft.name}
            </span>
          )}
          {!isReadOnly && (
            <button
              type="button"
              class="button small"
              data-testid="limit-remove"
              aria-label={`Remove ${draft.name}`}
              onClick={onRemove}
            >
              Remove
            </button>
          )}
        </legend>
        <div class="limit-fields">
          <Field label="Kind">
            <Select
              testid="limit-kind"
              value={draft.kind}
              disabled={isReadOnly}
              options={KIND_NAMES.map((value) => ({ value, label: KINDS[value].choice }))}
              onChange={(chosen) => set({ kind: chosen as Kind })}
            />
            <Was before={before?.kind} now={draft.kind} />
          </Field>
          <Field label="Counts">
            <input
              data-testid="limit-counts"
              type="text"
              readOnly={isReadOnly}
              value={draft.counts}
              placeholder={draft.name || "its own name"}
              title="The measure that this limit counts: requests, or a name from consume, such as tpm. Empty: the limit's own name."
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => set({ counts: event.currentTarget.value })}
            />
            <Was before={before?.counts} now={draft.counts} />
          </Field>
          {text({ field: "capacity", label: kind.capacityLabel ?? "Capacity", isNumber: true })}
          {draft.kind === "calendar" && (
            <Field label="Full again">
              <Select
                testid="limit-reset"
                value={draft.reset}
                disabled={isReadOnly}
                options={[
                  ...RESETS.map(([value]) => ({ value, label: value[0]?.toUpperCase() + value.slice(1) })),
                  { value: "cron", label: "By a cron" },
                ]}
                onChange={(reset) => set({ reset: reset as ResetChoice, cron: cronOf(draft) })}
              />
              <Was before={before?.reset} now={draft.reset} />
            </Field>
          )}
          {kind.fields.filter(({ field }) => field !== "cron" || draft.reset === "cron").map(text)}
          {text({ field: "notify", label: "Tell at, % used", hint: "80/95" })}
        </div>
        {draft.kind === "calendar" && <NextReset cron={cronOf(draft)} tz={draft.tz.trim()} />}
        <Schedule {...{ draft, before, isReadOnly }} onChange={(windows) => set({ windows })}>
          {MODES.map(({ mode, words }) => (
            <label class="check" key={mode}>
              <input
                type="checkbox"
                data-testid={`limit-${mode}`}
                checked={draft.mode === mode}
                disabled={isReadOnly}
                onChange={(event) => set({ mode: event.currentTarget.checked ? mode : "hard" })}
              />
              <span>{words}</span>
            </label>
          ))}
          <Was before={before?.mode} now={draft.mode} />
        </Schedule>
      </fieldset>
    </li>
  );
}

const MODES = [
  { mode: "soft", words: "Soft: count, never refuse" },
  { mode: "shadow", words: "Shadow: count what it would refuse" },
] as const;

function Was({ before, now }: { readonly before: string | undefined; readonly now: string }) {
  if (before === undefined || isSameText(before, now)) return null;
  return (
    <small class="was" data-testid="limit-change">
      <s>{before || "empty"}</s> → <b>{now || "empty"}</b>
    </small>
  );
}

/** What a number is taken for where it is written otherwise than the page does. */
function Read({ text }: { readonly text: string }) {
  const value = /^\d+$/.test(text.trim()) ? undefined : numberIn(text);
  return value === undefined || whole(value) === text.trim() ? null : (
    <small class="quiet" data-testid="limit-read">
      = {whole(value)}
    </small>
  );
}

function Schedule(props: {
  readonly draft: LimitDraft;
  readonly before: LimitDraft | undefined;
  readonly isReadOnly: boolean;
  readonly onChange: (windows: readonly WindowDraft[]) => void;
  readonly children: ComponentChildren;
}) {
  const { draft, before, isReadOnly, onChange } = props;
  const { windows, kind } = draft;
  const field = (window: WindowDraft, name: keyof Omit<WindowDraft, "id">, label: string, hint: string) => (
    <Field label={label}>
      <input
        data-testid={`window-${name}`}
        type="text"
        readOnly={isReadOnly}
        value={window[name]}
        placeholder={hint}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) =>
          onChange(
            windows.map((each) => (each.id === window.id ? { ...each, [name]: event.currentTarget.value } : each)),
          )
        }
      />
    </Field>
  );
  return (
    <div class="schedule" data-testid="limit-schedule">
      {windows.map((window) => (
        <div class="limit-fields window" key={window.id}>
          {field(window, "cron", "While (cron) matches", "* 9-17 * * 1-5")}
          {field(window, "tz", "Time zone", "UTC")}
          {field(window, "scale", "Scale", "or the fields here")}
          {window.scale === "" && field(window, "capacity", "Capacity", "as above")}
          {window.scale === "" && kind === "drip" && field(window, "amount", "Refill amount", "as above")}
          {window.scale === "" && kind === "drip" && field(window, "period", "Period, seconds", "as above")}
          {!isReadOnly && (
            <button
              type="button"
              class="button small"
              onClick={() => onChange(windows.filter(({ id }) => id !== window.id))}
            >
              Remove window
            </button>
          )}
        </div>
      ))}
      {props.children}
      {!isReadOnly && (
        <button
          type="button"
          class="link-button"
          data-testid="window-add"
          onClick={() => onChange([...windows, newWindow()])}
        >
          Add a schedule window
        </button>
      )}
      <Was before={before && windowsText(before.windows)} now={windowsText(windows)} />
    </div>
  );
}
