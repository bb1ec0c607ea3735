import assert from "node:assert/strict";
import { PLAIN_TICKET } from "../../src/domain/bucket/give-back.ts";
import type { LeaseRecord } from "../../src/domain/lease/lease-record.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import type { Claim, Held } from "../../src/ports/bucket-store.ts";
import type { ChangeReply, Charged, LeaseChange, LeaseMoves, Movement } from "../../src/ports/lease-store.ts";
import { amountsOf, claim, HOUR_MS, type Suite, T0, type TestedNamespace } from "./contract-kit.ts";
import { leaseOn } from "./contract-leases.ts";

const rpm = [Limit.perMinute("rpm", 10), Limit.perMinute("tpm", 1_000)];
const KEY = { key: "k", mark: "m" };
const CONTEXT = { nowMs: T0, timeoutMs: 60_000 };
const NOTHING = { kind: "difference", debits: [], credits: [] } as const;

/** A lease that holds 6 of the 10 of `a`. */
async function opened(place: TestedNamespace): Promise<{ readonly record: LeaseRecord; readonly held: Held }> {
  const wanted = claim("a", rpm, { rpm: 6 });
  const ticket = await place.ticket(wanted, T0);
  const record = leaseOn(wanted, ticket, "l_1");
  assert.deepEqual(await place.scope.leases.create({ record, finish: undefined }, T0), { kind: "stored" });
  const begin = { ...KEY, fingerprint: "f", nowMs: T0, untilMs: T0 + 15_000 };
  assert.equal((await place.scope.leases.beginKey(begin)).kind, "begun");
  return { record, held: heldBy(wanted, ticket) };
}

function heldBy({ bucket, set, origin, bypass }: Claim, ticket: Held["ticket"]): Held {
  return { bucket, set, origin, bypass, ticket };
}

function changeOf(record: LeaseRecord, moves: LeaseMoves, given: Partial<LeaseChange> = {}): LeaseChange {
  const { leaseId, version } = record;
  const next = { ...record, version: version + 1, writer: "changes", status: "settled" } as const;
  const written = { ...next, closing: { atMs: T0, by: "by" } };
  const writeOf = () => ({ record: written, finish: { ...KEY, answer: "done", nowMs: T0 } });
  return { leaseId, version, writer: "changes", key: KEY, moves, writeOf, ...given };
}

function moving(held: Held, tokens: Readonly<Record<string, number>>): Movement {
  return { held, amounts: amountsOf(tokens) };
}

/** Leases that change together with their buckets, where the store has a transaction over both. */
export function leaseChangeContract(suite: Suite): void {
  const story = (
    sentence: string,
    tell: (place: TestedNamespace, change: (change: LeaseChange) => Promise<ChangeReply>) => Promise<void>,
  ) =>
    suite.test(`where a change is one transaction, ${sentence}`, async (place) => {
      const { leases } = place.scope;
      if (leases.change === undefined) return;
      await tell(place, async (change) => (await leases.change?.(change, CONTEXT)) as ChangeReply);
    });
  /** The version of the lease, what `a` has left, and the answer under the key. */
  const seen = async (place: TestedNamespace) => {
    const record = await place.scope.leases.get("l_1");
    const left = await place.holds(claim("a", rpm, {}), "rpm", T0);
    const begin = { ...KEY, mark: "other", fingerprint: "f", nowMs: T0, untilMs: T0 };
    const key = await place.scope.leases.beginKey(begin);
    return [record?.version, left / 1000, key.kind === "known" ? key.record.answer : "free"];
  };
  const UNCHANGED = [1, 4, undefined];

  story(
    "what is debited, given back and written down is there, once however often it is sent",
    async (place, change) => {
      const { record, held } = await opened(place);
      const other = claim("b", rpm, {});
      const moves: LeaseMoves = {
        ...{ kind: "difference", debits: [moving(held, { tpm: 50 }), moving(heldBy(other, PLAIN_TICKET), { rpm: 3 })] },
        credits: [moving(held, { rpm: 2 })],
      };
      let charged: Charged | undefined;
      const plain = changeOf(record, moves);
      const sent = {
        ...plain,
        writeOf: (what: Charged) => {
          charged = what;
          return plain.writeOf(what);
        },
      };
      const reply = await change(sent);
      assert.ok(reply.kind === "stored");
      assert.deepEqual(
        reply.credited.map(({ kind }) => kind),
        ["applied"],
      );
      assert.ok(charged?.kind === "difference" && charged.debited.length === 2);
      const after = [2, 6, "done"];
      assert.deepEqual(await seen(place), after);
      assert.equal(await place.holds(other, "rpm", T0), 7_000);
      assert.equal(await place.holds(claim("a", rpm, {}), "tpm", T0), 950_000);
      assert.deepEqual(await change(sent), { kind: "repeated" });
      assert.deepEqual(await seen(place), after);
      assert.equal(await place.holds(other, "rpm", T0), 7_000);
      const query = { window: "hourly", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER, entityId: "a" } as const;
      const { items } = await place.scope.usage.query(query, { limit: 10 });
      assert.deepEqual(items[0]?.counters, { rpm: 4, tpm: 50 });
    },
  );

  story("more is taken if all of it is there, and else nothing is changed", async (place, change) => {
    const { record } = await opened(place);
    const claims = [claim("a", rpm, { rpm: 3 }), claim("b", rpm, { rpm: 11 })] as const;
    const never = () => assert.fail("what was refused is not written down");
    const refused = await change(changeOf(record, { kind: "take", claims }, { writeOf: never }));
    assert.ok(refused.kind === "short");
    assert.deepEqual(
      refused.answers.map(({ kind }) => kind),
      ["skipped", "short"],
    );
    assert.deepEqual(await seen(place), UNCHANGED);
    const taken = await change(changeOf(record, { kind: "take", claims: [claims[0]] }));
    assert.equal(taken.kind, "stored");
    assert.deepEqual(await seen(place), [2, 1, "done"]);
  });

  story("an older version, a lease that is not there and a key that is lost change nothing", async (place, change) => {
    const { record, held } = await opened(place);
    const moves: LeaseMoves = { ...NOTHING, credits: [moving(held, { rpm: 6 })] };
    assert.deepEqual(await change(changeOf({ ...record, version: 2 }, moves)), { kind: "conflict" });
    assert.deepEqual(await change(changeOf({ ...record, leaseId: "l_9" }, moves)), { kind: "conflict" });
    assert.deepEqual(await change(changeOf(record, moves, { key: { ...KEY, mark: "n" } })), { kind: "keyLost" });
    assert.deepEqual(await seen(place), UNCHANGED);
    assert.equal((await change(changeOf(record, NOTHING))).kind, "stored");
    assert.deepEqual(await change(changeOf(record, moves, { writer: "late" })), { kind: "conflict" });
    assert.deepEqual(await seen(place), [2, 4, "done"]);
  });

  story("one that throws half-way has changed nothing, of old buckets and of new ones", async (place, change) => {
    const { record, held } = await opened(place);
    const fresh = heldBy(claim("b", rpm, {}), PLAIN_TICKET);
    const broken = new Error("broken");
    const fails = {
      writeOf: () => {
        throw broken;
      },
    };
    const debits = [moving(held, { rpm: 1 }), moving(fresh, { rpm: 1 })];
    const difference: LeaseMoves = { ...NOTHING, debits, credits: [moving(held, { rpm: 2 })] };
    await assert.rejects(change(changeOf(record, difference, fails)), broken);
    const claims = [claim("a", rpm, { rpm: 1 }), claim("b", rpm, { rpm: 1 })];
    await assert.rejects(change(changeOf(record, { kind: "take", claims }, fails)), broken);
    assert.equal((await place.scope.leases.get("l_1"))?.version, 1);
    assert.deepEqual(await place.scope.buckets.read([fresh.bucket]), [undefined]);
    assert.deepEqual(await seen(place), UNCHANGED);
    const query = { window: "hourly", fromMs: T0, toMs: T0 + HOUR_MS } as const;
    const { items } = await place.scope.usage.query(query, { limit: 10 });
    assert.deepEqual(
      items.map(({ entityId, counters }) => [entityId, counters]),
      [["a", { rpm: 6 }]],
    );
  });
}
