import { after, clockFrom, steadyMs, systemClock, systemTurns } from "../adapters/system/clock.ts";
import { systemDigest, systemRandom } from "../adapters/system/random.ts";
import { FILE_RETENTION } from "../domain/config/retention.ts";
import { leaseForm } from "../leases/record-of.ts";
import type { Clock } from "../ports/system.ts";
import { calendar } from "./limits.ts";
import { type RetentionOptions, storeRetention } from "./retention.ts";

interface ServerStoreOptions extends RetentionOptions {
  readonly clock?: { now(): number; sleep?: Clock["sleep"] };
}

/** The parts of a store on a server that are the same for PostgreSQL and Redis. */
export function serverStoreParts(options: ServerStoreOptions) {
  const { clock } = options;
  return {
    ...{ calendar, steadyMs, after, turns: systemTurns, digest: systemDigest, random: systemRandom },
    retention: storeRetention(options, FILE_RETENTION),
    leaseForm: leaseForm(calendar),
    clock:
      clock === undefined
        ? ({ kind: "kept", local: systemClock } as const)
        : ({ kind: "given", clock: clockFrom(clock) } as const),
  };
}

/** Whether a server is on this machine, as far as its address tells. */
export function isLocalHost(host: string): boolean {
  return host.startsWith("/") || /^(localhost|127(\.\d+){3}|::1)$/i.test(host);
}

/** How far the clock of this machine is ahead of a server's, in ms; to half a round trip. Undefined: the server does not tell its time. */
export async function aheadOf<Ms extends number | undefined>(serverNow: () => Promise<Ms>): Promise<Ms> {
  const sentMs = systemClock.now();
  const nowMs = await serverNow();
  return (nowMs === undefined ? undefined : Math.round((sentMs + systemClock.now()) / 2 - nowMs)) as Ms;
}
