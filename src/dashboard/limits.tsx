import { useRef, useState } from "preact/hooks";
import { type Theirs, theirsAt } from "./limits-conflict.tsx";
import { LimitsEditor } from "./limits-editor.tsx";
import { StoredForAll, StoredForEntity } from "./limits-stored.tsx";
import { NameFields, useNames } from "./name-fields.tsx";
import { Button, ErrorNote, Field, Form, Link, PageHead, Select } from "./parts.tsx";
import { hrefOf, type PageProps } from "./route.ts";
import { useAt, useChanges, useLoaded, useSession } from "./session.tsx";
import type { Level, Plan } from "./shapes.ts";
import {
  type InForce,
  LIMIT_LEVELS,
  type LimitsView,
  loadLimits,
  type Named,
  queryOf,
  TOTAL_LEVELS,
} from "./stored-limits.ts";
import { LEVEL_NAMES, plural, sourceWords, untilWords } from "./words.ts";

/** The levels of limits and totals, which of them are in force, and a form that changes one. */
export function LimitsPage({ params }: PageProps) {
  const { api, path } = useSession();
  const { entity: entityId = "", resource = "", plan: planId = "" } = params;
  const { value, error, reload } = useLoaded(
    (signal) => loadLimits(api, path, { entityId, resource, planId }, signal),
    [entityId, resource, planId],
    "main",
  );
  const [level, setLevel] = useState<Level>();
  const [saved, setSaved] = useState("");
  // The level as another user stored it meanwhile, if this user is editing it.
  const [theirs, setTheirs] = useState<Theirs>();
  const isDirty = useRef(false);
  const isSaving = useRef(false);
  useChanges(/limits|totals|access|cascade|entity_updated/, () => {
    if (isSaving.current) return;
    if (isDirty.current) void look();
    else void reload();
  });
  const asked = params.level as Level | undefined;
  const isAsked = asked !== undefined && value !== undefined && queryOf(asked, value.names) !== undefined;
  const edited = level ?? (isAsked ? asked : value?.level);
  const stored = edited === undefined ? undefined : value?.stored[edited];
  const isChosen = entityId !== "" || resource !== "" || planId !== "" || level !== undefined || isAsked;
  const isNothing = !isChosen && (stored?.limits.length ?? 0) === 0;
  const ends = Object.values(value?.stored ?? {}).flatMap(({ untilMs = [] }) => untilMs);
  useAt(ends.length === 0 ? undefined : Math.min(...ends), () => void (isDirty.current ? look() : reload()));
  const look = async () => {
    if (value === undefined || edited === undefined) return;
    const found = await theirsAt(api, path, edited, value.names);
    // Another level may have changed, or this page itself may have made the change.
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
              onConflict={look}
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

/** Opens the form for the system defaults, which the page does not show while there are none. */
function SetForAll({ onSet }: { readonly onSet: () => void }) {
  const { can } = useSession();
  if (!can.admin) return null;
  return (
    <Button testid="limits-begin" onClick={onSet}>
      Set the system-wide default limits
    </Button>
  );
}

function Chooser({ names }: { readonly names: Named }) {
  const { api, path } = useSession();
  const typed = useNames(names.entityId, names.resource);
  const [entity, resource] = [typed.entity.trim(), typed.resource.trim()];
  const [plan, setPlan] = useState<string>();
  const known = useLoaded(async () => (await api.all<Plan>(`${path}/plans`, {}, 1_000)).items, [], "beside");
  const plans = (known.value ?? []).map(({ id }) => id);
  // The plan of an entity is its own; without an entity any can be chosen.
  const hasEntity = entity !== "";
  const planId = hasEntity ? (entity === names.entityId ? names.planId : "") : (plan ?? names.planId);
  const show = () => {
    location.hash = hrefOf("limits", { entity, resource, plan: hasEntity ? "" : planId });
  };
  const isNothing = names.entityId === "" && names.resource === "" && names.planId === "";
  return (
    <>
      <Form class="filters" onSubmit={show}>
        <NameFields id="limits" none="any" names={typed} />
        {(plans.length > 0 || planId !== "") && (
          <Field label="Plan">
            <Select
              testid="limits-plan"
              value={planId}
              disabled={hasEntity}
              options={[
                { value: "", label: hasEntity ? "none" : "any" },
                ...[...new Set([...plans, planId])].filter((id) => id !== ""),
              ]}
              onChange={setPlan}
            />
          </Field>
        )}
        <Button type="submit" testid="limits-show">
          Show
        </Button>
      </Form>
      {isNothing && known.value !== undefined && <StoredForAll plans={plans} />}
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
  // Levels of plans are shown only where a plan is chosen.
  const shown = levels.filter((level) => names.planId !== "" || !/^plan/.test(level));
  return (
    <ol class="levels" aria-label={label}>
      {shown.map((level) => {
        const { limits = [], inherit, appliesTo, untilMs } = stored[level] ?? {};
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
          ...(untilMs === undefined ? [] : [`until ${untilWords(untilMs, Date.now())}`]),
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
