import { z } from "../vendor.ts";
import { told } from "./input.ts";
import { answer, instant } from "./levels.ts";
import { bucketKey, explainedLevel, explainedLimit, limitKey, usageWindow } from "./output.ts";

// Answers about requests that were refused, and about the limits that refused them.

export const refusalCount = answer("RefusalCount", {
  ...limitKey,
  level: told(z.string(), "Whose limit it is: the id of the entity that asked, or of a parent."),
  total: z.boolean(),
  ...usageWindow,
  count: z.int(),
});

export const refusalTotal = answer("RefusalTotal", {
  entityId: z.string().optional(),
  resource: z.string().optional(),
  limit: z.string().optional(),
  count: z.int(),
});

export const loggedRefusal = answer("LoggedRefusal", {
  atMs: instant,
  ...limitKey,
  counts: z.string(),
  level: z.string(),
  total: z.boolean(),
  requested: z.int(),
  available: z.int(),
  capacity: z.int(),
  retryAfterMs: z.number().nullable(),
  waitedMs: z.number().optional(),
  requestId: z.string().optional(),
});

const pastLimit = z.object({ ...explainedLimit, sinceMs: instant.optional(), untilMs: instant.optional() });

export const pastExplanation = answer("PastExplanation", {
  ...bucketKey,
  outcome: z.enum(["past", "ahead"]),
  atMs: instant,
  knownFromMs: instant.optional(),
  levels: z.array(explainedLevel.extend({ limits: z.array(pastLimit), totals: z.array(pastLimit) })),
  refusals: z.array(loggedRefusal).optional(),
});
