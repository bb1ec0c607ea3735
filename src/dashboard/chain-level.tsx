import type { ComponentChildren } from "preact";
import { type BucketRow, keyOf } from "./bucket-rows.ts";
import { type HeldLimit, rateOf, stateOf } from "./level.ts";
import { limitWords, refillWords } from "./limit-kinds.ts";
import { useLevel } from "./observable.ts";
import { Name } from "./parts.tsx";
import type { BucketName, LevelExplanation, LimitExplanation } from "./shapes.ts";
import { sourceWords, stampWords, TOTALS, timeWords, tokensWords, untilWords } from "./words.ts";

/** The state of a limit, and the time of the page's clock at which it was read. */
export interface Reading {
  readonly held: HeldLimit;
  readonly readAtMs: number;
}

/** Reads a limit from its row on the page if it has one, so that both show the same number; else from the explanation. */
export function readingOf(
  limit: LimitExplanation,
  { entityId, resource }: BucketName,
  explainedAtMs: number,
  rowOf: (key: string) => BucketRow | undefined,
): Reading {
  const row = rowOf(keyOf({ entityId, resource }));
  const held = row?.limits.find((each) => each.limit === limit.limit);
  return row === undefined || held === undefined
    ? { held: limit, readAtMs: explainedAtMs }
    : { held, readAtMs: row.readAtMs };
}

/** One entity of the chain: its limits on the resource, and those over all resources. */
export function ChainLevel(props: {
  readonly level: LevelExplanation;
  readonly resource: string;
  readonly isParent: boolean;
  /** The limit that refuses, if it is one of this level. */
  readonly blocking: { readonly limit: string; readonly isTotal: boolean } | undefined;
  readonly reading: (limit: LimitExplanation, resource: string) => Reading;
}) {
  const { level, resource, isParent, blocking, reading } = props;
  const { entityId, source, planId, reason, access, accessSource, cascade, parentId, limits, totals } = level;
  const { accessUntilMs } = level;
  const blocked = blocking === undefined ? undefined : `${blocking.isTotal ? "*/" : ""}${blocking.limit}`;
  return (
    <li data-testid="explain-level" data-entity={entityId} data-source={source} data-blocking={blocked}>
      <div class="chain-head">
        <span class="chain-who">
          <Name text={entityId} class="mono strong" />
          {isParent && <span class="tag">parent</span>}
          {planId !== undefined && <span class="tag">plan {planId}</span>}
          {blocking !== undefined && (
            <span class="tag bad">
              {blocking.limit}
              {blocking.isTotal ? " over all resources" : ""} refuses
            </span>
          )}
          {access !== "enforce" && (
            <span class={access === "disabled" ? "tag bad" : "tag warn"}>
              {access === "disabled" ? "disabled" : "bypassed"} by {sourceWords(accessSource)}
              {accessUntilMs === undefined ? "" : ` until ${untilWords(accessUntilMs, Date.now())}`}
            </span>
          )}
        </span>
        <span class="quiet">
          limits from <b>{sourceWords(source)}</b>
          {parentId !== undefined && !cascade ? `; its parent ${parentId} is not charged` : ""}
        </span>
      </div>
      {reason !== undefined && <p class="quiet wrap">{reason}</p>}
      {limits.length > 0 && (
        <LimitTable isOverAll={resource === TOTALS} testid="explain-limits">
          {limits.map((limit) => (
            <LimitLine key={limit.limit} {...{ limit, source }} {...reading(limit, resource)} />
          ))}
        </LimitTable>
      )}
      {totals.length > 0 && (
        <LimitTable isOverAll testid="explain-totals">
          {totals.map((limit) => (
            <LimitLine key={limit.limit} {...{ limit, source: "none" }} {...reading(limit, TOTALS)} />
          ))}
        </LimitTable>
      )}
    </li>
  );
}

function LimitTable(props: {
  readonly isOverAll: boolean;
  readonly testid: string;
  readonly children: ComponentChildren;
}) {
  return (
    <table class="plain" data-testid={props.testid}>
      {props.isOverAll && <caption>Over all resources together</caption>}
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
      <tbody>{props.children}</tbody>
    </table>
  );
}

function afterWords(limit: LimitExplanation["then"]): string {
  return limit == null ? "it does not apply" : limitWords(limit, []);
}

function LimitLine(props: Reading & { readonly limit: LimitExplanation; readonly source: LevelExplanation["source"] }) {
  const { limit, source, held, readAtMs } = props;
  const {
    soft,
    shadow,
    definition,
    inWindow,
    toppedUp,
    resetsAtMs,
    freesAtMs,
    notified = [],
    neverCharged = false,
    untilMs,
    then,
  } = limit;
  const level = useLevel(held, rateOf(definition, held.capacity), readAtMs);
  const notes = [
    refillWords(definition),
    ...(resetsAtMs === undefined ? [] : [`next on ${stampWords(resetsAtMs)}`]),
    ...(freesAtMs === undefined ? [] : [`next free by ${timeWords(freesAtMs)}`]),
    ...(inWindow ? ["a schedule window is active"] : []),
    ...(toppedUp > 0 ? [`${tokensWords(limit.limit, toppedUp)} topped up`] : []),
    ...(soft ? ["soft: measured only"] : []),
    ...(shadow ? ["shadow: counts what it would refuse"] : []),
    ...(notified.length === 0 ? [] : [`${notified.join(", ")} % told`]),
    ...(neverCharged ? ["nothing ever charged"] : []),
    // An inherited limit has another source than its level. The source of a total is shown nowhere else.
    ...(limit.source === source ? [] : [`from ${sourceWords(limit.source)}`]),
    ...(limit.counts === limit.limit ? [] : [`counts ${limit.counts}`]),
    ...(untilMs === undefined ? [] : [`until ${untilWords(untilMs, Date.now())}, then ${afterWords(then)}`]),
  ];
  return (
    <tr data-level={stateOf(level, held.capacity)} data-limit={limit.limit}>
      <th scope="row">
        <Name text={limit.limit} />
      </th>
      <td class="number" data-label="Left" data-testid="explain-left">
        {tokensWords(limit.limit, level)}
      </td>
      <td class="number" data-label="Capacity">
        {tokensWords(limit.limit, held.capacity)}
      </td>
      <td data-label="Fills up">{notes.join("; ")}</td>
    </tr>
  );
}
