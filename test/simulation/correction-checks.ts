import type { BucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { type Amount, measureIn, milliOf } from "../../src/domain/charge/amounts.ts";
import type { LimitedBucket } from "../../src/domain/limits/limit-set.ts";
import { LimiterError } from "../../src/domain/names/errors.ts";
import type { CorrectionRequest, CorrectionResult } from "../../src/engine/acquire/without-lease.ts";
import { type Operation, shownKey } from "./operation.ts";
import type { Scene } from "./scene.ts";
import type { Truth } from "./truth.ts";

/** What is done without a lease. */
export type CorrectionUse = "charge" | "giveBack";

/** A key that somebody has charged or given back under. */
interface Keyed {
  readonly use: CorrectionUse;
  readonly request: CorrectionRequest;
  readonly beganMs: number;
  readonly uses: KeyUse[];
}

/** One operation under a key. */
interface KeyUse {
  readonly operation: Operation;
  /** How many had been answered in this world when it began, and when it was answered; undefined: it was not, or not with success. */
  readonly began: number;
  answered?: number;
  answer?: CorrectionResult;
}

/** Well within the day that a key is remembered for, by clocks that are off. */
const KEY_MS = 20 * 3_600_000;

/** A charge that is under way for longer may be taken for dead, and made again; by clocks that run fast. */
const DEAD_MS = 14_000;

/** So often the answer under a key is stored, where it fails. */
const ATTEMPTS = 3;

/** The keys of a world. */
class KeyBook {
  readonly #keys = new Map<string, Keyed>();
  #answers = 0;

  begun(operation: Operation, use: CorrectionUse, request: CorrectionRequest, nowMs: number): KeyUse {
    const key = request.idempotencyKey as string;
    const keyed = this.#keys.get(key) ?? { use, request, beganMs: nowMs, uses: [] };
    this.#keys.set(key, keyed);
    const one: KeyUse = { operation, began: this.#answers };
    keyed.uses.push(one);
    return one;
  }

  answered(one: KeyUse, answer: CorrectionResult): void {
    one.answered = ++this.#answers;
    one.answer = answer;
  }

  others(key: string, one: KeyUse): readonly KeyUse[] {
    return (this.#keys.get(key)?.uses ?? []).filter((other) => other !== one);
  }

  /** The requests that were made under keys that are still remembered. */
  requests(use: CorrectionUse, nowMs: number): readonly CorrectionRequest[] {
    const known = [...this.#keys.values()].filter((keyed) => keyed.use === use && nowMs - keyed.beganMs < KEY_MS);
    return known.map(({ request }) => request);
  }
}

const BOOKS = new WeakMap<Truth, KeyBook>();

function bookOf(truth: Truth): KeyBook {
  const book = BOOKS.get(truth) ?? new KeyBook();
  BOOKS.set(truth, book);
  return book;
}

/** What was asked for under a key before, by whomever; undefined: nothing. */
export function askedBefore({ random, around }: Scene, use: CorrectionUse): CorrectionRequest | undefined {
  const requests = bookOf(around.truth).requests(use, around.clock.now());
  return requests.length === 0 ? undefined : random.pick(requests);
}

/** Watches an operation from here on: what it charges or gives back without a lease. */
export class CorrectionWatch {
  readonly #scene: Scene;
  readonly #use: CorrectionUse;
  readonly #request: CorrectionRequest;
  readonly #before: ReadonlyMap<string, number>;
  readonly #sentBefore: number;
  readonly #beganMs: number;
  readonly #beganShownMs: number;
  readonly #keyUse: KeyUse | undefined;

  constructor(scene: Scene, use: CorrectionUse, request: CorrectionRequest) {
    const { operation, around, client } = scene;
    this.#scene = scene;
    this.#use = use;
    this.#request = request;
    this.#before = movedBy(operation, use);
    this.#sentBefore = operation.sent.length;
    this.#beganMs = around.clock.now();
    this.#beganShownMs = client.clock.now();
    const { idempotencyKey } = request;
    this.#keyUse =
      idempotencyKey === undefined ? undefined : bookOf(around.truth).begun(operation, use, request, this.#beganMs);
  }

  /** It was answered, once for each time that it was asked for. */
  answered(answers: readonly CorrectionResult[]): void {
    const { around } = this.#scene;
    const firsts = answers.filter(({ repeated }) => !repeated);
    const [first] = firsts;
    for (const { repeated } of answers) around.journal.count(`${this.#use} ${repeated ? "repeated" : "answered"}`);
    if (firsts.length > 1 && !this.#isStalled) this.#tell(`was done ${firsts.length} times under one key`);
    if (
      answers.some(({ amounts }) => JSON.stringify(amounts) !== JSON.stringify(answers[0]?.amounts)) &&
      firsts.length < 2
    )
      this.#tell(`is answered differently when it is repeated: ${JSON.stringify(answers)}`);
    if (first === undefined) this.#untouched("was repeated");
    else if (firsts.length === 1) this.#done(first);
    this.#underKey(answers);
  }

  /** It was not: then nothing is changed, but for what came through unknown. */
  failed(): void {
    this.#untouched("failed");
    this.#underKey([]);
  }

  #done(answer: CorrectionResult): void {
    const { operation, client, around } = this.#scene;
    const sent = this.#sent;
    const readings = client.readingsOf(operation);
    if (
      !around.truth.explainsCorrection(this.#use, this.#request, sent, client.correctedSinceMs(operation), readings)
    ) {
      this.#tell(`does not follow from configuration: ${JSON.stringify(sent.map(shownSent))}`);
    }
    for (const { bucket, amounts } of sent) {
      for (const { limit, milli } of amounts) {
        const moved = this.#moved(bucket.id, limit);
        // What a charge debited that another bucket made fail stays where its answer was lost, and the caller repeats it.
        const most = operation.uncertain.has(bucket.id) ? this.#timesSent(bucket.id) * milli : milli;
        const least = this.#use === "charge" && !operation.uncertain.has(bucket.id) ? milli : 0;
        if (moved >= least && moved <= (this.#use === "charge" ? most : milli)) continue;
        this.#tell(`asked for ${milli} of ${limit} and moved ${moved} on ${shownKey(bucket.id)}`);
      }
    }
    this.#strangers(sent);
    if (this.#use === "giveBack") this.#told(answer, sent);
    else if (JSON.stringify(answer.amounts) !== JSON.stringify(this.#request.amounts)) {
      this.#tell(`was told of ${JSON.stringify(answer.amounts)}`);
    }
  }

  /** What its caller is told to have been given back is what limits of the entity itself were, in whole tokens. */
  #told({ amounts }: CorrectionResult, sent: readonly SentCorrection[]): void {
    const { entityId, resource } = this.#request;
    const own = sent.filter(({ bucket }) => bucket.entityId === entityId && [resource, "*"].includes(bucket.resource));
    for (const [measure, asked = 0] of Object.entries(this.#request.amounts)) {
      const given = own.flatMap(({ bucket, limits, amounts: of }) =>
        of
          .filter(({ limit }) => measureIn(limits, limit) === measure)
          .map(({ limit }) => this.#moved(bucket.id, limit)),
      );
      const due = Math.floor(Math.min(asked * 1000, Math.max(0, ...given)) / 1000);
      const told = amounts[measure] ?? 0;
      const isKnown = own.every(({ bucket }) => !this.#scene.operation.uncertain.has(bucket.id));
      if (told === due || (!isKnown && told < due)) continue;
      this.#tell(`was told of ${told} of ${measure}, and ${due} were given back`);
    }
  }

  #untouched(how: string): void {
    const { operation } = this.#scene;
    for (const [place, moved] of movedBy(operation, this.#use)) {
      const [bucketId = "", limit] = splitPlace(place);
      const net = moved - (this.#before.get(place) ?? 0);
      if (net === 0 || operation.uncertain.has(bucketId) || operation.gone.has(bucketId)) continue;
      this.#tell(`${how}, and moved ${net} of ${limit} on ${shownKey(bucketId)}`);
    }
  }

  #strangers(sent: readonly SentCorrection[]): void {
    for (const [place, moved] of movedBy(this.#scene.operation, this.#use)) {
      const [bucketId = "", limit] = splitPlace(place);
      const isSent = sent.some(({ bucket, amounts }) => bucket.id === bucketId && milliOf(amounts, limit ?? "") > 0);
      if (isSent || moved === (this.#before.get(place) ?? 0)) continue;
      this.#tell(`moved ${moved} of ${limit} on ${shownKey(bucketId)}, and asked for nothing there`);
    }
  }

  /** Under one key each is done once: a give-back whatever became of its process, a charge unless nobody knows what became of it. */
  #underKey(answers: readonly CorrectionResult[]): void {
    const { operation, around } = this.#scene;
    const one = this.#keyUse;
    const { idempotencyKey = "" } = this.#request;
    if (one === undefined) return;
    const book = bookOf(around.truth);
    const others = book.others(idempotencyKey, one);
    // Whose answer could not be stored in all the attempts that are made may be taken for dead.
    const isKept = ({ operation: { faults } }: KeyUse) => this.#use === "giveBack" || faults < ATTEMPTS;
    const known = others.find((other) => isKept(other) && other.answered !== undefined && other.answered <= one.began);
    for (const answer of answers) {
      if (known === undefined) break;
      if (answer.repeated && JSON.stringify(answer.amounts) === JSON.stringify(known.answer?.amounts)) continue;
      this.#tell(
        `answers ${JSON.stringify(answer)} under a key that was answered with ${JSON.stringify(known.answer)}`,
      );
    }
    const isMoved = hasMoved(operation, this.#use, this.#before);
    const twice = others.filter((other) => other.operation !== operation && hasMoved(other.operation, this.#use));
    if (isMoved && this.#use === "giveBack" && twice.length > 0) {
      this.#tell(`gave back under the key of ${twice.map((other) => other.operation.name)}, which gave back, too`);
    }
    const [first] = answers;
    if (first !== undefined) book.answered(one, first);
  }

  get #allSent(): readonly SentCorrection[] {
    return this.#scene.operation.sent.slice(this.#sentBefore);
  }

  #timesSent(bucketId: string): number {
    return this.#allSent.filter(({ bucket }) => bucket.id === bucketId).length;
  }

  /** Each bucket once. */
  get #sent(): readonly SentCorrection[] {
    const all = this.#allSent;
    return [...new Map(all.map((one) => [one.bucket.id, one])).values()];
  }

  /** It may have been taken for dead meanwhile. */
  get #isStalled(): boolean {
    const { around, client } = this.#scene;
    const shownMs = Math.abs(client.clock.now() - this.#beganShownMs);
    return this.#use === "charge" && Math.max(shownMs, around.clock.now() - this.#beganMs) >= DEAD_MS;
  }

  #moved(bucketId: string, limit: string): number {
    const place = placeOf(bucketId, limit);
    return (movedBy(this.#scene.operation, this.#use).get(place) ?? 0) - (this.#before.get(place) ?? 0);
  }

  #tell(problem: string): void {
    const { operation, around } = this.#scene;
    around.journal.violation(`the ${this.#use} of ${operation.name} ${problem}`);
  }
}

/** What an operation asked its store to debit or give back without a lease. */
export interface SentCorrection extends Pick<LimitedBucket, "bucket"> {
  readonly bucket: BucketKey;
  readonly limits: LimitedBucket["set"]["limits"];
  readonly amounts: readonly Amount[];
  readonly bypass: boolean;
}

/** Another call under the key is under way, or died with its process. */
export function isUnderWay(error: unknown): boolean {
  return error instanceof LimiterError && error.code === "idempotency_in_progress";
}

function hasMoved(operation: Operation, use: CorrectionUse, before: ReadonlyMap<string, number> = new Map()): boolean {
  return [...movedBy(operation, use)].some(([place, moved]) => moved !== (before.get(place) ?? 0));
}

function movedBy(operation: Operation, use: CorrectionUse): ReadonlyMap<string, number> {
  if (use === "giveBack") return new Map(operation.refunded);
  return new Map(operation.nets().map(({ bucketId, limit, net }) => [placeOf(bucketId, limit), net]));
}

function placeOf(bucketId: string, limit: string): string {
  return `${bucketId}\t${limit}`;
}

function splitPlace(place: string): string[] {
  return place.split("\t");
}

function shownSent({ bucket, amounts, bypass, limits }: SentCorrection): object {
  return { bucket: shownKey(bucket.id), amounts, bypass, limits };
}
