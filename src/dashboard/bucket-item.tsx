import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ExplainPanel, type ExplainProps } from "./explain.tsx";
import { type HeldLimit, type Rate, rateOf, stateOf } from "./level.ts";
import { KINDS } from "./limit-kinds.ts";
import { useLevel } from "./observable.ts";
import { Name } from "./parts.tsx";
import { type Rates, useLimits } from "./rates.ts";
import { rateWords, resourceWords, tokensWords, whole } from "./words.ts";

/** More slots are shown as a bar, because their cells would be too narrow. */
const CELLS_MAX = 32;

/** One limit of a bucket: its numbers, and a bar that fills up as time passes, or a cell for each slot. */
function Gauge(props: {
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

/** A threshold on the bar. The bar shows the tokens left, so the used ones count from its other end. */
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

/** A dashed bar is clipped, not scaled, so that its dashes keep their length. */
function filled(part: number, isDashed: boolean) {
  return isDashed ? { clipPath: `inset(0 ${100 - 100 * part}% 0 0)` } : { transform: `scaleX(${part})` };
}

/** One bucket with its limits; opened, with their explanation. */
export function BucketItem(
  props: ExplainProps & { readonly rates: Rates; readonly version: number; readonly isOpenAtFirst: boolean },
) {
  const { row, rowOf, onRead, rates, version, isOpenAtFirst } = props;
  const { entityId, resource, limits } = row;
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const item = useRef<HTMLLIElement>(null);
  const isSeen = useSeen(item);
  // The rate of a full bucket is not needed, because it does not move.
  const isMoving = limits.some(({ kind, available, capacity }) => kind === "drip" && available < capacity);
  const known = useLimits(rates, row, isSeen && (isMoving || isOpen), version);
  const clamp = isOpen ? "" : "clamped";
  const id = useId();
  return (
    <li
      ref={item}
      class="bucket"
      data-testid="bucket-row"
      data-entity={entityId}
      data-resource={resource}
      data-open={isOpen ? "true" : undefined}
    >
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the button inside does the same by keyboard; this is a larger target for pointers. */}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: as above. */}
      <div class="bucket-line" onClick={() => setOpen(!isOpen)}>
        <button
          type="button"
          class="bucket-name"
          aria-expanded={isOpen}
          aria-controls={isOpen ? id : undefined}
          data-testid="bucket-open"
        >
          <span class="chevron" aria-hidden="true" />
          <span class="bucket-who">
            <Name text={entityId} class={`mono strong ${clamp}`} />
            <Name text={resourceWords(resource)} class={`quiet ${clamp}`} />
          </span>
        </button>
        <div class="gauges">
          {limits.map((held) => (
            <Gauge
              key={held.limit}
              of={`${entityId} on ${resourceWords(resource)}`}
              held={held}
              rate={rateOf(
                known.find(({ name }) => name === held.limit),
                held.capacity,
              )}
              readAtMs={row.readAtMs}
            />
          ))}
        </div>
      </div>
      {isOpen && (
        <div id={id}>
          <ExplainPanel {...{ row, rowOf, onRead }} />
        </div>
      )}
    </li>
  );
}

/** True once the element has been on the screen. */
function useSeen(element: { current: HTMLElement | null }): boolean {
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    if (element.current === null) return;
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) setSeen(true);
      },
      { rootMargin: "300px" },
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return isSeen;
}
