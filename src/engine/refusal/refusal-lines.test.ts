import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { OTHER } from "../../domain/charge/refusal-count.ts";
import { type Line, Lines } from "../book/lines.ts";
import { REFUSAL_LINES, type RefusedBy } from "./refusal-book.ts";

const HOUR_MS = 3_600_000;

type RefusalLine = Line<RefusedBy>;

function lines(): Lines<RefusedBy> {
  let ids = 0;
  return new Lines(() => `row-${++ids}`, REFUSAL_LINES);
}

function count(kept: Lines<RefusedBy>, entityId: string, hourMs: number): void {
  const about = { limit: "rpm", level: entityId, total: false };
  kept.add({ hourMs, entityId, resource: "api" }, "rpm", about, 1);
}

/** What a store has of rows that are written whole; a row may be removed with its entity. */
class Rows {
  readonly #counts = new Map<string, number>();
  removed = 0;

  write({ id, sums }: RefusalLine): void {
    for (const { about, count } of sums.values()) this.#counts.set(`${id} ${about.limit} ${about.level}`, count);
  }

  has({ id }: RefusalLine): boolean {
    return [...this.#counts.keys()].some((name) => name.startsWith(`${id} `));
  }

  remove({ id }: RefusalLine): void {
    for (const [name, count] of this.#counts) {
      if (!name.startsWith(`${id} `)) continue;
      this.removed += count;
      this.#counts.delete(name);
    }
  }

  sum(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }
}

test("a hundred thousand different ids take no more memory than a thousand lines", () => {
  const kept = lines();
  for (let i = 0; i < 100_000; i++) {
    count(kept, `id-${i}`, 0);
    if (i % 100 === 0) count(kept, "noisy", 0);
    if (i % 499 === 0) assert.ok(kept.all().length <= 1_001);
  }
  const batch = kept.toWrite(100, "some");
  assert.equal(batch.length, 101);
  assert.equal(batch[0]?.entityId, "noisy");
  assert.equal(batch.at(-1)?.entityId, OTHER);
  const sum = batch.reduce((all, { sums }) => all + [...sums.values()].reduce((n, { count }) => n + count, 0), 0);
  assert.equal(sum, 101_000);
});

test("lines whose write was not answered are sent again before any others, and stay few", () => {
  const kept = lines();
  for (let write = 0; write < 50; write++) {
    for (let i = 0; i < 500; i++) count(kept, `id-${write}-${i}`, 0);
    for (const line of kept.toWrite(100, "some")) kept.sent(line, 1);
  }
  const unsure = kept.all().filter(({ standing }) => standing === "unsure");
  assert.equal(unsure.length, 101, "a hundred, and the rest");
  assert.ok(kept.all().length <= 1_001);
});

type Step =
  | { readonly do: "count"; readonly entity: number; readonly hour: number }
  | {
      readonly do: "write";
      readonly replies: readonly ("stored" | "lostBefore" | "lostAfter")[];
      readonly last: boolean;
    }
  | { readonly do: "flood"; readonly from: number }
  | { readonly do: "delete"; readonly nth: number };

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("count" as const), entity: fc.nat(5), hour: fc.nat(2) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("write" as const),
      replies: fc.array(fc.constantFrom("stored", "lostBefore", "lostAfter"), { minLength: 1, maxLength: 4 }),
      last: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("flood" as const), from: fc.nat(10_000) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("delete" as const), nth: fc.nat(2) }) },
);

test("whatever answers are lost, every refusal is in the store once, or not written yet", () => {
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 60, size: "max" }), (steps) => {
      const kept = lines();
      const rows = new Rows();
      let counted = 0;
      const write = (most: number, what: "some" | "all", replyOf: (i: number) => string) => {
        for (const [i, line] of kept.toWrite(most, what).entries()) {
          const mustExist = line.wasStored;
          kept.sent(line, 1);
          const reply = replyOf(i);
          if (reply === "lostBefore") kept.replied(line, "unknown");
          else if (mustExist && !rows.has(line)) kept.replied(line, reply === "stored" ? "gone" : "unknown");
          else {
            rows.write(line);
            kept.replied(line, reply === "stored" ? "stored" : "unknown");
          }
        }
      };
      for (const step of steps) {
        if (step.do === "count") {
          count(kept, `e${step.entity}`, step.hour * HOUR_MS);
          counted++;
        } else if (step.do === "flood") {
          for (let i = 0; i < 700; i++) count(kept, `f${step.from}-${i}`, 0);
          counted += 700;
        } else if (step.do === "delete") {
          // Only what is certainly there: what is on its way may arrive after the deletion, as any other late write.
          const line = kept.all().filter(({ standing }) => standing === "stored")[step.nth];
          if (line !== undefined && line.entityId !== OTHER) rows.remove(line);
        } else {
          const { replies } = step;
          write(3, step.last ? "all" : "some", (i) => replies[i % replies.length] as string);
        }
      }
      // Those whose answers are still owed may be sent twice more: a row that is gone begins anew.
      for (let again = 0; again < 2; again++) write(Number.POSITIVE_INFINITY, "all", () => "stored");
      assert.equal(kept.isWritten(), true);
      assert.equal(rows.sum() + rows.removed, counted);
    }),
    { numRuns: 300 },
  );
});
