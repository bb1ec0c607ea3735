import type { ComponentChildren } from "preact";
import type { ApiError } from "./api.ts";
import {
  LiveNumbers,
  NearestList,
  RefusedList,
  ShadowList,
  SlotList,
  ThresholdList,
  TileEmpty,
} from "./overview-lists.tsx";
import { PageHead } from "./parts.tsx";
import { hrefOf, type PageProps } from "./route.ts";
import { useEvery, useLoaded, useSession } from "./session.tsx";
import type { Overview } from "./shapes.ts";
import { clockWords, plural, rateText, stampWords, timeWords, whole } from "./words.ts";

const REREAD_MS = 10_000;

/** How it is going: the first page. Every tile leads to where more is said. */
export function OverviewPage({ params }: PageProps) {
  const { api, path, live } = useSession();
  const { value, error, reload } = useLoaded((signal) => api.get<Overview>(`${path}/overview`, {}, signal), [], "main");
  useEvery(REREAD_MS, () => void reload());
  const tile = { error, isLoading: value === undefined && error === undefined };
  const looked = (name: "nearest" | "slots" | "thresholds") =>
    value?.partial?.includes(name) ? "of the 2,000 looked at" : undefined;
  return (
    <>
      <PageHead
        title="Overview"
        note={value === undefined ? "How it is going." : `As of ${timeWords(value.atMs)}; requests a second are live.`}
      />
      <div class="tiles">
        <DegradedTile {...tile} faults={value?.degraded} />
        <Tile {...tile} name="requests" title="Requests" href={hrefOf("usage")}>
          <LiveNumbers live={live} />
          {value !== undefined && <Requests value={value} />}
        </Tile>
        <Tile {...tile} name="refused" title="Refused most" href={hrefOf("refusals")} note="24 hours">
          {value !== undefined && <RefusedList items={value.refusedMost} isCounted={isCounted(value, "refused")} />}
        </Tile>
        <Tile {...tile} name="nearest" title="Nearest to the end" href={hrefOf("buckets")} note={looked("nearest")}>
          {value !== undefined && <NearestList items={value.nearest} nowMs={value.atMs} />}
        </Tile>
        <Tile {...tile} name="slots" title="Slots in use" href={hrefOf("leases")} note={looked("slots")}>
          {value !== undefined && <SlotList items={value.slots} />}
        </Tile>
        <Tile {...tile} name="thresholds" title="Thresholds" href={hrefOf("buckets")} note={looked("thresholds")}>
          {value !== undefined && <ThresholdList items={value.thresholds} />}
        </Tile>
        <Tile {...tile} name="shadows" title="Shadows" href={hrefOf("usage")} note="24 hours">
          {value !== undefined && <ShadowList items={value.shadows} />}
        </Tile>
      </div>
      {params.about === "degraded" && <AboutFaults faults={value?.degraded ?? []} />}
    </>
  );
}

interface TileProps {
  readonly name: string;
  readonly title: string;
  readonly href: string;
  readonly note?: string | undefined;
  readonly state?: string;
  readonly error: ApiError | undefined;
  readonly isLoading: boolean;
  readonly children: ComponentChildren;
}

/** A link with a heading and its most important numbers as text. */
function Tile({ name, title, href, note, state, error, isLoading, children }: TileProps) {
  return (
    <a class={`tile tile-${name}`} data-testid={`tile-${name}`} data-state={state} href={href}>
      <div class="tile-head">
        <h2>{title}</h2>
        {note !== undefined && <span>{note}</span>}
      </div>
      {error !== undefined && (
        <p class="bad-text" data-testid="error" data-code={error.code}>
          Not loaded: {error.message}
        </p>
      )}
      {isLoading && <p class="quiet">Loading…</p>}
      {children}
    </a>
  );
}

function isCounted({ hours }: Overview, what: "requests" | "refused"): boolean {
  return hours.some((hour) => hour[what] !== undefined);
}

/** This hour and the last 24, in numbers and as a chart. */
function Requests({ value }: { readonly value: Overview }) {
  const { hours, atMs } = value;
  const hasGranted = isCounted(value, "requests");
  const sum = (what: "requests" | "refused") => hours.reduce((all, hour) => all + (hour[what] ?? 0), 0);
  const [now] = hours.slice(-1);
  const seconds = now === undefined ? 0 : Math.max(1, (atMs - now.windowStartMs) / 1_000);
  const isIdle = sum("requests") + sum("refused") === 0;
  if (isIdle && hasGranted) {
    return (
      <TileEmpty command="zae-limiter acquire key-1 gpt-4 -c rpm=1">No requests in 24 hours. To make one:</TileEmpty>
    );
  }
  return (
    <>
      <dl class="tile-facts">
        <div>
          <dt>This hour</dt>
          <dd>
            {hasGranted && (
              <>
                <b>{whole(now?.requests ?? 0)}</b> granted, {rateText((now?.requests ?? 0) / seconds)} a second;{" "}
              </>
            )}
            <b>{whole(now?.refused ?? 0)}</b> refused
          </dd>
        </div>
        <div>
          <dt>24 hours</dt>
          <dd>
            {hasGranted && (
              <>
                <b>{whole(sum("requests"))}</b> granted,{" "}
              </>
            )}
            <b>{whole(sum("refused"))}</b> refused
          </dd>
        </div>
      </dl>
      {!hasGranted && (
        <p class="quiet small">Granted requests are not counted: the service runs without usage of callers.</p>
      )}
      {!isIdle && <HoursChart hours={hours} />}
    </>
  );
}

function DegradedTile({ faults, ...tile }: Pick<TileProps, "error" | "isLoading"> & Faults) {
  const [last] = faults ?? [];
  const state = faults === undefined ? "unknown" : last === undefined ? "ok" : "degraded";
  const first = faults?.findLast(({ reason }) => reason === last?.reason);
  return (
    <Tile {...tile} name="degraded" title="This service" href={hrefOf("overview", { about: "degraded" })} state={state}>
      {state === "ok" && <p>Everything worked in the last hour.</p>}
      {last !== undefined && first !== undefined && (
        <p>
          <strong>Degraded since {timeWords(first.atMs)}</strong>, last at {timeWords(last.atMs)}: {last.reason}
        </p>
      )}
    </Tile>
  );
}

interface Faults {
  /** Undefined: not known yet. */
  readonly faults: Overview["degraded"] | undefined;
}

/** The faults of the last hour, and what they mean. */
function AboutFaults({ faults = [] }: Faults) {
  return (
    <section class="about-faults" data-testid="about-degraded">
      <h2>What did not work in the last hour</h2>
      <p class="quiet">
        While the store does not answer, requests are refused, or let through without being counted where the limiter
        was opened with <code>onUnavailable: "allow"</code>. {plural(faults.length, "fault")} of this service; one that
        goes on is listed once a minute. The guide on outages says what each option does (
        <code>docs/guide/outages.md</code> in the package); <code>zae-limiter doctor</code> checks the store.
      </p>
      <ul>
        {faults.map(({ atMs, reason }) => (
          <li key={`${atMs} ${reason}`}>
            <time class="quiet" dateTime={new Date(atMs).toISOString()}>
              {stampWords(atMs)}
            </time>{" "}
            {reason}
          </li>
        ))}
      </ul>
    </section>
  );
}

type Hour = Overview["hours"][number];

const CHART_HEIGHT = 72;
const BAR_STEP = 10;
const BAR_WIDTH = 8;

/** A bar for each hour, granted below and refused above; the numbers beside it say the same. */
function HoursChart({ hours }: { readonly hours: readonly Hour[] }) {
  const most = Math.max(1, ...hours.map(sumOf));
  const height = (count: number) => (count === 0 ? 0 : Math.max(1.5, (count * CHART_HEIGHT) / most));
  const [first, last] = [hours[0], hours.at(-1)];
  return (
    <figure class="hours">
      <svg
        viewBox={`0 0 ${hours.length * BAR_STEP - (BAR_STEP - BAR_WIDTH)} ${CHART_HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        data-testid="overview-chart"
        aria-label={summaryOf(hours)}
      >
        {hours.map(({ windowStartMs, requests = 0, refused = 0 }, i) => (
          <g key={windowStartMs}>
            <title>{`${clockWords(windowStartMs)}: ${whole(requests)} granted, ${whole(refused)} refused`}</title>
            <rect class="base" x={i * BAR_STEP} y={CHART_HEIGHT - 1} width={BAR_WIDTH} height={1} />
            <rect
              class="granted"
              x={i * BAR_STEP}
              y={CHART_HEIGHT - height(requests)}
              width={BAR_WIDTH}
              height={height(requests)}
            />
            <rect
              class="refused"
              x={i * BAR_STEP}
              y={CHART_HEIGHT - height(requests) - height(refused)}
              width={BAR_WIDTH}
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
