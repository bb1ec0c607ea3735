import { type Load, type Node, START_MS } from "./contention.ts";

/** Everybody has met the buckets before `FIRST_MS`, where a load says so: first contact is not what is measured. */
const FIRST_MS = START_MS + 2_000;
const MET_EVERY_MS = 20;

/** One chain of `key` below `project` below `org`, or the first few of them; all levels alike unless given otherwise. */
export function chainOf(levels: number, capacity: number, given: Partial<Record<string, number>>): Node[] {
  const ids = ["key", "project", "org"].slice(0, levels).reverse();
  return ids.map((id, i) => {
    const own = given[id] ?? capacity;
    return { id, parentId: ids[i - 1], capacity: own, perSecond: own };
  });
}

/** Several keys below one project, and that below an org where there are three levels. */
export function familyOf(
  levels: number,
  keys: number,
  terms: { readonly key: number; readonly above: number },
): Node[] {
  const above = ["project", "org"].slice(0, levels - 1).reverse();
  const nodes = above.map((id, i) => ({
    id,
    parentId: above[i - 1],
    capacity: terms.above,
    perSecond: terms.above,
  }));
  const parentId = above.at(-1);
  for (let i = 0; i < keys; i++) nodes.push({ id: `key-${i}`, parentId, capacity: terms.key, perSecond: terms.key });
  return nodes;
}

export interface PulseOptions {
  readonly processes: number;
  /** Those that are asked for in turn. */
  readonly keys: readonly string[];
  readonly requests: number;
  readonly pulses: number;
  readonly periodMs: number;
  /** Over how long one pulse is spread, at random; 0: all at once. */
  readonly spreadMs: number;
  /** The most that one request asks for; from 1. */
  readonly amountMax: number;
}

/** Many requests at once, again and again, dealt out among the processes. */
export function pulsesOf(options: PulseOptions): Load {
  const { processes, keys, requests, pulses, periodMs, spreadMs, amountMax } = options;
  return (time, ask, random) => {
    for (let pulse = 0; pulse < pulses; pulse++) {
      for (let i = 0; i < requests; i++) {
        const entityId = keys[i % keys.length] as string;
        const request = { process: random.integer(0, processes - 1), entityId, amount: random.integer(1, amountMax) };
        if (amountMax === 1 && keys.length === 1) request.process = i % processes;
        const atMs = FIRST_MS + pulse * periodMs + random.next() * spreadMs;
        time.at(atMs, () => void ask(request));
      }
    }
  };
}

/** Clients that ask again when they were told to, and a moment after they were granted. */
export function comingBack(options: {
  readonly processes: number;
  readonly keys: readonly string[];
  readonly clients: number;
  readonly seconds: number;
}): Load {
  const { processes, keys, clients, seconds } = options;
  const endMs = FIRST_MS + seconds * 1_000;
  return (time, ask, random) => {
    for (let i = 0; i < clients; i++) {
      const request = { process: i % processes, entityId: keys[i % keys.length] as string, amount: 1 };
      const own = random.fork();
      const again = async (): Promise<void> => {
        if (time.now() >= endMs) return;
        const { ok, retryAfterMs } = await ask(request);
        time.at(time.now() + (ok ? 1 + own.next() * 20 : retryAfterMs), () => void again());
      };
      time.at(FIRST_MS + MET_EVERY_MS * i, () => void again());
    }
  };
}

/** Requests at random, of the sizes that prompts have: most of them small, few of them large. */
export function prompts(options: {
  readonly processes: number;
  readonly keys: readonly string[];
  readonly perSecond: number;
  readonly meanTokens: number;
  readonly maxTokens: number;
  readonly seconds: number;
}): Load {
  const { processes, keys, perSecond, meanTokens, maxTokens, seconds } = options;
  return (time, ask, random) => {
    for (let atMs = FIRST_MS; atMs < FIRST_MS + seconds * 1_000; ) {
      atMs += (-Math.log(1 - random.next()) * 1_000) / perSecond;
      const amount = Math.min(maxTokens, Math.max(1, Math.round(-Math.log(1 - random.next()) * meanTokens)));
      const request = { process: random.integer(0, processes - 1), entityId: random.pick(keys), amount };
      time.at(atMs, () => void ask(request));
    }
  };
}

/** One key that hammers, far above its own limit, and one that stays below it. */
export function hammering(options: {
  readonly processes: number;
  readonly hammerPerSecond: number;
  readonly siblingPerSecond: number;
  readonly seconds: number;
}): Load {
  const { processes, hammerPerSecond, siblingPerSecond, seconds } = options;
  return (time, ask, random) => {
    for (const [entityId, perSecond] of [
      ["key-0", hammerPerSecond],
      ["key-1", siblingPerSecond],
    ] as const) {
      for (let atMs = FIRST_MS; atMs < FIRST_MS + seconds * 1_000; ) {
        atMs += (-Math.log(1 - random.next()) * 1_000) / perSecond;
        const request = { process: random.integer(0, processes - 1), entityId, amount: 1 };
        time.at(atMs, () => void ask(request));
      }
    }
  };
}
