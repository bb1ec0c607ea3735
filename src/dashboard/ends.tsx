import { limitWords } from "./limit-kinds.ts";
import { Button, Field, Select } from "./parts.tsx";
import type { StoredLimits } from "./shapes.ts";
import { FormError, untilWords } from "./words.ts";

/** How long a setting is to count: a text of ms from when it is saved, an instant of the viewer's clock, or for good. */
export interface EndDraft {
  readonly choice: string;
  /** The value of a field of day and time. */
  readonly local: string;
}

export const FOR_GOOD: EndDraft = { choice: "", local: "" };

const UNTIL = "until";
const DAY_MS = 86_400_000;
const DAYS_MAX = 366;

const CHOICES = [
  { value: FOR_GOOD.choice, label: "for good" },
  { value: String(DAY_MS / 96), label: "for 15 minutes" },
  { value: String(DAY_MS / 24), label: "for 1 hour" },
  { value: String(DAY_MS), label: "for 1 day" },
  { value: UNTIL, label: "until…" },
];

/** The end as the service takes it; nothing where there is none. `nowMs` is a reading of the service's clock. */
export function endOf({ choice, local }: EndDraft, nowMs: number): { readonly untilMs?: number } {
  if (choice === FOR_GOOD.choice) return {};
  if (choice !== UNTIL) return { untilMs: nowMs + Number(choice) };
  // Without a zone it is a time of this machine.
  const untilMs = new Date(local).getTime();
  if (Number.isNaN(untilMs)) throw new FormError("The end has no day and time yet; choose both.");
  return { untilMs };
}

/** Chooses how long a setting counts. */
export function EndField(props: {
  /** Begins the names of its controls in tests. */
  readonly testid: string;
  readonly draft: EndDraft;
  readonly hint: string | undefined;
  readonly nowMs: number;
  readonly onChange: (draft: EndDraft) => void;
}) {
  const { testid, draft, hint, nowMs, onChange } = props;
  const { timeZone } = new Intl.DateTimeFormat().resolvedOptions();
  return (
    <div class="end-field">
      <Field label="How long" hint={hint}>
        <Select
          testid={`${testid}-for`}
          value={draft.choice}
          options={CHOICES}
          onChange={(choice) => onChange({ ...draft, choice })}
        />
      </Field>
      {draft.choice === UNTIL && (
        <Field label="Until" hint={`In your time zone, ${timeZone}`}>
          <input
            type="datetime-local"
            data-testid={`${testid}-until`}
            value={draft.local}
            min={localText(nowMs)}
            max={localText(nowMs + DAYS_MAX * DAY_MS)}
            required
            onInput={(event) => onChange({ ...draft, local: event.currentTarget.value })}
          />
        </Field>
      )}
    </div>
  );
}

/** A reading of the clock as a field of day and time has it. */
function localText(ms: number): string {
  const minutes = new Date(ms).getTimezoneOffset();
  return new Date(ms - minutes * 60_000).toISOString().slice(0, 16);
}

type Ending = Pick<StoredLimits, "untilMs" | "then">;

/** `until 15:00, then rpm 600, refills 600/min`; undefined: it has no end. */
export function endingWords({ untilMs, then }: Ending): string | undefined {
  if (untilMs === undefined) return undefined;
  const after = then?.limits.map((limit) => `${limit.name} ${limitWords(limit, ["counts", "soft", "shadow"])}`);
  return `until ${untilWords(untilMs, Date.now())}, then ${after?.join("; ") ?? "nothing is set here"}`;
}

/** Says that the limits of a level end by themselves, and ends them now. */
export function EndingNote(props: {
  readonly stored: Ending | undefined;
  /** Undefined: the viewer may not. */
  readonly onEnd: (() => void) | undefined;
}) {
  const { stored, onEnd } = props;
  const words = stored && endingWords(stored);
  if (words === undefined) return null;
  return (
    <div class="note ending" data-testid="limits-ending" data-until={stored?.untilMs}>
      <span>These limits count {words}.</span>
      {onEnd !== undefined && (
        <Button kind="small" testid="limits-end-now" onClick={onEnd}>
          End now
        </Button>
      )}
    </div>
  );
}
