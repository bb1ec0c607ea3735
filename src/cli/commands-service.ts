import type { CommandEntry } from "./command-entry.ts";

export const LEASE_COMMANDS: readonly CommandEntry[] = [
  {
    path: ["lease", "list"],
    summary: "Leases that are open",
    load: async () => (await import("./commands/lease-list.ts")).leaseList,
  },
  {
    path: ["lease", "show"],
    summary: "One lease",
    load: async () => (await import("./commands/lease-show.ts")).leaseShow,
  },
  {
    path: ["lease", "settle"],
    summary: "End a lease with what it came to in total",
    load: async () => (await import("./commands/lease-settle.ts")).leaseSettle,
  },
  {
    path: ["lease", "rollback"],
    summary: "Give everything back and end the lease",
    load: async () => (await import("./commands/lease-rollback.ts")).leaseRollback,
  },
];

export const EVENT_COMMANDS: readonly CommandEntry[] = [
  {
    path: ["events", "follow"],
    summary: "Takes, refusals and changes as they happen, until Ctrl-C",
    load: async () => (await import("./commands/events-follow.ts")).eventsFollow,
  },
];
