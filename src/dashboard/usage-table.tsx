import { useState } from "preact/hooks";
import { Link, Name, Pager } from "./parts.tsx";
import type { UsageSnapshot, UsageWindow } from "./shapes.ts";
import { amountOf, REQUESTS } from "./usage-series.ts";
import { tokensWords } from "./words.ts";

const ROWS_MAX = 100;

/** The numbers of the chart, newest first. */
export function UsageTable(props: {
  readonly items: readonly UsageSnapshot[];
  readonly metrics: readonly string[];
  readonly span: UsageWindow;
}) {
  const { items, metrics, span } = props;
  const [page, setPage] = useState(0);
  const sorted = items.toSorted(
    (a, b) =>
      b.windowStartMs - a.windowStartMs || a.entityId.localeCompare(b.entityId) || a.resource.localeCompare(b.resource),
  );
  const rows = sorted.slice(page * ROWS_MAX, (page + 1) * ROWS_MAX);
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard. */}
      <section class="scroll" aria-label="Usage in numbers" tabIndex={0}>
        <table class="cards" data-testid="usage-table">
          <caption class="unseen">Usage by window, entity and resource, newest first</caption>
          <thead>
            <tr>
              <th scope="col">Window (UTC)</th>
              <th scope="col">Entity</th>
              <th scope="col">Resource</th>
              {metrics.map((name) => (
                <th scope="col" class="number" key={name}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((snapshot) => (
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
                  <Name text={snapshot.resource} />
                </td>
                {metrics.map((name) => (
                  <td class={has(snapshot, name) ? "number" : "number none"} data-label={name} key={name}>
                    {has(snapshot, name) ? tokensWords(name, amountOf(snapshot, name)) : <span class="quiet">–</span>}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <Pager
        {...{ page, count: rows.length, what: "rows", hasNext: (page + 1) * ROWS_MAX < sorted.length, onPage: setPage }}
      />
    </>
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
