import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isSameValue, pieceKey } from "../../src/domain/config/piece.ts";
import { ConflictError, NotFoundError } from "../../src/domain/names/errors.ts";
import { Limit } from "../../src/entry/limits.ts";
import { driftOf, exportManifest, ManifestInvalid, parseManifest } from "../../src/entry/manifest.ts";
import { cfnTemplateOf } from "../../src/manifest/cfn-template.ts";
import { manifestTextOf } from "../../src/provisioner/properties.ts";
import { apply, opened, plan, STORES } from "./apply-kit.ts";

const MANIFEST = `
owner: platform
plans:
  gold:
    name: Gold
    metadata: { price: "10" }
    limits: { rpm: 100 }
    applies_to: callers
    totals: { usd: { capacity: 100, reset_schedule: [{ cron: "0 0 1 * *" }] } }
    totals_inherit: true
    resources: { gpt-4: { limits: { tpm: 10k/min }, inherit: true } }
  free: {}
system: { limits: { rpm: 1 }, totals: { usd: 5/day } }
resources: { gpt-4: { limits: { ipm: 5 }, applies_to: callers } }
entities:
  acme: { plan: gold, totals: { usd: 7/day }, limits: { rpm: 500 }, inherit: true }
`;

const EMPTY = "owner: platform\nresources: {}\n";

for (const [name, open] of STORES) {
  describe(`declared plans and totals on ${name}`, () => {
    test("plans come first, go last, and export to the manifest that made them", async (t) => {
      const { limiter } = await opened(t, open);
      const first = await plan(limiter, MANIFEST);
      const texts = first.changes.map(({ what, level, planId, entityId, resource }) =>
        [what, level, planId ?? entityId, resource].filter(Boolean).join(" "),
      );
      assert.deepEqual(texts, [
        "plan free",
        "plan gold",
        "limits planDefault gold",
        "totals planTotal gold",
        "limits plan gold gpt-4",
        "entity acme",
        "limits system",
        "totals systemTotal",
        "limits resource gpt-4",
        "limits entityDefault acme",
        "totals entityTotal acme",
      ]);
      await apply(limiter, MANIFEST);
      assert.deepEqual((await plan(limiter, MANIFEST)).changes, []);
      const { planId } = await limiter.getEntity("acme");
      assert.equal(planId, "gold");
      const { sources } = await limiter.resolveLimits("acme", "gpt-4");
      assert.deepEqual(sources, { rpm: "entityDefault", tpm: "plan" });
      const exported = await exportManifest(limiter);
      const again = await plan(limiter, exported, { owner: "platform" });
      assert.deepEqual(again.changes, [], exported);
      const gone = await apply(limiter, EMPTY, { prune: true });
      assert.equal(gone.changes.at(-1)?.what, "plan");
      assert.deepEqual(await limiter.listPlans(), []);
      assert.deepEqual(await limiter.getSystemTotals(), []);
    });

    test("an option that was changed by hand is drift, and applied again", async (t) => {
      const { limiter } = await opened(t, open);
      await apply(limiter, MANIFEST);
      await limiter.setPlanLimits("gold", [Limit.perMinute("rpm", 100)], { principal: "mallory" });
      await limiter.updatePlan("gold", { name: "Silver" }, { principal: "mallory" });
      const { drift } = await driftOf(limiter, { owner: "platform" });
      assert.deepEqual(
        drift.map(({ what, planId, by }) => [what, planId, by?.principal, by?.action]),
        [
          ["limits", "gold", "mallory", "limits_set"],
          ["plan", "gold", "mallory", "plan_updated"],
        ],
      );
      await apply(limiter, MANIFEST);
      assert.deepEqual((await driftOf(limiter, { owner: "platform" })).drift, []);
    });

    test("a plan that an entity refers to, which stays, is not deleted", async (t) => {
      const { limiter } = await opened(t, open);
      await apply(limiter, "owner: platform\nplans: { gold: { limits: { rpm: 1 } } }\n");
      await limiter.createEntity({ id: "by-hand", planId: "gold" });
      await assert.rejects(
        apply(limiter, EMPTY, { prune: true }),
        (error) => error instanceof ConflictError && error.code === "plan_in_use" && /by-hand/.test(error.message),
      );
      await limiter.updateEntity("by-hand", { planId: null });
      await apply(limiter, EMPTY, { prune: true });
      assert.deepEqual(await limiter.listPlans(), []);
    });

    test("an entity with a plan that is neither declared nor there is refused", async (t) => {
      const { limiter } = await opened(t, open);
      await assert.rejects(
        plan(limiter, "entities: { a: { plan: gold } }\n"),
        (error) => error instanceof NotFoundError && error.code === "plan_not_found",
      );
    });
  });
}

test("what stands beside nothing, or is misspelled, is told with its place", () => {
  const wrong = `
plans:
  gold: { inherit: true }
  "a#b": {}
system: { limits: { rpm: 1 }, applies_to: keys }
resources: { gpt-4: { limits: { rpm: 1 }, inherits: true } }
entities: { a: { totals: {}, plan: 5 } }
`;
  assert.throws(
    () => parseManifest(wrong),
    (error) => {
      assert.ok(error instanceof ManifestInvalid);
      assert.deepEqual(
        error.problems.map(({ path, code }) => [path, code]),
        [
          ["/plans/gold/inherit", "value_invalid"],
          ["/plans/a#b", "name_invalid"],
          ["/system/applies_to", "value_invalid"],
          ["/resources/gpt-4/inherits", "key_unknown"],
          ["/entities/a/totals", "empty"],
          ["/entities/a/plan", "value_invalid"],
        ],
      );
      return true;
    },
  );
});

test("what a file declares of plans and totals goes through a template of CloudFormation and back", () => {
  const manifest = parseManifest(MANIFEST);
  const template = cfnTemplateOf(manifest, { stack: "limits", namespace: "default" }) as {
    Resources: { TenantLimits: { Properties: Record<string, unknown> } };
  };
  const again = parseManifest(manifestTextOf(template.Resources.TenantLimits.Properties));
  const keyed = (pieces: typeof manifest.pieces) =>
    pieces.map(({ piece, value }) => [pieceKey(piece), value] as const).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const [read, declared] = [keyed(again.pieces), keyed(manifest.pieces)];
  assert.deepEqual(
    read.map(([key]) => key),
    declared.map(([key]) => key),
  );
  for (const [i, [key, value]] of read.entries()) assert.ok(isSameValue(value, declared[i]?.[1]), key);
});
