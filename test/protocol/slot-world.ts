import { TRUSTED_CLOCK } from "../../src/clock/clock-bounds.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { findLimit } from "../../src/domain/bucket/bucket-state.ts";
import { isSlotPin, type SlotPin, type Ticket } from "../../src/domain/bucket/give-back.ts";
import { Limit, limitMakers } from "../../src/domain/limits/limit.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import type { Item, ItemStore } from "../../src/ports/item-store.ts";
import { namesOf, RF, SHARD_COUNT } from "../../src/protocol/item/attributes.ts";
import { slicesIn } from "../../src/protocol/item/limit-words.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { SimulatedClock, type SkewedClock } from "../../src/testing/simulated-clock.ts";
import type { ConditionalLine } from "../kit/conditional-line.ts";
import { conditionalWorld, openConditional } from "../kit/conditional-store.ts";
import type { AppliedChange, ConditionalTable } from "../kit/conditional-table.ts";
import { claim, T0, TestedNamespace } from "../kit/contract-kit.ts";
import { calendar } from "../limits/kind-arbitraries.ts";
import { balanceProblems, coverProblems, takenProblems } from "../simulation/slot-rules.ts";
import { imageOf } from "./kit.ts";

// Several processes hold slots of one bucket while answers are lost and come late, clocks are off, processes die, and N, the hold and the
// kind are changed. A judge keeps every hold by what its holder was told, and looks at the item after each write (docs/protocol.md).

/** Deliberate bugs: between the protocol and its items. */
export type Spoiled = (items: ItemStore) => ItemStore;

const Kinds = limitMakers(calendar);
const NAME = "parallel";
const NAMES = namesOf(NAME);
const BUCKET = bucketKey("ada", "api");
const HOLDS_MS = [4_000, 8_000, 20_000];

/** What a holder was told. */
interface Hold {
  ticket: Ticket;
  readonly milli: number;
  readonly of: Claim;
  readonly by: Process;
  /** It stopped, was told that it lost it, or gives it back. */
  isOver: boolean;
}

interface Process {
  readonly place: TestedNamespace;
  readonly line: ConditionalLine;
  readonly clock: SkewedClock;
  /** Its clock is far ahead, and it does not know. */
  readonly isAhead: boolean;
}

/** Plays one world; answers what is wrong, the first thing only. */
export async function playSlots(seed: number, spoiled: Spoiled = (items) => items): Promise<string | undefined> {
  const world = new SlotWorld(seed, spoiled);
  return world.play();
}

class SlotWorld {
  readonly #random: SeededRandom;
  readonly #clock = new SimulatedClock(T0);
  readonly #world: ReturnType<typeof conditionalWorld>;
  readonly #table: ConditionalTable;
  readonly #spoiled: Spoiled;
  readonly #holds: Hold[] = [];
  readonly #processes: Process[] = [];
  /** How likely a write goes wrong. */
  readonly #faults: number;
  readonly #isSkewed: boolean;
  /** One clock is far ahead, and the others know the time of the store: they set back what it wrote. */
  readonly #isRepaired: boolean;
  #namespaceId = "";
  #limits: readonly Limit[];
  #asOfMs = T0;
  #problem: string | undefined;

  constructor(seed: number, spoiled: Spoiled) {
    const random = new SeededRandom(seed);
    this.#random = random;
    this.#spoiled = spoiled;
    this.#faults = random.pick([0, 0.1, 0.25]);
    this.#isSkewed = random.chance(0.6);
    this.#isRepaired = random.chance(0.2);
    this.#limits = this.#drawnLimits();
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
    for (let step = 0; step < 120 && this.#problem === undefined; step++) {
      this.#act();
      const isLong = random.chance(0.12);
      await this.#clock.advance(isLong ? random.integer(500, 9_000) : random.integer(0, 40));
    }
    this.#isOver = true;
    await this.#clock.advance(40_000);
    if (this.#problem === undefined) await this.#allComesBack();
    return this.#problem;
  }

  #isOver = false;

  async #open(): Promise<void> {
    const random = this.#random.fork();
    const isAhead = this.#isRepaired && this.#processes.every((process) => !process.isAhead);
    const clock = this.#clock.skewed(isAhead ? 15_000 : this.#isSkewed ? random.integer(-1_500, 1_500) : 0);
    const known = { isKnown: () => true, latestMs: () => this.#clock.now() + 2_000 };
    const pause = () => this.#clock.sleep(this.#isOver ? 1 : random.pick([0, 0, 1, 5, 20, 60, 900]), undefined);
    const store = openConditional(this.#world, {
      clock,
      random: () => random.next(),
      coalesce: random.chance(0.7),
      serverTime: this.#isRepaired && !isAhead ? known : TRUSTED_CLOCK,
      line: {
        random: random.fork(),
        rates: { write: this.#faults, read: this.#faults / 4, transact: this.#faults / 4 },
        pause,
        answersLate: random.chance(0.5),
        sleep: (ms, signal) => this.#clock.sleep(ms, signal),
      },
      through: (line) => this.#spoiled(line),
    });
    const place = await TestedNamespace.in(store);
    this.#namespaceId = place.namespaceId;
    this.#processes.push({ place, clock, isAhead, line: store.lineTo(place.namespaceId) });
  }

  #act(): void {
    const random = this.#random;
    const process = random.pick(this.#processes);
    const own = this.#holds.filter((hold) => !hold.isOver && hold.by === process);
    const action = random.weighted<() => unknown>([
      [10, () => this.#take(process)],
      [6, () => own.length > 0 && this.#giveBack(random.pick(own))],
      [6, () => own.length > 0 && this.#renew(random.pick(own))],
      [1, () => own.length > 0 && this.#renewAll(own)],
      [1, () => this.#changeLimits()],
      [0.3, () => process.place.reset(this.#claim(0), [NAME], process.clock.now())],
      [0.3, () => this.#table.removeWhere(this.#namespaceId, ({ bucket }) => bucket.id === BUCKET.id)],
      [0.3, () => this.#crash(process)],
    ]);
    void Promise.resolve(action()).catch((error: unknown) => {
      if (String(error).includes("Unavailable") || String(error).includes("did not answer")) return;
      this.#found(`an error: ${error instanceof Error ? error.stack : String(error)}`);
    });
  }

  #claim(slots: number, holdMs?: number): Claim {
    const origin = { asOfMs: this.#asOfMs, generation: null };
    const of = claim(BUCKET.entityId, this.#limits, { [NAME]: slots }, { origin });
    return holdMs === undefined ? of : { ...of, holdMs };
  }

  async #take(process: Process): Promise<void> {
    const random = this.#random;
    const of = this.#claim(
      random.weighted([
        [4, 1],
        [1, 2],
      ]),
      random.chance(0.2) ? 2_000 : undefined,
    );
    const context = { nowMs: process.clock.now(), timeoutMs: 1_000, generation: undefined, atomic: random.chance(0.1) };
    const reply = await process.place.scope.buckets.take([of], context);
    const [answer] = reply === "stale" ? [] : reply;
    if (answer?.kind !== "taken" || !this.#isConcurrent()) return;
    const hold = { ticket: answer.ticket, milli: of.take[0]?.milli ?? 0, of, by: process, isOver: false };
    if (pinOf(hold) === undefined) return;
    this.#holds.push(hold);
    this.#judge("a take was told");
  }

  async #giveBack(hold: Hold): Promise<void> {
    hold.isOver = true;
    const { place, clock } = hold.by;
    const held = { ...hold.of, ticket: hold.ticket };
    const context = { nowMs: clock.now(), timeoutMs: 1_000 };
    const used = this.#random.chance(0.7) ? { ...context, slotsUsed: true as const } : context;
    await place.scope.buckets.credit(held, amountsOf(hold), used);
  }

  async #renew(hold: Hold): Promise<void> {
    const { place, clock } = hold.by;
    const before = hold.ticket;
    const context = { nowMs: clock.now(), timeoutMs: 1_000 };
    const reply = await place.scope.buckets.renew({ ...hold.of, ticket: before }, amountsOf(hold), context);
    // Given back meanwhile, or renewed again: then this answer is about a ticket that counts no more.
    if (hold.isOver || hold.ticket !== before) {
      hold.isOver = true;
      return;
    }
    if (reply.kind === "lost") hold.isOver = true;
    if (reply.kind !== "renewed") return;
    const [was, is] = [endOf(before), endOf(reply.ticket)];
    if (is < was) this.#found(`a renewal shortened a hold from ${was} to ${is}`);
    hold.ticket = reply.ticket;
    this.#judge("a renewal was told");
  }

  async #renewAll(holds: readonly Hold[]): Promise<void> {
    await Promise.all(holds.map((hold) => this.#renew(hold)));
  }

  #changeLimits(): void {
    this.#limits = this.#drawnLimits();
    this.#asOfMs = Math.max(this.#asOfMs + 1, this.#clock.now());
  }

  #drawnLimits(): readonly Limit[] {
    const random = this.#random;
    if (random.chance(0.1)) return [Limit.perMinute(NAME, 6)];
    if (random.chance(0.1)) return [Limit.perMinute("rpm", 600)];
    // Every other minute it has another number of slots.
    const schedule = [{ cron: "*/2 * * * *", capacity: random.integer(1, 5) }];
    const word = random.weighted([
      [8, {}],
      [1, { soft: true }],
      [1, { shadow: true }],
    ]);
    const options = { ...(random.chance(0.2) ? { schedule } : {}), ...word };
    const slots = Kinds.concurrent(NAME, random.integer(1, 4), { holdMs: random.pick(HOLDS_MS), ...options });
    return random.chance(0.3) ? [slots, Limit.quota("month", 1_000, { resetAfterMs: 3_600_000 })] : [slots];
  }

  #isConcurrent(): boolean {
    return NAMES.hm in (this.#item() ?? {});
  }

  async #crash(process: Process): Promise<void> {
    process.line.crash();
    this.#processes.splice(this.#processes.indexOf(process), 1);
    for (const hold of this.#holds) if (hold.by === process) Object.assign(hold, { isOver: hold.isOver });
    await this.#open();
  }

  #item(): Item | undefined {
    return this.#table.get(this.#namespaceId, { bucket: BUCKET, shard: 0 });
  }

  #changed({ key, before, after, trace }: AppliedChange): void {
    if (key.bucket.id !== BUCKET.id || key.sheet !== undefined || key.operation !== undefined) return;
    if (after === undefined || !(NAMES.hm in after)) return;
    const slices = slicesIn(after, NAMES);
    const { limit, terms } = findLimit(imageOf(after, key).state, NAME) ?? {};
    const [tk, cp] = [Number(after[NAMES.tk]), terms?.capacityMilli ?? 0];
    const held = slices.reduce((sum, { heldMilli }) => sum + heldMilli, 0);
    // A bucket that was split while it dripped has no slots to hold until it is joined.
    const isSplit = Number(after[SHARD_COUNT] ?? 1) > 1;
    if (isSplit && held > 0) this.#found(`${held} are held of a bucket in shards`);
    const tell = (problems: readonly string[]) => {
      for (const problem of problems) this.#found(`${problem} after ${trace?.form}`);
    };
    if (!isSplit) tell(balanceProblems(tk, cp, slices));
    const takes = (trace?.parts ?? []).some(
      ({ kind, amounts }) => kind === "take" && amounts.some(({ milli }) => milli > 0),
    );
    // What passes by a shadow holds nothing, however little is free.
    const open = slicesIn(before ?? {}, NAMES).filter(({ endMs }) => endMs > Number(after[RF]));
    const isMore = !limit?.shadow || held > open.reduce((sum, { heldMilli }) => sum + heldMilli, 0);
    if (takes && !limit?.soft && isMore) tell(takenProblems(tk));
    const wentBack = before !== undefined && Number(after[RF]) < Number(before[RF]);
    if (wentBack && !this.#isRepaired) this.#found("the epoch went back");
    this.#judge(`${trace?.form} by ${trace?.parts.map(({ kind }) => kind).join()}`);
  }

  /** Statement (B): for every instant after the epoch, what is held until then or later are at least the holds that last so long. */
  #judge(after: string): void {
    const item = this.#item();
    if (item === undefined || !(NAMES.hm in item)) return;
    const epochMs = Number(item[RF]);
    const slices = slicesIn(item, NAMES);
    const live = this.#holds.filter((hold) => {
      const pin = pinOf(hold);
      return !hold.isOver && pin !== undefined && pin.endMs > epochMs && pin.resets === (item[NAMES.rn] ?? 0);
    });
    const held = live.map(({ ticket, milli }) => ({ endMs: endOf(ticket), heldMilli: milli }));
    for (const problem of coverProblems(slices, held)) this.#found(`${problem}, after ${after}`);
  }

  /** Whatever was lost or died: once the longest hold is over, all slots are free. */
  async #allComesBack(): Promise<void> {
    this.#limits = [Limit.concurrent(NAME, 3, { holdMs: 4_000 })];
    this.#asOfMs = this.#clock.now();
    const store = openConditional(this.#world, { clock: this.#clock, random: () => 0.5 });
    const place = await TestedNamespace.in(store);
    const [answer] = await place.take([this.#claim(3)], this.#clock.now() + 5_000);
    if (answer?.kind !== "taken") this.#found(`not all slots came back: ${answer?.kind}`);
  }

  #found(problem: string): void {
    this.#problem ??= problem;
  }
}

function pinOf({ ticket }: Pick<Hold, "ticket">): SlotPin | undefined {
  return ticket.pins.find((pin): pin is SlotPin => isSlotPin(pin) && pin.limit === NAME);
}

function endOf(ticket: Ticket): number {
  return pinOf({ ticket })?.endMs ?? 0;
}

function amountsOf({ milli }: Hold) {
  return [{ limit: NAME, milli }];
}
