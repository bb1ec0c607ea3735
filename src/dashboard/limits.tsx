import { useEffect, useRef, useState } from "preact/hooks";
import { curl } from "./curl.ts";
import { Confirm } from "./dialog.tsx";
import { draftOf, isChanged, type LimitDraft, limitOf, newDraft } from "./limit-draft.ts";
import { LimitRow } from "./limit-row.tsx";
import { type LimitsView, loadLimits } from "./limits-view.ts";
import { NameFields } from "./name-fields.tsx";
import { Empty, ErrorNote, Field, PageHead, Select } from "./parts.tsx";
import { PolicyDialog } from "./policy-dialog.tsx";
import { hrefOf } from "./route.ts";
import { useAction, useLoaded, useSession } from "./session.tsx";
import type { Level, OnUnavailable } from "./shapes.ts";
import { LEVELS, type LevelQuery, queryOf } from "./stored-limits.ts";
import { LEVEL_NAMES, plural, sourceWords } from "./words.ts";

/** Limits at their four levels: which one is in force, and any of them to be changed. */
export function LimitsPage({ params }: { readonly params: Readonly<Record<string, string>> }) {
  const { api, path, live } = useSession();
  const entityId = params.entity ?? "";
  const resource = params.resource ?? "";
  const { value, error, reload } = useLoaded(
    (signal) => loadLimits(api, path, { entityId, resource }, signal),
    [entityId, resource],
    "main",
  );
  const [level, setLevel] = useState<Level>();
  const [saved, setSaved] = useState("");
  // Somebody else changed limits: taken over at once, unless something is being edited.
  const [isOld, setOld] = useState(false);
  const isDirty = useRef(false);
  const isSaving = useRef(false);
  useEffect(
    () =>
      live.changes.subscribe(({ action }) => {
        if (!/limits|access|cascade/.test(action) || isSaving.current) return;
        if (isDirty.current) setOld(true);
        else void reload();
      }),
    [live, reload],
  );
  const edited = level ?? value?.level;
  return (
    <>
      <PageHead title="Limits" note="The first level that has any limits wins whole; they do not merge." />
      <Chooser {...{ entityId, resource }} />
      <ErrorNote error={error} />
      {value !== undefined && edited !== undefined && (
        <>
          <Source {...{ value, entityId, resource }} />
          {isOld && (
            <div class="note" role="status">
              <span>The limits were changed elsewhere while you edit.</span>
              <button
                type="button"
                class="button small"
                onClick={() => {
                  isDirty.current = false;
                  setOld(false);
                  void reload();
                }}
              >
                Discard my changes and read them anew
              </button>
            </div>
          )}
          <Editor
            key={`${edited} ${value.version}`}
            {...{ value, entityId, resource, isDirty, isSaving, saved }}
            level={edited}
            setLevel={(next) => {
              setSaved("");
              setLevel(next);
            }}
            onDone={async (what) => {
              setSaved(what);
              setLevel(edited);
              setOld(false);
              await reload();
            }}
          />
        </>
      )}
    </>
  );
}

function Chooser(props: { readonly entityId: string; readonly resource: string }) {
  const { api, path } = useSession();
  const [entity, setEntity] = useState(props.entityId);
  const [resource, setResource] = useState(props.resource);
  const names = useLoaded(
    async () => (await api.get<{ items: readonly string[] }>(`${path}/resources`)).items,
    [],
    "beside",
  );
  const show = () => {
    location.hash = hrefOf("limits", { entity: entity.trim(), resource: resource.trim() });
  };
  return (
    <form
      class="filters"
      onSubmit={(event) => {
        event.preventDefault();
        show();
      }}
    >
      <NameFields
        id="limits"
        none="any"
        entity={entity}
        onEntity={setEntity}
        resource={resource}
        onResource={setResource}
        resources={names.value}
      />
      <button type="submit" class="button" data-testid="limits-show">
        Show
      </button>
    </form>
  );
}

function Source({
  value,
  entityId,
  resource,
}: {
  readonly value: LimitsView;
  readonly entityId: string;
  readonly resource: string;
}) {
  const whom = entityId === "" ? "anybody" : entityId;
  const what = resource === "" ? "any resource" : resource;
  return (
    <div class="source" data-testid="limits-source" data-source={value.source}>
      <p>
        For <b class="mono wrap">{whom}</b> on <b class="wrap">{what}</b>{" "}
        {value.source === "none" ? (
          "no limits are in force."
        ) : (
          <>
            the limits come from <b>{sourceWords(value.source)}</b>.
          </>
        )}
      </p>
      <ol class="levels" aria-label="Levels, the first with limits wins">
        {LEVELS.map((level) => {
          const count = value.stored[level]?.limits.length ?? 0;
          const isHere = level === value.source;
          return (
            <li key={level} data-active={isHere ? "true" : undefined}>
              <span>{LEVEL_NAMES[level]}</span>
              <small>
                {queryOf(level, entityId, resource) === undefined
                  ? "not chosen"
                  : count === 0
                    ? "none"
                    : plural(count, "limit")}
                {isHere ? ", in force" : ""}
              </small>
            </li>
          );
        })}
      </ol>
    </div>
  );
}

function Editor(props: {
  readonly value: LimitsView;
  readonly level: Level;
  readonly entityId: string;
  readonly resource: string;
  readonly setLevel: (level: Level) => void;
  readonly isDirty: { current: boolean };
  readonly isSaving: { current: boolean };
  /** What was done last. */
  readonly saved: string;
  readonly onDone: (what: string) => Promise<void>;
}) {
  const { value, level, entityId, resource, setLevel, isDirty, isSaving, saved, onDone } = props;
  const session = useSession();
  const { api, path, can } = session;
  const stored = value.stored[level];
  const isStored = stored !== undefined && stored.limits.length > 0;
  const before = useRef((isStored ? stored.limits : value.inForce).map(draftOf));
  const [drafts, setDrafts] = useState<readonly LimitDraft[]>(before.current);
  const [outage, setOutage] = useState<OnUnavailable | "">(stored?.onUnavailable ?? "");
  const [asks, setAsks] = useState<"delete" | "policy">();
  const saving = useAction();
  const query = queryOf(level, entityId, resource) ?? {};
  const old = (draft: LimitDraft) => before.current.find(({ id }) => id === draft.id);
  const kept = drafts.filter(({ isRemoved }) => !isRemoved);
  isDirty.current = drafts.some((draft) => isChanged(old(draft), draft)) || outage !== (stored?.onUnavailable ?? "");

  const save = () =>
    saving.run(async () => {
      isSaving.current = true;
      try {
        const limits = kept.map(limitOf);
        const settings = level === "system" && outage !== "" ? { onUnavailable: outage } : {};
        await api.send("PUT", `${path}/limits`, { ...query }, { limits, ...settings });
        await onDone(`Saved: ${plural(limits.length, "limit")} as ${LEVEL_NAMES[level].toLowerCase()}.`);
      } finally {
        isSaving.current = false;
      }
    });
  const whom = levelWords(level, entityId, resource);
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <div class="editor-head">
        <Field label={can.admin ? "Level to edit" : "Level to look at"}>
          <Select
            testid="limits-level"
            value={level}
            options={LEVELS.toReversed().map((each) => ({
              value: each,
              label: LEVEL_NAMES[each],
              disabled: queryOf(each, entityId, resource) === undefined,
            }))}
            onChange={(next) => setLevel(next as Level)}
          />
        </Field>
        <p class="quiet">
          {isStored
            ? `These hold for ${whom}.`
            : `Nothing is stored for ${whom}${value.inForce.length > 0 ? "; what is in force stands here to begin with" : ""}.`}
        </p>
      </div>
      {drafts.length === 0 && (
        <Empty
          title="No limits here"
          command={curl(session, "PUT", `${path}/limits${searchOf(query)}`, { limits: [EXAMPLE] })}
        >
          {can.admin ? "Add one below, or set one from a shell:" : "Whoever may change limits sets them so:"}
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
            onRemove={() =>
              setDrafts(
                draft.isNew
                  ? drafts.filter(({ id }) => id !== draft.id)
                  : drafts.map((each) => (each.id === draft.id ? { ...each, isRemoved: !each.isRemoved } : each)),
              )
            }
          />
        ))}
      </ul>
      {level === "system" && can.admin && (
        <Field label="While the store does not answer" class="narrow">
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
          {level !== "system" && (
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
            onClick={() => setAsks("delete")}
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
      {asks === "delete" && (
        <Confirm
          title="Delete these limits?"
          submit="Delete"
          act={async () => {
            await api.send("DELETE", `${path}/limits`, { ...query });
            await onDone(`Deleted: ${LEVEL_NAMES[level].toLowerCase()}.`);
          }}
          onClose={() => setAsks(undefined)}
        >
          <p>
            <b class="wrap">{stored?.limits.map(({ name }) => name).join(", ")}</b> of {whom} will be gone. From then on
            the next level with limits counts.
          </p>
        </Confirm>
      )}
      {asks === "policy" && (
        <PolicyDialog
          entityId={level === "resource" ? undefined : entityId}
          resource={level === "entityDefault" ? undefined : resource}
          onDone={() => onDone("Saved: access and cascade.")}
          onClose={() => setAsks(undefined)}
        />
      )}
    </form>
  );
}

function levelWords(level: Level, entityId: string, resource: string): string {
  if (level === "system") return "everybody on every resource";
  if (level === "resource") return `everybody on ${resource}`;
  return level === "entityDefault" ? `${entityId} on every resource` : `${entityId} on ${resource}`;
}

const EXAMPLE = { name: "rpm", capacity: 100, refillAmount: 100, refillPeriodMs: 60_000 };

function searchOf(query: LevelQuery): string {
  const search = new URLSearchParams(Object.entries(query)).toString();
  return search === "" ? "" : `?${search}`;
}
