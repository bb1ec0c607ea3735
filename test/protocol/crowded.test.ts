import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { limitMakers } from "../../src/domain/limits/limit.ts";
import { amountsOf, claim, HOUR_MS, T0 } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { Cluster, type Process } from "./kit.ts";

// A process that has to do with more buckets than it remembers: what is forgotten costs round trips, and nothing else.

const Kinds = limitMakers(calendar);
const rpm = [Kinds.perMinute("rpm", 1_000)];
const REMEMBERED = { bucketsMax: 4 };

function lookAtOthers({ buckets }: Process): void {
  for (let i = 0; i < 3 * REMEMBERED.bucketsMax; i++) buckets.onFirstRead(bucketKey(`other-${i}`, "api"));
}

test("a give-back in a later hour, whose bucket others crowd out, puts the closed hour on its sheet once and ends", async () => {
  const cluster = new Cluster();
  const process = await cluster.open(REMEMBERED);
  const { place, line, buckets } = process;
  const wanted = claim("ada", rpm, { rpm: 10 });
  await place.take([wanted], T0);
  cluster.clock.set(T0 + HOUR_MS);
  const ticket = await place.ticket(wanted, T0 + HOUR_MS);
  cluster.clock.set(T0 + 2 * HOUR_MS);
  const { write } = line;
  let sheets = 0;
  line.write = (sent, call) => {
    lookAtOthers(process);
    if (sent.key.sheet === undefined) return write.call(line, sent, call);
    if (++sheets > 20) throw new Error("the same sheet is written again and again");
    return write.call(line, sent, call);
  };
  const at = { nowMs: T0 + 2 * HOUR_MS, timeoutMs: 1_000 };
  const reply = await buckets.credit({ ...wanted, ticket }, amountsOf({ rpm: 10 }), at);
  assert.equal(reply.kind, "applied");
  assert.equal(sheets, 1);
});

test("buckets that are read together are all found, also where they are more than a process remembers", async () => {
  const cluster = new Cluster();
  const { place, buckets } = await cluster.open(REMEMBERED);
  const claims = Array.from({ length: 3 * REMEMBERED.bucketsMax }, (_, i) => claim(`id-${i}`, rpm, { rpm: i }));
  for (const one of claims) await place.take([one], T0);
  const states = await buckets.read(claims.map(({ bucket }) => bucket));
  assert.deepEqual(
    states.map((state) => state?.limits[0]?.tokensMilli),
    claims.map((_, i) => (1_000 - i) * 1_000),
  );
});
