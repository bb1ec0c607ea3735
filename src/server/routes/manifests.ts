import { given } from "../../domain/names/given.ts";
import { partsOf } from "../../engine/limiter/limiter-parts.ts";
import type { Change, Manifest } from "../../manifest/manifest.ts";
import type { ApplyAnswer, PlanAnswer } from "../../manifest/manifests.ts";
import type { PlanOptions } from "../../manifest/plan.ts";
import { problemResponse, type RouteResponse } from "../problem.ts";
import { type Call, type Route, route } from "../route.ts";
import { entityId, name, planId, resource, strictObject, told } from "../schemas/input.ts";
import { answer, instant, LEVELS, TOTAL_LEVELS } from "../schemas/levels.ts";
import { z } from "../vendor.ts";
import { waysFor } from "../ways.ts";

/** The most bytes of a body with a manifest. Nobody else is answered while it is read: half a second for each MB. */
const BYTES_MAX = 4 * 1024 * 1024;

/** How long the store may be read, beyond the time of other answers. */
const WORK_MS = 20_000;

/** One call of apply makes changes for at most this time: proxies wait for it, and so does a caller that interrupts it. */
const APPLY_MS = 5_000;

const owner = told(name, "The owner. Default: default.").optional();

const manifestBody = strictObject({
  manifest: told(z.looseObject({}), "The manifest as JSON, with the names that it has as YAML: manifest.schema.json."),
  owner: told(name, "The owner, if the manifest names none. Default: default.").optional(),
  keep: told(
    z.boolean(),
    "Whether pieces that are owned and no longer declared stay, without an owner. Default: false.",
  ).optional(),
  prune: told(
    z.boolean(),
    "Whether pieces that are owned and no longer declared are deleted. Default: false.",
  ).optional(),
  takeOver: told(z.boolean(), "Whether pieces of other owners are taken over. Default: false.").optional(),
});

const EXAMPLE = { manifest: { owner: "platform", resources: { "gpt-4": { limits: { rpm: 100 } } } } };

const piece = {
  what: told(
    z.enum(["limits", "totals", "access", "cascade", "onUnavailable", "usageKeptDays", "entity", "plan"]),
    "What it is.",
  ),
  level: told(z.enum([...LEVELS, ...TOTAL_LEVELS]), "Its level. Absent for an entity and a plan.").optional(),
  resource: resource.optional(),
  entityId: entityId.optional(),
  planId: planId.optional(),
};

const change = strictObject({
  action: told(
    z.enum(["create", "update", "delete", "adopt", "release"]),
    "adopt: only the owner is written. release: the piece stays, without an owner.",
  ),
  ...piece,
  before: told(z.unknown(), "The value before: limits, an entity, a plan, a setting; null: none."),
  after: told(z.unknown(), "The value after; null: none."),
  drift: told(z.boolean(), "Whether the stored value differs from the one that was last applied."),
  overrideUntilMs: told(
    instant,
    "Something that was set with an end hides it until then, in ms since 1970.",
  ).optional(),
  done: told(z.literal(true), "The change was made.").optional(),
}).openapi("ManifestChange");

const counts = {
  create: told(z.int(), "Pieces that are created."),
  update: told(z.int(), "Pieces that get another value."),
  delete: told(z.int(), "Pieces that are deleted."),
  adopt: told(z.int(), "Pieces that get an owner."),
  release: told(z.int(), "Pieces that lose their owner."),
  unchanged: told(z.int(), "Pieces that stay as they are."),
};

const planShape = {
  namespace: told(z.string(), "The name of the namespace."),
  owner: told(z.string(), "The owner of the pieces."),
  changes: told(z.array(change), "The changes, in the order in which they are made."),
  conflicts: told(
    z.array(z.object({ ...piece, owner: told(z.string(), "Its owner.") })),
    "Pieces that belong to another owner.",
  ),
  summary: told(z.object(counts), "How many changes of each kind there are."),
  warnings: told(z.array(z.string()), "What can be applied but is probably a mistake."),
};

const planned = answer("ManifestPlan", {
  ...planShape,
  refusal: told(
    z.object({ code: told(z.string(), "The code of the error."), message: told(z.string(), "Its message.") }),
    "Why an apply would be refused. Absent: it would not.",
  ).optional(),
});

const applied = answer("ManifestApplied", {
  ...planShape,
  changes: told(z.array(change), "The changes that this call has made."),
  complete: told(z.boolean(), "Whether all changes are made. false: call again with the same body."),
});

const drift = answer("ManifestDrift", {
  namespace: told(z.string(), "The name of the namespace."),
  owner: told(z.string(), "The owner of the pieces."),
  appliedAtMs: told(instant, "When the last apply began, in ms since 1970."),
  drift: told(
    z.array(
      z.object({
        ...piece,
        applied: told(z.unknown(), "The value that was last applied."),
        live: told(z.unknown(), "The stored value; null: none."),
        by: told(
          z.object({
            principal: told(z.string(), "Who made it. Absent: not recorded.").optional(),
            action: told(z.string(), "What was done."),
            atMs: instant,
          }),
          "The change that made the difference, as the audit log has it.",
        ).optional(),
      }),
    ),
    "The pieces whose stored value is not the one that was last applied.",
  ),
});

const part = (description: string) => told(z.record(z.string(), z.unknown()), description).optional();

const exported = answer("ManifestExport", {
  document: told(
    z.object({
      namespace: told(z.string(), "The name of the namespace."),
      owner: told(z.string(), "The owner of the pieces. Absent: no piece has one.").optional(),
      plans: part("Plans, by id."),
      system: part("The system level."),
      resources: part("Resources, by name."),
      entities: part("Entities, by id."),
    }),
    "The manifest, as JSON.",
  ),
  warnings: told(z.array(z.string()), "What a manifest cannot say: limits and access that have an end."),
});

export const manifestRoutes: readonly Route[] = [
  route("POST manifest/plan", "Plan declared limits", {
    note: "What applying a manifest would change. Nothing is changed.",
    scope: "admin",
    body: manifestBody.openapi({ example: EXAMPLE }),
    bodyMax: BYTES_MAX,
    ok: ["The changes that an apply would make.", planned],
    run: async (call): Promise<PlanAnswer> => {
      call.extend(WORK_MS);
      const { manifest, options, plans } = await readManifest(call);
      const plan = await plans.planManifest(call.limiter, manifest, options);
      const { refusal } = plans.basisOf(plan);
      return { ...plan, ...given({ refusal: refusal && { code: refusal.code, message: refusal.message } }) };
    },
  }),
  route("POST manifest/apply", "Apply declared limits", {
    note: "Works for some seconds: call again, with the same body, until `complete`. An error after the first change has `made`, the changes until then.",
    scope: "admin",
    body: manifestBody
      .extend({
        changes: told(
          z.array(change),
          "The changes of the plan that was approved; others are not made (409 `plan_outdated`). Absent: whatever the plan is now.",
        ).optional(),
      })
      .openapi({ example: EXAMPLE }),
    bodyMax: BYTES_MAX,
    ok: ["The changes that were made.", applied],
    handle: (call) => applyPart(call, call.body.changes as readonly Change[] | undefined),
  }),
  route("GET manifest/drift", "Show drift of declared limits", {
    note: "Pieces that are no longer as their owner last applied them, and who changed them.",
    scope: "read",
    query: strictObject({ owner }),
    ok: ["The pieces that differ; none if all is as it was applied.", drift],
    run: async (call) => {
      call.extend(WORK_MS);
      const { driftOf } = await import("../../manifest/drift.ts");
      return driftOf(call.limiter, given(call.query));
    },
  }),
  route("GET manifest/export", "Export a namespace as a manifest", {
    note: "Names the owner of the pieces; pieces of several owners are 409 `owners_several`, unless one is picked.",
    scope: "read",
    query: strictObject({
      owner: told(name, "Only pieces of this owner. Default: of everybody.").optional(),
      owned: told(z.enum(["true", "false"]), "true: only pieces that have an owner. Default: false.").optional(),
    }),
    ok: ["The manifest.", exported],
    refusals: [409],
    run: async (call) => {
      call.extend(WORK_MS);
      const { owner, owned } = call.query;
      const { exportDocument } = await import("../../manifest/export.ts");
      return exportDocument(call.limiter, { owned: owner ?? owned === "true" });
    },
  }),
];

type ManifestCall = Call<unknown, z.output<typeof manifestBody>>;

/** The manifest of a body and the options of its plan. What reads it is loaded when the first one comes. */
async function readManifest({ limiter, body }: ManifestCall): Promise<{
  readonly manifest: Manifest;
  readonly options: PlanOptions;
  readonly plans: typeof import("../../manifest/plan.ts");
}> {
  const { manifest, owner, keep, prune, takeOver } = body;
  const [{ readDocument }, plans] = await Promise.all([
    import("../../manifest/parse.ts"),
    import("../../manifest/plan.ts"),
  ]);
  const { calendar } = partsOf(limiter).deps;
  return { manifest: readDocument(manifest, calendar), options: given({ owner, keep, prune, takeOver }), plans };
}

class TimeOver extends Error {}

/** Makes changes for some seconds, and tells which: also where it fails after the first. */
async function applyPart(call: ManifestCall, shown: readonly Change[] | undefined): Promise<RouteResponse> {
  const { limiter, caller, service } = call;
  call.extend(WORK_MS);
  const [{ manifest, options, plans }, { applyManifest }, { asShown }] = await Promise.all([
    readManifest(call),
    import("../../manifest/apply.ts"),
    import("../../manifest/saved-plan.ts"),
  ]);
  const now = await plans.planManifest(limiter, manifest, options);
  const plan = shown === undefined ? now : asShown(now, shown);
  const untilMs = service.clock.now() + APPLY_MS;
  const made: Change[] = [];
  const onChange = (each: Change) => {
    made.push(each);
    if (service.clock.now() >= untilMs) throw new TimeOver();
  };
  const answered = (body: ApplyAnswer) => ({ status: 200, body });
  try {
    const done = await applyManifest(limiter, plan, { principal: caller.id, signal: call.signal(0), onChange });
    return answered({ ...done, complete: true });
  } catch (error) {
    if (error instanceof TimeOver) return answered({ ...plan, changes: made, complete: false });
    const failed = problemResponse(error, call.requestId, waysFor(call.request));
    if (failed === undefined || made.length === 0) throw error;
    return { ...failed, body: { ...(failed.body as object), made } };
  }
}
