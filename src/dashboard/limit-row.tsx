import type { ComponentChildren } from "preact";
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
import { Button, Check, Field, LinkButton, Select, TextInput } from "./parts.tsx";
import { useLoaded, useSession, useSettled } from "./session.tsx";
import type { Resets } from "./shapes.ts";
import { capitalized, numberIn, whole } from "./words.ts";

interface RowProps {
  readonly draft: LimitDraft;
  /** The limit before the change; undefined for a new one. */
  readonly before: LimitDraft | undefined;
  readonly isReadOnly: boolean;
  readonly onChange: (draft: LimitDraft) => void;
  readonly onRemove: () => void;
}

/** The fields of one limit; a changed one shows its old and its new value. */
export function LimitRow({ draft, before, isReadOnly, onChange, onRemove }: RowProps) {
  const set = (change: Partial<LimitDraft>) => onChange({ ...draft, ...change });
  const text = ({ field, label, isNumber, ...rest }: TextField<FieldName>) => (
    <Field label={label} key={field}>
      <TextInput
        testid={`limit-${field}`}
        readOnly={isReadOnly}
        value={draft[field]}
        onValue={(typed) => set({ [field]: typed })}
        {...rest}
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
        <Button kind="small" onClick={onRemove}>
          Keep it
        </Button>
      </li>
    );
  }
  return (
    <li class="limit-row" data-testid="limit-row" data-limit={draft.name}>
      <fieldset>
        <legend>
          {draft.isNew ? (
            <TextInput
              focuses
              testid="limit-name"
              aria-label="Name of the new limit"
              placeholder="name, such as rpm"
              value={draft.name}
              onValue={(typed) => set({ name: typed.trim() })}
            />
          ) : (
            <span class="name strong" title={draft.name}>
              {draft.name}
            </span>
          )}
          {!isReadOnly && (
            <Button kind="small" testid="limit-remove" aria-label={`Remove ${draft.name}`} onClick={onRemove}>
              Remove
            </Button>
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
          {text({ field: "counts", label: "Counts", placeholder: draft.name || "its own name", title: COUNTS_HELP })}
          {text({ field: "capacity", label: kind.capacityLabel ?? "Capacity", isNumber: true })}
          {draft.kind === "calendar" && (
            <Field label="Full again">
              <Select
                testid="limit-reset"
                value={draft.reset}
                disabled={isReadOnly}
                options={[
                  ...RESETS.map(([value]) => ({ value, label: capitalized(value) })),
                  { value: "cron", label: "By a cron" },
                ]}
                onChange={(reset) => set({ reset: reset as ResetChoice, cron: cronOf(draft) })}
              />
              <Was before={before?.reset} now={draft.reset} />
            </Field>
          )}
          {kind.fields.filter(({ field }) => field !== "cron" || draft.reset === "cron").map(text)}
          {text({ field: "notify", label: "Tell at, % used", placeholder: "80/95" })}
        </div>
        {draft.kind === "calendar" && <NextReset cron={cronOf(draft)} tz={draft.tz.trim()} />}
        <Schedule {...{ draft, before, isReadOnly }} onChange={(windows) => set({ windows })}>
          {MODES.map(({ mode, words }) => (
            <Check
              key={mode}
              testid={`limit-${mode}`}
              label={words}
              isChecked={draft.mode === mode}
              isDisabled={isReadOnly}
              onChange={(isChecked) => set({ mode: isChecked ? mode : "hard" })}
            />
          ))}
          <Was before={before?.mode} now={draft.mode} />
        </Schedule>
      </fieldset>
    </li>
  );
}

type FieldName = Exclude<keyof KindDraft, "reset"> | "capacity" | "counts" | "notify";

const COUNTS_HELP =
  "The measure that this limit counts: requests, or a name from consume, such as tpm. Empty: the limit's own name.";

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

/** The number of a text, if the page would write it differently. */
function Read({ text }: { readonly text: string }) {
  const value = /^\d+$/.test(text.trim()) ? undefined : numberIn(text);
  return value === undefined || whole(value) === text.trim() ? null : (
    <small class="quiet" data-testid="limit-read">
      = {whole(value)}
    </small>
  );
}

/** The fields of a window. `own` ones are for windows without a scale, `drip` ones for those of limits that drip. */
const WINDOW_FIELDS = [
  { field: "cron", label: "While (cron) matches", placeholder: "* 9-17 * * 1-5", of: "all" },
  { field: "tz", label: "Time zone", placeholder: "UTC", of: "all" },
  { field: "scale", label: "Scale", placeholder: "or the fields here", of: "all" },
  { field: "capacity", label: "Capacity", placeholder: "as above", of: "own" },
  { field: "amount", label: "Refill amount", placeholder: "as above", of: "drip" },
  { field: "period", label: "Period, seconds", placeholder: "as above", of: "drip" },
] as const;

function Schedule(props: {
  readonly draft: LimitDraft;
  readonly before: LimitDraft | undefined;
  readonly isReadOnly: boolean;
  readonly onChange: (windows: readonly WindowDraft[]) => void;
  readonly children: ComponentChildren;
}) {
  const { draft, before, isReadOnly, onChange } = props;
  const { windows, kind } = draft;
  const fields = (window: WindowDraft) =>
    WINDOW_FIELDS.filter(({ of }) => of === "all" || (window.scale === "" && (of === "own" || kind === "drip")));
  const change = (window: WindowDraft, name: keyof WindowDraft, text: string) =>
    onChange(windows.map((each) => (each.id === window.id ? { ...each, [name]: text } : each)));
  return (
    <div class="schedule" data-testid="limit-schedule">
      {windows.map((window) => (
        <div class="limit-fields window" key={window.id}>
          {fields(window).map(({ field, label, placeholder }) => (
            <Field key={field} label={label}>
              <TextInput
                testid={`window-${field}`}
                readOnly={isReadOnly}
                placeholder={placeholder}
                value={window[field]}
                onValue={(text) => change(window, field, text)}
              />
            </Field>
          ))}
          {!isReadOnly && (
            <Button kind="small" onClick={() => onChange(windows.filter(({ id }) => id !== window.id))}>
              Remove window
            </Button>
          )}
        </div>
      ))}
      {props.children}
      {!isReadOnly && (
        <LinkButton testid="window-add" onClick={() => onChange([...windows, newWindow()])}>
          Add a schedule window
        </LinkButton>
      )}
      <Was before={before && windowsText(before.windows)} now={windowsText(windows)} />
    </div>
  );
}

/** The next resets of a quota, while its cron is typed. */
function NextReset({ cron, tz }: { readonly cron: string; readonly tz: string }) {
  const { api, path } = useSession();
  const asked = useSettled(JSON.stringify([cron, tz]), 250);
  const { value } = useLoaded<Resets>(
    (signal) => {
      const [pattern, zone] = JSON.parse(asked) as [string, string];
      return api.get(`${path}/limits/resets`, { cron: pattern === "" ? "?" : pattern, tz: zone }, signal);
    },
    [asked],
    "beside",
  );
  if (value === undefined) return null;
  const [next, ...others] = value.nextMs.map((ms) => instantWords(ms, value.tz));
  return (
    <p class={value.problem === undefined ? "next-reset quiet" : "next-reset bad-text"} data-testid="limit-next-reset">
      {value.problem ??
        (next === undefined ? "It never resets." : `Next reset: ${next} (${value.tz}); then ${others.join(", ")}`)}
    </p>
  );
}

function instantWords(ms: number, timeZone: string): string {
  const date = { weekday: "short", day: "numeric", month: "short", year: "numeric" } as const;
  return new Intl.DateTimeFormat("en-GB", { ...date, hour: "2-digit", minute: "2-digit", timeZone }).format(ms);
}
