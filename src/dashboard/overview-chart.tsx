import type { Overview } from "./shapes.ts";
import { clockWords, whole } from "./words.ts";

type Hour = Overview["hours"][number];

const HEIGHT = 72;
const STEP = 10;
const BAR = 8;

/** A bar for each hour, granted below and refused above; the numbers beside it say the same. */
export function HoursChart({ hours }: { readonly hours: readonly Hour[] }) {
  const most = Math.max(1, ...hours.map(sumOf));
  const height = (count: number) => (count === 0 ? 0 : Math.max(1.5, (count * HEIGHT) / most));
  const [first, last] = [hours[0], hours.at(-1)];
  return (
    <figure class="hours">
      <svg
        viewBox={`0 0 ${hours.length * STEP - (STEP - BAR)} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        data-testid="overview-chart"
        aria-label={summaryOf(hours)}
      >
        {hours.map(({ windowStartMs, requests = 0, refused = 0 }, i) => (
          <g key={windowStartMs}>
            <title>{`${clockWords(windowStartMs)}: ${whole(requests)} granted, ${whole(refused)} refused`}</title>
            <rect class="base" x={i * STEP} y={HEIGHT - 1} width={BAR} height={1} />
            <rect class="granted" x={i * STEP} y={HEIGHT - height(requests)} width={BAR} height={height(requests)} />
            <rect
              class="refused"
              x={i * STEP}
              y={HEIGHT - height(requests) - height(refused)}
              width={BAR}
              height={height(refused)}
            />
          </g>
        ))}
      </svg>
      <figcaption aria-hidden="true">
        <span>{first !== undefined && clockWords(first.windowStartMs)}</span>
        <span>at most {whole(most)} an hour</span>
        <span>{last !== undefined && `since ${clockWords(last.windowStartMs)}`}</span>
      </figcaption>
    </figure>
  );
}

function sumOf({ requests = 0, refused = 0 }: Hour): number {
  return requests + refused;
}

function summaryOf(hours: readonly Hour[]): string {
  const busiest = hours.reduce((most, hour) => (sumOf(hour) > sumOf(most) ? hour : most));
  const { windowStartMs, requests = 0, refused = 0 } = busiest;
  return (
    `Requests of ${hours.length} hours; most in the hour of ${clockWords(windowStartMs)}: ` +
    `${whole(requests)} granted, ${whole(refused)} refused.`
  );
}
