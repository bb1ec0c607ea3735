import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { isMoney } from "../domain/limits/durations.ts";
import { useObserved } from "./observable.ts";
import type { UsageWindow } from "./shapes.ts";
import { colours } from "./theme.ts";
import { REQUESTS, type Series } from "./usage-series.ts";
import { short, tokensWords } from "./words.ts";

/** Each series has a colour and dashes of its own; more could not be told apart. */
export const SERIES_MAX = 6;
const DASHES = [[], [6, 4], [2, 3], [10, 4, 2, 4], [12, 3], [4, 2]];
const HEIGHT = 260;

/** Lines over time, drawn on a canvas; the table beside it has the same numbers. */
export function UsageChart(props: {
  readonly window: UsageWindow;
  readonly metric: string;
  readonly starts: readonly number[];
  readonly series: readonly Series[];
}) {
  const { window: span, metric, starts, series } = props;
  const place = useRef<HTMLDivElement>(null);
  // The window under the pointer.
  const [hovered, setHovered] = useState<number>();
  const theme = useObserved(colours);
  const about = JSON.stringify([span, metric, starts, series, theme]);
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const chart = new uPlot(optionsOf(element, { span, metric, series }, setHovered), dataOf(starts, series), element);
    const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [about]);
  const at = hovered === undefined ? undefined : starts[hovered];
  return (
    <figure class="chart">
      <div class="chart-place" ref={place} role="img" data-testid="usage-chart" aria-label={summaryOf(props)} />
      <figcaption class="legend">
        <span class="legend-when">{at === undefined ? "Total" : tick(span, at)}</span>
        {series.map(({ name, total, values }, i) => (
          <span key={name} class="legend-item">
            <svg width="22" height="8" aria-hidden="true">
              <line class={`line-${i}`} x1="0" y1="4" x2="22" y2="4" stroke-dasharray={DASHES[i]?.join(" ")} />
            </svg>
            <span class="name mono" title={name}>
              {name}
            </span>
            <b>{tokensWords(metric, at === undefined ? total : (values[hovered as number] ?? 0))}</b>
          </span>
        ))}
        <span class="unseen">{metric}</span>
      </figcaption>
    </figure>
  );
}

/** Describes the chart for screen readers: the total of each series, and its largest window. */
function summaryOf({ metric, starts, series, window: span }: Parameters<typeof UsageChart>[0]): string {
  const lines = series.map(({ name, values, total }) => {
    const most = Math.max(...values);
    const at = starts[values.indexOf(most)] ?? 0;
    return `${name}: ${tokensWords(metric, total)} in total, at most ${tokensWords(metric, most)} in the window of ${tick(span, at)}`;
  });
  const what = metric === REQUESTS ? "Granted requests" : `${isMoney(metric) ? "Dollars" : "Tokens"} of ${metric}`;
  return `${what}, ${span}, over ${starts.length} windows. ${lines.join(". ")}.`;
}

function dataOf(starts: readonly number[], series: readonly Series[]): uPlot.AlignedData {
  // A window lasts until the next one begins; the last needs an end of its own.
  const [before = 0, last = 0] = starts.slice(-2);
  const ends = [...starts, last + (last - before)];
  return [ends.map((ms) => ms / 1000), ...series.map(({ values }) => [...values, values.at(-1) ?? 0])];
}

function optionsOf(
  element: HTMLElement,
  { span, metric, series }: { readonly span: UsageWindow; readonly metric: string; readonly series: readonly Series[] },
  onHover: (index: number | undefined) => void,
): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string) => colourOf(element, name);
  const stepped = uPlot.paths.stepped?.({ align: 1 });
  const axis = {
    stroke: colour("--quiet"),
    font: `12px ${style.fontFamily}`,
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    hooks: { setCursor: [(chart) => onHover(windowAt(chart))] },
    // Windows are of UTC, so the axis is, too.
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    padding: [14, 26, 0, 0],
    scales: { y: { range: (_, min, max) => [Math.min(0, min), max <= 0 ? 1 : max * 1.08] } },
    axes: [
      { ...axis, size: 34, space: 70, values: (_, seconds) => seconds.map((each) => tick(span, each * 1000)) },
      { ...axis, size: 60, values: (_, values) => values.map((value) => short(metric, value)) },
    ],
    series: [
      {},
      ...series.map((_, i) => ({
        stroke: colour(`--series-${i}`),
        width: 2,
        dash: DASHES[i] ?? [],
        points: { show: false },
        ...(stepped === undefined ? {} : { paths: stepped }),
        ...(series.length === 1 ? { fill: colour("--series-fill") } : {}),
      })),
    ],
  };
}

/** The window that the pointer is in: the last one that began before it. */
function windowAt(chart: uPlot): number | undefined {
  const { left = -1 } = chart.cursor;
  if (left < 0) return undefined;
  const [starts] = chart.data;
  // The last point is only the end of the last window.
  const index = starts.findLastIndex((start) => start <= chart.posToVal(left, "x"));
  return Math.max(0, Math.min(index, starts.length - 2));
}

/** Resolves a colour of the theme, because a canvas knows neither CSS variables nor `light-dark()`. */
function colourOf(element: HTMLElement, name: string): string {
  const probe = element.appendChild(document.createElement("i"));
  probe.style.color = `var(${name})`;
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function tick(span: UsageWindow, ms: number): string {
  const form: Intl.DateTimeFormatOptions =
    span === "hourly"
      ? { hour: "2-digit", minute: "2-digit" }
      : span === "daily"
        ? { day: "2-digit", month: "short" }
        : { month: "short", year: "numeric" };
  const text = new Intl.DateTimeFormat("en-GB", { ...form, timeZone: "UTC" }).format(ms);
  return text === "00:00"
    ? new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short", timeZone: "UTC" }).format(ms)
    : text;
}
