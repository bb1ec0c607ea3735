import { useState } from "preact/hooks";
import { curl } from "./curl.ts";
import { NameFields } from "./name-fields.tsx";
import { Empty, ErrorNote, Field, Name, PageHead, Select, useEvery, useSettled } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { UsageSnapshot, UsageSummary, UsageWindow } from "./shapes.ts";
import { SERIES_MAX, UsageChart } from "./usage-chart.tsx";
import { metricsOf, REQUESTS, seriesOf, trimmed, windowStarts } from "./usage-series.ts";
import { UsageTable } from "./usage-table.tsx";
import { plural, whole } from "./words.ts";

const REREAD_MS = 15_000;
/** Of one question; more would not be looked at. */
const SNAPSHOTS_MAX = 5_000;
const WINDOWS_MIN = 12;

const RANGES: Readonly<Record<UsageWindow, readonly { readonly count: number; readonly label: string }[]>> = {
  hourly: [
    { count: 24, label: "Last 24 hours" },
    { count: 72, label: "Last 3 days" },
    { count: 168, label: "Last 7 days" },
  ],
  daily: [
    { count: 30, label: "Last 30 days" },
    { count: 90, label: "Last 90 days" },
    { count: 365, label: "Last year" },
  ],
  monthly: [
    { count: 12, label: "Last 12 months" },
    { count: 24, label: "Last 2 years" },
  ],
};

/** What was used, in a picture and in numbers. */
export function UsagePage({ params }: { readonly params: Readonly<Record<string, string>> }) {
  const session = useSession();
  const { api, path } = session;
  const [span, setSpan] = useState<UsageWindow>("hourly");
  const [count, setCount] = useState(24);
  const [entity, setEntity] = useState(params.entity ?? "");
  const [resource, setResource] = useState(params.resource ?? "");
  const [metric, setMetric] = useState<string>();
  const [entityId, resourceId] = [useSettled(entity.trim(), 300), useSettled(resource.trim(), 300)];
  const { value, error, reload } = useLoaded(
    async () => {
      const starts = windowStarts(span, count, Date.now());
      const query = { window: span, entityId, resource: resourceId, fromMs: starts[0] };
      const [{ items, more }, summary] = await Promise.all([
        api.all<UsageSnapshot>(`${path}/usage`, query, SNAPSHOTS_MAX),
        api.get<UsageSummary>(`${path}/usage/summary`, query),
      ]);
      return { starts, items, more, summary };
    },
    [span, count, entityId, resourceId],
    "main",
  );
  useEvery(REREAD_MS, () => void reload());
  const names = useLoaded(
    async () => (await api.get<{ items: readonly string[] }>(`${path}/resources`)).items,
    [],
    "beside",
  );

  const metrics = metricsOf(value?.items ?? []);
  // Tokens say more than requests; the chosen one stays while it is there.
  const drawn = metrics.find((name) => name === metric) ?? metrics[1] ?? REQUESTS;
  const starts = trimmed(value?.starts ?? [], value?.items ?? [], WINDOWS_MIN);
  const { series, left } = seriesOf(value?.items ?? [], drawn, starts, SERIES_MAX);
  return (
    <>
      <PageHead title="Usage" note="Net tokens and granted requests, in windows of UTC." />
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <Field label="Window">
          <Select
            testid="usage-window"
            value={span}
            options={(["hourly", "daily", "monthly"] as const).map((each) => ({ value: each, label: each }))}
            onChange={(next) => {
              setSpan(next as UsageWindow);
              setCount(RANGES[next as UsageWindow][0]?.count ?? 24);
            }}
          />
        </Field>
        <Field label="Range">
          <Select
            testid="usage-range"
            value={String(count)}
            options={RANGES[span].map(({ count: each, label }) => ({ value: String(each), label }))}
            onChange={(next) => setCount(Number(next))}
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
      {value !== undefined && value.items.length === 0 && (
        <Empty
          title="Nothing was used in this time"
          command={curl(session, "GET", `${path}/usage?window=${span}`, undefined)}
        >
          {entityId === "" && resourceId === ""
            ? "Usage is counted from the first grant on; it is here as soon as somebody takes. The same for a program:"
            : "Nothing of this entity and resource. Take the filter away, choose a longer range, or ask for everything:"}
        </Empty>
      )}
      {value !== undefined && value.items.length > 0 && (
        <>
          <Totals summary={value.summary} names={metrics} />
          {entityId === "" && <p class="filter-note">What is charged to a parent as well counts for both.</p>}
          <UsageChart {...{ window: span, metric: drawn, starts, series }} />
          {left > 0 && (
            <p class="filter-note">
              The {SERIES_MAX} largest are drawn; {plural(left, "other")} {left === 1 ? "stands" : "stand"} in the
              table.
            </p>
          )}
          {value.more && (
            <p class="note">
              Only the first {whole(SNAPSHOTS_MAX)} windows were read; filter by entity or resource for the rest.
            </p>
          )}
          <UsageTable key={`${span} ${entityId} ${resourceId}`} items={value.items} metrics={metrics} span={span} />
        </>
      )}
    </>
  );
}

function Totals({ summary, names }: { readonly summary: UsageSummary; readonly names: readonly string[] }) {
  const totals = names.map(
    (name) => [name, name === REQUESTS ? summary.requests : (summary.total[name] ?? 0)] as const,
  );
  return (
    <dl class="totals" data-testid="usage-totals">
      {totals.map(([name, amount]) => (
        <div key={name}>
          <dt>
            <Name text={name} />
          </dt>
          <dd>{whole(amount)}</dd>
        </div>
      ))}
    </dl>
  );
}
