import { LeaseClosed } from "../../domain/names/errors.ts";
import type { LeaseView } from "../../leases/lease-view.ts";
import { type CommandGroup, type GlobalOptions, type ListOptions, repeated } from "../command.ts";
import { type CommandLimiter, leasesOf } from "../command-limiter.ts";
import { change, list, show } from "../plain-commands.ts";
import { fieldsText, pageFrom } from "../print.ts";
import { timeText } from "../show-entity.ts";
import { tokensOf } from "../values.ts";

interface LeaseListOptions extends ListOptions {
  readonly entity?: string;
  readonly resource?: string;
}

interface LeaseSettleOptions extends GlobalOptions {
  readonly consume?: readonly string[];
}

const THE_LEASE = ["<lease>", "its id, from `lease list`"] as const;

export const LEASE_COMMANDS: CommandGroup = {
  "lease list": list<LeaseView, LeaseListOptions>({
    options: (command) =>
      command.option("-e, --entity <id>", "only this entity").option("-r, --resource <resource>", "only this resource"),
    examples: ["lease list", "lease list -e key-1 --json"],
    note: "Lists the leases that services keep in the store. Leases of programs that use the library are in those programs.",
    source: async (limiter, { entity, resource }) => {
      const leases = await leasesOf(limiter);
      const filter = {
        ...(entity === undefined ? {} : { entityId: entity }),
        ...(resource === undefined ? {} : { resource }),
      };
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
    argument: THE_LEASE,
    examples: ["lease list", "lease show --help"],
    note: "Exit codes: 4 no such lease, or it ended over a day ago.",
    get: async (limiter, id) => (await leasesOf(limiter)).get(id),
    text: leaseText,
  }),
  "lease settle": change<LeaseView, LeaseSettleOptions>({
    argument: THE_LEASE,
    options: (command) =>
      command.option(
        "-c, --consume <measure=n>",
        "the amount actually used; measures not named keep what is held; repeated",
        repeated,
      ),
    examples: ["lease list", "lease settle --help"],
    note: "Exit codes: 1 it ended in another way, 4 no such lease.",
    check: totalsOf,
    planned: async (limiter, id, options) => {
      const before = await openLease(limiter, id);
      return { ...before, status: "settled", consumed: { ...before.consumed, ...totalsOf(options).consumed } };
    },
    made: async (limiter, id, _, options) => (await leasesOf(limiter)).settle(id, totalsOf(options)),
    text: leaseText,
  }),
  "lease rollback": change<LeaseView>({
    argument: THE_LEASE,
    examples: ["lease list", "lease rollback --help"],
    note: "Exit codes: 1 it ended in another way, 4 no such lease.",
    planned: async (limiter, id) => {
      const before = await openLease(limiter, id);
      const none = Object.fromEntries(Object.keys(before.consumed).map((name) => [name, 0]));
      return { ...before, status: "rolledBack", consumed: none };
    },
    made: async (limiter, id) => (await leasesOf(limiter)).rollback(id),
    text: leaseText,
  }),
};

function totalsOf({ consume }: LeaseSettleOptions): { readonly consumed?: Readonly<Record<string, number>> } {
  return consume === undefined ? {} : { consumed: tokensOf(consume, "-c") };
}

/** A lease that has ended cannot be ended otherwise. */
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
  const { leaseId, entityId, resource, status, consumed, also, expiresAtMs, onExpiry } = lease;
  const further = Object.entries(also).map(([on, amounts]) => `${on}: ${amountsText(amounts)}`);
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
