import type { Route } from "../../src/server/route.ts";
import { entityRoutes, planRoutes } from "../../src/server/routes/entities.ts";
import { leaseRoutes } from "../../src/server/routes/leases.ts";
import { acrossRoutes, limitRoutes, totalRoutes } from "../../src/server/routes/limits.ts";
import { eventRoutes, lookingRoutes } from "../../src/server/routes/looking.ts";
import { manifestRoutes } from "../../src/server/routes/manifests.ts";
import { namespaceRoutes } from "../../src/server/routes/namespaces.ts";
import { correctionRoutes, operationRoutes, takingRoutes } from "../../src/server/routes/taking.ts";
import { aboutRoutes } from "../../src/server/routes.ts";

/** The parts of docs/reference/http.md, in its order. */
export const GROUPS: readonly { readonly title: string; readonly of: readonly Route[] }[] = [
  { title: "Taking", of: takingRoutes },
  { title: "Leases", of: leaseRoutes },
  { title: "Without a lease", of: correctionRoutes },
  { title: "Looking", of: lookingRoutes },
  { title: "Entities", of: entityRoutes },
  { title: "Limits and policies", of: limitRoutes },
  { title: "Across entities", of: acrossRoutes },
  { title: "Totals", of: totalRoutes },
  { title: "Plans", of: planRoutes },
  { title: "Declared limits", of: manifestRoutes },
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
  PastExplanation: [
    ...(["limits", "totals"] as const).flatMap((of) => [
      [`levels[].${of}[].`, "PastLimit"] as const,
      [`levels[].${of}[].`, "LimitExplanation"] as const,
    ]),
    ["levels[].", "PastLevel"],
    ["levels[].", "LevelExplanation"],
    ["refusals[].", "LoggedRefusal"],
    ["", "PastExplanation"],
  ],
  Bucket: [["", "BucketListing"]],
  Capacity: [["", "ResourceCapacity"]],
  Overview: [
    ["refusedMost[].", "OverviewRefusals"],
    ["refusedMost[].", "RefusalCount"],
    ["nearest[].", "NearestLimit"],
    ["slots[].", "SlotsInUse"],
    ["thresholds[].", "ReachedThreshold"],
    ["shadows[].", "OverviewShadow"],
    ["degraded[].", "OverviewDegraded"],
    ["hours[].", "OverviewHour"],
    ["", "Overview"],
  ],
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
