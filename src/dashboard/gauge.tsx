import { type HeldLimit, type Rate, stateOf } from "./level.ts";
import { KINDS } from "./limit-kinds.ts";
import { useLevel } from "./tick.ts";
import { rateWords, tokensWords, whole } from "./words.ts";

/** More slots than these are shown as a bar: cells would be too narrow to be told apart. */
const CELLS_MAX = 32;

/** One limit of a bucket: a bar that fills up as time passes, or a cell a slot, those that are held filled; and its numbers. */
export function Gauge(props: {
  readonly of: string;
  readonly held: HeldLimit;
  readonly rate: Rate | undefined;
  readonly readAtMs: number;
}) {
  const { of, held, rate, readAtMs } = props;
  const level = useLevel(held, rate, readAtMs);
  const { limit, capacity, kind, soft, shadow, notifyAt = [], notified = [], neverCharged = false } = held;
  const state = stateOf(level, capacity);
  const shown = Math.max(0, level);
  const part = capacity === 0 ? 0 : Math.min(1, shown / capacity);
  const isSlots = kind === "concurrent";
  const note = isSlots
    ? `${whole(capacity - level)} held ${KINDS[kind].name}`
    : rate === undefined
      ? kind === "drip"
        ? ""
        : KINDS[kind].name
      : `+${rateWords(limit, rate.amount, rate.periodMs)}`;
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
        aria-valuetext={`${tokensWords(limit, level)} of ${tokensWords(limit, capacity)} ${isSlots ? "free" : "left"}`}
        data-slots={isSlots && capacity <= CELLS_MAX ? "cells" : isSlots ? "bar" : undefined}
      >
        {isSlots && capacity <= CELLS_MAX ? (
          Array.from({ length: capacity }, (_, i) => (
            <i key={i} data-held={i < capacity - level ? "true" : undefined} />
          ))
        ) : (
          <i style={filled(isSlots ? 1 - part : part, shadow)} />
        )}
        {notifyAt.map((percent) => (
          <Mark key={percent} percent={percent} isTold={notified.includes(percent)} />
        ))}
      </div>
      <div class="gauge-foot">
        <span>
          {soft ? "soft, " : shadow ? "shadow, " : ""}
          {note || (soft ? "measured only" : shadow ? "refuses nothing" : " ")}
        </span>
        {state === "debt" && (
          <strong data-testid="bucket-debt" data-amount={-level}>
            {tokensWords(limit, -level)} {isSlots ? "too many" : "in debt"}
          </strong>
        )}
        {notified.length > 0 && <span data-testid="bucket-told">{notified.join(", ")} % told</span>}
        {neverCharged && <span data-testid="bucket-unused">nothing ever charged</span>}
        {state === "empty" && <strong>{isSlots ? "none free" : "empty"}</strong>}
        {state === "low" && <span class="low">low</span>}
      </div>
    </div>
  );
}

/** Where a percentage is reached: the bar shows what is left, so much used is at its other end. */
function Mark({ percent, isTold }: { readonly percent: number; readonly isTold: boolean }) {
  const words = `${percent} % ${isTold ? "told" : "is told when it is used"}`;
  return (
    <span
      class="mark"
      data-testid="bucket-mark"
      data-percent={percent}
      data-told={isTold ? "true" : undefined}
      title={words}
      style={{ left: `${100 - percent}%` }}
    />
  );
}

/** A dashed bar is cut off, not squeezed: its dashes stay as long as they are. */
function filled(part: number, isDashed: boolean) {
  return isDashed ? { clipPath: `inset(0 ${100 - 100 * part}% 0 0)` } : { transform: `scaleX(${part})` };
}
