import type { Route } from "../../src/server/route.ts";
import { aboutRoutes } from "../../src/server/routes/about.ts";
import { acrossRoutes } from "../../src/server/routes/across.ts";
import { entityRoutes } from "../../src/server/routes/entities.ts";
import { eventRoutes } from "../../src/server/routes/events.ts";
import { leaseRoutes } from "../../src/server/routes/leases.ts";
import { limitRoutes } from "../../src/server/routes/limits.ts";
import { lookingRoutes } from "../../src/server/routes/looking.ts";
import { namespaceRoutes } from "../../src/server/routes/namespaces.ts";
import { operationRoutes } from "../../src/server/routes/operations.ts";
import { planRoutes } from "../../src/server/routes/plans.ts";
import { takingRoutes } from "../../src/server/routes/taking.ts";
import { totalRoutes } from "../../src/server/routes/totals.ts";

/** The parts of docs/reference/http.md, in its order. */
export const GROUPS: readonly { readonly title: string; readonly of: readonly Route[] }[] = [
  { title: "Taking", of: takingRoutes },
  { title: "Leases", of: leaseRoutes },
  { title: "Looking", of: lookingRoutes },
  { title: "Entities", of: entityRoutes },
  { title: "Limits and policies", of: limitRoutes },
  { title: "Across entities", of: acrossRoutes },
  { title: "Totals", of: totalRoutes },
  { title: "Plans", of: planRoutes },
  { title: "Top-ups and resets", of: operationRoutes },
  { title: "Events", of: eventRoutes },
  { title: "Namespaces", of: namespaceRoutes },
  { title: "The service", of: aboutRoutes },
];

/** The library's types that schemas show under other names: by the field that they stand at. */
export const MEANINGS: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  Explanation: [
    ["levels[].limits[].", "LimitExplanation"],
    ["levels[].totals[].", "LimitExplanation"],
    ["levels[].", "LevelExplanation"],
    ["", "Explanation"],
  ],
  Bucket: [["", "BucketListing"]],
  Capacity: [["", "ResourceCapacity"]],
  EntityLimits: [["", "StoredSet"]],
  LevelLimits: [
    ["", "StoredSet"],
    ["", "SystemSettings"],
    ["", "Policy"],
  ],
  ChangedLimits: [
    ["", "StoredSet"],
    ["", "SystemSettings"],
    ["", "Policy"],
  ],
  Levels: [
    ["items[].", "StoredSet"],
    ["items[].", "SystemSettings"],
    ["items[].", "Policy"],
  ],
  UsageSummary: [["", "UsageSummary"]],
  UsageTotal: [
    ["", "UsageTotal"],
    ["", "UsageSummary"],
  ],
  Me: [["", "TokenEntry"]],
  Lease: [
    ["", "Lease"],
    ["", "LeaseResource"],
  ],
};
