import { useEffect, useRef, useState } from "preact/hooks";
import { depthOf, type Kin } from "../domain/charge/own-usage.ts";
import { keepAddress } from "./address.ts";
import { curl } from "./curl.ts";
import { NameFields } from "./name-fields.tsx";
import { Empty, ErrorNote, Field, Name, PageHead, Select, useEvery, useSettled } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { UsageSnapshot, UsageWindow } from "./shapes.ts";
import { SERIES_MAX, UsageChart } from "./usage-chart.tsx";
import { UsageExport } from "./usage-export.tsx";
import { type Counted, countedUsage, totalsOf } from "./usage-levels.ts";
import { KeysMissing, kinOf, loadUsage, SNAPSHOTS_MAX, type UsageQuestion } from "./usage-load.tsx";
import { RANGES, rangeIn, rangeOf, USAGE_WINDOWS } from "./usage-ranges.ts";
import { metricsOf, REQUESTS, seriesOf, trimmed } from "./usage-series.ts";
import { UsageTable } from "./usage-table.tsx";
import { plural, tokensWords, whole } from "./words.ts";

const REREAD_MS = 15_000;
const WINDOWS_MIN = 12;

/** What was used, in a picture and in numbers. */
export function UsagePage({ params }: { readonly params: Readonly<Record<string, string>> }) {
  const session = useSession();
  const { api, path, live, namespace } = session;
  const asked = rangeOf(params.window, params.range);
  const [span, setSpan] = useState<UsageWindow>(asked.span);
  const [rangeName, setRangeName] = useState(asked.range.name);
  const [entity, setEntity] = useState(params.entity ?? "");
  const [resource, setResource] = useState(params.resource ?? "");
  const [split, setSplit] = useState(params.split ?? "");
  const [metric, setMetric] = useState<string>();
  const [entityId, resourceId] = [useSettled(entity.trim(), 300), useSettled(resource.trim(), 300)];
  const range = rangeIn(span, rangeName);
  useEffect(() => {
    const isFirst = span === "hourly" && range === RANGES.hourly[0];
    const time = isFirst ? {} : { window: span, range: range.name };
    keepAddress("usage", { entity: entityId, resource: resourceId, ...time, split });
  }, [span, range, entityId, resourceId, split]);

  // Who stands below whom changes seldom, and is read again when it does.
  const kin = useRef<Promise<Kin> | undefined>(undefined);
  useEffect(
    () =>
      live.changes.subscribe(({ action }) => {
        if (action.startsWith("entity_")) kin.current = undefined;
      }),
    [live],
  );
  const { value, error, reload } = useLoaded(
    async () => {
      const { starts, toMs } = range.of(Date.now());
      kin.current ??= kinOf(api, path);
      const reading = kin.current.catch((thrown: unknown) => {
        // What could not be read is asked for again.
        kin.current = undefined;
        throw thrown;
      });
      const question: UsageQuestion = { window: span, entityId, resource: resourceId, fromMs: starts[0], toMs };
      return { starts, ...(await loadUsage(api, path, question, await reading, split === "keys")) };
    },
    [span, rangeName, entityId, resourceId, split === "keys" ? split : ""],
    "main",
  );
  useEvery(REREAD_MS, () => void reload());
  const names = useLoaded(
    async () => (await api.get<{ items: readonly string[] }>(`${path}/resources`)).items,
    [],
    "beside",
  );

  const all = value?.items ?? [];
  const counted = countedOf(split, value?.isOfOne ?? entityId !== "");
  const items = countedUsage(all, value?.kin ?? new Map(), counted);
  const metrics = metricsOf(items);
  // Tokens say more than requests; the chosen one stays while it is there.
  const drawn = metrics.find((name) => name === metric) ?? metrics[1] ?? REQUESTS;
  const starts = trimmed(value?.starts ?? [], items, WINDOWS_MIN);
  const { series, left } = seriesOf(items, drawn, starts, SERIES_MAX);
  const file = ["usage", namespace, entityId, resourceId, span, range.name].filter((part) => part !== "").join("-");
  return (
    <>
      <PageHead title="Usage" note="Net tokens and granted requests, by window (UTC).">
        {items.length > 0 && <UsageExport items={items} name={file.replaceAll(/[^\w.@-]+/g, "_")} />}
      </PageHead>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <Field label="Window">
          <Select
            testid="usage-window"
            value={span}
            options={USAGE_WINDOWS.map((each) => ({ value: each, label: each }))}
            onChange={(next) => {
              setSpan(next as UsageWindow);
              setRangeName(rangeIn(next as UsageWindow, undefined).name);
            }}
          />
        </Field>
        <Field label="Range">
          <Select
            testid="usage-range"
            value={range.name}
            options={RANGES[span].map(({ name, label }) => ({ value: name, label }))}
            onChange={setRangeName}
          />
        </Field>
        <NameFields
          id="usage"
          none="all"
          entity={entity}
          onEntity={setEntity}
          resource={resource}
          onResource={setResource}
          resources={names.value}
        />
        <Field label="Counted">
          <Select
            testid="usage-split"
            value={entityId === "" ? counted : split === "keys" ? "keys" : ""}
            options={entityId === "" ? levelOptions(all, value?.kin ?? new Map()) : KEY_OPTIONS}
            onChange={(next) => setSplit(next === "once" ? "" : next)}
          />
        </Field>
        {metrics.length > 1 && (
          <Field label="Drawn">
            <Select
              testid="usage-metric"
              value={drawn}
              options={metrics.map((name) => ({ value: name, label: name }))}
              onChange={setMetric}
            />
          </Field>
        )}
      </form>
      <ErrorNote error={error} />
      {value !== undefined && items.length === 0 && (
        <Empty title="No usage in this time" command={curl(session, "GET", `${path}/usage?window=${span}`, undefined)}>
          {entityId === "" && resourceId === ""
            ? "Usage appears after the first granted request; where totals alone count, under the resource *. The same from a program:"
            : "No usage of this entity and resource. Usage of totals is under the resource *. Remove the filter, choose a longer range, or request everything:"}
        </Empty>
      )}
      {value !== undefined && items.length > 0 && (
        <>
          <Totals items={items} names={metrics} />
          <p class="filter-note" data-testid="usage-note">
            {noteOf(counted, entityId, split)}
          </p>
          <KeysMissing count={value.unread} />
          <UsageChart {...{ window: span, metric: drawn, starts, series }} />
          {left > 0 && (
            <p class="filter-note">
              The {SERIES_MAX} largest are drawn; {plural(left, "other")} {left === 1 ? "is" : "are"} in the table.
            </p>
          )}
          {value.more && (
            <p class="note">
              Only the first {whole(SNAPSHOTS_MAX)} windows were read and summed; filter by entity or resource to see
              the rest.
            </p>
          )}
          <UsageTable key={`${span} ${entityId} ${resourceId} ${split}`} items={items} metrics={metrics} span={span} />
        </>
      )}
    </>
  );
}

const KEY_OPTIONS = [
  { value: "", label: "Everything together" },
  { value: "keys", label: "By caller" },
];

function countedOf(split: string, isOfOne: boolean): Counted {
  // Of one entity there is one level.
  if (isOfOne) return "all";
  return split === "all" || /^level-\d+$/.test(split) ? (split as Counted) : "once";
}

function levelOptions(items: readonly UsageSnapshot[], kin: Kin) {
  const deepest = items.reduce((most, { entityId }) => Math.max(most, depthOf(entityId, kin)), 0);
  return [
    { value: "once", label: "Each request once" },
    ...Array.from({ length: deepest + 1 }, (_, depth) => ({
      value: `level-${depth}`,
      label: depth === 0 ? "Top level" : `Level ${depth + 1}`,
    })),
    { value: "all", label: "Every level" },
  ];
}

function noteOf(counted: Counted, entityId: string, split: string): string {
  if (entityId !== "" && split === "keys") return `Requests of ${entityId} and its children, each counted once.`;
  if (entityId !== "") return `Everything charged to ${entityId}, including requests of its children.`;
  if (counted === "once") return "Each request counted once, at the entity that made it.";
  if (counted === "all") return "A request that is also charged to a parent counts for both.";
  return "Everything charged to the entities of this level.";
}

function Totals({ items, names }: { readonly items: readonly UsageSnapshot[]; readonly names: readonly string[] }) {
  const { requests, tokens } = totalsOf(items);
  return (
    <dl class="totals" data-testid="usage-totals">
      {names.map((name) => (
        <div key={name}>
          <dt>
            <Name text={name} />
          </dt>
          <dd>{name === REQUESTS ? whole(requests) : tokensWords(name, tokens.get(name) ?? 0)}</dd>
        </div>
      ))}
    </dl>
  );
}
