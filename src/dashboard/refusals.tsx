import { useEffect, useState } from "preact/hooks";
import { keepAddress } from "./address.ts";
import { curl } from "./curl.ts";
import type { Refusal } from "./live.ts";
import { useObserved } from "./observable.ts";
import { Empty, ErrorNote, Field, PageHead, Select, useEvery, useSettled } from "./parts.tsx";
import { RefusalCells } from "./refusal-cells.tsx";
import { refusalSums } from "./refusal-sums.ts";
import { RefusalTable } from "./refusal-table.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { RefusalCount, UsageWindow } from "./shapes.ts";
import { plural, stampWords, TOTALS, timeWords, tokensWords, waitWords, whole } from "./words.ts";

const SHOWN_MAX = 100;
const REREAD_MS = 15_000;
/** Of one question; more would not be looked at. */
const COUNTS_MAX = 10_000;
const HOUR_MS = 3_600_000;

const RANGES: readonly { readonly hours: number; readonly label: string; readonly window: UsageWindow }[] = [
  { hours: 1, label: "Last 2 hours", window: "hourly" },
  { hours: 24, label: "Last 24 hours", window: "hourly" },
  { hours: 7 * 24, label: "Last 7 days", window: "daily" },
  { hours: 30 * 24, label: "Last 30 days", window: "daily" },
];

/** Who was refused, by which limit: as it happens, and how many on the whole store. */
export function RefusalsPage({ params }: { readonly params: Readonly<Record<string, string>> }) {
  const session = useSession();
  const { live, api, path } = session;
  const all = useObserved(live.refusals);
  const count = useObserved(live.refusalCount);
  // While paused: the list as it was, and how many there were.
  const [paused, setPaused] = useState<{ readonly list: readonly Refusal[]; readonly count: number }>();
  const [hours, setHours] = useState(RANGES.find((range) => String(range.hours) === params.hours)?.hours ?? 24);
  useEffect(() => keepAddress("refusals", { hours: hours === 24 ? "" : String(hours) }), [hours]);
  // A storm of refusals is asked about once a second, not once each.
  const heard = useSettled(count, 1_000);
  const { value, error, reload } = useLoaded(
    async () => {
      const { window = "hourly" } = RANGES.find((range) => range.hours === hours) ?? {};
      const query = { window, fromMs: Date.now() - hours * HOUR_MS };
      const { items, more } = await api.all<RefusalCount>(`${path}/refusals`, query, COUNTS_MAX);
      return { ...refusalSums(items), more };
    },
    [hours, heard],
    "main",
  );
  useEvery(REREAD_MS, () => void reload());
  const [shownMax, setShownMax] = useState(SHOWN_MAX);
  const list = paused?.list ?? all;
  const waiting = paused === undefined ? 0 : count - paused.count;
  return (
    <>
      <PageHead
        title="Refusals"
        note={count === 0 ? "Refused requests." : `${plural(count, "refusal")} since this page was opened`}
      >
        <button
          type="button"
          class="button"
          data-testid="refusal-pause"
          aria-pressed={paused !== undefined}
          onClick={() => setPaused(paused === undefined ? { list: all, count } : undefined)}
        >
          {paused === undefined ? "Pause" : waiting > 0 ? `Resume (${whole(waiting)} waiting)` : "Resume"}
        </button>
      </PageHead>
      <ErrorNote error={error} />
      {list.length === 0 && value?.all === 0 && (
        <Empty
          title={paused === undefined ? "No refusals" : "Paused"}
          command={curl(session, "POST", `${session.path}/acquire`, {
            entityId: "key-1",
            resource: "gpt-4",
            consume: { rpm: 100 },
            holdMs: 0,
          })}
        >
          No request was refused in this time. Refusals of this service appear at once, those of other processes after
          they are stored. To see one, acquire everything twice:
        </Empty>
      )}
      {list.length > 0 && (
        <table class="cards refusals">
          <caption class="unseen">Refusals, newest first</caption>
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col">Who</th>
              <th scope="col">On</th>
              <th scope="col">Refused by</th>
              <th scope="col" class="number">
                Asked
              </th>
              <th scope="col" class="number">
                Left
              </th>
              <th scope="col" class="number">
                Wait
              </th>
            </tr>
          </thead>
          <tbody>
            {list.slice(0, shownMax).map((refusal) => (
              <RefusalRow key={refusal.number} refusal={refusal} />
            ))}
          </tbody>
        </table>
      )}
      {list.length > shownMax && (
        <button type="button" class="button" onClick={() => setShownMax(shownMax + SHOWN_MAX)}>
          Show older
        </button>
      )}
      <div class="page-head further">
        <h2 data-testid="refusal-total">
          {value === undefined ? "All processes" : `${plural(value.all, "refusal")} on this store`}
        </h2>
        <div class="page-actions">
          <Field label="Time range">
            <Select
              testid="refusal-range"
              value={String(hours)}
              options={RANGES.map((range) => ({ value: String(range.hours), label: range.label }))}
              onChange={(next) => setHours(Number(next))}
            />
          </Field>
        </div>
      </div>
      {value !== undefined && value.all > 0 && (
        <>
          {value.more && (
            <p class="note">Only the first {whole(COUNTS_MAX)} counts were read; choose a shorter range.</p>
          )}
          <RefusalTable key={hours} sums={value.sums} />
        </>
      )}
    </>
  );
}

function RefusalRow({ refusal }: { readonly refusal: Refusal }) {
  const { atMs, entityId, resource, primary, others, retryAfterMs } = refusal;
  return (
    <tr
      data-testid="refusal-row"
      data-entity={entityId}
      data-resource={resource}
      data-limit={primary.limit}
      data-level-entity={primary.entityId}
    >
      <td data-label="When" class="quiet nowrap">
        <time dateTime={new Date(atMs).toISOString()} title={stampWords(atMs)}>
          {timeWords(atMs)}
        </time>
      </td>
      <RefusalCells
        {...{ entityId, resource, others, limit: primary.limit, level: primary.entityId }}
        total={primary.resource === TOTALS}
      />
      <td data-label="Asked" class="number">
        {tokensWords(primary.limit, primary.requested)}
      </td>
      <td data-label="Left" class={primary.available < 0 ? "number bad-text" : "number"}>
        {tokensWords(primary.limit, primary.available)}
      </td>
      <td data-label="Wait" class="number nowrap">
        {waitWords(retryAfterMs)}
      </td>
    </tr>
  );
}
