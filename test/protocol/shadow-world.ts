import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { withoutShadowed } from "../../src/domain/bucket/bucket-questions.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import type { Answer, Claim, TakenAnswer } from "../../src/ports/bucket-store.ts";
import type { Item, ItemStore, TracePart } from "../../src/ports/item-store.ts";
import { namesOf, RF } from "../../src/protocol/item/attributes.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import type { AppliedChange, ConditionalTable } from "../kit/conditional-table.ts";
import { claim, T0, TestedNamespace } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { HardModel } from "../simulation/shadow-model.ts";

// Several processes take from one bucket with a hard limit and a shadow, while answers are lost and come late and clocks are off. A judge
// goes through the writes in the order in which they are applied, with a second model in which the shadow is hard (docs/promise.md).

/** Deliberate bugs: between the protocol and its items. */
export type Spoiled = (items: ItemStore) => ItemStore;

const BUCKET = bucketKey("ada", "api");
const SHADOW = namesOf("tpm");
const CAPACITY = 20;

interface Process {
  readonly place: TestedNamespace;
  readonly now: () => number;
}

/** Plays one world; answers what is wrong, the first thing only. */
export async function playShadows(seed: number, spoiled: Spoiled = (items) => items): Promise<string | undefined> {
  return new ShadowWorld(seed, spoiled).play();
}

class ShadowWorld {
  readonly #random: SeededRandom;
  // Not at the edge of an hour, where counts leave the item.
  readonly #clock = new SimulatedClock(T0 + 600_000);
  readonly #world: ReturnType<typeof conditionalWorld>;
  readonly #table: ConditionalTable;
  readonly #spoiled: Spoiled;
  readonly #faults: number;
  readonly #drips: boolean;
  readonly #limits: readonly Limit[];
  readonly #processes: Process[] = [];
  #namespaceId = "";
  #model: HardModel | undefined;
  /** What it would have refused, less what was undone. */
  #passed = 0;
  /** What became of each claim, by the write that was applied. */
  readonly #truth = new Map<object, readonly string[]>();
  #problem: string | undefined;

  constructor(seed: number, spoiled: Spoiled) {
    const random = new SeededRandom(seed);
    this.#random = random;
    this.#spoiled = spoiled;
    this.#faults = random.pick([0, 0.1, 0.25]);
    this.#drips = random.chance(0.6);
    const refill = this.#drips
      ? { refillAmount: 1, refillPeriodMs: 1_000 }
      : { refillAmount: 1, refillPeriodMs: 1_000_000_000_000 };
    this.#limits = [
      Limit.custom("rpm", { capacity: random.pick([8, 1_000]), refillAmount: 60, refillPeriodMs: 60_000 }),
      Limit.custom("tpm", { capacity: CAPACITY, ...refill, shadow: true }),
    ];
    this.#world = conditionalWorld(
      { now: () => this.#clock.now(), random: random.fork(), writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 200 },
      calendar,
    );
    this.#table = this.#world.table;
    this.#table.watch((change) => this.#changed(change));
  }

  async play(): Promise<string | undefined> {
    const random = this.#random;
    for (let i = 0; i < 3; i++) await this.#open();
    for (let step = 0; step < 100 && this.#problem === undefined; step++) {
      const count = random.weighted([
        [3, 1],
        [1, 4],
      ]);
      const process = random.pick(this.#processes);
      for (let i = 0; i < count; i++) this.#act(process);
      await this.#clock.advance(random.chance(0.15) ? random.integer(500, 6_000) : random.integer(0, 60));
    }
    await this.#clock.advance(20_000);
    return this.#problem;
  }

  async #open(): Promise<void> {
    const random = this.#random.fork();
    const clock = this.#clock.skewed(this.#random.chance(0.5) ? random.integer(-1_500, 1_500) : 0);
    const store = openConditional(this.#world, {
      clock,
      random: () => random.next(),
      coalesce: random.chance(0.7),
      line: {
        random: random.fork(),
        rates: { write: this.#faults, read: this.#faults / 4, transact: this.#faults / 4 },
        pause: () => this.#clock.sleep(random.pick([0, 0, 1, 5, 20, 60, 900]), undefined),
        answersLate: random.chance(0.5),
        sleep: (ms, signal) => this.#clock.sleep(ms, signal),
      },
      through: (line) => this.#spoiled(line),
    });
    const place = await TestedNamespace.in(store);
    this.#namespaceId = place.namespaceId;
    this.#processes.push({ place, now: () => clock.now() });
  }

  #act(process: Process): void {
    const action = this.#random.weighted<() => Promise<void>>([
      [9, () => this.#take(process)],
      [0.2, async () => this.#delete()],
    ]);
    void action().catch((error: unknown) => {
      if (!String(error).includes("navailable")) this.#found(`an error: ${(error as Error).stack}`);
    });
  }

  #delete(): void {
    this.#table.removeWhere(this.#namespaceId, ({ bucket }) => bucket.id === BUCKET.id);
  }

  async #take({ place, now }: Process): Promise<void> {
    const random = this.#random;
    const plain = claim(BUCKET.entityId, this.#limits, { rpm: 1, tpm: random.integer(0, 12) });
    const of: Claim = random.chance(0.2) ? { ...plain, leavePercent: random.pick([10, 50]) } : plain;
    const { buckets } = place.scope;
    const context = { nowMs: now(), timeoutMs: 1_000, generation: undefined, atomic: random.chance(0.1) };
    const reply = await buckets.take([of], context);
    const [answer] = reply === "stale" ? [] : (reply as readonly Answer[]);
    if (answer?.kind !== "taken") return;
    this.#told(of, answer);
    // What a limiter does with it: undone for another level, given back, or charged further.
    const held = { ...of, ticket: answer.ticket };
    const due = withoutShadowed(of.take, answer.shadowed).filter(({ milli }) => milli > 0);
    const later = { nowMs: now(), timeoutMs: 1_000 };
    const then = random.pick(["undo", "give back", "charge", "keep", "keep"] as const);
    if (then === "undo") await buckets.credit(held, due, { ...later, undoes: "request" });
    if (then === "give back") await buckets.credit(held, due, later);
    if (then !== "charge" || answer.shadowed.length > 0) return;
    await buckets.debit(held, [{ limit: "tpm", milli: 3_000 }], later);
  }

  #told(of: Claim, { shadowed }: TakenAnswer): void {
    const truth = this.#truth.get(of);
    if (truth === undefined) return;
    // After a lost answer more may be told as passed by than was, never less: it would be given back.
    const isRight =
      this.#faults === 0 ? String(shadowed) === String(truth) : truth.every((one) => shadowed.includes(one));
    if (!isRight)
      this.#found(`${shadowed.join() || "nothing"} was told as passed by, and it was ${truth.join() || "nothing"}`);
  }

  #changed({ key, before, after, trace }: AppliedChange): void {
    if (key.bucket.id !== BUCKET.id || key.sheet !== undefined || key.operation !== undefined) return;
    if (after === undefined || before === undefined) {
      this.#model = undefined;
      this.#passed = 0;
    }
    if (after === undefined || trace === undefined) return;
    // A clock behind the epoch takes at the epoch.
    const atMs = Math.max(trace.readingMs, Number(before?.[RF] ?? trace.readingMs));
    this.#model ??= new HardModel(CAPACITY * 1_000, this.#drips, atMs);
    for (const part of trace.parts) this.#follow(part, atMs, this.#model);
    this.#compare(after, atMs, this.#model, trace.form);
  }

  #follow(part: TracePart, atMs: number, model: HardModel): void {
    const { of, kind, amounts, shadowed = [], undoes } = part;
    const milli = amounts.find(({ limit }) => limit === "tpm")?.milli;
    if (kind === "credit") {
      if (milli !== undefined) model.credit(milli);
      if (undoes !== undefined && shadowed.includes("tpm")) this.#passed--;
    } else if (kind === "debit") model.debit(milli ?? 0, atMs);
    else if (kind === "take" && milli !== undefined) {
      const isTaken = model.take(milli, (of as Claim).leavePercent ?? 0, atMs);
      if (!isTaken) this.#passed++;
      this.#truth.set(of, isTaken ? [] : ["tpm"]);
      if (shadowed.includes("tpm") === isTaken) {
        this.#found(
          `${milli} passed by: ${shadowed.join() || "nothing"}, but a hard limit would ${isTaken ? "grant" : "refuse"}`,
        );
      }
    }
  }

  #compare(item: Item, atMs: number, model: HardModel, form: string): void {
    const risen = this.#drips ? atMs - Number(item[RF]) : 0;
    const level = Math.min(CAPACITY * 1_000, Number(item[SHADOW.tk]) + risen);
    if (level !== model.level(atMs))
      this.#found(`${level} after ${form}, a hard limit would hold ${model.level(atMs)}`);
    const counted = Number(item[SHADOW.wr] ?? 0) / 1_000;
    if (counted !== this.#passed)
      this.#found(`${counted} counted after ${form}, ${this.#passed} would have been refused`);
  }

  #found(problem: string): void {
    this.#problem ??= problem;
  }
}
