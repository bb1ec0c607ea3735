import assert from "node:assert/strict";
import { createCalendar } from "../../src/adapters/system/calendar.ts";

export const calendar = createCalendar();

export function at(text: string): number {
  return Date.parse(text);
}

export function iso(ms: number): string {
  return Number.isFinite(ms) ? new Date(ms).toISOString() : String(ms);
}

/** These instants are resets, and there is none between them; asked from each side and from the middle. */
export function assertResets(cron: string, tz: string, resets: readonly string[]): void {
  for (const [index, text] of resets.entries()) {
    const here = at(text);
    assert.equal(iso(calendar.nextReset(cron, tz, here - 1)), iso(here), "the next one, asked 1 ms before");
    assert.equal(iso(calendar.previousReset(cron, tz, here)), iso(here), "the previous one, asked at the very instant");
    const following = resets[index + 1];
    if (following === undefined) continue;
    const then = at(following);
    for (const now of [here, Math.floor((here + then) / 2), then - 1]) {
      assert.equal(iso(calendar.nextReset(cron, tz, now)), iso(then), `the next one, asked ${iso(now)}`);
      assert.equal(iso(calendar.previousReset(cron, tz, now)), iso(here), `the previous one, asked ${iso(now)}`);
    }
  }
}

/** A window opens at the first of these instants, and each is the next change after the one before. */
export function assertChanges(cron: string, tz: string, changes: readonly string[]): void {
  for (const [index, text] of changes.entries()) {
    const opens = index % 2 === 0;
    assert.equal(calendar.matches(cron, tz, at(text) - 1), !opens, `before ${text}`);
    assert.equal(calendar.matches(cron, tz, at(text)), opens, `at ${text}`);
    assert.equal(iso(calendar.nextChange(cron, tz, at(text) - 1)), iso(at(text)));
    const following = changes[index + 1];
    if (following !== undefined) assert.equal(iso(calendar.nextChange(cron, tz, at(text))), iso(at(following)));
  }
}
