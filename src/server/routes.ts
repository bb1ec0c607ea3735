import type { Route } from "./route.ts";
import { aboutRoutes } from "./routes/about.ts";
import { acrossRoutes } from "./routes/across.ts";
import { entityRoutes } from "./routes/entities.ts";
import { eventRoutes } from "./routes/events.ts";
import { leaseRoutes } from "./routes/leases.ts";
import { limitRoutes } from "./routes/limits.ts";
import { lookingRoutes } from "./routes/looking.ts";
import { namespaceRoutes } from "./routes/namespaces.ts";
import { operationRoutes } from "./routes/operations.ts";
import { planRoutes } from "./routes/plans.ts";
import { takingRoutes } from "./routes/taking.ts";
import { totalRoutes } from "./routes/totals.ts";

/** Every route of the service but the files of the dashboard. */
export const routes: readonly Route[] = [
  ...aboutRoutes,
  ...namespaceRoutes,
  ...takingRoutes,
  ...leaseRoutes,
  ...lookingRoutes,
  ...entityRoutes,
  ...limitRoutes,
  ...acrossRoutes,
  ...totalRoutes,
  ...planRoutes,
  ...operationRoutes,
  ...eventRoutes,
];
