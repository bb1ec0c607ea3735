import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Api, ApiError, curl, type Query } from "./api.ts";
import { BucketItem } from "./bucket-item.tsx";
import {
  alsoRead,
  type BucketRow,
  corrected,
  isBetween,
  keyOf,
  matches,
  reread,
  rowOf,
  shortestFirst,
  wordsOf,
} from "./bucket-rows.ts";
import { stateOf } from "./level.ts";
import { useObserved, useTicking } from "./observable.ts";
import { Empty, ErrorNote, Link, LinkButton, PageHead, SearchInput, Select } from "./parts.tsx";
import { Rates } from "./rates.ts";
import type { PageProps } from "./route.ts";
import { keepAddress, useChanges, useEvery, useLoaded, usePages, useSession, useSettled } from "./session.tsx";
import type { BucketListing, BucketMessage, Listed } from "./shapes.ts";
import { Pager } from "./table.tsx";
import { plural, resourceWords, stampWords, timeWords, tokensWords, whole } from "./words.ts";

const SHOWN_MAX = 8;

/** The last thresholds that were reached since the page was opened. */
function Thresholds() {
  const { live } = useSession();
  const reached = useObserved(live.thresholds);
  if (reached.length === 0) return null;
  return (
    <ul class="thresholds" aria-label="Thresholds reached" data-testid="thresholds">
      {reached.slice(0, SHOWN_MAX).map(({ atMs, entityId, resource, limit, percent, used, capacity, resetsAtMs }) => (
        <li
          key={`${atMs} ${entityId} ${resource} ${limit} ${percent}`}
          data-testid="threshold"
          data-limit={limit}
          data-percent={percent}
        >
          <span class="quiet">{timeWords(atMs)}</span>
          <b>
            {percent} % of {limit}
          </b>
          <span>
            {entityId} on {resourceWords(resource)}: {tokensWords(limit, used)} of {tokensWords(limit, capacity)} used
          </span>
          {resetsAtMs !== undefined && <span class="quiet">full again {stampWords(resetsAtMs)}</span>}
        </li>
      ))}
    </ul>
  );
}

/** The page reads again at this interval, because resets and takes of other processes send no event. */
const REREAD_MS = 20_000;
/** The shortest are found by reading all buckets, so they are read less often. */
const SHORTEST_REREAD_MS = 60_000;
const TYPING_MS = 250;

export function BucketsPage({ params }: PageProps) {
  const [filter, setFilter] = useState(params.filter ?? "");
  const settled = useSettled(filter.trim(), TYPING_MS);
  const [byPart, setByPart] = useState(false);
  const { page, cursor, begin, go } = usePages();
  const [order, setOrder] = useState<Order>(params.sort === "shortest" ? "shortest" : "name");
  const list = useBuckets(settled, cursor, byPart, order);
  useEffect(() => {
    const sort = order === "shortest" ? order : "";
    keepAddress("buckets", { filter: settled, sort, open: settled === params.filter ? params.open : "" });
  }, [settled, order]);
  const [version, setVersion] = useState(0);
  const { api, path } = useSession();
  const rates = useMemo(() => new Rates(api, path), [api, path]);
  useChanges(/./, () => {
    rates.forget();
    setVersion((before) => before + 1);
  });
  const changeFilter = (next: string) => {
    setFilter(next);
    setByPart(false);
    begin();
  };
  const { found, rows } = list;
  return (
    <>
      <PageHead
        title="Buckets"
        note={<Summary {...{ rows, rates }} hasMore={found?.cursor !== undefined || page > 0} />}
      >
        <Select
          testid="bucket-order"
          label="Order of the buckets"
          value={order}
          options={[
            { value: "name", label: "By name" },
            { value: "shortest", label: "Least left first" },
          ]}
          onChange={(next) => {
            setOrder(next as Order);
            setByPart(false);
            begin();
          }}
        />
        <SearchInput
          label="Filter by entity or resource"
          testid="bucket-filter"
          placeholder="Filter by entity or resource"
          value={filter}
          onValue={changeFilter}
        />
      </PageHead>
      <ErrorNote error={list.error} />
      <Thresholds />
      {found?.by === "shortest" && (
        <p class="filter-note" role="status">
          {found.items.length < PAGE_SIZE ? "Buckets" : `The ${PAGE_SIZE} buckets`} with the least left, of{" "}
          {found.isCut === true ? "the first " : ""}
          {plural(found.searched, "bucket")} read.
        </p>
      )}
      {found !== undefined && found.by !== "shortest" && settled !== "" && (
        <FilterNote
          found={found}
          filter={settled}
          onPart={() => {
            setByPart(true);
            begin();
          }}
          onFurther={() => go(page + 1, found.cursor)}
        />
      )}
      {list.unseen > 0 && (
        <button type="button" class="note fresh" data-testid="bucket-fresh" onClick={() => void list.reload()}>
          {plural(list.unseen, "new bucket")} on this page. Reload the list
        </button>
      )}
      {rows.length > 0 && (
        <ul class="buckets" aria-label="Buckets" aria-busy={list.isLoading} style={{ "--columns": columnsOf(rows) }}>
          {rows.map((row) => (
            <BucketItem
              key={row.key}
              {...{ row, rates, version }}
              rowOf={(key) => rows.find((each) => each.key === key)}
              onRead={list.alsoRead}
              isOpenAtFirst={params.open === "1" && row.key === params.filter}
            />
          ))}
        </ul>
      )}
      {found !== undefined && rows.length === 0 && <NoBuckets filter={settled} />}
      {found !== undefined && found.by !== "part" && (
        <Pager
          {...{ page, count: rows.length, what: "buckets", hasNext: found.cursor !== undefined }}
          onPage={(next) => {
            go(next, found.cursor);
            window.scrollTo(0, 0);
          }}
        />
      )}
    </>
  );
}

/** The rows of one page of the list, kept up to date by events. */
function useBuckets(filter: string, cursor: string | undefined, byPart: boolean, order: Order) {
  const { api, path, live } = useSession();
  const [rows, setRows] = useState<readonly BucketRow[]>([]);
  // New buckets that belong between the rows.
  const [unseen, setUnseen] = useState<ReadonlySet<string>>(new Set());
  const about = JSON.stringify([filter, cursor, byPart, order]);
  const shownAbout = useRef("");
  const { value, error, isLoading, reload } = useLoaded<Found>(
    async (signal) => {
      const found = await findBuckets(api, path, { filter, cursor, byPart, order }, signal);
      const readAtMs = performance.now();
      // Rows that are sorted by level are sorted again at every reading.
      const isSame = shownAbout.current === about && order === "name";
      shownAbout.current = about;
      setRows((before) =>
        isSame ? reread(before, found.items, readAtMs) : found.items.map((item) => rowOf(item, readAtMs)),
      );
      setUnseen(new Set());
      return found;
    },
    [about],
    "main",
  );
  useEvery(order === "name" ? REREAD_MS : SHORTEST_REREAD_MS, () => void reload());

  const state = useRef({ rows, value, filter, isFirst: cursor === undefined });
  state.current = { rows, value, filter, isFirst: cursor === undefined };
  useEffect(() => {
    const take = (message: BucketMessage) => {
      const { rows: shown, value: found, filter: words, isFirst } = state.current;
      const atMs = performance.now();
      let next = corrected(shown, message, atMs);
      if (next === undefined && found !== undefined && matches(message, words)) {
        // A new row at the end of a list that is not full moves no other row.
        if (found.cursor === undefined && shown.length < PAGE_SIZE) next = [...shown, rowOf(message, atMs)];
        else if (found.by !== "shortest" && isBetween(shown, message, isFirst))
          setUnseen((before) => new Set(before).add(keyOf(message)));
      }
      if (next === undefined) return;
      // The next message may come before this is drawn.
      state.current.rows = next;
      setRows(next);
    };
    return live.buckets.subscribe(take);
  }, [live]);
  const takeOver = (items: readonly BucketListing[], readAtMs: number) => {
    state.current.rows = alsoRead(state.current.rows, items, readAtMs);
    setRows(state.current.rows);
  };
  return { found: value, rows, unseen: unseen.size, error, isLoading, reload, alsoRead: takeOver };
}

/** The largest number of limits of a bucket. */
function columnsOf(rows: readonly BucketRow[]): number {
  return Math.max(1, ...rows.map(({ limits }) => limits.length));
}

function Summary(props: { readonly rows: readonly BucketRow[]; readonly rates: Rates; readonly hasMore: boolean }) {
  const { rows, rates, hasMore } = props;
  // Count the levels that the bars show.
  const text = useTicking((nowMs) => {
    const states = rows.flatMap((row) =>
      row.limits.map((held) => stateOf(rates.levelOf(row, held, nowMs), held.capacity)),
    );
    const count = (state: string) => states.filter((each) => each === state).length;
    const parts = [
      `${plural(rows.length, "bucket")}${hasMore ? " on this page" : ""}`,
      ...(count("empty") > 0 ? [plural(count("empty"), "limit empty", "limits empty")] : []),
      ...(count("debt") > 0 ? [plural(count("debt"), "limit in debt", "limits in debt")] : []),
    ];
    return parts.join(" · ");
  }, rows.length > 0);
  return <>{rows.length === 0 ? "What every entity has left, live." : text}</>;
}

function FilterNote(props: {
  readonly found: Found;
  readonly filter: string;
  readonly onPart: () => void;
  readonly onFurther: () => void;
}) {
  const { found, filter, onPart, onFurther } = props;
  if (found.by === "exact") {
    return (
      <p class="filter-note" role="status">
        Buckets of exactly <b>{filter}</b>. <LinkButton onClick={onPart}>Show all that contain it</LinkButton>
      </p>
    );
  }
  return (
    <p class="filter-note" role="status">
      {whole(found.items.length)} of {plural(found.searched, "bucket")} contain <b>{filter}</b>.{" "}
      {found.cursor !== undefined && <LinkButton onClick={onFurther}>Search the next thousand</LinkButton>}
    </p>
  );
}

function NoBuckets({ filter }: { readonly filter: string }) {
  const session = useSession();
  const { path } = session;
  if (filter !== "") {
    const [entityId = "key-1", resource = "gpt-4"] = wordsOf(filter);
    return (
      <Empty title="No bucket matches" command={curl(session, "POST", `${path}/explain`, { entityId, resource })}>
        A bucket appears after its first request; until then it is full. To see which limits would apply:
      </Empty>
    );
  }
  const request = { entityId: "key-1", resource: "gpt-4", consume: { rpm: 1 }, holdMs: 0 };
  return (
    <Empty title="No buckets yet" command={curl(session, "POST", `${path}/acquire`, request)}>
      A bucket appears here after its first request. Set limits on the page <Link page="limits">Limits</Link>, then run
      your program, or acquire now:
    </Empty>
  );
}

/** The buckets that a filter found, and the way they were found. With a `cursor` there may be more. */
interface Found {
  readonly by: "all" | "exact" | "part" | "shortest";
  readonly items: readonly BucketListing[];
  readonly cursor?: string;
  readonly searched: number;
  /** There are more buckets than can be searched. */
  readonly isCut?: boolean;
}

/** By name, or those first that have the least left of their capacity. */
type Order = "name" | "shortest";

const PAGE_SIZE = 100;
const SCAN_SIZE = 1_000;
/** The shortest are found among this many buckets. */
const SHORTEST_OF = 5_000;

interface Search {
  readonly filter: string;
  readonly cursor: string | undefined;
  /** Search for a part of the names, even if one matches exactly. */
  readonly byPart: boolean;
  readonly order: Order;
}

/**
 * The service finds an entity or a resource by its exact name. Where there is none of that name, buckets are read a thousand
 * at a time and those are kept whose names contain the filter.
 */
async function findBuckets(api: Api, path: string, search: Search, signal: AbortSignal): Promise<Found> {
  const { filter, cursor, byPart } = search;
  const list = (query: Query) => api.get<Listed<BucketListing>>(`${path}/buckets`, query, signal);
  if (search.order === "shortest") return shortest(api, path, filter);
  const words = wordsOf(filter);
  if (words.length === 0) return { by: "all", searched: 0, ...(await list({ limit: PAGE_SIZE, cursor })) };
  if (!byPart) {
    for (const query of exactQueries(words)) {
      const found = await list({ ...query, limit: PAGE_SIZE, cursor }).catch(unlessInvalid);
      if (found !== undefined && found.items.length > 0) return { by: "exact", searched: 0, ...found };
    }
  }
  const { items, cursor: next } = await list({ limit: SCAN_SIZE, cursor });
  const found = items.filter((item) => matches(item, filter));
  return { by: "part", items: found, searched: items.length, ...(next === undefined ? {} : { cursor: next }) };
}

async function shortest(api: Api, path: string, filter: string): Promise<Found> {
  const { items, more } = await api.all<BucketListing>(`${path}/buckets`, {}, SHORTEST_OF);
  const found = shortestFirst(items.filter((item) => matches(item, filter)));
  return { by: "shortest", items: found.slice(0, PAGE_SIZE), searched: items.length, isCut: more };
}

function exactQueries([first, second, ...others]: readonly string[]): Query[] {
  if (others.length > 0) return [];
  return second === undefined ? [{ entityId: first }, { resource: first }] : [{ entityId: first, resource: second }];
}

/** A text that is no valid name matches no bucket exactly. */
function unlessInvalid(error: unknown): undefined {
  if (error instanceof ApiError && (error.status === 400 || error.status === 404)) return undefined;
  throw error;
}
