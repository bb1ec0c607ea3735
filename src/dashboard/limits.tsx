import { useEffect, useRef, useState } from "preact/hooks";
import { type Theirs, theirsAt } from "./limits-conflict.tsx";
import { LimitsEditor } from "./limits-editor.tsx";
import { StoredForAll, StoredForEntity } from "./limits-stored.tsx";
import { type InForce, type LimitsView, loadLimits } from "./limits-view.ts";
import { NameFields } from "./name-fields.tsx";
import { ErrorNote, Field, Link, PageHead, Select } from "./parts.tsx";
import { hrefOf } from "./route.ts";
import { useLoaded, useSession } from "./session.tsx";
import type { Level, Plan } from "./shapes.ts";
import { LIMIT_LEVELS, type Named, queryOf, TOTAL_LEVELS } from "./stored-limits.ts";
import { LEVEL_NAMES, plural, sourceWords } from "./words.ts";

/** Limits at their levels, and totals at theirs: which of them are in force, and any of them to be changed. */
export function LimitsPage({ params }: { readonly params: Readonly<Record<string, string>> }) {
  const { api, path, live } = useSession();
  const { entity: entityId = "", resource = "", plan: planId = "" } = params;
  const { value, error, reload } = useLoaded(
    (signal) => loadLimits(api, path, { entityId, resource, planId }, signal),
    [entityId, resource, planId],
    "main",
  );
  const [level, setLevel] = useState<Level>();
  const [saved, setSaved] = useState("");
  // Somebody else changed limits: taken over at once, unless something is being edited.
  const [theirs, setTheirs] = useState<Theirs>();
  const isDirty = useRef(false);
  const isSaving = useRef(false);
  useEffect(
    () =>
      live.changes.subscribe(({ action }) => {
        if (!/limits|totals|access|cascade|entity_updated/.test(action) || isSaving.current) return;
        if (isDirty.current) void look.current();
        else void reload();
      }),
    [live, reload],
  );
  const asked = params.level as Level | undefined;
  const isAsked = asked !== undefined && value !== undefined && queryOf(asked, value.names) !== undefined;
  const edited = level ?? (isAsked ? asked : value?.level);
  const stored = edited === undefined ? undefined : value?.stored[edited];
  const isChosen = entityId !== "" || resource !== "" || planId !== "" || level !== undefined || isAsked;
  const isNothing = !isChosen && (stored?.limits.length ?? 0) === 0;
  const look = useRef(async () => {});
  look.current = async () => {
    if (value === undefined || edited === undefined) return;
    const found = await theirsAt(api, path, edited, value.names);
    // It may have been another level, or the change may be one's own.
    setTheirs(found.stored?.etag === stored?.etag ? undefined : found);
  };
  return (
    <>
      <PageHead
        title="Limits"
        note="The first level with limits applies; with inherit, less specific levels add theirs."
      />
      <Chooser names={{ entityId, resource, planId: value?.names.planId ?? planId }} />
      <ErrorNote error={error} />
      {value !== undefined && edited !== undefined && (
        <>
          <Source value={value} />
          {isNothing ? (
            <SetForAll onSet={() => setLevel("system")} />
          ) : (
            <LimitsEditor
              key={`${edited} ${value.version}`}
              {...{ value, isDirty, isSaving, saved, theirs }}
              level={edited}
              setLevel={(next) => {
                setSaved("");
                setTheirs(undefined);
                setLevel(next);
              }}
              onConflict={() => look.current()}
              onDiscard={() => {
                isDirty.current = false;
                setTheirs(undefined);
                void reload();
              }}
              onDone={async (what) => {
                setSaved(what);
                setLevel(edited);
                setTheirs(undefined);
                await reload();
              }}
            />
          )}
        </>
      )}
    </>
  );
}

/** Whoever has chosen nothing looks at what is stored; a form for something that is not there is asked for. */
function SetForAll({ onSet }: { readonly onSet: () => void }) {
  const { can } = useSession();
  if (!can.admin) return null;
  return (
    <button type="button" class="button" data-testid="limits-begin" onClick={onSet}>
      Set the system-wide default limits
    </button>
  );
}

function Chooser({ names }: { readonly names: Named }) {
  const { api, path } = useSession();
  const [entity, setEntity] = useState(names.entityId);
  const [resource, setResource] = useState(names.resource);
  const [plan, setPlan] = useState<string>();
  const known = useLoaded(
    async () => {
      const [resources, plans] = await Promise.all([
        api.all<string>(`${path}/resources`, {}, 1_000),
        api.all<Plan>(`${path}/plans`, {}, 1_000),
      ]);
      return { resources: resources.items, plans: plans.items.map(({ id }) => id) };
    },
    [],
    "beside",
  );
  // An entity goes by its own plan; whoever names none may choose.
  const hasEntity = entity.trim() !== "";
  const planId = hasEntity ? (entity.trim() === names.entityId ? names.planId : "") : (plan ?? names.planId);
  const show = () => {
    const params = { entity: entity.trim(), resource: resource.trim(), plan: hasEntity ? "" : planId };
    location.hash = hrefOf("limits", params);
  };
  const plans = known.value?.plans ?? [];
  const isNothing = names.entityId === "" && names.resource === "" && names.planId === "";
  return (
    <>
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
          resources={known.value?.resources}
        />
        {(plans.length > 0 || planId !== "") && (
          <Field label="Plan">
            <Select
              testid="limits-plan"
              value={planId}
              disabled={hasEntity}
              options={[
                { value: "", label: hasEntity ? "none" : "any" },
                ...[...new Set([...plans, planId])].filter((id) => id !== "").map((id) => ({ value: id, label: id })),
              ]}
              onChange={setPlan}
            />
          </Field>
        )}
        <button type="submit" class="button" data-testid="limits-show">
          Show
        </button>
      </form>
      {isNothing && known.value !== undefined && <StoredForAll plans={known.value.plans} />}
      {names.entityId !== "" && names.resource === "" && <StoredForEntity entityId={names.entityId} />}
    </>
  );
}

function Source({ value }: { readonly value: LimitsView }) {
  const { names, limits, totals } = value;
  const whom = names.entityId !== "" ? names.entityId : names.planId !== "" ? `plan ${names.planId}` : "every entity";
  const what = names.resource === "" ? "every resource" : names.resource;
  const words = (inForce: InForce) => inForce.from.map(sourceWords).join(" and ");
  return (
    <div class="source" data-testid="limits-source" data-source={limits.from[0] ?? "none"}>
      <p>
        {limits.from.length === 0 ? "No limits are set for " : "For "}
        <b class="mono wrap">{whom}</b> on <b class="wrap">{what}</b>
        {limits.from.length === 0 ? (
          "."
        ) : (
          <>
            {" "}
            the limits come from <b>{words(limits)}</b>.
          </>
        )}{" "}
        {names.entityId !== "" && names.planId !== "" && (
          <>
            Its plan is{" "}
            <Link page="limits" params={{ plan: names.planId, resource: names.resource }}>
              {names.planId}
            </Link>
            .{" "}
          </>
        )}
        {totals.from.length > 0 && (
          <span data-testid="totals-source" data-source={totals.from[0]}>
            Over all resources: {totals.limits.map(({ name }) => name).join(", ")}, from <b>{words(totals)}</b>.
          </span>
        )}
      </p>
      <LevelList
        value={value}
        levels={LIMIT_LEVELS}
        inForce={limits}
        label="Levels of limits; the first with limits applies"
      />
      <LevelList value={value} levels={TOTAL_LEVELS} inForce={totals} label="Levels of totals over all resources" />
    </div>
  );
}

function LevelList(props: {
  readonly value: LimitsView;
  readonly levels: readonly Level[];
  readonly inForce: InForce;
  readonly label: string;
}) {
  const { value, levels, inForce, label } = props;
  const { stored, names } = value;
  // Plans are not in everybody's way.
  const shown = levels.filter((level) => names.planId !== "" || !/^plan/.test(level));
  return (
    <ol class="levels" aria-label={label}>
      {shown.map((level) => {
        const { limits = [], inherit, appliesTo } = stored[level] ?? {};
        const isHere = inForce.from.includes(level);
        const notes = [
          queryOf(level, names) === undefined
            ? "not chosen"
            : limits.length === 0
              ? "none"
              : plural(limits.length, "limit"),
          ...(isHere ? ["in force"] : []),
          ...(inherit === true ? ["inherits"] : []),
          ...(appliesTo === "callers" ? ["callers only"] : []),
        ];
        return (
          <li key={level} data-level={level} data-active={isHere ? "true" : undefined}>
            <span>{LEVEL_NAMES[level]}</span>
            <small>{notes.join(", ")}</small>
          </li>
        );
      })}
    </ol>
  );
}
