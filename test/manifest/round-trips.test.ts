import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "../../src/adapters/system/clock.ts";
import { ClientLimiter } from "../../src/client/client.ts";
import type { Access } from "../../src/domain/config/config.ts";
import { type DeclaredPiece, type Piece, pieceKey } from "../../src/domain/config/piece.ts";
import { limitOfText, textOfLimit } from "../../src/domain/limits/limit-text.ts";
import { exportManifest, parseManifest } from "../../src/entry/manifest.ts";
import { RateLimiter } from "../../src/entry/rate-limiter.ts";
import { createService } from "../../src/entry/server.ts";
import { cfnTemplateOf } from "../../src/manifest/cfn-template.ts";
import { documentOf } from "../../src/manifest/document.ts";
import { manifestSchema } from "../../src/manifest/schema.ts";
import { manifestTextOf, type Properties } from "../../src/provisioner/properties.ts";
import { atDepth, firstSeed } from "../depth.ts";
import { calendar, everyLimit, everySet } from "../limits/every-limit.ts";
import { fc } from "../properties.ts";
import { apply, plan } from "./apply-kit.ts";

// Whatever can be declared comes back as it was, by every way in which it is written down.

const anyLimit = fc
  .tuple(fc.constantFrom("rpm", "usd"), fc.constantFrom("UTC", "Europe/Berlin"))
  .chain(([name, tz]) => everyLimit(name, tz));

test("every limit that can exist is what its text says", () => {
  fc.assert(
    fc.property(anyLimit, (limit) => {
      assert.deepEqual(limitOfText(textOfLimit(limit), calendar), limit);
    }),
    { numRuns: atDepth(100, 500), seed: firstSeed() },
  );
});

const options = fc.record(
  { inherit: fc.constant(true), appliesTo: fc.constant("callers" as const) },
  { requiredKeys: [] },
);
const level = fc.tuple(everySet, options);
const access = fc.constantFrom<Access>("enforce", "disabled", "bypass");

/** Each kind of piece, by the calls that make it; a kind that is new does not compile without a row. */
const EVERYTHING = fc.record({
  ...{ system: level, systemTotals: level, resource: level, plan: level, planOn: level, planTotals: level },
  ...{ entity: level, entityOn: level, totals: level },
  ...{ onUnavailable: fc.constantFrom("allow", "block"), usageKeptDays: fc.integer({ min: 1, max: 3_650 }) },
  ...{
    access,
    cascade: fc.boolean(),
    metadata: fc.dictionary(fc.constantFrom("a", "b"), fc.constantFrom("1", "true", "x y")),
  },
});
type Everything = typeof EVERYTHING extends fc.Arbitrary<infer Drawn> ? Drawn : never;

const KINDS: Readonly<Record<Piece["what"], true>> = {
  ...{ limits: true, totals: true, access: true, cascade: true, onUnavailable: true, usageKeptDays: true },
  ...{ entity: true, plan: true },
};

/** As a program says it, by the library or by a client of a service. */
async function declare(to: RateLimiter | ClientLimiter, all: Everything): Promise<void> {
  const { onUnavailable, metadata } = all;
  await to.setSystemDefaults(all.system[0], { ...all.system[1], onUnavailable } as never);
  await to.setSystemTotals(all.systemTotals[0], all.systemTotals[1]);
  await to.setResourceDefaults("api", ...all.resource);
  await to.createPlan({ id: "gold", name: "Gold", metadata });
  await to.setPlanLimits("gold", ...all.plan);
  await to.setPlanLimits("gold", all.planOn[0], { ...all.planOn[1], resource: "api" });
  await to.setPlanTotals("gold", ...all.planTotals);
  await to.createEntity({ id: "acme", metadata });
  await to.createEntity({ id: "key", parentId: "acme", planId: "gold", cascade: all.cascade });
  await to.setLimits("key", ...all.entity);
  await to.setLimits("key", all.entityOn[0], { ...all.entityOn[1], resource: "api" });
  await to.setTotals("key", ...all.totals);
  await to.setLimits("never-created", ...all.entity);
  await to.setAccess({ resource: "other" }, all.access);
  await to.setAccess({ entityId: "key", resource: "api" }, all.access);
  await to.setAccess({ entityId: "acme" }, all.access);
  await to.setCascade({ entityId: "key", resource: "api" }, all.cascade);
}

test("what is declared comes back by HTTP, YAML, export and apply, CloudFormation and the provisioner", async () => {
  const empty = () => RateLimiter.open({ store: "memory" });
  await fc.assert(
    fc.asyncProperty(EVERYTHING, async (all) => {
      await using limiter = await empty();
      await declare(limiter, all);
      const exported = await exportManifest(limiter);
      const declared = parseManifest(exported).pieces;
      // Only tables of DynamoDB keep usage for as long as is declared.
      const days: DeclaredPiece = { piece: { what: "usageKeptDays", level: "system" }, value: all.usageKeptDays };
      const bare = { name: "bare", cascade: false, metadata: {} };
      const onlyThere: DeclaredPiece = { piece: { what: "entity", entityId: "bare" }, value: bare, ifAbsent: true };
      const pieces = [days, onlyThere, ...declared];
      assert.deepEqual(new Set(pieces.map(({ piece }) => piece.what)), new Set(Object.keys(KINDS)));
      const limitsOf = async (from: RateLimiter | ClientLimiter) => [
        await from.getSystemDefaults(),
        await Promise.all([from.getSystemTotals(), from.getResourceDefaults("api"), from.getPlanLimits("gold")]),
        await Promise.all([from.getPlanLimits("gold", { resource: "api" }), from.getPlanTotals("gold")]),
        await Promise.all([from.getLimits("key"), from.getLimits("key", { resource: "api" }), from.getTotals("key")]),
      ];
      const { limits: _, ...system } = await limiter.getSystemDefaults();
      assert.deepEqual(await limitsOf(limiter), [
        { limits: all.system[0], ...system },
        [all.systemTotals[0], all.resource[0], all.plan[0]],
        [all.planOn[0], all.planTotals[0]],
        [all.entity[0], all.entityOn[0], all.totals[0]],
      ]);

      // Applied where there is nothing, it makes the same; applied again, it changes nothing.
      await using other = await empty();
      await apply(other, exported);
      assert.equal(await exportManifest(other), exported.replace(/^namespace: default$/m, "$&\nowner: default"));
      assert.deepEqual(await limitsOf(other), await limitsOf(limiter));
      assert.deepEqual((await plan(other, exported)).changes, []);

      await using served = await empty();
      await using client = await clientOf(served);
      await declare(client, all);
      assert.equal(await exportManifest(served), exported);
      assert.deepEqual(await limitsOf(client), await limitsOf(limiter));

      const template = cfnTemplateOf({ pieces, warnings: [] }, { stack: "s", namespace: "default" });
      const { Resources } = template as { Resources: { TenantLimits: { Properties: Properties } } };
      const back = parseManifest(manifestTextOf(asTexts(Resources.TenantLimits.Properties) as Properties));
      assert.deepEqual(sorted(back.pieces), sorted(pieces));
      const written = parseManifest(JSON.stringify(documentOf({ namespace: "default" }, pieces)));
      assert.deepEqual(sorted(written.pieces), sorted(pieces));
    }),
    { numRuns: atDepth(5, 25), seed: firstSeed() },
  );
});

test("every key that a manifest may have has a property of the CloudFormation resource", () => {
  const { properties, definitions } = manifestSchema() as unknown as Schema;
  const { namespace: _, owner: __, ...levels } = properties;
  const names = (schema: Schema["definitions"][string] | undefined) => Object.keys(schema?.properties ?? {});
  const limit = (terms: object) => ({ Limits: { rpm: terms } });
  const places: Readonly<Record<string, [keys: string[], at: (properties: object) => Properties]>> = {
    top: [Object.keys(levels), (given) => given as Properties],
    system: [names(levels.system), (System) => ({ System })],
    plan: [names(definitions.plan), (gold) => ({ Plans: { gold } })],
    planLevel: [names(definitions.planLevel), (api) => ({ Plans: { gold: { Resources: { api } } } })],
    level: [names(definitions.level), (api) => ({ Resources: { api } })],
    entity: [names(definitions.entity), (key) => ({ Entities: { key } })],
    entityLevel: [names(definitions.level), (api) => ({ Entities: { key: { Resources: { api } } } })],
    terms: [names(definitions.terms), (terms) => ({ Resources: { api: limit(terms) } })],
    window: [names(definitions.window), (window) => ({ Resources: { api: limit({ Schedule: [window] }) } })],
    reset: [names(definitions.reset), (reset) => ({ Resources: { api: limit({ ResetSchedule: [reset] }) } })],
  };
  for (const [place, [keys, at]] of Object.entries(places)) {
    assert.ok(keys.length > 0, place);
    for (const key of keys) {
      const name = key.replace(/(?:^|_)([a-z])/g, (_all, letter: string) => letter.toUpperCase());
      // Whatever the value is: a name that is not known is told as such.
      assert.ok(manifestTextOf(at({ [name]: {} })).includes(`"${key}"`), `${place}: ${key}`);
    }
  }
});

interface Schema {
  readonly properties: Readonly<Record<string, Schema["definitions"][string]>>;
  readonly definitions: Readonly<Record<string, { readonly properties?: object }>>;
}

/** A client whose requests reach the service without a network. */
async function clientOf(limiter: RateLimiter): Promise<ClientLimiter & AsyncDisposable> {
  const service = await createService({ limiter, log: () => {} });
  const { url, close } = await service.listen({ port: 0 });
  const client = new ClientLimiter({ url, timeoutMs: 60_000 }, systemClock);
  return Object.assign(client, {
    async [Symbol.asyncDispose]() {
      await client.close();
      await close();
      await service.close();
    },
  });
}

/** Everything as texts, as CloudFormation hands it over. */
function asTexts(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asTexts);
  if (typeof value !== "object" || value === null) return typeof value === "string" ? value : String(value);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, asTexts(each)]));
}

function sorted(pieces: readonly DeclaredPiece[]): readonly DeclaredPiece[] {
  return pieces.toSorted((a, b) => (pieceKey(a.piece) < pieceKey(b.piece) ? -1 : 1));
}
