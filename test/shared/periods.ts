import type { Limit } from "../../src/domain/limits/limit.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import { namesOf, RF } from "../../src/protocol/item/attributes.ts";
import type { LedgerWrite } from "./ledger.ts";
import { countIn, numberIn, readingOf, readingsOf } from "./readings.ts";

interface Period {
  net: number;
  allowed: number;
}

/** Calendar quotas: in each period at most the capacity, by both together, on all shards. Periods go by the epoch. */
export class QuotaPeriods {
  readonly #calendar: Calendar;
  readonly #resetOf: (limit: string) => Limit["reset"];
  readonly #periods = new Map<string, Period>();

  constructor(calendar: Calendar, resetOf: (limit: string) => Limit["reset"]) {
    this.#calendar = calendar;
    this.#resetOf = resetOf;
  }

  wrote(bucketId: string, { side, before, after, isTake }: LedgerWrite): string[] {
    return readingsOf(after).flatMap((limit) => {
      const reset = this.#resetOf(limit.name);
      if (!limit.isQuota || reset === undefined) return [];
      const untilMs = this.#calendar.nextReset(reset.cron, reset.tz ?? "UTC", numberIn(after, RF));
      const id = `${bucketId}\n${limit.name}\n${untilMs}`;
      let period = this.#periods.get(id);
      const old = readingOf(before, limit.name);
      if (period === undefined || (before === undefined && countIn(after) === 1)) {
        period = { net: 0, allowed: limit.capacityMilli };
        this.#periods.set(id, period);
      }
      // A change in place may bring one capacity.
      if (old !== undefined && old.capacityMilli !== limit.capacityMilli) {
        period.allowed += Math.max(old.capacityMilli, limit.capacityMilli);
      }
      const net = limit.usedMilli - numberIn(before, namesOf(limit.name).tc);
      // A pass of the original that read the numbers before they were changed in place may be the one that begins a period.
      if (side === "theirs" && numberIn(after, RF) !== numberIn(before, RF)) {
        period.allowed += Math.max(0, limit.tokensMilli + Math.max(0, net) - limit.capacityMilli);
      }
      // What comes back from an earlier period is usage only.
      const isTokens = net >= 0 || old === undefined || limit.tokensMilli !== old.tokensMilli;
      if (isTokens) period.net += net;
      if (!isTake || net <= 0 || limit.isSoft || period.net <= period.allowed) return [];
      return [`${period.net - period.allowed} of ${limit.name} were granted above what its period allows`];
    });
  }
}
