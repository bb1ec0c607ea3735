import assert from "node:assert/strict";
import { LEASE_REMEMBERED_MS } from "../../domain/lease/lease-record.ts";
import type {
  Batch,
  BatchBucket,
  BatchClaim,
  BatchLease,
  BatchReply,
  BatchRequest,
  ClaimLevels,
  LeftUsage,
  LevelPin,
  RequestReply,
} from "../../ports/batch-store.ts";
import type { TouchedNames } from "../../ports/record-store.ts";
import { SummedTake } from "../../straight/summed-take.ts";
import { bytesOfRow, seenOfBytes } from "./bucket-bytes.ts";
import { doubles, Reader } from "./bytes.ts";
import type { Part, Reply } from "./connection.ts";
import type { Hint, NamespaceKeys } from "./keys.ts";
import { judgedIn } from "./summed-bytes.ts";
import { byHour, partsOfCount } from "./usage-text.ts";

// The keys and arguments of the script of takes, and its answer. `lua/take-read.lua` says how it reads them.

const KINDS = { take: 1, debit: 2, credit: 3, renew: 3 } as const;

/** A credit has one of these in place of the number of its period, which is never negative, and a level in place of its window, from 1 on. */
const PINS = { skip: -1, from: -2, fromUsed: -3, skipUsed: -4, into: -5 } as const;

const REFUSALS = ["tooDeep", "gone", "again", "stale", "clock", "keyLost"] as const;
const OUTCOMES = { applied: 0, short: 1 } as const;

const HOUR_MS = 3_600_000;

/** What the script asks for before it does a batch. */
export interface Needs {
  /** Hours that rows are in, beside those that the client expected, by bucket. */
  readonly hours: readonly (readonly [bucket: number, hourMs: number])[];
  /** Buckets of which it must be known whether they have any usage: with the key of an hour that has, or undefined. */
  readonly proofs: ReadonlyMap<number, string | undefined>;
  /** Hints of everything that may be made are sent; otherwise of what is likely to be. */
  readonly hasAllHints: boolean;
}

export const NO_NEEDS: Needs = { hours: [], proofs: new Map(), hasAllHints: false };

interface TakeCall {
  readonly keys: readonly string[];
  readonly args: readonly Part[];
  /** Go ahead of the script. */
  readonly hints: readonly Hint[];
}

interface Head {
  readonly serverMs: number;
  /** The lane has not written anything yet, as far as this process knows. */
  readonly isNewLane: boolean;
  /** WAIT follows the script. */
  readonly isConfirmed: boolean;
  readonly needs: Needs;
}

export function takeCall(batch: Batch, at: NamespaceKeys, head: Head): TakeCall {
  return new CallWriter(batch, at, head).call();
}

class CallWriter {
  readonly #batch: Batch;
  readonly #at: NamespaceKeys;
  readonly #head: Head;
  readonly #keys: string[];
  readonly #places = new Map<string, number>();
  readonly #texts: string[] = [];
  readonly #textPlaces = new Map<string, number>();
  /** Pairs of the places of an index and of a member. */
  readonly #hintNumbers: number[] = [];
  readonly #hintsAhead: Hint[] = [];

  constructor(batch: Batch, at: NamespaceKeys, head: Head) {
    this.#batch = batch;
    this.#at = at;
    this.#head = head;
    this.#keys = [at.generation, at.changes, at.writes, at.lane(batch.lane)];
    for (const { key } of batch.buckets) this.#keys.push(at.bucket(key));
  }

  call(): TakeCall {
    const { buckets, requests, seq, isRepeat, countsUsage, aheadMaxMs, lane } = this.#batch;
    const { serverMs, isNewLane, isConfirmed, needs } = this.#head;
    const drafts = requests.flatMap((request) =>
      request.draft === undefined ? [] : [this.#draftArgs(request.draft, request)],
    );
    const bucketNumbers = buckets.flatMap((bucket, i) => this.#bucketNumbers(bucket, i));
    const hours = this.#hourNumbers();
    const laneHint = this.#hintPlace(this.#at.laneHints(lane, serverMs), isNewLane || needs.hasAllHints);
    const brought = buckets.flatMap(({ brought: one }) =>
      one === undefined ? [] : [bytesOfRow(one.row, one.version, null)],
    );
    const latestMs = aheadMaxMs === undefined ? Number.POSITIVE_INFINITY : serverMs + aheadMaxMs;
    let draft = 0;
    const requestArgs = requests.map((request) => this.#requestArg(request, request.draft === undefined ? 0 : ++draft));
    const counts = [buckets.length, requests.length, drafts.length, brought.length, hours.length / 4];
    const numbers = [
      ...[seq, Number(isRepeat), Number(countsUsage), serverMs, latestMs],
      ...[...counts, this.#hintNumbers.length / 2, laneHint, Number(isConfirmed)],
      ...[...bucketNumbers, ...hours, ...this.#hintNumbers],
    ];
    const args = [doubles(numbers), this.#names(), ...brought, ...requestArgs, ...drafts.flat(), ...this.#texts];
    return { keys: this.#keys, args, hints: this.#hintsAhead };
  }

  /** Names that changes of configuration are compared with. */
  #names(): string {
    const names = new Set(this.#batch.goesBy);
    for (const { key } of this.#batch.buckets) names.add(key.entityId).add(key.resource);
    return [...names].join("\n");
  }

  #bucketNumbers({ key, brought }: BatchBucket, i: number): readonly number[] {
    const hints = this.#hintPlace(this.#at.bucketHints(key), brought?.version === 0);
    const { proofs } = this.#head.needs;
    const proof = proofs.get(i);
    const proofPlace = proof !== undefined ? this.#keyPlace(proof) : proofs.has(i) ? 0 : -1;
    const left = brought === undefined ? [] : this.#leftNumbers(brought.left);
    return [brought?.version ?? -1, (brought?.request ?? -1) + 1, hints, proofPlace, left.length / 4, ...left];
  }

  #leftNumbers(left: readonly LeftUsage[]): readonly number[] {
    return [...byHour(left)].flatMap(([hourMs, counts]) =>
      counts.flatMap(({ counter, milli }) => [hourMs, this.#textPlace(counter), ...partsOfCount(milli)]),
    );
  }

  /** The hours in which something may be counted beside the rows: of each the bucket, the hour, the place of its key, and its hints. */
  #hourNumbers(): readonly number[] {
    const { buckets, requests, countsUsage } = this.#batch;
    const { hours: needed, hasAllHints } = this.#head.needs;
    const wanted = new Map<string, readonly [bucket: number, hourMs: number, isLikelyNew: boolean]>();
    const want = (bucket: number, hourMs: number, isLikelyNew: boolean) => {
      const name = `${bucket} ${hourMs}`;
      if (isLikelyNew || !wanted.has(name)) wanted.set(name, [bucket, hourMs, isLikelyNew]);
    };
    for (const [i, { brought }] of buckets.entries()) {
      for (const { hourMs } of brought?.left ?? []) want(i, hourMs, true);
    }
    for (const { kind, nowMs, claims } of countsUsage ? requests : []) {
      for (const claim of claims) {
        // Overdrafts of soft limits are counted so, too: the row says which limits those are.
        const mayCount = claim.strays.length > 0 || (kind === "take" && !claim.isSummable && !claim.bypass);
        if (mayCount) want(claim.bucket, nowMs - (nowMs % HOUR_MS), false);
        if (claim.lost !== undefined) want(claim.bucket, claim.lost.hourMs, false);
      }
    }
    for (const [bucket, hourMs] of needed) want(bucket, hourMs, false);
    return [...wanted.values()].flatMap(([bucket, hourMs, isLikelyNew]) => {
      const { entityId, resource } = (buckets[bucket] as BatchBucket).key;
      const place = this.#keyPlace(this.#at.usage(entityId, resource, hourMs));
      const hints = this.#hintPlace(this.#at.usageHints(entityId, resource, hourMs), isLikelyNew || hasAllHints);
      return [bucket + 1, hourMs, place, hints];
    });
  }

  #requestArg({ kind, nowMs, generation, isNoted, claims }: BatchRequest, draft: number): Part {
    const numbers = [KINDS[kind], nowMs, generation ?? Number.NaN, Number(isNoted), claims.length, draft];
    for (const claim of claims) this.#pushClaim(numbers, claim);
    return doubles(numbers);
  }

  #pushClaim(numbers: number[], claim: BatchClaim): void {
    const from = numbers.length;
    const { bucket, signature, changeNumber, judgedMs, bypass, leavePercent, amounts } = claim;
    numbers.push(bucket + 1, 0, this.#textPlace(signature), changeNumber, judgedMs ?? Number.POSITIVE_INFINITY);
    numbers.push(Number(bypass), leavePercent, 0);
    for (const amount of amounts) numbers.push(amount ?? Number.NaN);
    const { pins, origin, shadows, strays, lost } = claim;
    if (pins !== undefined || origin !== undefined || shadows.length + strays.length > 0 || lost !== undefined) {
      const more = numbers.length - from;
      numbers[from + 7] = more;
      const lostNumbers = lost === undefined ? [] : this.#leftNumbers([lost]);
      numbers.push(Number(pins !== undefined), Number(origin !== undefined), shadows.length, strays.length);
      numbers.push(lostNumbers.length / 4, 0);
      if (pins !== undefined) for (const [i] of amounts.entries()) numbers.push(...pinNumbers(pins[i]));
      if (origin !== undefined) numbers.push(origin.asOfMs, origin.generation ?? Number.NaN);
      for (const { place, slice } of shadows) numbers.push(place + 1, slice === undefined ? 0 : slice + 1);
      for (const { limit, milli } of strays) numbers.push(this.#textPlace(limit), ...partsOfCount(milli));
      numbers[from + more + 5] = numbers.length - from;
      numbers.push(...lostNumbers);
    }
    numbers[from + 1] = numbers.length - from;
  }

  /** Numbers, the mark of the key, the columns of the lease, and the body but for what the take answers. */
  #draftArgs(draft: BatchLease, { nowMs, claims }: BatchRequest): readonly Part[] {
    const { leaseId, entityId, resource, holdMs, text, key } = draft;
    const forgottenAtMs = nowMs + LEASE_REMEMBERED_MS;
    const [leaseAt, keyAt] = [
      leaseId === undefined ? 0 : this.#keyPlace(this.#at.record({ kind: "lease", key: [leaseId] })),
      key === undefined ? 0 : this.#keyPlace(this.#at.record({ kind: "leaseKey", key: [key.key] })),
    ];
    const dueAtMs = nowMs + holdMs;
    const leaseHint =
      leaseId === undefined ? 0 : this.#hintPlace(this.#at.leaseHints(leaseId, dueAtMs, undefined), true);
    const keyHint = key === undefined ? 0 : this.#hintPlace(this.#at.leaseKeyHints(key.key, forgottenAtMs), true);
    const keys = claims.map(({ bucket }) => {
      const of = (this.#batch.buckets[bucket] as BatchBucket).key;
      return [of.entityId, of.resource];
    });
    const head = JSON.stringify({ leaseId, draft: text, nowMs, keys });
    return [
      doubles([leaseAt, keyAt, forgottenAtMs, leaseHint, keyHint]),
      key?.mark ?? "",
      JSON.stringify({ entityId, resource, dueAtMs }),
      `${head.slice(0, -1)},"buckets":[`,
    ];
  }

  #keyPlace(key: string): number {
    let place = this.#places.get(key);
    if (place === undefined) {
      place = this.#keys.push(key);
      this.#places.set(key, place);
    }
    return place;
  }

  #textPlace(text: string): number {
    let place = this.#textPlaces.get(text);
    if (place === undefined) {
      place = this.#texts.push(text);
      this.#textPlaces.set(text, place);
    }
    return place;
  }

  /** The place of the first of some hints, which follow one another; 0: they are not sent, and the script asks for them where it needs them. */
  #hintPlace(hints: readonly Hint[], isSent: boolean): number {
    if (!isSent) return 0;
    const place = this.#hintNumbers.length / 2 + 1;
    for (const { index, member } of hints) this.#hintNumbers.push(this.#keyPlace(index), this.#textPlace(member));
    this.#hintsAhead.push(...hints);
    return place;
  }
}

/** An answer of the script. `needs`: it has done nothing, and wants to be sent the batch again with these. */
type TakeAnswer =
  | { readonly kind: "needs"; readonly needs: Needs }
  | { readonly kind: "superseded" }
  | { readonly kind: "done"; readonly reply: Done; readonly writes: number };

const NEEDS = { hour: 1, proof: 2, hints: 3 } as const;

/** The forms of an answer: request by request, or by bucket. */
const FORMS = { judged: 0, summed: 1, summedShort: 2 } as const;

/**
 * The answer of the general take, which may be one that the summed take has left in the lane. Throws where it is no answer of these scripts.
 */
export function answerOf(bytes: Reply, batch: Batch, before: Needs): TakeAnswer {
  const reader = readerOf(bytes);
  const kind = reader.letter();
  if (kind === "S") return { kind: "superseded" };
  if (kind === "N") return { kind: "needs", needs: needsIn(reader, before) };
  if (kind !== "D" && kind !== "R") throw new Error(`The script of takes answered ${kind}.`);
  const repeated = kind === "R";
  const head = headIn(reader);
  if (head.form !== FORMS.judged) {
    return doneOf(head, togetherIn(reader, head, SummedTake.of(batch) as SummedTake, repeated) as Done);
  }
  const changes = reader.bytes(reader.size()).toString("utf8");
  const rows = batch.buckets.map(() => {
    const row = reader.bytes(reader.size());
    return row.length === 0 ? null : seenOfBytes(row);
  });
  const replies = batch.requests.map((request) => requestReply(reader, request));
  const { generation, serverMs } = head;
  const told = changes === "" ? undefined : (JSON.parse(changes) as TouchedNames);
  return doneOf(head, { kind: "done", repeated, generation, serverMs, changes: told, rows, replies });
}

/** The answer of the summed take; undefined: it has done nothing, and the general take has to judge the requests. */
export function summedAnswerOf(bytes: Reply, take: SummedTake): DoneAnswer | undefined {
  if (bytes === null) return undefined;
  const reader = readerOf(bytes);
  // Of the lane.
  reader.number();
  const head = headIn(reader);
  const reply = togetherIn(reader, head, take, false);
  return reply && doneOf(head, reply);
}

type Done = Extract<BatchReply, { kind: "done" }>;

export type DoneAnswer = Extract<TakeAnswer, { kind: "done" }>;

interface AnswerHead {
  readonly generation: number;
  readonly serverMs: number;
  readonly writes: number;
  readonly form: number;
}

function readerOf(bytes: Reply): Reader {
  assert(bytes instanceof Uint8Array, `The client of the server answers ${typeof bytes} where bytes were asked for.`);
  return new Reader(bytes);
}

function headIn(reader: Reader): AnswerHead {
  return { generation: reader.number(), serverMs: reader.number(), writes: reader.number(), form: reader.byte() };
}

function doneOf({ writes }: AnswerHead, reply: Done): DoneAnswer {
  return { kind: "done", writes, reply };
}

function togetherIn(
  reader: Reader,
  { form, generation, serverMs }: AnswerHead,
  take: SummedTake,
  repeated: boolean,
): Done | undefined {
  const kind = form === FORMS.summed ? "applied" : "short";
  return take.replyOf({ kind, repeated, generation, serverMs, judged: judgedIn(reader, take, kind) });
}

/** The time of the last batch of a lane, as the lane's key has it; undefined: there is none. */
export function laneWrittenAtMs(value: Uint8Array): number | undefined {
  if (value.length === 0) return undefined;
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength).readDoubleLE(16);
}

function needsIn(reader: Reader, before: Needs): Needs {
  const hours = [...before.hours];
  const proofs = new Map(before.proofs);
  let { hasAllHints } = before;
  while (!reader.isAtEnd) {
    const [what, bucket, hourMs] = [reader.number(), reader.number() - 1, reader.number()];
    if (what === NEEDS.hour) hours.push([bucket, hourMs]);
    else if (what === NEEDS.proof) proofs.set(bucket, undefined);
    else hasAllHints = true;
  }
  return { hours, proofs, hasAllHints };
}

function requestReply(reader: Reader, { claims }: BatchRequest): RequestReply {
  const outcome = reader.number();
  if (outcome === OUTCOMES.applied) {
    return { kind: "applied", claims: claims.map((claim) => appliedLevels(reader, claim)) };
  }
  if (outcome !== OUTCOMES.short) return { kind: REFUSALS[outcome - 2] as (typeof REFUSALS)[number] };
  const short: boolean[] = [];
  const levels = claims.map((claim) => {
    short.push(reader.number() === 1);
    return levelsIn(reader, claim);
  });
  return { kind: "short", short, claims: levels };
}

function appliedLevels(reader: Reader, claim: BatchClaim): ClaimLevels {
  const levels = levelsIn(reader, claim);
  const passed = claim.shadows.length === 0 ? 0 : reader.number();
  if (passed === 0) return levels;
  return { ...levels, shadowed: Array.from({ length: passed }, () => reader.number() - 1) };
}

function levelsIn(reader: Reader, { amounts }: BatchClaim): ClaimLevels {
  const hasSessions = reader.number() === 1;
  const tokensMilli = amounts.map(() => reader.number());
  if (!hasSessions) return { tokensMilli, windows: undefined, validUntilMs: undefined };
  const windows = amounts.map(() => finite(reader.number()));
  return { tokensMilli, windows, validUntilMs: finite(reader.number()) };
}

function finite(number: number): number | null {
  return Number.isFinite(number) ? number : null;
}

function pinNumbers(pin: LevelPin): readonly [resets: number, window: number] {
  if (pin === undefined) return [Number.NaN, Number.NaN];
  if (typeof pin === "string") return [PINS[pin], Number.NaN];
  if ("from" in pin) return [pin.isUsed ? PINS.fromUsed : PINS.from, pin.from + 1];
  if ("into" in pin) return [PINS.into, pin.into + 1];
  return [pin.resets, pin.windowStartMs ?? Number.NaN];
}
