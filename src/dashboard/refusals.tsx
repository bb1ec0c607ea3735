import { useEffect, useRef, useState } from "preact/hooks";
import { curl } from "./api.ts";
import type { Refusal } from "./live.ts";
import { useObserved } from "./observable.ts";
import { Button, Empty, ErrorNote, Field, Link, Name, PageHead, Select } from "./parts.tsx";
import { type JoinedRefusals, joinedRefusals, type RefusalSum, refusalSums } from "./refusal-sums.ts";
import type { PageProps } from "./route.ts";
import { keepAddress, useEvery, useLoaded, usePages, useSession, useSettled } from "./session.tsx";
import type { BucketName, Listed, LoggedRefusal, RefusalCount, UsageWindow } from "./shapes.ts";
import { BucketCells, CursorPager, PagedTable, Table } from "./table.tsx";
import { plural, stampWords, TOTALS, timeWords, tokensWords, waitWords, whole } from "./words.ts";

const SHOWN_MAX = 100;
const REREAD_MS = 15_000;
const COUNTS_MAX = 10_000;
const HOUR_MS = 3_600_000;

const RANGES: readonly { readonly hours: number; readonly label: string; readonly window: UsageWindow }[] = [
  { hours: 1, label: "Last 2 hours", window: "hourly" },
  { hours: 24, label: "Last 24 hours", window: "hourly" },
  { hours: 7 * 24, label: "Last 7 days", window: "daily" },
  { hours: 30 * 24, label: "Last 30 days", window: "daily" },
];

/** Refusals as they happen, and their sums over the whole store. */
export function RefusalsPage({ params }: PageProps) {
  const session = useSession();
  const { live, api, path } = session;
  const all = useObserved(live.refusals);
  const count = useObserved(live.refusalCount);
  // The list and its count as they were when the list was paused.
  const [paused, setPaused] = useState<{ readonly list: readonly Refusal[]; readonly count: number }>();
  const [hours, setHours] = useState(RANGES.find((range) => String(range.hours) === params.hours)?.hours ?? 24);
  /** The entity whose single refusals are shown. */
  const [logOf, setLogOf] = useState(params.log ?? "");
  useEffect(() => {
    keepAddress("refusals", { hours: hours === 24 ? "" : String(hours), log: logOf });
  }, [hours, logOf]);
  // Many refusals may come at once: the sums are read at most once a second.
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
  const rows = joinedRefusals(list);
  const waiting = paused === undefined ? 0 : count - paused.count;
  return (
    <>
      <PageHead
        title="Refusals"
        note={count === 0 ? "Refused requests." : `${plural(count, "refusal")} since this page was opened`}
      >
        <Button
          testid="refusal-pause"
          aria-pressed={paused !== undefined}
          onClick={() => setPaused(paused === undefined ? { list: all, count } : undefined)}
        >
          {paused === undefined ? "Pause" : waiting > 0 ? `Resume (${whole(waiting)} waiting)` : "Resume"}
        </Button>
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
      <div class="page-head">
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
          <PagedTable
            key={hours}
            label="Sums of refusals"
            testid="refusal-sums"
            caption="Refusals by entity, resource and limit, most refused first"
            columns={["Who", "On", "Refused by", "Refused"]}
            numbers={["Refused"]}
            hasActions={true}
            items={value.sums}
            pageSize={ROWS_MAX}
            row={(sum) => <SumRow key={sum.key} sum={sum} onLog={setLogOf} />}
          />
        </>
      )}
      {logOf !== "" && <RefusalLog key={logOf} entityId={logOf} heard={heard} onClose={() => setLogOf("")} />}
      {list.length > 0 && (
        <>
          <div class="page-head further">
            <h2>As they happen</h2>
          </div>
          <Table
            class="refusals"
            caption="Refusals, newest first; equal ones of one minute are one row"
            columns={["When", "Who", "On", "Refused by", "Asked", "Left", "Wait"]}
            numbers={["Asked", "Left", "Wait"]}
          >
            {rows.slice(0, shownMax).map((row) => (
              <RefusalRow key={row.firstNumber} row={row} />
            ))}
          </Table>
        </>
      )}
      {rows.length > shownMax && <Button onClick={() => setShownMax(shownMax + SHOWN_MAX)}>Show older</Button>}
    </>
  );
}

function RefusalRow({ row: { refusal, count } }: { readonly row: JoinedRefusals<Refusal> }) {
  const { atMs, entityId, resource, primary, others, retryAfterMs } = refusal;
  const by = { entityId, resource, limit: primary.limit, level: primary.entityId };
  return (
    <tr {...attributesOf("refusal-row", by)} data-count={count}>
      <td data-label="When" class="quiet nowrap">
        <time dateTime={new Date(atMs).toISOString()} title={stampWords(atMs)}>
          {timeWords(atMs)}
        </time>
      </td>
      <RefusalCells {...by} {...{ others, count }} total={primary.resource === TOTALS} />
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

const ROWS_MAX = 50;

/** The entity of counts that the store keeps without names, because there were too many. */
const OTHER = "_other_";

function SumRow({ sum, onLog }: { readonly sum: RefusalSum; readonly onLog: (entityId: string) => void }) {
  const { entityId, resource, limit, level, total, count } = sum;
  return (
    <tr {...attributesOf("refusal-sum", sum)}>
      {entityId === OTHER ? (
        <td data-label="Who" class="quiet" colSpan={3}>
          Others, too many to list separately
        </td>
      ) : (
        <RefusalCells {...{ entityId, resource, limit, level, total }} others={0} count={1} />
      )}
      <td data-label="Refused" class="number">
        {whole(count)}
      </td>
      <td class="actions">
        {entityId !== OTHER && (
          <Button
            kind="small"
            testid="refusal-log-open"
            aria-label={`Log of ${entityId}`}
            onClick={() => onLog(entityId)}
          >
            Log
          </Button>
        )}
      </td>
    </tr>
  );
}

const PAGE_SIZE = 50;

/** The single refusals of one entity, newest first. `heard` grows with every refusal that the page hears of. */
function RefusalLog(props: { readonly entityId: string; readonly heard: number; readonly onClose: () => void }) {
  const { entityId, heard, onClose } = props;
  const { api, path } = useSession();
  const pages = usePages();
  const title = useRef<HTMLHeadingElement>(null);
  // It is drawn below a long table: whoever asked for it is taken there.
  useEffect(() => title.current?.focus(), []);
  const { value, error } = useLoaded(
    (signal) => {
      const query = { entityId, pageSize: PAGE_SIZE, cursor: pages.cursor };
      return api.get<Listed<LoggedRefusal>>(`${path}/refusals/log`, query, signal);
    },
    [entityId, pages.page, pages.page === 0 ? heard : 0],
    "beside",
  );
  const items = value?.items ?? [];
  return (
    <section data-testid="refusal-log" data-entity={entityId}>
      <div class="page-head further">
        <h2 ref={title} tabIndex={-1}>
          Log of {entityId}
        </h2>
        <div class="page-actions">
          <Button kind="small" testid="refusal-log-close" onClick={onClose}>
            Close
          </Button>
        </div>
      </div>
      <ErrorNote error={error} />
      <p class="note">
        Of each hour the first 20 and the last 20 refusals of each process, for 48 hours. Other processes write theirs
        from time to time.
      </p>
      {value !== undefined && items.length === 0 && <p class="note">No refusal of it is kept.</p>}
      {items.length > 0 && (
        <Table
          class="refusals"
          caption={`Refusals of ${entityId}, newest first`}
          columns={["When", "Who", "On", "Refused by", "Asked", "Left", "Wait", "Request"]}
          numbers={["Asked", "Left", "Wait"]}
        >
          {items.map((refusal, i) => (
            <LogRow key={`${refusal.atMs} ${i}`} refusal={refusal} />
          ))}
        </Table>
      )}
      {value !== undefined && <CursorPager pages={pages} next={value.cursor} count={items.length} what="refusals" />}
    </section>
  );
}

function LogRow({ refusal }: { readonly refusal: LoggedRefusal }) {
  const { atMs, limit, total, requested, available, capacity, retryAfterMs, waitedMs, requestId } = refusal;
  return (
    <tr {...attributesOf("refusal-log-row", refusal)}>
      <td data-label="When" class="quiet nowrap">
        <time dateTime={new Date(atMs).toISOString()}>{stampWords(atMs)}</time>
      </td>
      <RefusalCells {...refusal} total={total} others={0} count={1} />
      <td data-label="Asked" class="number">
        {tokensWords(limit, requested)}
      </td>
      <td data-label="Left" class={available < 0 ? "number bad-text" : "number"}>
        {tokensWords(limit, available)} of {tokensWords(limit, capacity)}
      </td>
      <td data-label="Wait" class="number nowrap">
        {waitWords(retryAfterMs)}
        {waitedMs !== undefined && <span class="quiet"> after {waitWords(waitedMs)}</span>}
      </td>
      <td data-label="Request">{requestId !== undefined && <Name text={requestId} class="mono" />}</td>
    </tr>
  );
}

/** A limit that refused requests of a bucket. */
interface RefusedBy extends BucketName {
  readonly limit: string;
  /** The entity whose limit it was. */
  readonly level: string;
}

interface RefusalCellsProps extends RefusedBy {
  /** True for a limit over all resources. */
  readonly total: boolean;
  /** The number of other limits that had too little. */
  readonly others: number;
  /** The number of equal refusals that stand in this row. */
  readonly count: number;
}

/** The entity, the resource and the limit that refused, with links to their buckets. */
function RefusalCells({ entityId, resource, limit, level, total, others, count }: RefusalCellsProps) {
  const whose = level === entityId ? "its own" : `of parent ${level}`;
  return (
    <>
      <BucketCells {...{ entityId, resource }} />
      <td data-label="Refused by">
        <span class="in-the-way">
          <Name text={limit} class="strong" />
          <span class={level === entityId ? "tag" : "tag warn"}>
            {level === entityId && !total ? (
              whose
            ) : (
              <Link page="buckets" params={{ filter: `${level} ${total ? TOTALS : resource}`, open: "1" }}>
                {whose}
              </Link>
            )}
          </span>
          {total && <span class="quiet nowrap">over all resources</span>}
          {count > 1 && (
            <b class="nowrap" data-testid="refusal-times">
              {whole(count)} times
            </b>
          )}
          {others > 0 && <span class="quiet nowrap">and {plural(others, "other")}</span>}
        </span>
      </td>
    </>
  );
}

/** The attributes by which tests and styles know a row of refusals. */
function attributesOf(testid: string, { entityId, resource, limit, level }: RefusedBy) {
  return {
    "data-testid": testid,
    "data-entity": entityId,
    "data-resource": resource,
    "data-limit": limit,
    "data-level-entity": level,
  };
}
