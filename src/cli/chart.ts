import type { Paint } from "./color.ts";
import { tokensText } from "./limit-print.ts";

/** What one limit used, window by window, oldest first. */
export interface Series {
  readonly limit: string;
  readonly points: readonly { readonly windowStartMs: number; readonly tokens: number }[];
}

const EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/** A bar a window, under each other, the longest as wide as there is room; the last 60 windows. */
export function chartText(
  { limit, points }: Series,
  {
    columns,
    paint,
    labelOf,
  }: { readonly columns: number; readonly paint: Paint; readonly labelOf: (startMs: number) => string },
): string {
  const shown = points.slice(-WINDOWS_MAX);
  const most = Math.max(1, ...shown.map(({ tokens }) => tokens));
  const labels = shown.map(({ windowStartMs }) => labelOf(windowStartMs));
  const label = Math.max(...labels.map(({ length }) => length));
  const numbers = shown.map(({ tokens }) => tokensText(limit, tokens));
  const number = Math.max(...numbers.map(({ length }) => length));
  const room = Math.max(10, columns - label - number - 4);
  const lines = shown.map(({ tokens }, i) => {
    const bar = barText(tokens / most, room);
    return `${(labels[i] ?? "").padEnd(label)}  ${(numbers[i] ?? "").padStart(number)}  ${paint("cyan", bar)}`.trimEnd();
  });
  const total = shown.reduce((sum, { tokens }) => sum + tokens, 0);
  const left = points.length - shown.length;
  const earlier = left === 0 ? "" : `, ${left} earlier windows not shown`;
  return `${paint("bold", limit)}  ${tokensText(limit, total)} in ${shown.length} window${shown.length === 1 ? "" : "s"}${earlier}\n${lines.join("\n")}\n`;
}

const WINDOWS_MAX = 60;

/** A bar of so much of the room, to an eighth of a column. */
export function barText(part: number, room: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, part)) * room * 8);
  return `${"█".repeat(Math.floor(eighths / 8))}${EIGHTHS[eighths % 8]}`;
}
