import assert from "node:assert/strict";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import type { BucketsMaybeInPlace, Claim } from "../../src/ports/bucket-store.ts";
import {
  claim,
  HOUR_MS,
  kinds,
  levelOf,
  SECOND_MS,
  type Suite,
  samePaged,
  T0,
  type TestedNamespace,
} from "./contract-kit.ts";

const rpm = [Limit.perMinute("rpm", 10)];
const both = [Limit.perMinute("rpm", 10), Limit.perMinute("tpm", 100)];

/** Taking: never more than is there, all of a call or nothing, and answers that teach the state. */
export function bucketContract(suite: Suite): void {
  suite.test("a bucket that nobody has taken from is full, and gives its capacity once", async (place) => {
    assert.equal(await place.drain((tokens) => claim("a", rpm, { rpm: tokens }), T0, 20), 10);
    assert.equal(await place.level("a", "rpm", T0), 0);
  });

  suite.test("a hundred takes at once get the ten tokens there are, and no eleventh", async (place) => {
    const asks = Array.from({ length: 100 }, () => place.take([claim("a", rpm, { rpm: 1 })], T0));
    const answers = (await Promise.all(asks)).flat();
    assert.equal(answers.filter(({ kind }) => kind === "taken").length, 10);
    assert.equal(await place.level("a", "rpm", T0), 0);
  });

  suite.test("children that ask all at once never get more together than their parent has", async (place) => {
    const ask = (child: string) => place.take([claim(child, rpm, { rpm: 3 }), claim("parent", rpm, { rpm: 3 })], T0);
    const children = ["a", "b", "c", "d", "e"];
    const replies = await Promise.all(children.map(ask));
    const granted = replies.filter((answers) => answers.every(({ kind }) => kind === "taken"));
    assert.ok(granted.length <= 3, `${granted.length} times 3 of 10`);
    await giveBackHalf(place, children, replies);
    const left = await place.level("parent", "rpm", T0);
    assert.equal(left, 10_000 - granted.length * 3_000);
  });

  suite.test("all limits of a claim are taken or none", async (place) => {
    assert.deepEqual(kinds(await place.take([claim("a", both, { rpm: 1, tpm: 60 })], T0)), ["taken"]);
    assert.deepEqual(kinds(await place.take([claim("a", both, { rpm: 1, tpm: 60 })], T0)), ["short"]);
    assert.equal(await place.level("a", "rpm", T0), 9_000);
    assert.equal(await place.level("a", "tpm", T0), 40_000);
  });

  suite.test("a refusal changes nothing and shows the bucket as it stands", async (place) => {
    await place.take([claim("a", rpm, { rpm: 8 })], T0);
    const before = await place.state("a");
    const [answer] = await place.take([claim("a", rpm, { rpm: 3 })], T0);
    assert.equal(answer?.kind, "short");
    assert.equal(levelOf(answer.state, "rpm", T0), 2_000);
    assert.deepEqual(await place.state("a"), before);
  });

  suite.test("a grant shows the bucket after it", async (place) => {
    const [answer] = await place.take([claim("a", rpm, { rpm: 4 })], T0);
    assert.equal(answer?.kind, "taken");
    assert.equal(levelOf(answer.state, "rpm", T0), 6_000);
  });

  suite.test("when one claim of a call is short, the tokens of the others are there afterwards", async (place) => {
    await place.take([claim("parent", rpm, { rpm: 9 })], T0);
    const claims = [claim("child", rpm, { rpm: 4 }), claim("parent", rpm, { rpm: 4 })];
    const answers = await place.take(claims, T0);
    assert.equal(answers[1]?.kind, "short");
    // A store without transactions takes from the child, says so, and leaves it to the caller to give back.
    assert.ok(answers[0]?.kind === "skipped" || answers[0]?.kind === "taken");
    if (answers[0].kind === "taken") await place.credit(claims[0]!, { rpm: 4 }, T0);
    assert.equal(await place.drain((tokens) => claim("child", rpm, { rpm: tokens }), T0, 20), 10);
    assert.equal(await place.level("parent", "rpm", T0), 1_000);
  });

  suite.test("an atomic call takes nothing at all when one claim is short", async (place) => {
    await place.take([claim("parent", rpm, { rpm: 9 })], T0);
    const claims = [claim("child", rpm, { rpm: 4 }), claim("parent", rpm, { rpm: 4 })];
    assert.deepEqual(kinds(await place.take(claims, T0, { atomic: true })), ["skipped", "short"]);
    assert.equal(await place.drain((tokens) => claim("child", rpm, { rpm: tokens }), T0, 20), 10);
  });

  suite.test("an idle hour gives the capacity once, not the stored tokens and then the time", async (place) => {
    await place.take([claim("a", rpm, { rpm: 1 })], T0);
    const later = T0 + HOUR_MS;
    assert.equal(await place.drain((tokens) => claim("a", rpm, { rpm: tokens }), later, 100), 10);
    assert.equal(await place.grants(claim("a", rpm, { rpm: 1 }), later), false);
  });

  suite.test("single tokens taken one by one after an idle hour add up to the capacity too", async (place) => {
    await place.take([claim("a", rpm, { rpm: 1 })], T0);
    let granted = 0;
    for (let i = 0; i < 15; i++) if (await place.grants(claim("a", rpm, { rpm: 1 }), T0 + HOUR_MS)) granted++;
    assert.equal(granted, 10);
  });

  suite.test(
    "tokens drip in evenly: one of ten a minute is there after six seconds, not a moment before",
    async (place) => {
      await place.take([claim("a", rpm, { rpm: 10 })], T0);
      assert.equal(await place.grants(claim("a", rpm, { rpm: 1 }), T0 + 5_999), false);
      assert.equal(await place.grants(claim("a", rpm, { rpm: 1 }), T0 + 6_000), true);
      assert.equal(await place.grants(claim("a", rpm, { rpm: 1 }), T0 + 11_999), false);
    },
  );

  suite.test("a slow limit is not starved by a fast one beside it that is taken from all the time", async (place) => {
    const limits = [Limit.perSecond("rps", 1, { burst: 10 }), Limit.perDay("rpd", 10)];
    await place.take([claim("a", limits, { rps: 1, rpd: 10 })], T0);
    const stepS = Math.max(2, 900 / suite.repeatsMax);
    for (let s = stepS; s <= 900; s += stepS) await place.take([claim("a", limits, { rps: 1 })], T0 + s * SECOND_MS);
    // 900 s of 10 a day.
    assert.equal(await place.level("a", "rpd", T0 + 900 * SECOND_MS), 104);
  });

  suite.test("a clock that is behind neither mints tokens nor takes time away from others", async (place) => {
    await place.take([claim("a", rpm, { rpm: 10 })], T0);
    assert.equal(await place.grants(claim("a", rpm, { rpm: 1 }), T0 - HOUR_MS), false);
    for (let i = 0; i < 20; i++) await place.take([claim("a", rpm, { rpm: 1 })], T0 + (i % 2) * 5_000);
    assert.equal(await place.level("a", "rpm", T0 + 6_000), 1_000);
  });

  suite.test("takes of the largest amounts there are stay exact to the token", async (place) => {
    const most = 9_000_000_000_000;
    const limits = [Limit.custom("big", { capacity: most, refillAmount: most, refillPeriodMs: 86_400_000 })];
    assert.equal(await place.grants(claim("a", limits, { big: most - 1 }), T0), true);
    assert.equal(await place.level("a", "big", T0), 1_000);
    assert.equal(await place.grants(claim("a", limits, { big: 2 }), T0), false);
    assert.equal(await place.grants(claim("a", limits, { big: 1 }), T0), true);
    // 9e15 millitokens in 86,400,000 ms: 104,166,666 and two thirds a millisecond.
    assert.equal(await place.level("a", "big", T0 + 1), 104_166_666);
    assert.equal(await place.level("a", "big", T0 + 3), 312_500_000);
    await place.debit(claim("a", limits, {}), { big: most }, T0 + 3);
    assert.equal(await place.level("a", "big", T0 + 3), 312_500_000 - most * 1000);
    await place.credit(claim("a", limits, {}), { big: most }, T0 + 3);
    assert.equal(await place.level("a", "big", T0 + 3), 312_500_000);
  });

  suite.test("however many others come and go, a bucket that is not full is not forgotten", async (place) => {
    const slow = [Limit.perDay("rpd", 10)];
    await place.take([claim("drained", slow, { rpd: 10 })], T0);
    await place.debit(claim("in-debt", slow, {}), { rpd: 50 }, T0);
    await place.take([claim("idle", rpm, { rpm: 10 })], T0);
    const visits = Math.min(700, suite.repeatsMax);
    for (let i = 0; i < visits; i++) {
      await place.take([claim(`visitor-${i % (visits / 2)}`, rpm, { rpm: 1 })], T0 + HOUR_MS * 2 + i);
    }
    const later = T0 + 3 * HOUR_MS;
    assert.equal(await place.grants(claim("in-debt", slow, { rpd: 0 }), later), false);
    assert.equal(await place.drain((tokens) => claim("drained", slow, { rpd: tokens }), later, 10), 1);
    // Full for hours: there or not, it gives its capacity.
    assert.equal(await place.drain((tokens) => claim("idle", rpm, { rpm: tokens }), later, 20), 10);
  });

  suite.test("buckets are told apart by entity and resource, also when the names run together", async (place) => {
    await place.take([claim("a", rpm, { rpm: 1 }, { resource: "b:c" })], T0);
    await place.take([claim("a:b", rpm, { rpm: 2 }, { resource: "c" })], T0);
    await place.take([claim("a", rpm, { rpm: 3 }, { resource: "b" })], T0);
    assert.equal(await place.level("a", "rpm", T0, "b:c"), 9_000);
    assert.equal(await place.level("a:b", "rpm", T0, "c"), 8_000);
    assert.equal(await place.level("a", "rpm", T0, "b"), 7_000);
  });

  suite.test("limit names may contain dashes and dots", async (place) => {
    const limits = [Limit.perMinute("in-tokens.v1", 10), Limit.perMinute("in-tokens", 10)];
    await place.take([claim("a", limits, { "in-tokens.v1": 4, "in-tokens": 1 })], T0);
    assert.equal(await place.level("a", "in-tokens.v1", T0), 6_000);
    assert.equal(await place.level("a", "in-tokens", T0), 9_000);
  });

  suite.test("reading answers in the order asked, and nothing where nothing was taken", async (place) => {
    await place.take([claim("b", rpm, { rpm: 2 })], T0);
    await place.take([claim("a", rpm, { rpm: 1 })], T0);
    const keys = ["b", "nobody", "a"].map((entityId) => bucketKey(entityId, "api"));
    const [b, nobody, a] = await place.scope.buckets.read(keys);
    assert.equal(levelOf(b, "rpm", T0), 8_000);
    assert.equal(nobody, undefined);
    assert.equal(levelOf(a, "rpm", T0), 9_000);
  });

  suite.test("buckets of a resource are listed by entity, page by page, others left out", async (place) => {
    for (const entityId of ["c", "a", "B", "b"]) await place.take([claim(entityId, rpm, { rpm: 1 })], T0);
    await place.take([claim("d", rpm, { rpm: 1 }, { resource: "other" })], T0);
    const { buckets } = place.scope;
    const ids = async (page: { limit: number; cursor?: string }) => {
      const { items, ...rest } = await buckets.listByResource("api", page);
      return { ...rest, items: items.map(({ key, state }) => [key.entityId, key.resource, levelOf(state, "rpm", T0)]) };
    };
    const expected = ["B", "a", "b", "c"].map((entityId) => [entityId, "api", 9_000]);
    await samePaged(ids, expected);
  });

  suite.test("buckets are listed by entity and resource, of one entity or of all, page by page", async (place) => {
    const { buckets } = place.scope;
    for (const [entityId, resource] of [
      ["b", "api"],
      ["a-1", "api"],
      ["a", "other"],
      ["a", "api"],
      ["a", "api/v2"],
    ] as const) {
      await place.take([claim(entityId, rpm, { rpm: 1 }, { resource })], T0);
    }
    const keys = (owner: { entityId?: string }) => async (page: { limit: number; cursor?: string }) => {
      const { items, ...rest } = await buckets.listKeys(owner, page);
      return { ...rest, items: items.map((key) => [key.entityId, key.resource]) };
    };
    const ofA = [
      ["a", "api"],
      ["a", "api/v2"],
      ["a", "other"],
    ];
    await samePaged(keys({}), [...ofA, ["a-1", "api"], ["b", "api"]]);
    await samePaged(keys({ entityId: "a" }), ofA);
    await samePaged(keys({ entityId: "nobody" }), []);
  });

  suite.test("taking without waiting, where the store can, is the same as taking", async (place) => {
    const { buckets } = place.scope;
    if (buckets.takeSync === undefined) return;
    const context = { nowMs: T0, timeoutMs: 60_000, generation: undefined, atomic: false };
    const first = buckets.takeSync([claim("a", rpm, { rpm: 8 })], context);
    assert.deepEqual(kinds(first === "stale" ? [] : first), ["taken"]);
    assert.deepEqual(kinds(await place.take([claim("a", rpm, { rpm: 3 })], T0)), ["short"]);
    const last = buckets.takeSync([claim("a", rpm, { rpm: 3 })], context);
    assert.deepEqual(kinds(last === "stale" ? [] : last), ["short"]);
    assert.equal(await place.level("a", "rpm", T0), 2_000);
  });

  suite.test(
    "the shortest way, where the store has it, takes like the others, or answers nothing and leaves all as it was",
    async (place) => {
      const { config } = place.scope;
      const buckets: BucketsMaybeInPlace = place.scope.buckets;
      if (buckets.takeOne === undefined) return;
      const generation = config.generation();
      const takeOne = (of: Claim, nowMs: number) => buckets.takeOne?.(of, of.take, nowMs, generation);
      const answer = takeOne(claim("a", rpm, { rpm: 8 }), T0);
      assert.equal(answer?.kind, "taken");
      assert.equal(levelOf(answer.state, "rpm", T0), 2_000);
      const before = await place.state("a");
      assert.equal(takeOne(claim("a", rpm, { rpm: 3 }), T0 + 1), undefined);
      assert.equal(takeOne(claim("b", rpm, { rpm: 11 }), T0), undefined);
      assert.deepEqual(await place.state("a"), before);
      assert.equal(await place.state("b"), undefined);
      await place.set({ level: "system" }, rpm);
      assert.equal(takeOne(claim("a", rpm, { rpm: 1 }), T0), undefined, "planned with older limits");
      assert.deepEqual(await place.state("a"), before);
    },
  );
}

async function giveBackHalf(
  place: TestedNamespace,
  children: readonly string[],
  replies: readonly (readonly { readonly kind: string }[])[],
): Promise<void> {
  for (const [i, [child, parent]] of replies.entries()) {
    if (child?.kind === parent?.kind) continue;
    if (child?.kind === "taken") await place.credit(claim(children[i]!, rpm, {}), { rpm: 3 }, T0);
    if (parent?.kind === "taken") await place.credit(claim("parent", rpm, {}), { rpm: 3 }, T0);
  }
}
