import { useEffect, useRef, useState } from "preact/hooks";
import { newKey } from "./api.ts";
import type { BucketRow } from "./bucket-rows.ts";
import { Confirm } from "./dialog.tsx";
import { stateOf } from "./level.ts";
import { lastRefusal, type Refusal } from "./live.ts";
import { numberIn } from "./number-text.ts";
import { useObserved } from "./observable.ts";
import { ErrorNote, Link, Name } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { Explained, LevelExplanation, LimitExplanation } from "./shapes.ts";
import { TopUp } from "./top-up.tsx";
import { refillWords, sourceWords, stampWords, timeWords, waitWords, whole } from "./words.ts";

const REFRESH_MS = 1_000;

/** Why a bucket stands as it does: the whole chain, where each limit came from, and what stands in the way. */
export function ExplainPanel({ row }: { readonly row: BucketRow }) {
  const { api, path, can, live } = useSession();
  const { entityId, resource } = row;
  const [asked, setAsked] = useState<Readonly<Record<string, number>>>({});
  const [doing, setDoing] = useState<"reset" | "topUp">();
  // What was refused last is what its reader wants explained; where nothing was, one of each.
  const refused = lastRefusal(useObserved(live.refusals), row);
  const amountOf = (measure: string) => asked[measure] ?? (refused === undefined ? 1 : (refused.asked[measure] ?? 0));
  const { value, error, reload } = useLoaded<Explained>(
    async () => {
      const question = { entityId, resource };
      const plain = await api.send<Explained>("POST", `${path}/explain`, {}, question);
      const names = measuresIn(plain);
      const consume = Object.fromEntries(names.map((name) => [name, amountOf(name)]));
      return names.length === 0 ? plain : api.send<Explained>("POST", `${path}/explain`, {}, { ...question, consume });
    },
    [entityId, resource, JSON.stringify([asked, refused?.asked])],
    "beside",
  );
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
        if (message.resource === resource && chain.current.includes(message.entityId)) refresh();
      }),
    ];
    return () => {
      for (const unsubscribe of unsubscribes) unsubscribe();
      clearTimeout(timer);
    };
  }, [live, resource, reload]);
  return (
    <section class="explain" data-testid="explain" aria-label={`Why ${entityId} on ${resource} stands as it does`}>
      <ErrorNote error={error} />
      {value !== undefined && (
        <>
          <Verdict {...{ value, refused, asked, amountOf, setAsked }} />
          <ol class="chain">
            {value.levels.map((level, i) => (
              <ChainLevel
                key={level.entityId}
                level={level}
                isParent={i > 0}
                blocking={value.primary?.entityId === level.entityId ? value.primary.limit : undefined}
              />
            ))}
          </ol>
        </>
      )}
      <div class="explain-actions">
        <Link page="limits" params={{ entity: entityId, resource }} class="button small">
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
          }}
          onClose={() => setDoing(undefined)}
        >
          <p>
            All limits of <b class="mono wrap">{entityId}</b> on <b class="wrap">{resource}</b> are full again, and what
            is owed is forgiven. A calendar quota begins a new period.
          </p>
        </Confirm>
      )}
      {doing === "topUp" && <TopUp row={row} onDone={reload} onClose={() => setDoing(undefined)} />}
    </section>
  );
}

/** What a request may be asked for: every measure that a level counts. */
function measuresIn({ levels }: Explained): readonly string[] {
  return [...new Set(levels.flatMap(({ limits }) => limits.map(({ counts }) => counts)))];
}

function Verdict(props: {
  readonly value: Explained;
  readonly refused: Refusal | undefined;
  readonly amountOf: (measure: string) => number;
  readonly asked: Readonly<Record<string, number>>;
  readonly setAsked: (asked: Readonly<Record<string, number>>) => void;
}) {
  const { value, refused, asked, amountOf, setAsked } = props;
  const { outcome, reason, primary, retryAfterMs } = value;
  const words = {
    granted: "Nothing stands in the way.",
    refused: primary === undefined ? "It would be refused." : `In the way: ${primary.limit} of ${primary.entityId}.`,
    disabled: "Switched off.",
    never: "It can never fit.",
  }[outcome];
  return (
    <div class="verdict" data-outcome={outcome} data-testid="explain-outcome">
      <p>
        <strong class="wrap">{words}</strong>{" "}
        {outcome === "refused" && primary !== undefined ? (
          <span>
            {primary.available < 0 ? `It owes ${whole(-primary.available)}` : `It has ${whole(primary.available)} left`}{" "}
            and is asked for {whole(primary.requested)}; it fits in {waitWords(retryAfterMs)}.
          </span>
        ) : (
          reason !== undefined && <span class="wrap">{reason}</span>
        )}
      </p>
      {refused !== undefined && (
        <p class="quiet" data-testid="explain-refused">
          Last refused at {timeWords(refused.atMs)}: {refused.entityId} asked for {amountsText(refused.asked)};{" "}
          {refused.primary.limit} of {refused.primary.entityId} had {whole(refused.primary.available)} left.
        </p>
      )}
      <fieldset class="what-if">
        <legend>If it asked for</legend>
        {measuresIn(value).map((measure) => (
          <label key={measure}>
            <input
              type="text"
              inputMode="numeric"
              data-testid="explain-amount"
              data-limit={measure}
              value={whole(amountOf(measure))}
              onChange={(event) => {
                const amount = numberIn(event.currentTarget.value);
                if (amount !== undefined && Number.isSafeInteger(amount) && amount >= 0)
                  setAsked({ ...asked, [measure]: amount });
              }}
            />
            <span>{measure}</span>
          </label>
        ))}
      </fieldset>
    </div>
  );
}

function amountsText(amounts: Readonly<Record<string, number>>): string {
  return Object.entries(amounts)
    .filter(([, amount]) => amount > 0)
    .map(([measure, amount]) => `${whole(amount)} ${measure}`)
    .join(", ");
}

function ChainLevel(props: {
  readonly level: LevelExplanation;
  readonly isParent: boolean;
  /** The limit that stands in the way, where it is one of this level. */
  readonly blocking: string | undefined;
}) {
  const { level, isParent, blocking } = props;
  const { entityId, source, planId, reason, access, accessSource, cascade, parentId, limits } = level;
  return (
    <li data-testid="explain-level" data-entity={entityId} data-source={source} data-blocking={blocking}>
      <div class="chain-head">
        <span class="chain-who">
          <Name text={entityId} class="mono strong" />
          {isParent && <span class="tag">parent</span>}
          {planId !== undefined && <span class="tag">plan {planId}</span>}
          {blocking !== undefined && <span class="tag bad">{blocking} is in the way</span>}
          {access !== "enforce" && (
            <span class={access === "disabled" ? "tag bad" : "tag warn"}>
              {access === "disabled" ? "disabled" : "bypassed"} by {sourceWords(accessSource)}
            </span>
          )}
        </span>
        <span class="quiet">
          limits from <b>{sourceWords(source)}</b>
          {parentId !== undefined && !cascade ? `; its parent ${parentId} is not charged` : ""}
        </span>
      </div>
      {reason !== undefined && <p class="quiet wrap">{reason}</p>}
      <table class="plain" hidden={limits.length === 0}>
        <thead>
          <tr>
            <th scope="col">Limit</th>
            <th scope="col" class="number">
              Left
            </th>
            <th scope="col" class="number">
              Capacity
            </th>
            <th scope="col">Fills up</th>
          </tr>
        </thead>
        <tbody>
          {limits.map((limit) => (
            <LimitLine key={limit.limit} limit={limit} source={source} />
          ))}
        </tbody>
      </table>
    </li>
  );
}

function LimitLine(props: { readonly limit: LimitExplanation; readonly source: LevelExplanation["source"] }) {
  const { limit, source } = props;
  const { soft, definition, capacity, available, inWindow, toppedUp, resetsAtMs } = limit;
  const notes = [
    refillWords(definition),
    ...(resetsAtMs === undefined ? [] : [`next on ${stampWords(resetsAtMs)}`]),
    ...(inWindow ? ["a window of its schedule is open"] : []),
    ...(toppedUp > 0 ? [`${whole(toppedUp)} topped up`] : []),
    ...(soft ? ["soft: measured only"] : []),
    // Levels that inherit are added up: then not all come from the first.
    ...(limit.source === source ? [] : [`from ${sourceWords(limit.source)}`]),
    ...(limit.counts === limit.limit ? [] : [`counts ${limit.counts}`]),
  ];
  return (
    <tr data-level={stateOf(available, capacity)}>
      <th scope="row">
        <Name text={limit.limit} />
      </th>
      <td class="number" data-label="Left">
        {whole(available)}
      </td>
      <td class="number" data-label="Capacity">
        {whole(capacity)}
      </td>
      <td data-label="Fills up">{notes.join("; ")}</td>
    </tr>
  );
}
