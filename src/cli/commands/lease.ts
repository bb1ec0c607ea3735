import { LeaseClosed } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { LeaseView } from "../../leases/lease-view.ts";
import { type CommandGroup, SCOPE_OPTIONS } from "../command.ts";
import { timeText } from "../named-records.ts";
import { type CommandLimiter, leasesOf } from "../on-store.ts";
import { change, list, show } from "../plain-commands.ts";
import { fieldsText, pageFrom } from "../print.ts";
import { tokensOf } from "../values.ts";

const THE_LEASE = [["<lease>", "its id, from `lease list`"]] as const;

export const LEASE_COMMANDS: CommandGroup = {
  "lease list": list({
    options: SCOPE_OPTIONS,
    examples: ["lease list", "lease list -e key-1 --json"],
    notes: [
      "Lists the leases that services keep in the store. Leases of programs that use the library are in those programs.",
    ],
    read: ({ entity: entityId, resource }) => given({ entityId, resource }),
    source: async (limiter, filter) => {
      const leases = await leasesOf(limiter);
      return {
        page: (request) => pageFrom(leases.list({ ...filter, ...request })),
        columns: [
          { title: "LEASE", text: ({ leaseId }) => leaseId ?? "" },
          { title: "ENTITY", text: ({ entityId }) => entityId },
          { title: "RESOURCE", text: (lease) => lease.resource },
          { title: "HOLDS", text: ({ consumed }) => amountsText(consumed), flexible: true },
          { title: "ENDS", text: ({ expiresAtMs }) => (expiresAtMs === null ? "" : timeText(expiresAtMs)) },
        ],
        empty: "No lease is open.",
      };
    },
  }),
  "lease show": show({
    arguments: THE_LEASE,
    examples: ["lease list", "lease show --help"],
    notes: ["Exit codes: 4 no such lease, or it ended over a day ago."],
    get: async (limiter, id) => (await leasesOf(limiter)).get(id),
    text: leaseText,
  }),
  "lease settle": change({
    arguments: THE_LEASE,
    options: [
      ["-c, --consume <measure=n>", "the amount actually used; measures not named keep what is held; repeated", "list"],
    ],
    examples: ["lease list", "lease settle --help"],
    notes: ["Exit codes: 1 it ended in another way, 4 no such lease."],
    read: ({ consume }, [id = ""]) => ({
      id,
      totals: consume === undefined ? {} : { consumed: tokensOf(consume, "-c") },
    }),
    plan: async (limiter, { id, totals }): Promise<LeaseView> => {
      const before = await openLease(limiter, id);
      return { ...before, status: "settled", consumed: { ...before.consumed, ...totals.consumed } };
    },
    make: async (limiter, { id, totals }) => (await leasesOf(limiter)).settle(id, totals),
    text: leaseText,
  }),
  "lease rollback": change({
    arguments: THE_LEASE,
    examples: ["lease list", "lease rollback --help"],
    notes: ["Exit codes: 1 it ended in another way, 4 no such lease."],
    plan: async (limiter, id): Promise<LeaseView> => {
      const before = await openLease(limiter, id);
      const none = Object.fromEntries(Object.keys(before.consumed).map((name) => [name, 0]));
      return { ...before, status: "rolledBack", consumed: none };
    },
    make: async (limiter, id) => (await leasesOf(limiter)).rollback(id),
    text: leaseText,
  }),
};

/** The lease, which must be open: one that has ended cannot be ended otherwise. */
async function openLease(limiter: CommandLimiter, id: string): Promise<LeaseView> {
  const lease = await (await leasesOf(limiter)).get(id);
  const { leaseId, status } = lease;
  if (status === "open") return lease;
  throw new LeaseClosed(
    "lease_closed",
    `The lease ${leaseId} is ${status === "rolledBack" ? "rolled back" : status}.`,
    { leaseStatus: status },
  );
}

function leaseText(lease: LeaseView): string {
  const { leaseId, entityId, resource, status, consumed, also, parts = [], expiresAtMs, onExpiry } = lease;
  const others = parts.filter((part) => part.entityId !== entityId);
  const further = [
    ...Object.entries(also).map(([on, amounts]) => `${on}: ${amountsText(amounts)}`),
    ...others.map((part) => `${part.entityId} on ${part.resource}: ${amountsText(part.consumed)}`),
  ];
  return fieldsText({
    lease: leaseId ?? undefined,
    entity: entityId,
    resource,
    status,
    holds: amountsText(consumed),
    also: further.length === 0 ? undefined : further.join("; "),
    ends: expiresAtMs === null ? undefined : `${timeText(expiresAtMs)} (${onExpiry} then)`,
  });
}

function amountsText(amounts: Readonly<Record<string, number>>): string {
  return Object.entries(amounts)
    .map(([name, amount]) => `${name}=${amount}`)
    .join(" ");
}
