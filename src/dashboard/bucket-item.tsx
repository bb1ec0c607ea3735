import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ExplainPanel, type ExplainProps } from "./explain.tsx";
import { Gauge } from "./gauge.tsx";
import { rateOf } from "./level.ts";
import { Name } from "./parts.tsx";
import { type Rates, useLimits } from "./rates.ts";
import { resourceWords } from "./words.ts";

/** One bucket: what its limits hold, and, opened, why. */
export function BucketItem(
  props: ExplainProps & { readonly rates: Rates; readonly version: number; readonly isOpenAtFirst: boolean },
) {
  const { row, rowOf, onRead, rates, version, isOpenAtFirst } = props;
  const { entityId, resource, limits } = row;
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const item = useRef<HTMLLIElement>(null);
  const isSeen = useSeen(item);
  // A full bucket does not move: nobody needs to know how fast.
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

/** Whether it has been on the screen. */
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
