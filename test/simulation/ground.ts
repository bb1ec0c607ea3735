import type { Store } from "../../src/ports/store.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import type { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { calendar } from "./calendar.ts";
import { type Connector, faultyLine } from "./connection.ts";
import type { Journal } from "./journal.ts";
import type { MostLedger } from "./most-ledger.ts";
import type { Mutant } from "./mutants.ts";
import type { Profile } from "./profile.ts";
import { type Marking, Recorder } from "./recorder.ts";
import type { ThresholdLedger } from "./threshold-ledger.ts";
import type { Truth } from "./truth.ts";
import type { LateReadings, UsageLedger } from "./usage-ledger.ts";

/** What a kind of store is given of the world it is part of. */
export interface GroundContext {
  readonly seed: number;
  readonly journal: Journal;
  readonly truth: Truth;
  readonly mosts: MostLedger;
  readonly thresholds: ThresholdLedger;
  readonly clock: SimulatedClock;
  readonly profile: Profile;
  readonly mutant: Mutant | undefined;
  /** By how much the clocks of two clients may differ by now. */
  readonly errorMs: () => number;
}

/** What a simulation stands on: a kind of store, and what is known of the writes that it really applied. */
export interface Ground {
  /** The store as it really is. */
  readonly whole: Store;
  /** How many may go on at once. */
  readonly together: readonly number[];
  /** Calls that the store has not answered yet. */
  readonly underWay: number;
  /** Grows with everything that can lower a level or move a limit. */
  readonly disturbances: number;
  /** What usage must be; undefined where the store leaves that to others. */
  readonly usage: UsageLedger | undefined;
  /** What is wrong when all is over, and time has passed for whatever was to be done. */
  lastProblems(): readonly string[];
  /** How marks of what was told get into the store. */
  readonly marking: Marking;
  /** Of how many shards a bucket is. */
  shards(bucketId: string): number;
  /** For the simulation, to set the world up. */
  readonly setup: Connector;
  connector(random: SeededRandom): Connector;
  /** What else happens there, as often as its weight says. */
  happenings(random: () => SeededRandom): readonly (readonly [weight: number, name: string, act: () => void])[];
}

/** Of several handles: how clients get to each. */
interface HandledGround extends Ground {
  readonly connectors: readonly Connector[];
  /** For a store that is swept by the simulation. */
  readonly forgetting: Recorder["forgetting"];
}

/** A store that applies a call as a whole, reached by one or several handles. */
export function groundOn(
  handles: readonly Store[],
  joins: boolean,
  context: GroundContext,
  late: LateReadings = "in their own hour",
  marks: Marking = "with the take",
): HandledGround {
  const { journal, truth, mosts, thresholds, mutant, clock, errorMs } = context;
  const times = { calendar, nowMs: () => clock.now(), errorMs };
  const recorder = new Recorder({ journal, truth, mosts, thresholds }, times, { late, marks });
  const spoil = mutant?.layer === "store" ? mutant.spoil : (store: Store) => store;
  const recorded = handles.map((handle) => recorder.recording(spoil(handle)));
  const [whole] = recorded as [Store];
  const connectors = recorded.map(faultyLine);
  return {
    whole,
    together: joins ? [1, 1, 1, 2, 4] : [1],
    get underWay() {
      return recorder.underWay;
    },
    get disturbances() {
      return recorder.disturbances;
    },
    usage: recorder.usage,
    lastProblems: () => [],
    marking: marks,
    shards: () => 1,
    setup: faultyLine(whole),
    connectors,
    forgetting: (buckets) => recorder.forgetting(buckets),
    connector: (random) => random.pick(connectors),
    happenings: () => [],
  };
}
