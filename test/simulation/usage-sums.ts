import type { UsageSnapshot } from "../../src/domain/charge/usage.ts";
import type { Limiter } from "../../src/engine/limiter/limiter.ts";

/** From the beginning to the end of the calendar. */
export const ALWAYS = { fromMs: 0, toMs: 8_000_000_000_000_000 } as const;

const HOURLY = { window: "hourly", ...ALWAYS } as const;

/** Where the sums that a limiter shows are not those of its rows: over all resources a total does not count beside its parts. */
export async function sumProblems(limiter: Limiter, rows: readonly UsageSnapshot[]): Promise<string[]> {
  const [totals, parts] = [rows.filter(isTotal), rows.filter((row) => !isTotal(row))];
  const all = await limiter.usageSummary(HOURLY);
  const byName = await limiter.usageSummary({ ...HOURLY, resource: "*" });
  const byEntity = await limiter.usageTotals({ ...HOURLY, by: "entity" });
  const requests = byEntity.reduce((sum, one) => sum + one.requests, 0);
  return [
    ...differences("all resources", all, parts),
    ...differences("the totals", byName, totals),
    ...(requests === all.requests ? [] : [`${requests} requests by entity are ${all.requests} in all`]),
  ];
}

function isTotal({ resource }: UsageSnapshot): boolean {
  return resource === "*";
}

function differences(
  what: string,
  told: Awaited<ReturnType<Limiter["usageSummary"]>>,
  rows: readonly UsageSnapshot[],
): string[] {
  const due = new Map<string, bigint>();
  for (const { counters } of rows) {
    for (const [limit, tokens] of Object.entries(counters)) due.set(limit, (due.get(limit) ?? 0n) + milliOf(tokens));
  }
  const requests = rows.reduce((sum, row) => sum + row.requests, 0);
  const wrong = [...new Set([...due.keys(), ...Object.keys(told.total)])].filter(
    (limit) => (due.get(limit) ?? 0n) !== milliOf(told.total[limit] ?? 0),
  );
  return [
    ...wrong.map((limit) => `the usage of ${what} sums up to ${told.total[limit]} of ${limit}, not ${due.get(limit)}`),
    ...(requests === told.requests
      ? []
      : [`the usage of ${what} sums up to ${told.requests} requests, not ${requests}`]),
  ];
}

function milliOf(tokens: number): bigint {
  return BigInt(Math.round(tokens * 1000));
}
