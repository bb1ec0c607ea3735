import assert from "node:assert/strict";
import { PLAIN_TICKET, type Ticket } from "../../src/domain/bucket/give-back.ts";
import { LEASE_REMEMBERED_MS, type LeaseRecord } from "../../src/domain/lease/lease-record.ts";
import { draftText } from "../../src/domain/lease/stored-lease.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { ConflictError } from "../../src/domain/names/errors.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import {
  allPages,
  amountsOf,
  claim,
  Kinds,
  MINUTE_MS,
  SECOND_MS,
  type Suite,
  T0,
  type TestedNamespace,
} from "./contract-kit.ts";
import { keyContract } from "./contract-lease-keys.ts";

const rpm = [Limit.perMinute("rpm", 10)];
const QUOTAS = [
  Limit.perMinute("rpm", 10),
  Kinds.quota("daily", 20, { reset: { cron: "0 0 * * *", tz: "Europe/Berlin" } }),
  Kinds.quota("session", 30, { resetAfterMs: 5 * MINUTE_MS }),
];

/** The record of a new lease on one bucket. */
export function leaseOn({ bucket, set, origin, take }: Claim, ticket: Ticket, leaseId: string): LeaseRecord {
  const { entityId, resource } = bucket;
  const level = { entityId, limits: set.limits, origin, bypass: false, seen: [] };
  return {
    ...{ leaseId, version: 1, writer: `first-${leaseId}`, status: "open", entityId },
    resources: [{ resource, levels: [level], overdrawn: [] }],
    holdings: [{ at: [0, 0], ticket, held: take }],
    ...{ openedAtMs: T0, expiresAtMs: T0 + MINUTE_MS, onExpiry: "refund", closing: undefined },
    ...{ requestId: undefined, idempotencyKey: undefined },
  };
}

function moved(record: LeaseRecord, change: Partial<LeaseRecord>, writer: string): LeaseRecord {
  return { ...record, version: record.version + 1, writer, ...change };
}

function settled(record: LeaseRecord, atMs: number, writer = "settles"): LeaseRecord {
  return moved(record, { status: "settled", closing: { atMs, by: "by" } }, writer);
}

async function stored(place: TestedNamespace, record: LeaseRecord): Promise<LeaseRecord> {
  const reply = await place.scope.leases.create({ record, finish: undefined }, T0);
  assert.deepEqual(reply, { kind: "stored" });
  return record;
}

/** Leases that live in the store. */
export function leaseContract(suite: Suite): void {
  suite.test("a lease is read back exactly as it was written, whatever it holds", async (place) => {
    const { leases } = place.scope;
    const wanted = claim("a", QUOTAS, { rpm: 1, daily: 2, session: 3 });
    const ticket = await place.ticket(wanted, T0);
    const soft = { ...Limit.perMinute("tpm", 500), soft: true } as Limit;
    const parent = {
      ...{ entityId: "parent.of-a", limits: [soft], bypass: true, seen: [] },
      origin: { asOfMs: T0 - 5, generation: null, given: true, own: true },
    } as const;
    const plain = leaseOn(wanted, ticket, "l_plain");
    const [own] = plain.resources;
    const all: LeaseRecord = {
      ...plain,
      leaseId: "l_all-of_it",
      resources: [
        {
          resource: "api",
          levels: [
            { ...(own?.levels[0] as typeof parent), seen: [{ limit: "daily", available: -3, capacity: 20 }] },
            parent,
          ],
          overdrawn: ["tpm"],
        },
        { resource: "GET/users/%25", levels: [parent], overdrawn: [] },
      ],
      holdings: [
        { at: [0, 0], ticket, held: amountsOf({ rpm: 1, daily: 2, session: 0 }) },
        { at: [0, 1], ticket: PLAIN_TICKET, held: [{ limit: "tpm", milli: 8_999_999_999_999_999 }] },
        { at: [1, 0], ticket, held: [] },
      ],
      ...{ onExpiry: "charge", closing: { atMs: T0 + 1, by: 'what "was" asked' }, status: "expired" },
      ...{ requestId: "réq – 1", idempotencyKey: "key: 1" },
    };
    for (const record of [plain, all]) {
      await stored(place, record);
      assert.deepEqual(await leases.get(record.leaseId), record);
    }
    assert.equal(await leases.get("l_unknown"), undefined);
  });

  suite.test(
    "what a ticket read back from a lease gives back goes where it was taken, and not past a reset",
    async (place) => {
      const wanted = claim("a", QUOTAS, { rpm: 4, daily: 4, session: 4 });
      await stored(place, leaseOn(wanted, await place.ticket(wanted, T0), "l_1"));
      const read = (await place.scope.leases.get("l_1"))?.holdings[0]?.ticket as Ticket;
      await place.giveBack(wanted, read, { rpm: 4, daily: 4, session: 4 }, T0);
      for (const [name, full] of [
        ["rpm", 10],
        ["daily", 20],
        ["session", 30],
      ] as const) {
        assert.equal(await place.holds(wanted, name, T0), full * 1000, name);
      }
      await place.take([wanted], T0);
      await place.reset(wanted, undefined, T0 + SECOND_MS);
      await place.take([wanted], T0 + SECOND_MS);
      await place.giveBack(wanted, read, { daily: 4, session: 4 }, T0 + SECOND_MS);
      assert.equal(await place.holds(wanted, "daily", T0 + SECOND_MS), 16_000, "of the period before");
    },
  );

  suite.test(
    "a record moves from one version to the next, and a repeat of the move is answered as the move",
    async (place) => {
      const { leases } = place.scope;
      const first = await stored(place, leaseOn(claim("a", rpm, { rpm: 1 }), PLAIN_TICKET, "l_1"));
      assert.deepEqual(await leases.create({ record: first, finish: undefined }, T0), { kind: "stored" }, "a repeat");
      const other = { ...first, writer: "somebody else" };
      assert.deepEqual(await leases.create({ record: other, finish: undefined }, T0), { kind: "conflict" });
      const second = moved(first, { expiresAtMs: T0 + 2 * MINUTE_MS }, "second");
      assert.deepEqual(await leases.move(second, undefined, T0), { kind: "stored" });
      assert.deepEqual(await leases.move(second, undefined, T0), { kind: "stored" }, "a repeat");
      assert.deepEqual(
        await leases.move(settled(first, T0), undefined, T0),
        { kind: "conflict" },
        "of the first version",
      );
      assert.deepEqual(await leases.get("l_1"), second);
      const third = settled(second, T0);
      assert.deepEqual(await leases.move(third, undefined, T0), { kind: "stored" });
      assert.deepEqual(await leases.move(second, undefined, T0), { kind: "conflict" }, "a repeat that came too late");
      assert.deepEqual(await leases.get("l_1"), third);
      assert.deepEqual(await leases.move(settled({ ...first, leaseId: "l_none" }, T0), undefined, T0), {
        kind: "conflict",
      });
    },
  );

  suite.test("what a record owes is said by a repeat of its own move, and by nobody else's", async (place) => {
    const { leases } = place.scope;
    const first = await stored(place, leaseOn(claim("a", rpm, { rpm: 1 }), PLAIN_TICKET, "l_1"));
    const owed = first.holdings;
    const second = { ...settled(first, T0), holdings: [] };
    assert.deepEqual(await leases.move(second, undefined, T0), { kind: "stored" });
    assert.deepEqual(await leases.findDue(T0, 10), []);
    const other = { ...second, writer: "somebody else", owed };
    assert.deepEqual(await leases.move(other, undefined, T0), { kind: "conflict" });
    const marked = { ...second, owed };
    assert.deepEqual(await leases.move(marked, undefined, T0), { kind: "stored" });
    assert.deepEqual(await leases.get("l_1"), marked);
    assert.deepEqual(
      await leases.findDue(T0, 10),
      [{ leaseId: "l_1", dueAtMs: T0 }],
      "it is due until somebody has given it back",
    );
    assert.deepEqual((await leases.listOpen({}, { limit: 10 })).items, []);
    const third = { ...moved(second, {}, "collects") };
    assert.deepEqual(await leases.move(third, undefined, T0), { kind: "stored" });
    assert.deepEqual(await leases.move(marked, undefined, T0), { kind: "conflict" }, "a repeat that came too late");
    assert.deepEqual(await leases.findDue(T0, 10), []);
    assert.deepEqual(await leases.get("l_1"), third);
  });

  suite.test("of several that end a lease at once, one does", async (place) => {
    const first = await stored(place, leaseOn(claim("a", rpm, { rpm: 1 }), PLAIN_TICKET, "l_1"));
    const ends = Array.from({ length: 8 }, (_, i) => settled(first, T0 + i, `writer-${i}`));
    const replies = await Promise.all(ends.map((end) => place.scope.leases.move(end, undefined, T0)));
    assert.equal(replies.filter(({ kind }) => kind === "stored").length, 1);
    assert.equal(replies.filter(({ kind }) => kind === "conflict").length, 7);
    assert.deepEqual(await place.scope.leases.get("l_1"), ends[replies.findIndex(({ kind }) => kind === "stored")]);
  });

  suite.test("open leases are listed by entity and resource, page after page; closed ones are not", async (place) => {
    const { leases } = place.scope;
    const add = (entityId: string, resource: string, n: number) =>
      stored(place, {
        ...leaseOn(claim(entityId, rpm, { rpm: 1 }, { resource }), PLAIN_TICKET, `l_${entityId}-${resource}-${n}`),
        expiresAtMs: T0 + n * SECOND_MS,
      });
    for (let n = 1; n <= 6; n++) await add("a", "api", n);
    await add("a", "a/b", 7);
    await add("b", "api", 1);
    const gone = await add("a", "api", 8);
    assert.equal((await leases.move(settled(gone, T0), undefined, T0)).kind, "stored");
    const listed = async (filter: { entityId?: string; resource?: string }, limit: number) =>
      (await allPages((page) => leases.listOpen(filter, page), limit)).map(({ leaseId }) => leaseId).sort();
    const api = [1, 2, 3, 4, 5, 6].map((n) => `l_a-api-${n}`);
    for (const limit of [3, 100]) {
      assert.deepEqual(await listed({}, limit), ["l_a-a/b-7", ...api, "l_b-api-1"]);
    }
    assert.deepEqual(await listed({ entityId: "a" }, 100), ["l_a-a/b-7", ...api]);
    assert.deepEqual(await listed({ resource: "api" }, 100), [...api, "l_b-api-1"]);
    assert.deepEqual(await listed({ entityId: "a", resource: "a/b" }, 100), ["l_a-a/b-7"]);
    assert.deepEqual(await listed({ entityId: "c" }, 100), []);
  });

  suite.test("a lease is due at the end of its hold, wherever that was moved to, until it is closed", async (place) => {
    const { leases } = place.scope;
    const due = async (nowMs: number) => (await leases.findDue(nowMs, 100)).map(({ leaseId }) => leaseId).sort();
    const one = await stored(place, leaseOn(claim("a", rpm, { rpm: 1 }), PLAIN_TICKET, "l_1"));
    const two = await stored(place, {
      ...leaseOn(claim("b", rpm, { rpm: 1 }), PLAIN_TICKET, "l_2"),
      expiresAtMs: T0 + 90_000,
    });
    assert.deepEqual(await due(T0 + MINUTE_MS - 1), []);
    assert.deepEqual(await due(T0 + MINUTE_MS), ["l_1"]);
    assert.deepEqual(await due(T0 + 30 * 24 * 60 * MINUTE_MS), ["l_1", "l_2"]);
    assert.equal((await leases.findDue(T0 + 30 * 24 * 60 * MINUTE_MS, 1)).length, 1);
    const later = moved(one, { expiresAtMs: T0 + 3 * MINUTE_MS }, "extends");
    await leases.move(later, undefined, T0);
    await leases.move(settled(two, T0), undefined, T0);
    assert.deepEqual(await due(T0 + 2 * MINUTE_MS), []);
    assert.deepEqual(await due(T0 + 3 * MINUTE_MS), ["l_1"]);
  });

  suite.test("one question finds the namespaces in which leases may be due, and those alone", async (place) => {
    const { namespaces } = place.store;
    const others = [
      await place.register("tenant-b"),
      await place.register("tenant-c"),
      await place.register("tenant-d"),
    ];
    const [b, c, d] = others as [TestedNamespace, TestedNamespace, TestedNamespace];
    const hourMs = 60 * MINUTE_MS;
    const startMs = Math.floor(T0 / hourMs) * hourMs;
    const lease = (leaseId: string, expiresAtMs: number) => ({
      ...leaseOn(claim("a", rpm, { rpm: 1 }), PLAIN_TICKET, leaseId),
      expiresAtMs,
    });
    const due = async (untilMs: number) =>
      (await namespaces.withDueLeases(untilMs)).map(({ namespace }) => namespace.name).sort();
    await stored(b, lease("l_b", startMs + 2 * hourMs + 1));
    const later = await stored(c, lease("l_c", startMs + 4 * hourMs));
    await stored(d, lease("l_d", startMs + 9 * hourMs));
    assert.deepEqual(await due(startMs + 2 * hourMs - 1), []);
    assert.deepEqual(await due(startMs + 2 * hourMs + 1), ["tenant-b"]);
    assert.deepEqual(await due(startMs + 5 * hourMs), ["tenant-b", "tenant-c"]);
    await c.scope.leases.move(moved(later, { expiresAtMs: startMs + 6 * hourMs }, "extends"), undefined, T0);
    assert.ok((await due(startMs + 6 * hourMs)).includes("tenant-c"), "where it was moved to");
    // Nothing is due there any more: what is still said of it can be forgotten.
    const [end] = await b.scope.leases.findDue(startMs + 3 * hourMs, 10);
    assert.equal(end?.leaseId, "l_b");
    await b.scope.leases.move(settled(lease("l_b", startMs + 2 * hourMs + 1), startMs), undefined, startMs);
    for (const { namespace, sinceMs } of await namespaces.withDueLeases(startMs + 4 * hourMs)) {
      if (namespace.name === "tenant-b") await namespaces.nothingDue(namespace.id, sinceMs, startMs + 4 * hourMs);
    }
    assert.equal((await due(startMs + 4 * hourMs)).includes("tenant-b"), false);
  });

  suite.test("leases of one namespace are in no other, and go with it", async (place) => {
    const other = await place.register("tenant-b");
    await stored(place, leaseOn(claim("a", rpm, { rpm: 1 }), PLAIN_TICKET, "l_1"));
    await stored(other, leaseOn(claim("a", rpm, { rpm: 1 }), PLAIN_TICKET, "l_2"));
    assert.equal(await other.scope.leases.get("l_1"), undefined);
    assert.deepEqual(await other.scope.leases.findDue(T0 + MINUTE_MS, 10), [
      { leaseId: "l_2", dueAtMs: T0 + MINUTE_MS },
    ]);
    const begin = { key: "k", fingerprint: "f", nowMs: T0, untilMs: T0 + 15_000 };
    for (const [scope, mark] of [
      [place, "m1"],
      [other, "m2"],
    ] as const) {
      assert.deepEqual(await scope.scope.leases.beginKey({ ...begin, mark }), { kind: "begun" });
    }
    const event = place.event("namespace_deleted", "$NAMESPACE:tenant-b");
    await place.store.namespaces.delete("tenant-b", T0, event, place.namespaceId);
    await place.store.namespaces.purge(other.namespaceId, event, place.namespaceId, () => {});
    assert.equal(await other.scope.leases.get("l_2"), undefined);
    assert.equal((await place.scope.leases.get("l_1"))?.leaseId, "l_1");
  });

  suite.test("where a take writes its lease, both are there or neither", async (place) => {
    const { leases } = place.scope;
    const wanted = claim("a", rpm, { rpm: 6 });
    const key = { key: "k", mark: "m" };
    assert.equal((await leases.beginKey({ ...key, fingerprint: "f", nowMs: T0, untilMs: T0 + 15_000 })).kind, "begun");
    let drafts = 0;
    const take = (leaseId: string) =>
      place.scope.buckets.take([wanted], {
        ...{ nowMs: T0, timeoutMs: 60_000, generation: undefined, atomic: false },
        lease: {
          key,
          writeOf: ([answer]) => {
            drafts++;
            const record = leaseOn(wanted, answer?.ticket ?? PLAIN_TICKET, leaseId);
            return { record, finish: { ...key, answer: JSON.stringify({ lease: { leaseId } }), nowMs: T0 } };
          },
          data: () => {
            drafts++;
            const record = leaseOn(wanted, PLAIN_TICKET, leaseId);
            const text = draftText({ record, holdMs: MINUTE_MS, namespace: "default", key });
            return { leaseId, entityId: "a", resource: wanted.bucket.resource, holdMs: MINUTE_MS, text };
          },
        },
      });
    const known = async () => {
      const reply = await leases.beginKey({ ...key, mark: "n", fingerprint: "f", nowMs: T0, untilMs: T0 });
      if (reply.kind !== "known") return reply.kind;
      if (reply.record.answer === undefined) return undefined;
      return (JSON.parse(reply.record.answer) as { readonly lease: { readonly leaseId: string } }).lease.leaseId;
    };
    const [answer] = (await take("l_1")) as readonly { kind: string }[];
    assert.equal(answer?.kind, "taken");
    assert.equal(drafts, leases.isWrittenByTake ? 1 : 0);
    const written = await leases.get("l_1");
    assert.equal(written?.leaseId, leases.isWrittenByTake ? "l_1" : undefined);
    assert.equal(await known(), leases.isWrittenByTake ? "l_1" : undefined);
    if (!leases.isWrittenByTake) return;
    assert.deepEqual(
      [written?.holdings, written?.openedAtMs, written?.expiresAtMs],
      [[{ at: [0, 0], ticket: PLAIN_TICKET, held: wanted.take }], T0, T0 + MINUTE_MS],
    );
    const due = await leases.findDue(T0 + MINUTE_MS, 10);
    assert.deepEqual(due, [{ leaseId: "l_1", dueAtMs: T0 + MINUTE_MS }]);
    // Answered by now: nothing is taken for it a second time.
    await assert.rejects(
      async () => take("l_2"),
      (error) => error instanceof ConflictError,
    );
    assert.equal(await place.holds(wanted, "rpm", T0), 4_000);
    assert.equal(await leases.get("l_2"), undefined);
    await leases.releaseKey(key, T0);
    const other = { key: "k2", mark: "m2" };
    await leases.beginKey({ ...other, fingerprint: "f", nowMs: T0, untilMs: T0 + 15_000 });
    const reply = await place.scope.buckets.take([wanted], {
      ...{ nowMs: T0, timeoutMs: 60_000, generation: undefined, atomic: false },
      lease: {
        key: other,
        writeOf: () => assert.fail("a refused take has no lease"),
        data: () => ({ leaseId: "l_3", entityId: "a", resource: "api", holdMs: MINUTE_MS, text: "never read" }),
      },
    });
    assert.equal((reply as readonly { kind: string }[])[0]?.kind, "short");
    assert.equal(await leases.get("l_3"), undefined);
    // Nothing was done under the key: it is still the caller's.
    assert.equal(await leases.renewKey(other, { nowMs: T0, untilMs: T0 + 15_000 }), true);
  });

  suite.test("closed leases are deleted some day, open ones never", async (place) => {
    const { leases } = place.scope;
    const laterMs = T0 + LEASE_REMEMBERED_MS + 1;
    const open = await stored(place, {
      ...leaseOn(claim("a", rpm, { rpm: 1 }), PLAIN_TICKET, "l_open"),
      expiresAtMs: laterMs + MINUTE_MS,
    });
    const closed = await stored(place, leaseOn(claim("a", rpm, { rpm: 1 }), PLAIN_TICKET, "l_closed"));
    await leases.move(settled(closed, T0), undefined, T0);
    for (let i = 0; i < 40; i++) {
      await leases.create(
        { record: leaseOn(claim("b", rpm, { rpm: 1 }), PLAIN_TICKET, `l_${i}`), finish: undefined },
        laterMs,
      );
    }
    assert.deepEqual(await leases.get("l_open"), open);
    // A store that leaves it to its table still has it; then whoever reads it looks at the time.
    const read = await leases.get("l_closed");
    assert.ok(read === undefined || read.closing?.atMs === T0);
  });

  keyContract(suite);
}
