import { useState } from "preact/hooks";
import type { KeptRefusals } from "./kept-refusals.ts";
import type { Refusal } from "./live.ts";
import { useTicking } from "./observable.ts";
import type { Explained } from "./shapes.ts";
import { amountsText, numberIn, TOTALS, timeWords, tokensWords, waitWords, whole } from "./words.ts";

/** The last refusal: from an event, with its amounts, or from the store, without them. */
export type LastRefused =
  | { readonly by: "heard"; readonly refusal: Refusal }
  | { readonly by: "kept"; readonly kept: KeptRefusals; readonly isLeast: boolean };

/** Says whether a request would be granted, and which limit refuses it. */
export function Verdict(props: {
  readonly value: Explained;
  /** The tokens that the refusing limit has left now. */
  readonly left: number | undefined;
  /** When the explanation was read, on the page's clock. */
  readonly readAtMs: number;
  readonly refused: LastRefused | undefined;
  readonly measures: readonly string[];
  readonly amountOf: (measure: string) => number;
  readonly setAmount: (measure: string, amount: number) => void;
}) {
  const { value, left, readAtMs, refused, measures, amountOf, setAmount } = props;
  const { outcome, reason, primary, retryAfterMs } = value;
  // The level goes on while the answer is asked for again.
  const fitsByNow =
    outcome === "refused" &&
    primary !== undefined &&
    left !== undefined &&
    left - (primary.floor ?? 0) >= primary.requested;
  const words = {
    granted: "Would be granted.",
    refused: fitsByNow
      ? "Would fit by now."
      : primary === undefined
        ? "Would be refused."
        : `Would be refused by ${limitWords(primary.limit, primary.entityId, primary.resource === TOTALS)}.`,
    disabled: "Disabled.",
    never: "Can never be granted.",
  }[outcome];
  // The wait gets shorter while it is shown.
  const waitMs = useTicking(
    (nowMs) => (retryAfterMs === null ? null : Math.max(1, retryAfterMs - Math.max(0, nowMs - readAtMs))),
    outcome === "refused" && retryAfterMs !== null,
  );
  const available = left ?? primary?.available ?? 0;
  return (
    <div class="verdict" data-outcome={fitsByNow ? "asking" : outcome} data-testid="explain-outcome">
      <p>
        <strong class="wrap">{words}</strong>{" "}
        {outcome === "refused" && primary !== undefined ? (
          <span>
            {available < 0
              ? `It is ${tokensWords(primary.limit, -available)} in debt`
              : `It has ${tokensWords(primary.limit, available)} left`}
            ; requested: {tokensWords(primary.counts, primary.requested)}.{" "}
            {fitsByNow
              ? "Asking again…"
              : `It fits in ${primary.kind === "concurrent" ? "at most " : ""}${waitWords(waitMs)}.`}
          </span>
        ) : (
          reason !== undefined && <span class="wrap">{reason}</span>
        )}
      </p>
      {refused !== undefined && (
        <p class="quiet wrap" data-testid="explain-refused" data-by={refused.by}>
          {refused.by === "heard" ? heardWords(refused.refusal) : keptWords(refused.kept, refused.isLeast)}
        </p>
      )}
      <fieldset class="what-if">
        <legend>If a request takes</legend>
        {measures.map((measure) => (
          <AmountField
            key={measure}
            measure={measure}
            amount={amountOf(measure)}
            onAmount={(amount) => setAmount(measure, amount)}
          />
        ))}
      </fieldset>
    </div>
  );
}

/** A limit and whose it is, in words. */
function limitWords(limit: string, entityId: string, isTotal: boolean): string {
  return `${limit} of ${entityId}${isTotal ? " over all resources" : ""}`;
}

function heardWords({ atMs, entityId, asked, primary }: Refusal): string {
  const limit = limitWords(primary.limit, primary.entityId, primary.resource === TOTALS);
  return (
    `Last refused at ${timeWords(atMs)}: ${entityId} requested ${amountsText(asked)}; ` +
    `${limit} had ${tokensWords(primary.limit, primary.available)} left.`
  );
}

function keptWords({ last, count }: KeptRefusals, isLeast: boolean): string {
  const { lastMs, entityId, limit, level, total } = last;
  const hour = `${timeWords(lastMs).slice(0, 5)} to ${timeWords(lastMs + 3_600_000).slice(0, 5)}`;
  const said = `Refused ${count === 1 ? "once" : `${whole(count)} times`}, last in the hour of ${hour}: ${entityId}, by ${limitWords(limit, level, total)}.`;
  return `${said} Amounts are not stored${isLeast ? "; the fields show the least that would be refused now" : ""}.`;
}

/** A field whose text stays while numbers around it change. Leaving it asks about its amount. */
function AmountField(props: {
  readonly measure: string;
  readonly amount: number;
  readonly onAmount: (amount: number) => void;
}) {
  const { measure, amount, onAmount } = props;
  const [typed, setTyped] = useState<string>();
  return (
    <label>
      <input
        type="text"
        inputMode="numeric"
        data-testid="explain-amount"
        data-limit={measure}
        value={typed ?? tokensWords(measure, amount)}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onChange={(event) => {
          const next = numberIn(event.currentTarget.value);
          setTyped(undefined);
          if (next !== undefined && Number.isSafeInteger(next) && next >= 0) onAmount(next);
        }}
      />
      <span>{measure}</span>
    </label>
  );
}
