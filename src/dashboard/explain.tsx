import { useEffect, useRef, useState } from "preact/hooks";
import { newKey } from "./api.ts";
import type { BucketRow } from "./bucket-rows.ts";
import { ChainLevel, type Reading, readingOf } from "./chain-level.tsx";
import { Confirm } from "./dialog.tsx";
import { keptRefusals, leastRefused } from "./kept-refusals.ts";
import { rateOf } from "./level.ts";
import { lastRefusal } from "./live.ts";
import { useObserved } from "./observable.ts";
import { ErrorNote, Link } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { BucketListing, Explained, LimitExplanation, StatusShown } from "./shapes.ts";
import { useLevel } from "./tick.ts";
import { type ToppedUp, TopUp, TopUpDone } from "./top-up.tsx";
import { type LastRefused, Verdict } from "./verdict.tsx";
import { resourceWords, TOTALS } from "./words.ts";

const REFRESH_MS = 1_000;
/** What was refused in this hour or the last one is asked about again; before that it is only told. */
const RECENT_MS = 7_200_000;
/** The longest time that a timer takes. */
const TIMER_MAX_MS = 2 ** 31 - 1;

export interface ExplainProps {
  readonly row: BucketRow;
  /** A bucket of the page, which may be one of the chain. */
  readonly rowOf: (key: string) => BucketRow | undefined;
  /** What was read of the chain is news to the rows of the page, too. */
  readonly onRead: (buckets: readonly BucketListing[], readAtMs: number) => void;
}

/** An answer, and when it came on the page's clock. */
interface Explanation {
  readonly value: Explained;
  readonly readAtMs: number;
  /** What was asked for where nobody typed anything. */
  readonly amounts: Readonly<Record<string, number>>;
  readonly refused: LastRefused | undefined;
}

/** Why a bucket stands as it does: the whole chain, where each limit came from, and what stands in the way. */
export function ExplainPanel({ row, rowOf, onRead }: ExplainProps) {
  const { api, path, can, live } = useSession();
  const { entityId, resource } = row;
  const [asked, setAsked] = useState<Readonly<Record<string, number>>>({});
  const [doing, setDoing] = useState<"reset" | "topUp">();
  const [done, setDone] = useState<ToppedUp | "reset">();
  const heard = lastRefusal(useObserved(live.refusals), row);
  // They change the amounts once, not while one looks at them.
  const kept = useRef<Promise<KeptQuestion> | undefined>(undefined);
  // What was refused last is what its reader wants explained; where nothing was, one of each.
  const keptQuestion = async (plain: Explained): Promise<KeptQuestion> => {
    const found = await keptRefusals(api, path, { entityId, resource });
    const ones = Object.fromEntries(measuresIn(plain).map((measure) => [measure, 1]));
    if (found === undefined) return { refused: undefined, amounts: ones };
    const isRecent = found.last.lastMs > Date.now() - RECENT_MS;
    const least = isRecent ? leastRefused(found, plain) : undefined;
    return { refused: { by: "kept", kept: found, isLeast: least !== undefined }, amounts: { ...ones, ...least } };
  };
  const { value, error, reload } = useLoaded<Explanation>(
    async () => {
      const question = { entityId, resource };
      const plain = await api.send<Explained>("POST", `${path}/explain`, {}, question);
      kept.current ??= keptQuestion(plain).catch((thrown: unknown) => {
        kept.current = undefined;
        throw thrown;
      });
      const { refused, amounts } =
        heard === undefined
          ? await kept.current
          : { refused: { by: "heard" as const, refusal: heard }, amounts: heardAmounts(plain, heard.asked) };
      const consume = { ...amounts, ...asked };
      const explained =
        Object.keys(consume).length === 0
          ? plain
          : await api.send<Explained>("POST", `${path}/explain`, {}, { ...question, consume });
      const readAtMs = performance.now();
      onRead(listingsIn(explained), readAtMs);
      return { value: explained, readAtMs, amounts: consume, refused };
    },
    [entityId, resource, JSON.stringify([asked, heard?.asked])],
    "beside",
  );
  useRefresh(reload, value?.value, row);
  const reading = (of: string) => (limit: LimitExplanation, on: string) =>
    readingOf(limit, { entityId: of, resource: on }, value?.readAtMs ?? 0, rowOf);
  return (
    <section
      class="explain"
      data-testid="explain"
      aria-label={`Explanation of ${entityId} on ${resourceWords(resource)}`}
    >
      <ErrorNote error={error} />
      {value !== undefined && (
        <>
          <LiveVerdict {...{ explanation: value, reading, asked, setAsked }} />
          <p class="saved" role="status" data-testid="bucket-done">
            {done === "reset" && "Reset: every limit is full again."}
            {done !== undefined && done !== "reset" && (
              <TopUpDone
                {...done}
                limits={ownLimits(value.value)}
                reading={(limit) => reading(entityId)(limit, resource)}
              />
            )}
          </p>
          <ol class="chain">
            {value.value.levels.map((level, i) => (
              <ChainLevel
                key={level.entityId}
                {...{ level, resource, reading: reading(level.entityId) }}
                isParent={i > 0}
                blocking={blockingAt(level.entityId, value.value.primary, resource)}
              />
            ))}
          </ol>
        </>
      )}
      <div class="explain-actions">
        <Link
          page="limits"
          params={resource === TOTALS ? { entity: entityId, level: "entityTotal" } : { entity: entityId, resource }}
          class="button small"
        >
          {can.admin ? "Edit limits" : "Limits"}
        </Link>
        <Link page="usage" params={{ entity: entityId, resource }} class="button small">
          Usage
        </Link>
        {can.admin && (
          <>
            <button type="button" class="button small" data-testid="bucket-top-up" onClick={() => setDoing("topUp")}>
              Top up
            </button>
            <button type="button" class="button small" data-testid="bucket-reset" onClick={() => setDoing("reset")}>
              Reset
            </button>
          </>
        )}
      </div>
      {doing === "reset" && (
        <Confirm
          title="Reset this bucket?"
          submit="Reset"
          act={async () => {
            await api.sendOnce(`${path}/reset`, newKey(), { entityId, resource });
            await reload();
            setDone("reset");
          }}
          onClose={() => setDoing(undefined)}
        >
          <p>
            All limits of <b class="mono wrap">{entityId}</b> on <b class="wrap">{resourceWords(resource)}</b> are full
            again, and debts are cancelled. A calendar quota starts a new period. Slots stay held: what they count still
            runs.
          </p>
        </Confirm>
      )}
      {doing === "topUp" && (
        <TopUp
          row={row}
          onDone={async (toppedUp) => {
            await reload();
            setDone(toppedUp);
          }}
          onClose={() => setDoing(undefined)}
        />
      )}
    </section>
  );
}

interface KeptQuestion {
  readonly refused: LastRefused | undefined;
  readonly amounts: Readonly<Record<string, number>>;
}

/** Asks anew when something of the chain changed, and when what had to be waited for is there. */
function useRefresh(reload: () => Promise<void>, value: Explained | undefined, row: BucketRow): void {
  const { live } = useSession();
  const { entityId, resource } = row;
  const chain = useRef<readonly string[]>([entityId]);
  chain.current = value?.levels.map((level) => level.entityId) ?? [entityId];
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const refresh = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        void reload();
      }, REFRESH_MS);
    };
    const unsubscribes = [
      live.changes.subscribe(refresh),
      live.buckets.subscribe((message) => {
        const isOn = message.resource === resource || message.resource === TOTALS;
        if (isOn && chain.current.includes(message.entityId)) refresh();
      }),
    ];
    return () => {
      for (const unsubscribe of unsubscribes) unsubscribe();
      clearTimeout(timer);
    };
  }, [live, resource, reload]);
  const waitMs = value?.outcome === "refused" ? value.retryAfterMs : null;
  useEffect(() => {
    if (waitMs === null) return;
    const timer = setTimeout(() => void reload(), Math.min(TIMER_MAX_MS, waitMs + REFRESH_MS));
    return () => clearTimeout(timer);
  }, [value, waitMs, reload]);
}

/** The verdict with the same number for the limit in the way as its row has. */
function LiveVerdict(props: {
  readonly explanation: Explanation;
  readonly reading: (entityId: string) => (limit: LimitExplanation, resource: string) => Reading;
  readonly asked: Readonly<Record<string, number>>;
  readonly setAsked: (asked: Readonly<Record<string, number>>) => void;
}) {
  const { explanation, reading, asked, setAsked } = props;
  const { value, readAtMs, amounts, refused } = explanation;
  const { primary, levels, resource } = value;
  const at = levels.find((level) => level.entityId === primary?.entityId);
  const limits = primary?.resource === TOTALS && resource !== TOTALS ? at?.totals : at?.limits;
  const limit = limits?.find((each) => each.limit === primary?.limit);
  const { held, readAtMs: heldAtMs } =
    limit === undefined || primary === undefined
      ? { held: NOTHING, readAtMs }
      : reading(primary.entityId)(limit, primary.resource);
  const level = useLevel(held, rateOf(limit?.definition, held.capacity), heldAtMs);
  return (
    <Verdict
      {...{ value, readAtMs, refused }}
      left={limit === undefined ? undefined : level}
      measures={measuresIn(value)}
      amountOf={(measure) => asked[measure] ?? amounts[measure] ?? 0}
      setAmount={(measure, amount) => setAsked({ ...asked, [measure]: amount })}
    />
  );
}

const NOTHING = { limit: "", counts: "", available: 0, capacity: 0, kind: "drip", soft: false, shadow: false } as const;

/** What a request may be asked for: every measure that a level counts, on the resource or over all of them. */
function measuresIn({ levels }: Explained): readonly string[] {
  return [...new Set(levels.flatMap(({ limits, totals }) => [...limits, ...totals].map(({ counts }) => counts)))];
}

/** Of every measure of the chain; what was not asked for is 0. */
function heardAmounts(value: Explained, asked: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  return Object.fromEntries(measuresIn(value).map((measure) => [measure, asked[measure] ?? 0]));
}

function ownLimits({ levels }: Explained): readonly LimitExplanation[] {
  return levels[0]?.limits ?? [];
}

function blockingAt(entityId: string, primary: StatusShown | undefined, resource: string) {
  if (primary === undefined || primary.entityId !== entityId) return undefined;
  return { limit: primary.limit, isTotal: primary.resource === TOTALS && resource !== TOTALS };
}

/** The buckets that an explanation tells of. */
function listingsIn({ levels, resource }: Explained): BucketListing[] {
  return levels.flatMap(({ entityId, limits, totals }) => [
    { entityId, resource, limits: limits.map(listed) },
    { entityId, resource: TOTALS, limits: totals.map(listed) },
  ]);
}

/** An explained limit as a list of buckets has it: there its percentages stand beside it. */
function listed(limit: LimitExplanation): BucketListing["limits"][number] {
  const { notifyAt } = limit.definition;
  return notifyAt === undefined ? limit : { ...limit, notifyAt };
}
