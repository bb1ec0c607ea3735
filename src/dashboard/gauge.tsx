import { type HeldLimit, type Rate, stateOf } from "./level.ts";
import { useLevel } from "./tick.ts";
import { KIND_NAMES, rateWords, tokensWords } from "./words.ts";

/** One limit of a bucket: a bar that fills up as time passes, and its numbers. */
export function Gauge(props: {
  readonly of: string;
  readonly held: HeldLimit;
  readonly rate: Rate | undefined;
  readonly readAtMs: number;
}) {
  const { of, held, rate, readAtMs } = props;
  const level = useLevel(held, rate, readAtMs);
  const { limit, capacity, kind, soft, shadow } = held;
  const state = stateOf(level, capacity);
  const shown = Math.max(0, level);
  const part = capacity === 0 ? 0 : Math.min(1, shown / capacity);
  const note =
    rate === undefined ? (kind === "drip" ? "" : KIND_NAMES[kind]) : `+${rateWords(limit, rate.amount, rate.periodMs)}`;
  return (
    <div
      class="gauge"
      data-level={state}
      data-soft={soft ? "true" : undefined}
      data-shadow={shadow ? "true" : undefined}
    >
      <div class="gauge-head">
        <span class="gauge-name" title={limit}>
          {limit}
        </span>
        <span class="gauge-numbers">
          <b>{tokensWords(limit, level)}</b> <span>/ {tokensWords(limit, capacity)}</span>
        </span>
      </div>
      {/* biome-ignore lint/a11y/useSemanticElements: a meter element cannot be styled alike in all browsers. */}
      <div
        class="bar"
        role="meter"
        data-testid="bucket-bar"
        data-limit={limit}
        aria-label={`${limit} of ${of}`}
        aria-valuemin={0}
        aria-valuenow={shown}
        aria-valuemax={capacity}
        aria-valuetext={`${tokensWords(limit, level)} of ${tokensWords(limit, capacity)} left`}
      >
        <i style={shadow ? { clipPath: `inset(0 ${100 - 100 * part}% 0 0)` } : { transform: `scaleX(${part})` }} />
      </div>
      <div class="gauge-foot">
        <span>
          {soft ? "soft, " : shadow ? "shadow, " : ""}
          {note || (soft ? "measured only" : shadow ? "refuses nothing" : " ")}
        </span>
        {state === "debt" && (
          <strong data-testid="bucket-debt" data-amount={-level}>
            {tokensWords(limit, -level)} in debt
          </strong>
        )}
        {state === "empty" && <strong>empty</strong>}
        {state === "low" && <span class="low">low</span>}
      </div>
    </div>
  );
}
