import type { CommandEntry } from "./command-entry.ts";

export const LEASE_COMMANDS: readonly CommandEntry[] = [
  {
    path: ["lease", "list"],
    summary: "List open leases",
    load: async () => (await import("./commands/lease-list.ts")).leaseList,
  },
  {
    path: ["lease", "show"],
    summary: "Show a lease",
    load: async () => (await import("./commands/lease-show.ts")).leaseShow,
  },
  {
    path: ["lease", "settle"],
    summary: "End a lease with the amounts actually used",
    load: async () => (await import("./commands/lease-settle.ts")).leaseSettle,
  },
  {
    path: ["lease", "rollback"],
    summary: "End a lease and give everything back",
    load: async () => (await import("./commands/lease-rollback.ts")).leaseRollback,
  },
];

export const EVENT_COMMANDS: readonly CommandEntry[] = [
  {
    path: ["events", "follow"],
    summary: "Follow acquires, refusals and changes as they happen",
    load: async () => (await import("./commands/events-follow.ts")).eventsFollow,
  },
];
