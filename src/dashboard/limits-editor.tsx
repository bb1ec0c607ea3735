import { useRef, useState } from "preact/hooks";
import { ApiError, curl } from "./api.ts";
import { Confirm } from "./dialog.tsx";
import { type EndDraft, EndField, EndingNote, endingWords, endOf, FOR_GOOD } from "./ends.tsx";
import { draftOf, isChanged, type LimitDraft, limitOf, newDraft } from "./limit-draft.ts";
import { LimitRow } from "./limit-row.tsx";
import {
  DefaultQuestion,
  LimitsConflict,
  type Reached,
  reachedBy,
  reachedWords,
  type Theirs,
} from "./limits-conflict.tsx";
import { Button, Check, Empty, ErrorNote, Field, Form, Select } from "./parts.tsx";
import { PolicyDialog } from "./policy-dialog.tsx";
import { useAction, useSession } from "./session.tsx";
import type { Level, OnUnavailable, StoredLimits } from "./shapes.ts";
import { addressOf, isOfEntity, isTotal, LEVELS, type LimitsView, type Named, queryOf } from "./stored-limits.ts";
import { LEVEL_NAMES, plural, untilWords } from "./words.ts";

/** The form of the limits of one level. */
export function LimitsEditor(props: {
  readonly value: LimitsView;
  readonly level: Level;
  readonly setLevel: (level: Level) => void;
  readonly isDirty: { current: boolean };
  readonly isSaving: { current: boolean };
  /** A sentence about the last change. */
  readonly saved: string;
  /** The level as another user has stored it meanwhile; undefined: nobody has. */
  readonly theirs: Theirs | undefined;
  /** The save was refused because another user saved first: reads their version. */
  readonly onConflict: () => Promise<void>;
  readonly onDiscard: () => void;
  readonly onDone: (what: string) => Promise<void>;
}) {
  const { value, level, setLevel, isDirty, isSaving, saved, theirs, onConflict, onDiscard, onDone } = props;
  const session = useSession();
  const { api, path, can, live } = session;
  const { names } = value;
  const stored = value.stored[level];
  const isStored = stored !== undefined && stored.limits.length > 0;
  const inForce = (isTotal(level) ? value.totals : value.limits).limits;
  const before = useRef((isStored ? stored.limits : inForce).map(draftOf));
  const [drafts, setDrafts] = useState<readonly LimitDraft[]>(before.current);
  const options = useRef({
    outage: (stored?.onUnavailable ?? "") as OnUnavailable | "",
    // Limits of one entity are exceptions, so by default it inherits the others.
    inherit: isStored ? stored.inherit === true : isOfEntity(level),
    isForCallers: stored?.appliesTo === "callers",
  });
  const [outage, setOutage] = useState<OnUnavailable | "">(options.current.outage);
  const [inherit, setInherit] = useState(options.current.inherit);
  const [isForCallers, setForCallers] = useState(options.current.isForCallers);
  const [asks, setAsks] = useState<
    "policy" | { readonly what: "save" | "delete" | "end"; readonly reached: Reached | undefined }
  >();
  const [end, setEnd] = useState(FOR_GOOD);
  const saving = useAction();
  const query = queryOf(level, names) ?? {};
  const address = addressOf(path, level);
  const old = (draft: LimitDraft) => before.current.find(({ id }) => id === draft.id);
  const kept = drafts.filter(({ isRemoved }) => !isRemoved);
  const changed = kept.filter((draft) => isChanged(old(draft), draft));
  // Unchanged limits that the level inherits anyway are not stored.
  const sent = !isStored && inherit && changed.length > 0 ? changed : kept;
  isDirty.current =
    drafts.some((draft) => isChanged(old(draft), draft)) ||
    end !== FOR_GOOD ||
    JSON.stringify({ outage, inherit, isForCallers }) !== JSON.stringify(options.current);

  /** Saves unless the level has changed since it was read under that tag. */
  const save = (etag: string | undefined) =>
    saving.run(async () => {
      isSaving.current = true;
      try {
        const limits = sent.map(limitOf);
        const ending = endOf(end, live.nowMs());
        // Settings of the system have no end.
        const isSetting = level === "system" && (ending.untilMs === undefined || outage !== options.current.outage);
        const settings = {
          ...(isSetting && outage !== "" ? { onUnavailable: outage } : {}),
          ...(inherit ? { inherit } : {}),
          ...(isForCallers ? { appliesTo: "callers" } : {}),
        };
        const body = { limits, ...settings, ...ending };
        const { changed, untilMs } = await api.sendIf<Saved>("PUT", address, query, etag, body);
        const until = untilMs === undefined ? "" : `, until ${untilWords(untilMs, Date.now())}`;
        const what = `${plural(limits.length, "limit")} as ${LEVEL_NAMES[level].toLowerCase()}${until}`;
        await onDone(changed ? `Saved: ${what}.` : `Nothing to save: ${what}, unchanged.`);
      } catch (thrown) {
        if (!(thrown instanceof ApiError) || thrown.status !== 412) throw thrown;
        await onConflict();
      } finally {
        isSaving.current = false;
      }
    });
  const whom = levelWords(level, names);
  /** Asks before the limits of many entities are changed, unless they reach none yet. */
  const submit = async () => {
    let reached: Reached | undefined;
    const isRight = await saving.run(async () => {
      sent.map(limitOf);
      endOf(end, live.nowMs());
      reached = await reachedBy(api, path, level, names);
    });
    if (!isRight) return;
    if (reached === undefined || reached.count === 0) await save(stored?.etag);
    else setAsks({ what: "save", reached });
  };
  return (
    <Form class="editor" onSubmit={() => void submit()}>
      <div class="editor-head">
        <Field label={can.admin ? "Level to edit" : "Level to show"}>
          <Select
            testid="limits-level"
            value={level}
            options={LEVELS.map((each) => ({
              value: each,
              label: LEVEL_NAMES[each],
              disabled: queryOf(each, names) === undefined,
            }))}
            onChange={(next) => setLevel(next as Level)}
          />
        </Field>
        <p class="quiet">
          {isStored
            ? `These limits apply to ${whom}.`
            : `No limits are stored for ${whom}${inForce.length > 0 ? "; the form starts with the limits in force" : ""}.`}
          {!isStored &&
            inherit &&
            inForce.length > 0 &&
            " Those that you change are stored; the others stay inherited."}
        </p>
      </div>
      <EndingNote
        stored={stored}
        onEnd={
          can.admin
            ? async () => setAsks({ what: "end", reached: await reachedBy(api, path, level, names) })
            : undefined
        }
      />
      {drafts.length === 0 && (
        <Empty
          title="No limits here"
          command={curl(session, "PUT", `${address}${searchOf(query)}`, { limits: [EXAMPLE] })}
        >
          {can.admin ? "Add one below, or set one from a shell:" : "An admin can set them with:"}
        </Empty>
      )}
      <ul class="limit-rows" aria-label="Limits">
        {drafts.map((draft) => (
          <LimitRow
            key={draft.id}
            draft={draft}
            before={old(draft)}
            isReadOnly={!can.admin}
            onChange={(next) => setDrafts(drafts.map((each) => (each.id === next.id ? next : each)))}
            onRemove={() => {
              setDrafts(
                draft.isNew
                  ? drafts.filter(({ id }) => id !== draft.id)
                  : drafts.map((each) => (each.id === draft.id ? { ...each, isRemoved: !each.isRemoved } : each)),
              );
              // While the level inherits, a removed limit would still apply.
              if (!isStored && !draft.isNew && !draft.isRemoved) setInherit(false);
            }}
          />
        ))}
      </ul>
      {can.admin && (
        <div class="level-options">
          {!/^system/.test(level) && (
            <Check
              testid="limits-inherit"
              label="Inherit limits of less specific levels, except those of the same name"
              isChecked={inherit}
              onChange={setInherit}
            />
          )}
          {!isOfEntity(level) && (
            <Check
              testid="limits-callers"
              label="For callers only: not for their parents"
              isChecked={isForCallers}
              onChange={setForCallers}
            />
          )}
        </div>
      )}
      {level === "system" && can.admin && (
        <Field label="While the store is unavailable" class="narrow">
          <Select
            testid="limits-outage"
            value={outage}
            options={OUTAGE_OPTIONS}
            onChange={(next) => setOutage(next as OnUnavailable | "")}
          />
        </Field>
      )}
      <ErrorNote error={saving.error} testid="limits-error" />
      {theirs !== undefined && (
        <LimitsConflict
          before={stored}
          theirs={theirs}
          isBusy={saving.isBusy}
          onTheirs={onDiscard}
          onMine={() => void save(theirs.stored?.etag)}
        />
      )}
      <p class="saved" role="status" data-testid="limits-saved">
        {!isDirty.current && saving.error === undefined ? saved : ""}
      </p>
      {can.admin && (
        <EndField testid="limits" draft={end} hint={endHint(stored, end)} nowMs={live.nowMs()} onChange={setEnd} />
      )}
      {can.admin && (
        <div class="editor-actions">
          <Button testid="limit-add" onClick={() => setDrafts([...drafts, newDraft()])}>
            Add a limit
          </Button>
          {hasPolicy(level) && (
            <Button testid="limits-policy" onClick={() => setAsks("policy")}>
              Access and cascade
            </Button>
          )}
          <span class="spacer" />
          <Button
            kind="danger"
            testid="limits-delete"
            disabled={!isStored}
            onClick={async () => setAsks({ what: "delete", reached: await reachedBy(api, path, level, names) })}
          >
            Delete this level
          </Button>
          <Button type="submit" kind="primary" testid="limits-save" disabled={saving.isBusy || kept.length === 0}>
            {saving.isBusy ? "Saving…" : "Save"}
          </Button>
        </div>
      )}
      {typeof asks === "object" && asks.what === "save" && asks.reached !== undefined && (
        <DefaultQuestion
          reached={asks.reached}
          whom={whom}
          act={async () => void (await save(stored?.etag))}
          onClose={() => setAsks(undefined)}
        />
      )}
      {typeof asks === "object" && asks.what === "delete" && (
        <Confirm
          title="Delete these limits?"
          submit="Delete"
          act={async () => {
            await api.sendIf("DELETE", address, query, stored?.etag);
            await onDone(`Deleted: ${LEVEL_NAMES[level].toLowerCase()}.`);
          }}
          onClose={() => setAsks(undefined)}
        >
          <p>
            <b class="wrap">{stored?.limits.map(({ name }) => name).join(", ")}</b> of {whom} will be deleted
            {stored?.untilMs === undefined ? "" : ", with those that would count afterwards"}. After that, the next
            level with limits applies
            {asks.reached === undefined ? "" : ` to ${reachedWords(asks.reached)}`}.
          </p>
        </Confirm>
      )}
      {typeof asks === "object" && asks.what === "end" && (
        <Confirm
          title="End these limits now?"
          submit="End now"
          act={async () => {
            await api.sendIf("DELETE", address, { ...query, override: "true" }, stored?.etag);
            await onDone(`Ended: ${LEVEL_NAMES[level].toLowerCase()} is what was set before.`);
          }}
          onClose={() => setAsks(undefined)}
        >
          <p>
            <b class="wrap">{stored?.limits.map(({ name }) => name).join(", ")}</b> of {whom} will no longer count
            {asks.reached === undefined ? "" : ` for ${reachedWords(asks.reached)}`}:{" "}
            {stored && endingWords(stored)?.replace(/^until [^;]*?, then /, "from now on ")}.
          </p>
        </Confirm>
      )}
      {asks === "policy" && (
        <PolicyDialog
          entityId={level === "resource" ? undefined : names.entityId}
          resource={level === "entityDefault" ? undefined : names.resource}
          onDone={() => onDone("Saved: access and cascade.")}
          onClose={() => setAsks(undefined)}
        />
      )}
    </Form>
  );
}

interface Saved {
  readonly changed: boolean;
  readonly untilMs?: number;
}

/** Says what a save does to limits that run to an end, and what comes after the chosen end. */
function endHint(stored: StoredLimits | undefined, end: EndDraft): string | undefined {
  const running = stored?.untilMs;
  if (running !== undefined) {
    const words = `the limits that run until ${untilWords(running, Date.now())}`;
    return end.choice === FOR_GOOD.choice ? `Saving ends ${words}, now.` : `Saving takes the place of ${words}.`;
  }
  if (end.choice === FOR_GOOD.choice) return undefined;
  const hasBase = stored !== undefined && stored.limits.length > 0;
  return hasBase ? "Then what is stored now counts again." : "Then the next level with limits applies again.";
}

/** Access and cascade are set for entities and resources. */
function hasPolicy(level: Level): boolean {
  return level === "entity" || level === "entityDefault" || level === "resource";
}

function levelWords(level: Level, { entityId, resource, planId }: Named): string {
  const whom = isOfEntity(level) ? entityId : /^plan/.test(level) ? `each entity of plan ${planId}` : "every entity";
  if (isTotal(level)) return `${whom} over all resources together`;
  return `${whom} on ${level === "entity" || level === "plan" || level === "resource" ? resource : "every resource"}`;
}

const OUTAGE_OPTIONS = [
  { value: "", label: "Not set: refuse" },
  { value: "block", label: "Refuse" },
  { value: "allow", label: "Let through, uncounted" },
];

const EXAMPLE = { name: "rpm", capacity: 100, refillAmount: 100, refillPeriodMs: 60_000 };

function searchOf(query: Readonly<Record<string, string>>): string {
  const search = new URLSearchParams(query).toString();
  return search === "" ? "" : `?${search}`;
}
