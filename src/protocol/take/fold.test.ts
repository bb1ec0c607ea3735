import assert from "node:assert/strict";
import { test } from "node:test";
import { runs } from "../../../test/depth.ts";
import { calendar } from "../../../test/limits/kind-arbitraries.ts";
import { fc } from "../../../test/properties.ts";
import { anyChange, anyElapsed, anyScene, isClosed, withTokens } from "../../../test/protocol/kit.ts";
import { advanced, type BucketState, bucketFor, findLimit, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { limitMakers } from "../../domain/limits/limit.ts";
import { limitSet } from "../../domain/limits/limit-set.ts";
import { cutAt, type Fold, foldsAround, foldsOf, type Piece, pieceFor } from "./fold.ts";

const Kinds = limitMakers(calendar);

interface Case {
  readonly state: BucketState;
  readonly anew: (state: BucketState) => BucketState;
}

const anyCase: fc.Arbitrary<Case> = anyScene(3).chain((scene) =>
  fc
    .record({ elapsedMs: anyElapsed, change: fc.option(anyChange(scene), { nil: undefined }) })
    .map(({ elapsedMs, change }) => {
      const { state } = scene;
      const readingMs = Math.max(state.epochMs, state.epochMs + elapsedMs);
      const atMs = Math.max(readingMs, state.epochMs + 1);
      const anew = (one: BucketState) =>
        advanced(change === undefined ? one : bucketFor(one, change, readingMs, calendar), atMs, calendar);
      return { state, anew };
    }),
);

/** All pieces of one limit, found by asking at many levels and then on both sides of every edge that was found. */
function piecesOf({ state, anew }: Case, name: string): Map<number, Fold> {
  const held = findLimit(state, name) as LimitState;
  // Each limit is treated by itself.
  const alone = { ...state, limits: [held] };
  const { capacityMilli } = held.terms;
  const due = [-3, -1, 0, 1, 2].map((n) => n * capacityMilli).concat(held.tokensMilli, -1, 1, -9e12, 9e12);
  const found = new Map<number, Fold>();
  for (let x = due.pop(); x !== undefined; x = due.pop()) {
    if (found.has(x)) continue;
    const fold = foldsOf(withTokens(alone, name, x), anew).find((one) => one.name === name) as Fold;
    found.set(x, fold);
    for (const edge of [fold.piece.from, fold.piece.below]) if (edge !== undefined) due.push(edge, edge - 1, edge + 1);
    assert.ok(found.size < 60, "the edges never end");
  }
  return found;
}

const applied = ({ how, milli }: Piece, x: number): number => (how === "add" ? x + milli : milli);
const isIn = ({ from, below }: Piece, x: number): boolean =>
  (from === undefined || x >= from) && (below === undefined || x < below);

/** In millitokens over the period, what two states of a limit are apart. */
function apart(one: LimitState, tokensMilli: number, other: LimitState): bigint {
  const period = BigInt(other.terms.refillPeriodMs);
  return (BigInt(tokensMilli) - BigInt(other.tokensMilli)) * period + BigInt(one.remainder) - BigInt(other.remainder);
}

test("a piece does to any tokens within its bounds what the domain does, to the millitoken", () => {
  fc.assert(
    fc.property(anyCase, (given) => {
      for (const { name, ...held } of given.state.limits) {
        if (isClosed({ name, ...held })) continue;
        const found = piecesOf(given, name);
        // Once for all pieces: what the domain makes of so many tokens does not depend on the piece.
        const exactly = new Map<number, LimitState | undefined>();
        for (const x of found.keys()) exactly.set(x, findLimit(given.anew(withTokens(given.state, name, x)), name));
        for (const { piece, after } of found.values()) {
          for (const x of found.keys()) {
            if (!isIn(piece, x)) continue;
            const exact = exactly.get(x);
            if (after === undefined) {
              // Full a millisecond later is as good.
              const isFull = exact === undefined || exact.tokensMilli >= exact.terms.capacityMilli;
              assert.ok(isFull, `${name} is forgotten with ${x}, where the domain remembers it`);
              continue;
            }
            // One that may be forgotten may be kept as well: it is full.
            if (exact === undefined) {
              assert.ok(applied(piece, x) <= after.terms.capacityMilli);
              continue;
            }
            const difference = apart(after, applied(piece, x), exact);
            const period = BigInt(exact.terms.refillPeriodMs);
            assert.ok(
              difference <= period && difference >= -period,
              `${name} with ${x} is ${difference} / ${period} off`,
            );
            assert.deepEqual(after.terms, exact.terms);
            assert.deepEqual(after.quota, exact.quota, `${name} with ${x}`);
            assert.equal(after.configured, exact.configured);
          }
        }
      }
    }),
    { numRuns: runs(150) },
  );
});

test("the pieces of a limit cover all tokens, without gap or overlap", () => {
  fc.assert(
    fc.property(anyCase, (given) => {
      for (const { name, ...held } of given.state.limits) {
        if (isClosed({ name, ...held })) continue;
        const found = piecesOf(given, name);
        for (const [x, { piece }] of found) {
          assert.ok(isIn(piece, x), `${x} is not in its own piece`);
          for (const [y, other] of found) {
            if (isIn(piece, y)) assert.deepEqual(other.piece, piece, `${y} is in two pieces of ${name}`);
          }
        }
        const pieces = [...new Map([...found.values()].map(({ piece }) => [JSON.stringify(piece), piece])).values()];
        pieces.sort((a, b) => (a.from ?? Number.NEGATIVE_INFINITY) - (b.from ?? Number.NEGATIVE_INFINITY));
        assert.equal(pieces[0]?.from, undefined);
        assert.equal(pieces.at(-1)?.below, undefined);
        for (const [i, piece] of pieces.entries()) if (i > 0) assert.equal(piece.from, pieces[i - 1]?.below);
      }
    }),
    { numRuns: runs(100) },
  );
});

test("the debt of a soft limit that is made hard is forgiven, also a debt that was not in the image", () => {
  const soft = Kinds.perMinute("rpm", 60, { soft: true });
  const hard = Kinds.perMinute("rpm", 60);
  const state = bucketFor(undefined, { set: limitSet([soft]), origin: { asOfMs: 0, generation: null } }, 0, calendar);
  const change = { set: limitSet([hard]), origin: { asOfMs: 1, generation: null } };
  // A second brings one token: whoever owes at most that much owes nothing then.
  const anew = (one: BucketState) => bucketFor(one, change, 1_000, calendar);
  const pieceAt = (x: number) => foldsOf(withTokens(state, "rpm", x), anew)[0]?.piece as Piece;
  for (const debt of [-1_001, -50_000, -8_000_000]) {
    const piece = pieceAt(debt);
    assert.equal(applied(piece, debt), 0);
    assert.ok(isIn(piece, -9_000_000), "a debt that grew meanwhile is forgiven too");
  }
  assert.equal(applied(pieceAt(-1_000), -1_000), 0);
  assert.equal(applied(pieceAt(-999), -999), 1);
  assert.equal(applied(pieceAt(30_000), 30_000), 31_000);
  assert.equal(applied(pieceAt(59_500), 59_500), 60_000);
});

test("a limit that goes in the very millisecond of its epoch is forgotten only where it is full", () => {
  const [rpm, tpm] = [Kinds.perMinute("rpm", 10), Kinds.perMinute("tpm", 10)];
  const origin = { asOfMs: 0, generation: null };
  const state = bucketFor(undefined, { set: limitSet([rpm, tpm]), origin }, 0, calendar);
  const change = { set: limitSet([tpm]), origin: { asOfMs: 1, generation: null } };
  const anew = (one: BucketState) => advanced(bucketFor(one, change, 0, calendar), 1, calendar);
  const fold = foldsOf(state, anew).find(({ name }) => name === "rpm");
  assert.equal(fold?.after, undefined);
  assert.ok(
    !isIn(fold?.piece as Piece, 9_999),
    "one that somebody has taken from is forgotten, and full when it returns",
  );
});

test("a brim cuts what stands on it or over it, and leaves alone what stands below", () => {
  fc.assert(
    fc.property(fc.integer(), fc.integer(), (brim, x) => {
      assert.equal(applied(pieceFor(cutAt(brim), x), x), Math.min(brim, x));
    }),
  );
});

test("tokens that lie in no piece are a mistake of ours, and said so", () => {
  assert.throws(() => pieceFor([{ from: 5, below: undefined, how: "add", milli: 0 }], 4), /4 millitokens/);
});

test("where a limit that is full is forgotten, its step is found, also if the line before it crosses what comes after", () => {
  const rpm = Kinds.perMinute("rpm", 1_965);
  const origin = { asOfMs: 0, generation: null };
  const state = bucketFor(undefined, { set: limitSet([rpm]), origin }, 0, calendar);
  // Below the brim a token drips in; what is full is forgotten, and comes back with two more. The line would get there a token later.
  const becomes = (x: number) => (x < 1_965_000 ? x + 1_000 : 1_967_000);
  const anew = (one: BucketState) => withTokens(one, "rpm", becomes(findLimit(one, "rpm")?.tokensMilli ?? 0));
  for (const x of [0, 1_964_999, 1_965_000, 1_965_999, 1_966_000, 3_000_000]) {
    const piece = foldsAround(withTokens(state, "rpm", x), anew)[0]?.piece as Piece;
    for (const y of [-1_000, 1_964_999, 1_965_000, 1_965_999, 1_966_000, 1_966_001, 9_000_000]) {
      if (isIn(piece, y)) assert.equal(applied(piece, y), becomes(y), `${y} by the piece around ${x}`);
    }
    assert.ok(isIn(piece, x < 1_965_000 ? -1_000 : 9_000_000), "the piece is as wide as it can be");
  }
});

/** Two to four changes of a scene, at instants between its epoch and a reading that meets all of them. */
const anyChanges: fc.Arbitrary<Case> = anyScene(2).chain((scene) =>
  fc
    .array(fc.record({ change: anyChange(scene), gapMs: fc.nat(3 * 3_600_000) }), { minLength: 2, maxLength: 4 })
    .map((drawn) => {
      const { state } = scene;
      let fromMs = state.epochMs;
      const changes = drawn.map(({ change, gapMs }) => {
        fromMs += gapMs + 1;
        return { fromMs, number: fromMs, set: change.set };
      });
      const { set } = changes.at(-1) as (typeof changes)[number];
      const origin = { asOfMs: fromMs, generation: null, changeNumber: fromMs, changes };
      const met = { ...state, origin: { ...state.origin, changeNumber: state.epochMs } };
      const atMs = fromMs + 1_000;
      return { state: met, atMs, anew: (one: BucketState) => bucketFor(one, { set, origin }, atMs, calendar) };
    }),
);

test("of limits that went by several rules, the piece around the tokens does to all of them what the domain does", () => {
  let wide = 0;
  let folds = 0;
  fc.assert(
    fc.property(
      anyChanges,
      fc.array(fc.integer({ min: -40_000_000, max: 40_000_000 }), { maxLength: 12 }),
      (given, tokens) => {
        const { state, anew } = given;
        for (const { name, before, after, piece } of foldsAround(state, anew)) {
          if (before === undefined || isClosed(before)) continue;
          folds++;
          assert.ok(isIn(piece, before.tokensMilli), `${name} is not in its own piece`);
          const edges = [piece.from, piece.below].flatMap((edge) =>
            edge === undefined ? [] : [edge - 1, edge, edge + 1],
          );
          const inside = [...tokens, ...edges, before.tokensMilli].filter((x) => isIn(piece, x));
          if (inside.length > 2) wide++;
          for (const x of inside) {
            const exact = findLimit(anew(withTokens(state, name, x)), name);
            assert.equal(exact === undefined, after === undefined, `${name} with ${x}`);
            if (exact === undefined || after === undefined) continue;
            assert.equal(applied(piece, x), exact.tokensMilli, `${name} with ${x}`);
            assert.equal(after.remainder, exact.remainder);
            assert.deepEqual(after.quota, exact.quota, `${name} with ${x}`);
            assert.deepEqual(after.terms, exact.terms);
          }
        }
      },
    ),
    { numRuns: runs(60) },
  );
  assert.ok(wide > folds / 3, `only ${wide} of ${folds} pieces were tried at more than two places`);
});
