import { Limit, RateLimiter } from "../../src/entry/index.ts";

const ZONE = "Europe/Berlin";
const HOUR_MS = 3_600_000;
const START_MS = Date.parse("2026-03-10T06:00:00+01:00");
const ASKED = 8;

/**
 * Limits that follow the calendar, shown on a day that passes in a moment: the limiter is given a clock that jumps two hours
 * a line. Nothing of it is stored.
 */
export async function dayLines(): Promise<string[]> {
  let nowMs = START_MS;
  await using limiter = await RateLimiter.open({ store: "memory", clock: { now: () => nowMs } });
  await limiter.setResourceDefaults("reports", [
    Limit.quota("day", 50, { reset: { cron: "0 0 * * *", tz: ZONE } }),
    Limit.perHour("atOnce", 10, { schedule: [{ cron: "* 9-17 * * *", tz: ZONE, scale: 0.5 }] }),
  ]);
  const lines = [
    "A simulated day, one line per two hours: 50 reports a day,",
    "reset at midnight in Berlin; 10 at once, 5 during office hours.",
    "",
    "  Berlin  asked granted  left today  at once",
  ];
  for (; nowMs <= START_MS + 18 * HOUR_MS; nowMs += 2 * HOUR_MS) {
    let granted = 0;
    let then = "";
    for (let i = 0; i < ASKED; i++) {
      const outcome = await limiter.tryAcquire({
        entityId: "key-1",
        resource: "reports",
        consume: { day: 1, atOnce: 1 },
      });
      if (outcome.ok) granted++;
      else then ||= `refused by ${outcome.primary.limit}; retry in ${Math.round(outcome.retryAfterMs / 60_000)} min`;
    }
    const held = await limiter.available({ entityId: "key-1", resource: "reports" });
    const [day, atOnce] = held.map(({ available, capacity }) => `${available} of ${capacity}`);
    lines.push(
      `  ${clockTime(nowMs).padEnd(6)}${String(ASKED).padStart(7)}${String(granted).padStart(8)}` +
        `${String(day).padStart(12)}${String(atOnce).padStart(9)}  ${then}`.trimEnd(),
    );
  }
  return lines;
}

function clockTime(ms: number): string {
  return new Date(ms).toLocaleTimeString("en-GB", { timeZone: ZONE, hour: "2-digit", minute: "2-digit" });
}
