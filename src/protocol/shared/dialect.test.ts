import assert from "node:assert/strict";
import { test } from "node:test";
import { ENV, imageOf, itemOf, KEY } from "../../../test/protocol/kit.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { type BucketState, freshBucket } from "../../domain/bucket/bucket-state.ts";
import { type Limit, limitMakers } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import type { Item, ItemWrite } from "../../ports/item-store.ts";
import { VU } from "../item/attributes.ts";
import { type Dialect, OWN } from "../item/dialect.ts";
import { WriteBuilder } from "../item/write-builder.ts";
import { SHARED } from "./dialect.ts";

// Each difference between the two dialects, as a question and the two answers to it.

const T0 = Date.UTC(2026, 0, 1);
const Kinds = limitMakers(ENV.calendar);
const ORIGIN = { asOfMs: T0, generation: null };

function stateOf(...limits: Limit[]): BucketState {
  return freshBucket(limitSet(limits), ORIGIN, T0, ENV.calendar);
}

function seenWith(tokensMilli: number, attributes: Item = {}) {
  return imageOf({ ...itemOf(stateOf(Kinds.perMinute("rpm", 10))), b_rpm_tk: tokensMilli, ...attributes });
}

/** Builds a write and returns its parts. */
function built(build: (builder: WriteBuilder) => void): Pick<ItemWrite, "when" | "set"> {
  const builder = new WriteBuilder();
  build(builder);
  const { when, set } = builder.update(KEY, "exists", undefined);
  return { when, set };
}

const NOTHING = { when: [], set: {} };
const is = (name: string, how: "=" | "<=", value: number) => [[{ name, is: how, value }]];
const held = (tokensMilli: number) => seenWith(tokensMilli).state.limits[0] as BucketState["limits"][number];
const soft = { ...held(0), limit: Kinds.perMinute("rpm", 10, { soft: true }) };
const thrown = (ask: () => void): string => {
  try {
    ask();
    return "nothing";
  } catch (error) {
    return (error as { code: string }).code;
  }
};
const want = (milli: number, readingMs: number) => ({
  readingMs,
  moves: [{ limit: "rpm", milli }],
  configConfirmed: false,
});

interface Difference {
  readonly says: string;
  readonly ask: (dialect: Dialect) => unknown;
  readonly own: unknown;
  readonly shared: unknown;
}

const DIFFERENCES: Readonly<Record<keyof Dialect, readonly Difference[]>> = {
  checkLimits: [
    {
      says: "a session quota",
      ask: (dialect) => thrown(() => dialect.checkLimits(limitSet([Kinds.quota("s", 5, { resetAfterMs: 60_000 })]))),
      own: "nothing",
      shared: "shared_session",
    },
    {
      says: "a limit that drips",
      ask: (dialect) => thrown(() => dialect.checkLimits(limitSet([Kinds.perMinute("rpm", 10)]))),
      own: "nothing",
      shared: "nothing",
    },
  ],
  notesTakes: [{ says: "when a take was made", ask: (dialect) => dialect.notesTakes, own: true, shared: false }],
  checkTopUp: [
    {
      says: "a top-up",
      ask: (dialect) => thrown(() => dialect.checkTopUp(bucketKey("ada", "api"))),
      own: "nothing",
      shared: "shared_top_up",
    },
  ],
  sameParameters: [
    {
      says: "a capacity that changed under the same epoch",
      ask: ({ sameParameters }) => sameParameters({ b_rpm_cp: 5 }, { b_rpm_cp: 6 }),
      own: true,
      shared: false,
    },
    {
      says: "tokens, counters, marks and nonces that changed",
      ask: ({ sameParameters }) => sameParameters({ b_rpm_tk: 1, vu: 0, na: 7 }, { b_rpm_tk: 2, vu: 9, na: 8 }),
      own: true,
      shared: true,
    },
    {
      says: "tokens that came to the numbers of a limit, and a nonce that is new",
      ask: ({ sameParameters }) => [
        sameParameters({ b_rpm_cp: 5, b_rpm_tk: 5 }, { b_rpm_cp: 5 }),
        sameParameters({ na: 7 }, {}),
      ],
      own: [true, true],
      shared: [false, true],
    },
    {
      says: "an attribute that is gone",
      ask: ({ sameParameters }) => sameParameters({}, { b_rpm_rsched: "x" }),
      own: true,
      shared: false,
    },
  ],
  partRounding: [{ says: "parts of a bucket", ask: (dialect) => dialect.partRounding, own: "exact", shared: "floor" }],
  atomicItemsMax: [{ says: "items of a take", ask: (dialect) => dialect.atomicItemsMax, own: 100, shared: 92 }],
  pinTerms: [
    {
      says: "a write that takes",
      ask: ({ pinTerms }) => built((builder) => pinTerms(builder, seenWith(5_000), [{ limit: "rpm" }])).when,
      own: [],
      shared: [
        ...is("shard_count", "=", 1),
        ...is("b_rpm_cp", "=", 10_000),
        ...is("b_rpm_ra", "=", 10_000),
        ...is("b_rpm_rp", "=", 60_000),
      ],
    },
  ],
  needsRebase: [
    {
      says: "a take of stored tokens",
      ask: ({ needsRebase }) => needsRebase(seenWith(5_000), want(5_000, T0 + 1_000)),
      own: false,
      shared: false,
    },
    {
      says: "a take of more than is stored",
      ask: ({ needsRebase }) => needsRebase(seenWith(5_000), want(5_001, T0 + 1_000)),
      own: false,
      shared: true,
    },
    {
      says: "a take from a bucket that is full again",
      ask: ({ needsRebase }) => needsRebase(seenWith(5_000), want(1, T0 + 60_000)),
      own: false,
      shared: true,
    },
    {
      says: "a counter of writes that is used up",
      ask: ({ needsRebase }) => needsRebase(seenWith(5_000, { b_wcu_tk: 999 }), want(1, T0)),
      own: false,
      shared: true,
    },
  ],
  spendsRefill: [
    {
      says: "after a second",
      ask: ({ spendsRefill }) => [spendsRefill(held(0), 1_000), spendsRefill(soft, 1_000), spendsRefill(held(0), 0)],
      own: [true, true, true],
      shared: [false, true, true],
    },
  ],
  readsWriteCounter: [
    { says: "the counter of writes", ask: (dialect) => dialect.readsWriteCounter, own: false, shared: true },
  ],
  expiryIgnoresDebts: [
    { says: "the expiry of an item", ask: (dialect) => dialect.expiryIgnoresDebts, own: false, shared: true },
  ],
  grantsOf: [
    {
      says: "a quota and a limit that drips",
      ask: ({ grantsOf }) =>
        grantsOf(stateOf(Kinds.quota("day", 5, { reset: { cron: "0 0 * * *" } }), Kinds.perMinute("rpm", 10))),
      own: {},
      shared: { b_day_gc: 1 },
    },
  ],
  softUntilMs: [
    {
      says: "a soft limit",
      ask: ({ softUntilMs }) => [softUntilMs(T0, () => 0), softUntilMs(T0, () => 0.5)],
      own: [Date.UTC(9999, 11, 31, 23, 59, 59), Date.UTC(9999, 11, 31, 23, 59, 59)],
      shared: [T0 + 48_000, T0 + 54_000],
    },
  ],
  creditNeedsImage: [
    { says: "a give-back to an unknown item", ask: (dialect) => dialect.creditNeedsImage, own: false, shared: true },
  ],
  capCredit: [
    {
      says: "a give-back that fits",
      ask: ({ capCredit }) => built((builder) => capCredit(builder, seenWith(5_000), { limit: "rpm", milli: 5_000 })),
      own: NOTHING,
      shared: {
        when: [...is("b_rpm_cp", "=", 10_000), ...is("shard_count", "=", 1), ...is("b_rpm_tk", "<=", 5_000)],
        set: {},
      },
    },
    {
      says: "a give-back above the capacity",
      ask: ({ capCredit }) => built((builder) => capCredit(builder, seenWith(5_001), { limit: "rpm", milli: 5_000 })),
      own: NOTHING,
      shared: { when: [], set: { [VU]: 0 } },
    },
  ],
  capRebasedCredit: [
    {
      says: "a give-back that fits, and one that does not",
      ask: ({ capRebasedCredit }) => [
        built((builder) => capRebasedCredit(builder, held(4_000), 5_000)),
        built((builder) => capRebasedCredit(builder, held(6_000), 5_000)),
      ],
      own: [NOTHING, NOTHING],
      shared: [{ when: is("b_rpm_tk", "<=", 5_000), set: {} }, NOTHING],
    },
  ],
  marksRebased: [
    {
      says: "an item that was marked, with and without configuration read since",
      ask: ({ marksRebased }) => [
        marksRebased(seenWith(1).state, { [VU]: 0 }, false),
        marksRebased(seenWith(1).state, { [VU]: 0 }, true),
      ],
      own: [true, false],
      shared: [false, false],
    },
    {
      says: "an item above its capacity",
      ask: ({ marksRebased }) => marksRebased(seenWith(10_001).state, {}, true),
      own: false,
      shared: true,
    },
  ],
  installable: [
    {
      says: "limits that were read before the item was seen, after it, and given in a request",
      ask: ({ installable }) => {
        const set = limitSet([]);
        const given = { ...ORIGIN, given: true } as const;
        const asOf = (origin: typeof ORIGIN, confirmed: boolean) =>
          installable({ set, origin }, confirmed)?.origin.asOfMs;
        return [asOf(ORIGIN, false), asOf(ORIGIN, true), asOf(given, false)];
      },
      own: [T0, T0, T0],
      shared: [Number.NEGATIVE_INFINITY, T0, T0],
    },
  ],
  mayBeNewer: [
    {
      says: "limits that were read before those of the item, and after",
      ask: ({ mayBeNewer }) => [
        mayBeNewer({ ...ORIGIN, asOfMs: T0 - 1 }, ORIGIN),
        mayBeNewer({ ...ORIGIN, asOfMs: T0 + 1 }, ORIGIN),
      ],
      own: [false, true],
      shared: [true, true],
    },
  ],
  announcesConfig: [
    {
      says: "an item with vu = 0",
      ask: ({ announcesConfig }) => announcesConfig({ [VU]: 0 }),
      own: true,
      shared: false,
    },
  ],
  hasSoftStampOver: [
    {
      says: "a stamp of before, of now, of later and none",
      ask: ({ hasSoftStampOver }) =>
        [{ b_rpm_soft: T0 - 1 }, { b_rpm_soft: T0 }, { b_rpm_soft: T0 + 1 }, {}].map((stamp: Item) =>
          hasSoftStampOver(seenWith(1, stamp), T0),
        ),
      own: [false, false, false, false],
      shared: [true, true, false, false],
    },
  ],
  doubtAbout: [
    {
      says: "items that say different things",
      ask: ({ doubtAbout }) => {
        const other = imageOf(itemOf(stateOf(Kinds.perMinute("rpm", 20))));
        // A limit that only stands there still is not among the configured ones.
        const leftOver = (capacityMilli: number) => {
          const seen = imageOf(itemOf(stateOf(Kinds.perMinute("rpm", 10), Kinds.perMinute("tpm", 10))));
          return { ...seen, item: { ...seen.item, b_tpm_cp: capacityMilli }, canonical: seenWith(1).canonical };
        };
        const asked = [seenWith(1), other, seenWith(1, { vu: 0 }), leftOver(10_000), leftOver(20_000)];
        const said = [...asked.map((seen) => doubtAbout(seen, false)), doubtAbout(seenWith(1), true)];
        return [new Set(said).size, doubtAbout(seenWith(1), false) === doubtAbout(seenWith(2), false)];
      },
      own: [1, true],
      shared: [6, true],
    },
  ],
  isReadTooOld: [
    {
      says: "configuration read a second ago, and longer ago",
      ask: ({ isReadTooOld }) => [isReadTooOld(ORIGIN, T0 + 1_000), isReadTooOld(ORIGIN, T0 + 1_001)],
      own: [false, false],
      shared: [false, true],
    },
  ],
  installStopsOnDoubt: [
    { says: "limits for every shard", ask: (dialect) => dialect.installStopsOnDoubt, own: false, shared: true },
  ],
  countsByHour: [
    { says: "what the counters are of", ask: (dialect) => dialect.countsByHour, own: true, shared: false },
  ],
  mayReshard: [{ says: "the number of shards", ask: (dialect) => dialect.mayReshard, own: true, shared: false }],
  makesMissingShards: [
    { says: "a shard that is missing", ask: (dialect) => dialect.makesMissingShards, own: false, shared: true },
  ],
};

for (const [member, differences] of Object.entries(DIFFERENCES)) {
  test(`${member}: ${differences.map(({ says }) => says).join("; ")}`, () => {
    for (const { says, ask, own, shared } of differences) {
      assert.deepEqual(ask(OWN), own, `${says}, on a table of our own`);
      assert.deepEqual(ask(SHARED), shared, `${says}, beside the original`);
    }
    assert.ok(
      differences.some(({ own, shared }) => JSON.stringify(own) !== JSON.stringify(shared)),
      "the two dialects answer alike; it need not be a part of the dialect",
    );
  });
}

test("every member of a dialect is asked about", () => {
  assert.deepEqual(Object.keys(DIFFERENCES).sort(), Object.keys(SHARED).sort());
});
