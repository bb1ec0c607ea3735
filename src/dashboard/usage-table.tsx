import { exportedUsage, type UsageFormat } from "../domain/charge/usage-export.ts";
import { Button, Link, Name } from "./parts.tsx";
import type { UsageSnapshot, UsageWindow } from "./shapes.ts";
import { PagedTable } from "./table.tsx";
import { amountOf, REQUESTS, WOULD_REFUSE, wouldRefuseIn } from "./usage-series.ts";
import { resourceWords, tokensWords, whole } from "./words.ts";

const ROWS_MAX = 100;

/** The numbers of the chart, newest first. */
export function UsageTable(props: {
  readonly items: readonly UsageSnapshot[];
  readonly metrics: readonly string[];
  readonly span: UsageWindow;
}) {
  const { items, metrics, span } = props;
  const hasShadows = items.some((item) => wouldRefuseIn(item) > 0);
  const columns = hasShadows ? [...metrics, WOULD_REFUSE] : metrics;
  const sorted = items.toSorted(
    (a, b) =>
      b.windowStartMs - a.windowStartMs || a.entityId.localeCompare(b.entityId) || a.resource.localeCompare(b.resource),
  );
  return (
    <PagedTable
      label="Usage in numbers"
      testid="usage-table"
      caption="Usage by window, entity and resource, newest first"
      columns={["Window (UTC)", "Entity", "Resource", ...columns]}
      numbers={columns}
      items={sorted}
      pageSize={ROWS_MAX}
      row={(snapshot) => (
        <tr
          key={`${snapshot.windowStartMs} ${snapshot.entityId} ${snapshot.resource}`}
          data-testid="usage-row"
          data-entity={snapshot.entityId}
          data-resource={snapshot.resource}
        >
          <td data-label="Window (UTC)" class="nowrap">
            {windowWords(span, snapshot.windowStartMs)}
          </td>
          <td data-label="Entity">
            <Link page="usage" params={{ entity: snapshot.entityId }}>
              <Name text={snapshot.entityId} class="mono" />
            </Link>
          </td>
          <td data-label="Resource">
            <Name text={resourceWords(snapshot.resource)} />
          </td>
          {metrics.map((name) => (
            <td class={has(snapshot, name) ? "number" : "number none"} data-label={name} key={name}>
              {has(snapshot, name) ? tokensWords(name, amountOf(snapshot, name)) : <span class="quiet">–</span>}
            </td>
          ))}
          {hasShadows && (
            <td class={wouldRefuseIn(snapshot) > 0 ? "number" : "number none"} data-label={WOULD_REFUSE}>
              {wouldRefuseIn(snapshot) > 0 ? whole(wouldRefuseIn(snapshot)) : <span class="quiet">–</span>}
            </td>
          )}
        </tr>
      )}
    />
  );
}

function has({ counters }: UsageSnapshot, metric: string): boolean {
  return metric === REQUESTS || Object.hasOwn(counters, metric);
}

function windowWords(span: UsageWindow, ms: number): string {
  const iso = new Date(ms).toISOString();
  if (span === "hourly") return `${iso.slice(0, 10)} ${iso.slice(11, 16)}`;
  return span === "daily" ? iso.slice(0, 10) : iso.slice(0, 7);
}

/** Buttons that save the snapshots as a file. */
export function UsageExport({ items, name }: { readonly items: readonly UsageSnapshot[]; readonly name: string }) {
  const save = async (format: UsageFormat) => {
    const pieces: string[] = [];
    for await (const piece of exportedUsage(each(items), format, undefined)) pieces.push(piece);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(pieces, { type: format === "csv" ? "text/csv" : "application/x-ndjson" }));
    link.download = `${name}.${format}`;
    link.click();
    // Some browsers read the URL only after the click.
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  return (
    <>
      <Button testid="usage-csv" onClick={() => void save("csv")}>
        Export CSV
      </Button>
      <Button testid="usage-ndjson" onClick={() => void save("ndjson")}>
        NDJSON
      </Button>
    </>
  );
}

async function* each(items: readonly UsageSnapshot[]) {
  yield* items.toSorted((a, b) => a.windowStartMs - b.windowStartMs || a.entityId.localeCompare(b.entityId));
}
