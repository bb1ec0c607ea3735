import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import type { LimitState } from "../../src/domain/bucket/bucket-state.ts";
import { isSlotPin, type SlotPin, type Ticket } from "../../src/domain/bucket/give-back.ts";
import { heldMilli } from "../../src/domain/bucket/holds.ts";
import { rulesOf } from "../../src/domain/limits/kinds/table.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import type { Batch, BatchReply, BatchStore } from "../../src/ports/batch-store.ts";
import type { BucketStore, Claim } from "../../src/ports/bucket-store.ts";
import { recordOfRow } from "../../src/straight/row-codec.ts";
import { overriding } from "../../src/testing/fault-store.ts";
import { SeededRandom } from "../../src/testing/random.ts";
import { claim, T0 } from "../kit/contract-kit.ts";
import { idIn } from "../kit/straight-batch.ts";
import { straightWorld } from "../kit/straight-whole.ts";
import { type Copies, faultyBatches } from "./faulty-batches.ts";
import { straightProcess } from "./process.ts";

// Several processes hold slots of one bucket by batches whose answers are lost or that arrive twice, with clocks that are off, while
// processes die and N, the hold and the kind are changed. A judge keeps every hold by what its holder was told, and looks at the row
// after each batch.

/** Deliberate bugs: between a process and the store. */
export type SpoiledBatch = (batch: Batch, rows: ReadonlyMap<string, { readonly signature: string }>) => Batch;

const calendar = createCalendar();
const NAME = "parallel";
const BUCKET = bucketKey("ada", "api");
const ROW = idIn("default", BUCKET);

interface Process {
  readonly buckets: BucketStore;
  readonly skewMs: number;
}

interface Hold {
  ticket: Ticket;
  readonly milli: number;
  readonly of: Claim;
  readonly by: Process;
  isOver: boolean;
}

/** Plays one world; answers what is wrong, the first thing only. */
export async function playSlots(seed: number, spoiled: SpoiledBatch = (batch) => batch): Promise<string | undefined> {
  return new SlotWorld(seed, spoiled).play();
}

class SlotWorld {
  readonly #random: SeededRandom;
  readonly #spoiled: SpoiledBatch;
  readonly #world = straightWorld(() => this.#nowMs);
  readonly #copies: Copies = [];
  readonly #holds: Hold[] = [];
  readonly #processes: Process[] = [];
  readonly #faults: number;
  readonly #isSkewed: boolean;
  #nowMs = T0;
  #limits: readonly Limit[];
  #asOfMs = T0;
  #problem: string | undefined;

  constructor(seed: number, spoiled: SpoiledBatch) {
    this.#random = new SeededRandom(seed);
    this.#spoiled = spoiled;
    this.#faults = this.#random.pick([0, 0.1, 0.3]);
    this.#isSkewed = this.#random.chance(0.5);
    this.#limits = this.#drawnLimits();
  }

  async play(): Promise<string | undefined> {
    const random = this.#random;
    for (let i = 0; i < 3; i++) this.#open();
    for (let step = 0; step < 90 && this.#problem === undefined; step++) {
      // Together, so that they are joined to batches.
      await Promise.all(Array.from({ length: random.integer(1, 4) }, () => this.#act()));
      this.#nowMs += random.chance(0.15) ? random.integer(500, 9_000) : random.integer(0, 60);
    }
    if (this.#problem === undefined) await this.#allComesBack();
    return this.#problem;
  }

  #open(): void {
    const random = this.#random.fork();
    const skewMs = this.#isSkewed ? random.integer(-1_500, 1_500) : 0;
    const faulty = faultyBatches(
      this.#watched(),
      random.fork(),
      this.#copies,
      () => this.#faults,
      () => {},
    );
    const line = overriding<BatchStore>(faulty, {
      apply: (batch: Batch, timeoutMs: number) =>
        faulty.apply(this.#spoiled(batch, this.#world.batches.rows), timeoutMs),
    });
    const coalesce = random.chance(0.7);
    const clock = { now: () => this.#nowMs + skewMs };
    const store = straightProcess(this.#world, { line, random, calendar, coalesce, laneCount: 2, clock });
    this.#processes.push({ buckets: store.scope("default").buckets, skewMs });
  }

  #watched(): BatchStore {
    const { batches } = this.#world;
    return overriding<BatchStore>(batches, {
      apply: async (batch: Batch): Promise<BatchReply> => {
        const reply = await batches.apply(batch);
        if (reply.kind === "done") this.#applied(batch, reply);
        return reply;
      },
    });
  }

  async #act(): Promise<void> {
    const random = this.#random;
    const process = random.pick(this.#processes);
    const own = this.#holds.filter((hold) => !hold.isOver && hold.by === process);
    const action = random.weighted<() => unknown>([
      [10, () => this.#take(process)],
      [6, () => own.length > 0 && this.#giveBack(random.pick(own))],
      [6, () => own.length > 0 && this.#renew(random.pick(own))],
      [1, () => this.#changeLimits()],
      [0.3, () => this.#reset(process)],
      [0.3, () => this.#crash(process)],
    ]);
    await action();
  }

  #context(process: Process) {
    return { nowMs: this.#nowMs + process.skewMs, timeoutMs: 1_000 };
  }

  #claim(slots: number, holdMs?: number): Claim {
    const origin = { asOfMs: this.#asOfMs, generation: null };
    const of = claim(BUCKET.entityId, this.#limits, { [NAME]: slots }, { origin });
    return holdMs === undefined ? of : { ...of, holdMs };
  }

  async #take(process: Process): Promise<void> {
    const random = this.#random;
    const of = this.#claim(random.pick([1, 1, 1, 2]), random.chance(0.2) ? 2_000 : undefined);
    const reply = await process.buckets.take([of], {
      ...this.#context(process),
      ...{ generation: undefined, atomic: false },
    });
    const [answer] = reply === "stale" ? [] : reply;
    if (answer?.kind !== "taken" || pinOf(answer.ticket) === undefined) return;
    this.#holds.push({ ticket: answer.ticket, milli: of.take[0]?.milli ?? 0, of, by: process, isOver: false });
    this.#judge("a take was told");
  }

  async #giveBack(hold: Hold): Promise<void> {
    hold.isOver = true;
    const used = this.#random.chance(0.7) ? { slotsUsed: true as const } : {};
    const context = { ...this.#context(hold.by), ...used };
    await hold.by.buckets.credit({ ...hold.of, ticket: hold.ticket }, amountsOf(hold), context);
  }

  async #renew(hold: Hold): Promise<void> {
    const before = hold.ticket;
    const held = { ...hold.of, ticket: before };
    const reply = await hold.by.buckets.renew(held, amountsOf(hold), this.#context(hold.by));
    if (hold.isOver || hold.ticket !== before) {
      hold.isOver = true;
      return;
    }
    if (reply.kind === "lost") hold.isOver = true;
    if (reply.kind !== "renewed") return;
    if (endOf(reply.ticket) < endOf(before)) this.#found("a renewal shortened a hold");
    hold.ticket = reply.ticket;
    this.#judge("a renewal was told");
  }

  #changeLimits(): void {
    this.#limits = this.#drawnLimits();
    this.#asOfMs = Math.max(this.#asOfMs + 1, this.#nowMs);
  }

  #drawnLimits(): readonly Limit[] {
    const random = this.#random;
    if (random.chance(0.1)) return [Limit.perMinute(NAME, 6)];
    const slots = Limit.concurrent(NAME, random.integer(1, 4), { holdMs: random.pick([4_000, 8_000, 20_000]) });
    return random.chance(0.3) ? [Limit.perMinute("rpm", 600), slots] : [slots];
  }

  async #reset(process: Process): Promise<void> {
    const { nowMs } = this.#context(process);
    const idempotencyKey = `reset ${this.#random.next()}`;
    const event = { ...{ eventId: idempotencyKey, atMs: nowMs, action: "bucket_reset" }, entityId: BUCKET.entityId };
    await process.buckets.reset({ ...this.#claim(0), nowMs, idempotencyKey, event: event as never }, [NAME]);
  }

  /** Its holds are nobody's: they end by themselves. */
  #crash(process: Process): void {
    this.#processes.splice(this.#processes.indexOf(process), 1);
    this.#open();
  }

  #limit(): { readonly limit: LimitState; readonly epochMs: number } | undefined {
    const row = this.#world.batches.rows.get(ROW);
    const state = row && recordOfRow(row, BUCKET, calendar).state;
    const limit = state?.limits.find(({ name }) => name === NAME);
    if (state === undefined || limit === undefined || !rulesOf(limit.limit).holdsSlots) return undefined;
    return { limit, epochMs: state.epochMs };
  }

  #applied(batch: Batch, reply: Extract<BatchReply, { readonly kind: "done" }>): void {
    const found = this.#limit();
    if (found === undefined || reply.repeated) return;
    const { tokensMilli, terms, slices } = found.limit;
    const kinds = batch.requests.map(({ kind }, i) => `${kind} ${reply.replies[i]?.kind}`).join(", ");
    const held = heldMilli(slices);
    if (tokensMilli + held !== terms.capacityMilli)
      this.#found(`${tokensMilli} are free and ${held} held of ${terms.capacityMilli} after ${kinds}`);
    if (slices.some((slice) => slice.heldMilli < 0)) this.#found(`a slice holds less than nothing after ${kinds}`);
    const isTaken = batch.requests.some(({ kind }, i) => kind === "take" && reply.replies[i]?.kind === "applied");
    if (isTaken && tokensMilli < 0) this.#found(`${-tokensMilli} more are held than there are after ${kinds}`);
    this.#judge(kinds);
  }

  /** For every instant after the epoch, what is held until then or later are at least the holds that last so long. */
  #judge(after: string): void {
    const found = this.#limit();
    if (found === undefined) return;
    const { limit, epochMs } = found;
    const live = this.#holds.filter((hold) => {
      const pin = pinOf(hold.ticket);
      return !hold.isOver && pin !== undefined && pin.endMs > epochMs && pin.resets === limit.quota?.resets;
    });
    for (const { ticket } of live) {
      const atMs = endOf(ticket);
      const stored = heldMilli(limit.slices.filter(({ endMs }) => endMs >= atMs));
      const held = live.reduce((sum, hold) => sum + (endOf(hold.ticket) >= atMs ? hold.milli : 0), 0);
      if (stored < held) {
        this.#found(`${held} live holds until ${atMs - T0}, and only ${stored} stored, after ${after}`);
        return;
      }
    }
  }

  /** Whatever was lost or died: once the longest hold is over, all slots are free. */
  async #allComesBack(): Promise<void> {
    this.#limits = [Limit.concurrent(NAME, 3, { holdMs: 4_000 })];
    this.#nowMs += 40_000;
    this.#asOfMs = this.#nowMs;
    const { batches } = this.#world;
    const random = this.#random.fork();
    const own = { line: batches, random, calendar, coalesce: true, laneCount: 1, clock: { now: () => this.#nowMs } };
    const { buckets } = straightProcess(this.#world, own).scope("default");
    const context = { nowMs: this.#nowMs + 5_000, timeoutMs: 1_000, generation: undefined, atomic: false };
    const reply = await buckets.take([this.#claim(3)], context);
    const kind = reply === "stale" ? reply : reply[0]?.kind;
    if (kind !== "taken") this.#found(`not all slots came back: ${kind}`);
  }

  #found(problem: string): void {
    this.#problem ??= problem;
  }
}

function pinOf({ pins }: Ticket): SlotPin | undefined {
  return pins.find((pin): pin is SlotPin => isSlotPin(pin) && pin.limit === NAME);
}

function endOf(ticket: Ticket): number {
  return pinOf(ticket)?.endMs ?? 0;
}

function amountsOf({ milli }: Hold) {
  return [{ limit: NAME, milli }];
}
