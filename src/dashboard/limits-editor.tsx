import { useRef, useState } from "preact/hooks";
import { ApiError } from "./api.ts";
import { curl } from "./curl.ts";
import { DefaultQuestion, type Reached, reachedBy, reachedWords } from "./default-question.tsx";
import { Confirm } from "./dialog.tsx";
import { draftOf, isChanged, type LimitDraft, limitOf, newDraft } from "./limit-draft.ts";
import { LimitRow } from "./limit-row.tsx";
import { LimitsConflict, type Theirs } from "./limits-conflict.tsx";
import type { LimitsView } from "./limits-view.ts";
import { Empty, ErrorNote, Field, Select } from "./parts.tsx";
import { PolicyDialog } from "./policy-dialog.tsx";
import { useAction, useSession } from "./session.tsx";
import type { Level, OnUnavailable } from "./shapes.ts";
import { addressOf, isOfEntity, isTotal, LEVELS, type Named, queryOf } from "./stored-limits.ts";
import { LEVEL_NAMES, plural } from "./words.ts";

/** The limits of one level, to be looked at or changed. */
export function LimitsEditor(props: {
  readonly value: LimitsView;
  readonly level: Level;
  readonly setLevel: (level: Level) => void;
  readonly isDirty: { current: boolean };
  readonly isSaving: { current: boolean };
  /** What was done last. */
  readonly saved: string;
  /** What somebody else made of this level meanwhile. */
  readonly theirs: Theirs | undefined;
  /** Somebody was faster: asks who, and what is there now. */
  readonly onConflict: () => Promise<void>;
  readonly onDiscard: () => void;
  readonly onDone: (what: string) => Promise<void>;
}) {
  const { value, level, setLevel, isDirty, isSaving, saved, theirs, onConflict, onDiscard, onDone } = props;
  const session = useSession();
  const { api, path, can } = session;
  const { names } = value;
  const stored = value.stored[level];
  const isStored = stored !== undefined && stored.limits.length > 0;
  const inForce = (isTotal(level) ? value.totals : value.limits).limits;
  const before = useRef((isStored ? stored.limits : inForce).map(draftOf));
  const [drafts, setDrafts] = useState<readonly LimitDraft[]>(before.current);
  const options = useRef({
    outage: (stored?.onUnavailable ?? "") as OnUnavailable | "",
    // What an entity gets of its own is an exception from what it had: the rest goes on to hold for it.
    inherit: isStored ? stored.inherit === true : isOfEntity(level),
    isForCallers: stored?.appliesTo === "callers",
  });
  const [outage, setOutage] = useState<OnUnavailable | "">(options.current.outage);
  const [inherit, setInherit] = useState(options.current.inherit);
  const [isForCallers, setForCallers] = useState(options.current.isForCallers);
  const [asks, setAsks] = useState<
    "policy" | { readonly what: "save" | "delete"; readonly reached: Reached | undefined }
  >();
  const saving = useAction();
  const query = queryOf(level, names) ?? {};
  const address = addressOf(path, level);
  const old = (draft: LimitDraft) => before.current.find(({ id }) => id === draft.id);
  const kept = drafts.filter(({ isRemoved }) => !isRemoved);
  const changed = kept.filter((draft) => isChanged(old(draft), draft));
  // Limits that would be inherited anyway are stored only if they are all that there is to store.
  const sent = !isStored && inherit && changed.length > 0 ? changed : kept;
  isDirty.current =
    drafts.some((draft) => isChanged(old(draft), draft)) ||
    JSON.stringify({ outage, inherit, isForCallers }) !== JSON.stringify(options.current);

  /** Only over what was read under that tag. */
  const save = (etag: string | undefined) =>
    saving.run(async () => {
      isSaving.current = true;
      try {
        const limits = sent.map(limitOf);
        const settings = {
          ...(level === "system" && outage !== "" ? { onUnavailable: outage } : {}),
          ...(inherit ? { inherit } : {}),
          ...(isForCallers ? { appliesTo: "callers" } : {}),
        };
        const body = { limits, ...settings };
        const { changed } = await api.sendIf<{ changed: boolean }>("PUT", address, query, etag, body);
        const what = `${plural(limits.length, "limit")} as ${LEVEL_NAMES[level].toLowerCase()}`;
        await onDone(changed ? `Saved: ${what}.` : `Nothing to save: ${what}, unchanged.`);
      } catch (thrown) {
        if (!(thrown instanceof ApiError) || thrown.status !== 412) throw thrown;
        await onConflict();
      } finally {
        isSaving.current = false;
      }
    });
  const whom = levelWords(level, names);
  /** Limits that are not of one entity are changed after a question, unless they reach nobody yet. */
  const submit = async () => {
    let reached: Reached | undefined;
    const isRight = await saving.run(async () => {
      sent.map(limitOf);
      reached = await reachedBy(api, path, level, names);
    });
    if (!isRight) return;
    if (reached === undefined || reached.count === 0) await save(stored?.etag);
    else setAsks({ what: "save", reached });
  };
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
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
              // A limit that is inherited stays in force while others are inherited, too.
              if (!isStored && !draft.isNew && !draft.isRemoved) setInherit(false);
            }}
          />
        ))}
      </ul>
      {can.admin && (
        <div class="level-options">
          {!/^system/.test(level) && (
            <label class="check">
              <input
                type="checkbox"
                data-testid="limits-inherit"
                checked={inherit}
                onChange={(event) => setInherit(event.currentTarget.checked)}
              />
              <span>Inherit limits of less specific levels, except those of the same name</span>
            </label>
          )}
          {!isOfEntity(level) && (
            <label class="check">
              <input
                type="checkbox"
                data-testid="limits-callers"
                checked={isForCallers}
                onChange={(event) => setForCallers(event.currentTarget.checked)}
              />
              <span>For callers only: not for their parents</span>
            </label>
          )}
        </div>
      )}
      {level === "system" && can.admin && (
        <Field label="While the store is unavailable" class="narrow">
          <Select
            testid="limits-outage"
            value={outage}
            options={[
              { value: "", label: "Not set: refuse" },
              { value: "block", label: "Refuse" },
              { value: "allow", label: "Let through, uncounted" },
            ]}
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
        <div class="editor-actions">
          <button
            type="button"
            class="button"
            data-testid="limit-add"
            onClick={() => setDrafts([...drafts, newDraft()])}
          >
            Add a limit
          </button>
          {hasPolicy(level) && (
            <button type="button" class="button" data-testid="limits-policy" onClick={() => setAsks("policy")}>
              Access and cascade
            </button>
          )}
          <span class="spacer" />
          <button
            type="button"
            class="button danger"
            data-testid="limits-delete"
            disabled={!isStored}
            onClick={async () => setAsks({ what: "delete", reached: await reachedBy(api, path, level, names) })}
          >
            Delete this level
          </button>
          <button
            type="submit"
            class="button primary"
            data-testid="limits-save"
            disabled={saving.isBusy || kept.length === 0}
          >
            {saving.isBusy ? "Saving…" : "Save"}
          </button>
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
            <b class="wrap">{stored?.limits.map(({ name }) => name).join(", ")}</b> of {whom} will be deleted. After
            that, the next level with limits applies
            {asks.reached === undefined ? "" : ` to ${reachedWords(asks.reached)}`}.
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
    </form>
  );
}

/** Who is let through and who is charged is said of entities and resources. */
function hasPolicy(level: Level): boolean {
  return level === "entity" || level === "entityDefault" || level === "resource";
}

function levelWords(level: Level, { entityId, resource, planId }: Named): string {
  const whom = isOfEntity(level) ? entityId : /^plan/.test(level) ? `each entity of plan ${planId}` : "every entity";
  if (isTotal(level)) return `${whom} over all resources together`;
  return `${whom} on ${level === "entity" || level === "plan" || level === "resource" ? resource : "every resource"}`;
}

const EXAMPLE = { name: "rpm", capacity: 100, refillAmount: 100, refillPeriodMs: 60_000 };

function searchOf(query: Readonly<Record<string, string>>): string {
  const search = new URLSearchParams(query).toString();
  return search === "" ? "" : `?${search}`;
}
