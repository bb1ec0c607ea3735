import { Limit, RateLimiter } from "../../src/entry/index.ts";

const UNITS: Readonly<Record<string, string>> = {
  month: "tokens a month",
  tpm: "tokens a minute",
  rpm: "requests a minute",
};
const BAR = 20;
const ASKED_TOKENS = 6_000;

/** The drawing at the top of the README, from a limiter that was brought to that state. */
export async function readmePicture(): Promise<string> {
  const nowMs = Date.UTC(2026, 0, 12, 9);
  const limiter = await RateLimiter.open({ store: "memory", clock: { now: () => nowMs } });
  await setUp(limiter);
  const request = { entityId: "key-1", resource: "gpt-4", consume: { tpm: ASKED_TOKENS } };
  const { levels } = await limiter.explain(request);
  const outcome = await limiter.tryAcquire(request);
  if (outcome.ok) throw new Error("The request of the picture was granted.");
  const { statuses, retryAfterMs } = outcome;
  const isShort = (entityId: string, limit: string) =>
    statuses.some((status) => status.entityId === entityId && status.limit === limit && status.exceeded);
  const lines = levels.toReversed().flatMap(({ entityId, limits, totals }, depth) =>
    [...limits, ...totals].map(({ limit, available, capacity }, i) => {
      const name = i > 0 ? "" : `${depth === 0 ? "" : `${"   ".repeat(depth - 1)}└─ `}${entityId}`;
      const amounts = `${amount(available).padStart(9)} of ${amount(capacity).padEnd(9)}`;
      const unit = (UNITS[limit] as string).padEnd(17);
      return `${name.padEnd(13)}${amounts}  ${unit}  ${bar(available / capacity)}  ${isShort(entityId, limit) ? "short" : "fits"}`;
    }),
  );
  const isUntouched = JSON.stringify((await limiter.explain(request)).levels) === JSON.stringify(levels);
  await limiter.close();
  return [
    `key-1 asks for ${amount(ASKED_TOKENS)} tokens of gpt-4. Left of each limit:`,
    "",
    ...lines,
    "",
    `Refused: ${isUntouched ? "nothing was" : "something was"} taken at any level. The request fits in ${retryAfterMs / 1000} s.`,
  ].join("\n");
}

async function setUp(limiter: RateLimiter): Promise<void> {
  await limiter.createEntity({ id: "acme" });
  await limiter.createEntity({ id: "acme-web", parentId: "acme" });
  await limiter.createEntity({ id: "key-1", parentId: "acme-web" });
  await limiter.setTotals("acme", [Limit.quota("month", 2_000_000, { counts: "tpm", reset: "monthly" })]);
  await limiter.setLimits("acme-web", [Limit.perMinute("tpm", 100_000)], { resource: "gpt-4" });
  const ofKey = [Limit.perMinute("rpm", 60, { counts: "requests" }), Limit.perMinute("tpm", 40_000)];
  await limiter.setLimits("key-1", ofKey, { resource: "gpt-4" });
  const take = (entityId: string, tpm: number) => limiter.acquire({ entityId, resource: "gpt-4", consume: { tpm } });
  await take("acme", 762_000);
  await take("acme-web", 3_200);
  await take("key-1", 34_800);
  for (let i = 0; i < 18; i++) await take("key-1", 0);
}

function amount(tokens: number): string {
  return tokens.toLocaleString("en-US");
}

function bar(share: number): string {
  const full = Math.round(share * BAR);
  return `${"█".repeat(full)}${"░".repeat(BAR - full)}`;
}
