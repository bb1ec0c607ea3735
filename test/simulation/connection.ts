import type { Store } from "../../src/ports/store.ts";
import type { Clock } from "../../src/ports/system.ts";
import type { ProtocolBuckets } from "../../src/protocol/buckets.ts";
import { type FaultedCall, FaultStore } from "../../src/testing/fault-store.ts";
import type { SeededRandom } from "../../src/testing/random.ts";
import type { Surroundings } from "./client.ts";
import { ClientClock } from "./client-clock.ts";
import { currentOperation } from "./operation.ts";

/** A machine's clock, of which the simulation knows when it showed what. */
export interface MachineClock extends Clock {
  /** By how much it was put back altogether. */
  readonly steppedBackMs: number;
  /** When it first showed this. */
  trueMs(shownMs: number): number;
  /** It is set. By how much. */
  jump(random: SeededRandom): number;
}

/** How a client goes about it; drawn before it is connected. */
export interface Manner {
  /** Its calls are answered at once, without waiting for their turn. */
  readonly direct: boolean;
  /** Its claims are taken one by one. */
  readonly split: boolean;
  /** Whether it cannot tell that configuration changed, and has to go by time. */
  readonly hidden: boolean;
}

/** One client's way to the store that all share. */
export interface Connection {
  readonly store: Store;
  readonly clock: MachineClock;
  /** How long a call of the engine may take. */
  readonly timeoutMs: number;
  /** How old configuration may be that it has only just read. */
  readonly configAgeMs: number;
  /** Of a store made of conditional writes. */
  readonly protocol: ProtocolBuckets | undefined;
  /** Whether its process has died by itself; absent: it does not. */
  isDead?(): boolean;
  crash(): void;
  /** The next debit is refused as often as it is tried. */
  refuseDebits?(): void;
  /** From now on nothing goes wrong. */
  calm(): void;
}

/** Longer than any call takes, on a line that keeps to no time: years, which no world lives through. */
export const LONG_MS = 100_000_000_000;

/** So often the engine tries a debit that certainly was not stored. */
const DEBIT_ATTEMPTS = 3;

/** How clients get to a store. */
export interface Connector {
  draw(random: SeededRandom): Manner;
  connect(id: string, manner: Manner, around: Surroundings, onFault: (told: string) => void): Connection;
}

/** A bad line to a store that does everything at once. */
export function faultyLine(shared: Store): Connector {
  return {
    draw: (random) => {
      const direct = random.chance(0.2);
      const split = !direct && random.chance(0.3);
      return { direct, split, hidden: split || random.chance(0.25) };
    },
    connect: (id, { direct, split, hidden }, { random, profile, clock, scheduler }, onFault) => {
      const own = new ClientClock(clock, profile, random);
      const rate = direct ? 0 : profile.faultRate;
      const rates: Partial<Record<FaultedCall, number>> = {
        take: rate,
        debit: rate,
        credit: rate,
        renew: rate,
        resolve: rate / 2,
        look: rate / 2,
        change: rate / 2,
        lease: rate / 2,
        key: rate / 2,
      };
      const line = new FaultStore(shared, {
        random: random.fork(),
        rates,
        split,
        generationHidden: hidden,
        onFault: (call, fault) => onFault(`${call} ${fault}`),
        ...(direct
          ? {}
          : { pause: (call, before) => scheduler.pause(currentOperation()?.name ?? id, `${before} ${call}`) }),
      });
      return {
        store: line,
        clock: own,
        timeoutMs: LONG_MS,
        configAgeMs: 0,
        protocol: undefined,
        crash: () => line.crash(),
        refuseDebits: () => {
          if (!direct) for (let attempts = 0; attempts < DEBIT_ATTEMPTS; attempts++) line.failNext("debit", "refused");
        },
        calm: () => {
          for (const call of Object.keys(rates)) rates[call as FaultedCall] = 0;
        },
      };
    },
  };
}
