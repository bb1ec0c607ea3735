import { useEffect, useRef, useState } from "preact/hooks";
import { depthOf, type Kin } from "../domain/charge/own-usage.ts";
import { type Api, curl } from "./api.ts";
import { NameFields, useNames } from "./name-fields.tsx";
import { Empty, ErrorNote, Field, Form, Name, PageHead, Select } from "./parts.tsx";
import type { PageProps } from "./route.ts";
import { keepAddress, useChanges, useEvery, useLoaded, useSession, useSettled } from "./session.tsx";
import type { Entity, UsageSnapshot, UsageWindow } from "./shapes.ts";
import { SERIES_MAX, UsageChart } from "./usage-chart.tsx";
import {
  type Counted,
  chargedTo,
  countedUsage,
  metricsOf,
  RANGES,
  REQUESTS,
  rangeIn,
  rangeOf,
  seriesOf,
  totalsOf,
  trimmed,
  USAGE_WINDOWS,
  WOULD_REFUSE,
  wouldRefuseIn,
} from "./usage-series.ts";
import { UsageExport, UsageTable } from "./usage-table.tsx";
import { plural, TOTALS, tokensWords, whole } from "./words.ts";

const REREAD_MS = 15_000;
const TYPING_MS = 300;
const WINDOWS_MIN = 12;

export function UsagePage({ params }: PageProps) {
  const session = useSession();
  const { api, path, namespace } = session;
  const asked = rangeOf(params.window, params.range);
  const [span, setSpan] = useState<UsageWindow>(asked.span);
  const [rangeName, setRangeName] = useState(asked.range.name);
  const names = useNames(params.entity, params.resource);
  const [split, setSplit] = useState(params.split ?? "");
  const [metric, setMetric] = useState<string>();
  const entityId = useSettled(names.entity.trim(), TYPING_MS);
  const resourceId = useSettled(names.resource.trim(), TYPING_MS);
  const range = rangeIn(span, rangeName);
  useEffect(() => {
    const isFirst = span === "hourly" && range === RANGES.hourly[0];
    const time = isFirst ? {} : { window: span, range: range.name };
    keepAddress("usage", { entity: entityId, resource: resourceId, ...time, split });
  }, [span, range, entityId, resourceId, split]);

  // The hierarchy is read once, and again when it has changed.
  const kin = useRef<Promise<Kin> | undefined>(undefined);
  useChanges(/^entity_/, () => {
    kin.current = undefined;
  });
  const { value, error, reload } = useLoaded(
    async () => {
      const { starts, toMs } = range.of(Date.now());
      kin.current ??= kinOf(api, path);
      const reading = kin.current.catch((thrown: unknown) => {
        // A hierarchy that could not be read is asked for again.
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

  const all = value?.items ?? [];
  const counted = countedOf(split, value?.isOfOne ?? entityId !== "");
  const items = countedUsage(all, value?.kin ?? new Map(), counted);
  const totals = countedUsage(value?.totals ?? [], value?.kin ?? new Map(), counted);
  const shown = [...items, ...totals];
  const metrics = metricsOf(shown);
  // Tokens say more than requests; the chosen one stays while it is there.
  const drawn = metrics.find((name) => name === metric) ?? metrics[1] ?? REQUESTS;
  const starts = trimmed(value?.starts ?? [], shown, WINDOWS_MIN);
  // A total repeats what its resources have: it is drawn only where they have nothing of it.
  const isOfTotals = drawn !== REQUESTS && !items.some(({ counters }) => Object.hasOwn(counters, drawn));
  const { series, left } = seriesOf(isOfTotals ? totals : items, drawn, starts, SERIES_MAX);
  const file = ["usage", namespace, entityId, resourceId, span, range.name].filter((part) => part !== "").join("-");
  return (
    <>
      <PageHead title="Usage" note="Net tokens and granted requests, by window (UTC).">
        {shown.length > 0 && <UsageExport items={shown} name={file.replaceAll(/[^\w.@-]+/g, "_")} />}
      </PageHead>
      <Form class="filters">
        <Field label="Window">
          <Select
            testid="usage-window"
            value={span}
            options={USAGE_WINDOWS}
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
        <NameFields id="usage" none="all" names={names} />
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
            <Select testid="usage-metric" value={drawn} options={metrics} onChange={setMetric} />
          </Field>
        )}
      </Form>
      <ErrorNote error={error} />
      {value !== undefined && shown.length === 0 && (
        <Empty title="No usage in this time" command={curl(session, "GET", `${path}/usage?window=${span}`, undefined)}>
          {entityId === "" && resourceId === ""
            ? "Usage appears after the first granted request. The same from a program:"
            : "No usage of this entity and resource. Remove the filter, choose a longer range, or request everything:"}
        </Empty>
      )}
      {value !== undefined && shown.length > 0 && (
        <>
          <div class="all-totals">
            {items.length > 0 && <Totals items={items} names={metricsOf(items)} testid="usage-totals" />}
            {totals.length > 0 && (
              <Totals
                items={totals}
                names={metricsOf(totals).slice(1)}
                title={items.length > 0 ? "All resources together" : undefined}
                testid={items.length > 0 ? "usage-all-resources" : "usage-totals"}
              />
            )}
          </div>
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
          <UsageTable key={`${span} ${entityId} ${resourceId} ${split}`} items={shown} metrics={metrics} span={span} />
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
  // The usage of one entity is at one level.
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

function Totals(props: {
  readonly items: readonly UsageSnapshot[];
  readonly names: readonly string[];
  readonly title?: string | undefined;
  readonly testid: string;
}) {
  const { items, names, title, testid } = props;
  const { requests, tokens } = totalsOf(items);
  const wouldRefuse = items.reduce((sum, item) => sum + wouldRefuseIn(item), 0);
  return (
    <section data-testid={testid}>
      {title !== undefined && <h2 class="totals-title">{title}</h2>}
      <dl class="totals">
        {names.map((name) => (
          <div key={name}>
            <dt>
              <Name text={name} />
            </dt>
            <dd>{name === REQUESTS ? whole(requests) : tokensWords(name, tokens.get(name) ?? 0)}</dd>
          </div>
        ))}
        {wouldRefuse > 0 && (
          <div>
            <dt>{WOULD_REFUSE}</dt>
            <dd>{whole(wouldRefuse)}</dd>
          </div>
        )}
      </dl>
    </section>
  );
}

const SNAPSHOTS_MAX = 10_000;
const ENTITIES_MAX = 10_000;
/** At most this many children are read, `TOGETHER` at a time. */
const KEYS_MAX = 200;
const TOGETHER = 8;

interface UsageQuestion {
  readonly window: UsageWindow;
  readonly entityId: string;
  readonly resource: string;
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
}

interface UsageRead {
  readonly items: readonly UsageSnapshot[];
  /** The usage of totals over all resources, unless one resource is asked for. */
  readonly totals: readonly UsageSnapshot[];
  readonly more: boolean;
  readonly kin: Kin;
  /** True if all usage is of one entity, so that there is one level. */
  readonly isOfOne: boolean;
  /** The number of children that were not read. */
  readonly unread: number;
}

async function kinOf(api: Api, path: string): Promise<Kin> {
  const { items } = await api.all<Entity>(`${path}/entities`, {}, ENTITIES_MAX);
  return new Map(items.map((entity) => [entity.id, entity]));
}

async function loadUsage(
  api: Api,
  path: string,
  question: UsageQuestion,
  kin: Kin,
  withKeys: boolean,
): Promise<UsageRead> {
  const { entityId } = question;
  const read = (id: string, resource: string) =>
    api.all<UsageSnapshot>(`${path}/usage`, { ...question, entityId: id, resource }, SNAPSHOTS_MAX);
  const below = withKeys && entityId !== "" ? chargedTo(entityId, kin) : [];
  const ids = [entityId, ...below.slice(0, KEYS_MAX)];
  const on = async (resource: string) => {
    const found: Awaited<ReturnType<typeof read>>[] = [];
    for (let i = 0; i < ids.length; i += TOGETHER) {
      found.push(...(await Promise.all(ids.slice(i, i + TOGETHER).map((id) => read(id, resource)))));
    }
    return { items: found.flatMap(({ items }) => items), more: found.some(({ more }) => more) };
  };
  const asked = await on(question.resource);
  const totals = question.resource === "" ? await on(TOTALS) : { items: [], more: false };
  return {
    items: asked.items,
    totals: totals.items,
    more: asked.more || totals.more,
    kin,
    isOfOne: entityId !== "" && below.length === 0,
    unread: Math.max(0, below.length - KEYS_MAX),
  };
}

/** Says that the usage of children that were not read is shown with the parent. */
function KeysMissing({ count }: { readonly count: number }) {
  if (count === 0) return null;
  return (
    <p class="note">
      The first {KEYS_MAX} children were read; usage of the other {plural(count, "entity", "entities")} is shown with
      the parent.
    </p>
  );
}
