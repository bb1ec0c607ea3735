import { useEffect, useRef, useState } from "preact/hooks";
import { newKey } from "./api.ts";
import type { BucketRow } from "./bucket-rows.ts";
import { ChainLevel, type Reading, readingOf } from "./chain-level.tsx";
import { Confirm, Dialog } from "./dialog.tsx";
import { keptRefusals, leastRefused } from "./kept-refusals.ts";
import { rateOf } from "./level.ts";
import { lastRefusal } from "./live.ts";
import { useLevel, useObserved } from "./observable.ts";
import { Button, ErrorNote, Field, Link, TextInput } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { Amounts, BucketListing, Explained, LimitExplanation, StatusShown } from "./shapes.ts";
import { type LastRefused, Verdict } from "./verdict.tsx";
import { numberOf, resourceWords, TOTALS, tokensWords } from "./words.ts";

const REFRESH_MS = 1_000;
/** The explanation starts with the amounts of a refusal that is not older than this. */
const RECENT_MS = 7_200_000;
/** The longest time that a timer takes. */
const TIMER_MAX_MS = 2 ** 31 - 1;

export interface ExplainProps {
  readonly row: BucketRow;
  /** A bucket of the page, which may be one of the chain. */
  readonly rowOf: (key: string) => BucketRow | undefined;
  /** Updates the rows of the page by the buckets of the chain. */
  readonly onRead: (buckets: readonly BucketListing[], readAtMs: number) => void;
}

/** An answer, and when it came on the page's clock. */
interface Explanation {
  readonly value: Explained;
  readonly readAtMs: number;
  /** The amounts that were asked about. */
  readonly amounts: Amounts;
  readonly refused: LastRefused | undefined;
}

/** Explains a bucket: all levels of its chain, the source of each limit, and the limit that refuses. */
export function ExplainPanel({ row, rowOf, onRead }: ExplainProps) {
  const { api, path, can, live } = useSession();
  const { entityId, resource } = row;
  const [asked, setAsked] = useState<Amounts>({});
  const [doing, setDoing] = useState<"reset" | "topUp">();
  const [done, setDone] = useState<ToppedUp | "reset">();
  const heard = lastRefusal(useObserved(live.refusals), row);
  // Kept refusals are read once, so that the amounts do not change later.
  const kept = useRef<Promise<KeptQuestion> | undefined>(undefined);
  // Ask about the amounts of the last refusal; without one, about 1 of each measure.
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
            <Button kind="small" testid="bucket-top-up" onClick={() => setDoing("topUp")}>
              Top up
            </Button>
            <Button kind="small" testid="bucket-reset" onClick={() => setDoing("reset")}>
              Reset
            </Button>
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
  readonly amounts: Amounts;
}

/** Reloads after a change in the chain, and when the wait of a refusal is over. */
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

/** The verdict, with the level of the refusing limit as its row shows it. */
function LiveVerdict(props: {
  readonly explanation: Explanation;
  readonly reading: (entityId: string) => (limit: LimitExplanation, resource: string) => Reading;
  readonly asked: Amounts;
  readonly setAsked: (asked: Amounts) => void;
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

/** The measures that any level counts, on the resource or over all resources. */
function measuresIn({ levels }: Explained): readonly string[] {
  return [...new Set(levels.flatMap(({ limits, totals }) => [...limits, ...totals].map(({ counts }) => counts)))];
}

/** The requested amounts of a refusal, with 0 for the other measures of the chain. */
function heardAmounts(value: Explained, asked: Amounts): Amounts {
  return Object.fromEntries(measuresIn(value).map((measure) => [measure, asked[measure] ?? 0]));
}

function ownLimits({ levels }: Explained): readonly LimitExplanation[] {
  return levels[0]?.limits ?? [];
}

function blockingAt(entityId: string, primary: StatusShown | undefined, resource: string) {
  if (primary === undefined || primary.entityId !== entityId) return undefined;
  return { limit: primary.limit, isTotal: primary.resource === TOTALS && resource !== TOTALS };
}

function listingsIn({ levels, resource }: Explained): BucketListing[] {
  return levels.flatMap(({ entityId, limits, totals }) => [
    { entityId, resource, limits: limits.map(listed) },
    { entityId, resource: TOTALS, limits: totals.map(listed) },
  ]);
}

/** An explained limit in the form of a list of buckets, which has the thresholds beside it. */
function listed(limit: LimitExplanation): BucketListing["limits"][number] {
  const { notifyAt } = limit.definition;
  return notifyAt === undefined ? limit : { ...limit, notifyAt };
}

/** Tokens by limit: the amounts that were given, and the part of them that fitted. */
interface ToppedUp {
  readonly given: Amounts;
  readonly gained: Amounts;
}

function TopUp(props: {
  readonly row: BucketRow;
  readonly onDone: (toppedUp: ToppedUp) => Promise<void>;
  readonly onClose: () => void;
}) {
  const { api, path } = useSession();
  const { row, onDone, onClose } = props;
  const { entityId, resource } = row;
  // Slots have no balance to fill.
  const limits = row.limits.filter(({ kind }) => kind !== "concurrent");
  const [amounts, setAmounts] = useState<Readonly<Record<string, string>>>({});
  // All attempts of this dialog share a key, so that a double click adds the tokens once.
  const key = useRef(newKey());
  const typed = Object.fromEntries(Object.entries(amounts).filter(([, text]) => text.trim() !== ""));
  const topUp = async () => {
    try {
      const given = Object.fromEntries(Object.entries(typed).map(([limit, text]) => [limit, numberOf(limit, text)]));
      const request = { entityId, resource, amounts: given };
      const answer = await api.sendOnce<{ amounts: ToppedUp["gained"] }>(`${path}/top-up`, key.current, request);
      await onDone({ given, gained: answer.amounts });
    } catch (thrown) {
      key.current = newKey();
      throw thrown;
    }
  };
  return (
    <Dialog title="Top up" submit="Top up" isDisabled={Object.keys(typed).length === 0} act={topUp} onClose={onClose}>
      <p>
        Adds tokens to <b class="mono wrap">{entityId}</b> on <b class="wrap">{resourceWords(resource)}</b>. A quota
        keeps the whole amount until its next reset; a limit that refills gains at most up to its capacity.
      </p>
      {limits.map(({ limit }) => (
        <Field key={limit} label={limit}>
          <TextInput
            testid="top-up-amount"
            data-limit={limit}
            value={amounts[limit] ?? ""}
            onValue={(text) => setAmounts({ ...amounts, [limit]: text })}
          />
        </Field>
      ))}
    </Dialog>
  );
}

/** The result of a top-up, with the levels as they are now. */
function TopUpDone(
  props: ToppedUp & {
    readonly limits: readonly LimitExplanation[];
    readonly reading: (limit: LimitExplanation) => Reading;
  },
) {
  const { given, gained, limits, reading } = props;
  return (
    <>
      Topped up:{" "}
      {Object.entries(given).map(([name, amount], i) => {
        const limit = limits.find((each) => each.limit === name);
        const arrived = gained[name] ?? 0;
        return (
          <span key={name}>
            {i > 0 && ", "}
            {tokensWords(name, arrived)} {name}
            {arrived < amount && ` (of ${tokensWords(name, amount)}; the limit is full)`}
            {limit !== undefined && (
              <>
                , now <NowLeft limit={limit} {...reading(limit)} />
              </>
            )}
          </span>
        );
      })}
      .
    </>
  );
}

function NowLeft({ limit, held, readAtMs }: Reading & { readonly limit: LimitExplanation }) {
  const level = useLevel(held, rateOf(limit.definition, held.capacity), readAtMs);
  return (
    <>
      {tokensWords(limit.limit, level)} of {tokensWords(limit.limit, held.capacity)}
    </>
  );
}
