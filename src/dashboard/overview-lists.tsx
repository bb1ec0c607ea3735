import type { ComponentChildren } from "preact";
import type { Live } from "./live.ts";
import { useTicking } from "./observable.ts";
import { Name } from "./parts.tsx";
import type { Overview } from "./shapes.ts";
import { dayWords, plural, rateText, resourceWords, tokensWords, whole } from "./words.ts";

/** Says what fills a tile, with a command for it. */
export function TileEmpty({ command, children }: { readonly command: string; readonly children: ComponentChildren }) {
  return (
    <div class="tile-empty" data-testid="tile-empty">
      <p class="quiet">{children}</p>
      <code>
        {command.split(" ").map((word, i) => (
          // A line ends between words: a hyphen within one is no place for it.
          <span key={i}>{i === 0 ? word : ` ${word}`}</span>
        ))}
      </code>
    </div>
  );
}

/** Requests a second of this service, over the last minute or as long as the page has listened. */
export function LiveNumbers({ live }: { readonly live: Live }) {
  const text = useTicking(() => {
    const { granted, refused } = live.requestRate(Date.now());
    return `${rateText(granted)} ${rateText(refused)}`;
  }, true);
  const [granted, refused] = text.split(" ");
  return (
    <p class="live-numbers" data-testid="live-requests">
      <span>
        <b data-testid="live-granted">{granted}</b> granted
      </span>
      <span>
        <b data-testid="live-refused" class={refused === "0" ? undefined : "bad-text"}>
          {refused}
        </b>{" "}
        refused
      </span>
      <span class="quiet">a second now, at this service</span>
    </p>
  );
}

/** Whose limit a row is about. */
function Whose(props: { readonly entityId: string; readonly resource: string; readonly limit: string }) {
  const { entityId, resource, limit } = props;
  return (
    <span class="whose">
      <Name text={entityId} class="mono strong" />{" "}
      <span class="quiet wrap">
        {limit} on {resourceWords(resource)}
      </span>
    </span>
  );
}

export function RefusedList(props: { readonly items: Overview["refusedMost"]; readonly isCounted: boolean }) {
  const { items, isCounted } = props;
  if (items.length === 0) {
    return (
      <TileEmpty command="zae-limiter refusals top --from 7d">
        {isCounted ? "Nobody was refused in 24 hours. Further back:" : "Refusals are not counted by this service."}
      </TileEmpty>
    );
  }
  return (
    <ul class="tile-rows">
      {items.map(({ entityId, resource, limit, level, total, count }) => (
        <li key={`${entityId} ${resource} ${limit} ${level} ${total}`}>
          <span class="whose">
            <Name text={entityId} class="mono strong" />{" "}
            <span class="quiet wrap">
              {resource}, by {limit}
              {level === entityId ? "" : ` of ${level}`}
              {total ? " over all resources" : ""}
            </span>
          </span>
          <b>{whole(count)}</b>
        </li>
      ))}
    </ul>
  );
}

export function NearestList({ items, nowMs }: { readonly items: Overview["nearest"]; readonly nowMs: number }) {
  if (items.length === 0) {
    return (
      <TileEmpty command="zae-limiter system set-defaults -l month:1M,reset=monthly">
        No quota is set, or nobody used one yet. To set one for everybody:
      </TileEmpty>
    );
  }
  return (
    <ul class="tile-rows nearest">
      {items.map((one) => (
        <li key={`${one.entityId} ${one.resource} ${one.limit}`} data-level={levelOf(one.usedPercent)}>
          <Whose {...one} />
          <span class="nearest-numbers">
            <b>{whole(one.usedPercent)} %</b> of {tokensWords(one.limit, one.capacity)}
          </span>
          <span class="bar" aria-hidden="true">
            <i style={{ transform: `scaleX(${Math.min(100, Math.max(0, one.usedPercent)) / 100})` }} />
          </span>
          <span class="nearest-end small">{endWords(one, nowMs)}</span>
        </li>
      ))}
    </ul>
  );
}

function levelOf(usedPercent: number): string {
  return usedPercent >= 100 ? "empty" : usedPercent >= 80 ? "low" : "plenty";
}

function endWords({ limit, available, usedUpAtMs, resetsAtMs }: Overview["nearest"][number], nowMs: number): string {
  const again = resetsAtMs === undefined ? "" : `, full again ${dayWords(resetsAtMs, nowMs)}`;
  if (available <= 0) return `used up${again}`;
  const left = `${tokensWords(limit, available)} left`;
  if (usedUpAtMs === undefined) return `${left}${again}`;
  return `${left}, used up ${dayWords(usedUpAtMs, nowMs)} at today's pace`;
}

export function SlotList({ items }: { readonly items: Overview["slots"] }) {
  if (items.length === 0) {
    return (
      <TileEmpty command="zae-limiter system set-defaults -l parallel:10@60s">
        No limit on how many are at once is in use. To set one:
      </TileEmpty>
    );
  }
  return (
    <ul class="tile-rows">
      {items.map((one) => (
        <li key={`${one.entityId} ${one.resource} ${one.limit}`}>
          <Whose {...one} />
          <span class="nowrap">
            <b>{whole(one.held)}</b> of {whole(one.capacity)}
          </span>
        </li>
      ))}
    </ul>
  );
}

export function ThresholdList({ items }: { readonly items: Overview["thresholds"] }) {
  if (items.length === 0) {
    return (
      <TileEmpty command="zae-limiter system set-defaults -l month:1M,reset=monthly,notify=80/95">
        No percentage was reached in the open periods. To be told of some:
      </TileEmpty>
    );
  }
  // The percentages of one limit are one row.
  const limits = new Map<string, { readonly of: Overview["thresholds"][number]; readonly percents: number[] }>();
  for (const of of items) {
    const key = `${of.entityId} ${of.resource} ${of.limit}`;
    const known = limits.get(key);
    if (known === undefined) limits.set(key, { of, percents: [of.percent] });
    else known.percents.unshift(of.percent);
  }
  return (
    <ul class="tile-rows">
      {Array.from(limits, ([key, { of, percents }]) => (
        <li key={key}>
          <Whose {...of} />
          <b class="nowrap">{percents.join(", ")} %</b>
        </li>
      ))}
    </ul>
  );
}

export function ShadowList({ items }: { readonly items: Overview["shadows"] }) {
  if (items.length === 0) {
    return (
      <TileEmpty command="zae-limiter system set-defaults -l rpm:100/min,shadow">
        No shadow limit would have refused anything. To try a limit on everybody:
      </TileEmpty>
    );
  }
  return (
    <ul class="tile-rows">
      {items.map(({ limit, wouldRefuse, entities }) => (
        <li key={limit}>
          <span class="whose">
            <Name text={limit} class="strong" />{" "}
            <span class="quiet">
              would have refused {whole(wouldRefuse)}, {plural(entities, "customer")}
            </span>
          </span>
        </li>
      ))}
    </ul>
  );
}
