import { type Contention, contend, type Node, type Outcome, type RequestRecord, WAY_MS } from "./contention.ts";
import { chainOf, comingBack, familyOf, hammering, type PulseOptions, prompts, pulsesOf } from "./level-loads.ts";

const PROCESSES = [1, 2, 3, 6, 12];
const LEVELS = [1, 2, 3];
const KEYS = Array.from({ length: 6 }, (_, i) => `key-${i}`);

type Scene = (processes: number, levels: number) => Pick<Contention, "tree" | "load">;

const PULSE: Omit<PulseOptions, "processes"> = {
  keys: ["key"],
  requests: 60,
  pulses: 20,
  periodMs: 1_000,
  spreadMs: 0,
  amountMax: 1,
};

const pulses = (tree: (levels: number) => readonly Node[], given: Partial<PulseOptions>): Scene => {
  return (processes, levels) => ({ tree: tree(levels), load: pulsesOf({ ...PULSE, processes, ...given }) });
};

/** What is loaded how; `tree` and `load` by the number of processes and levels. */
export const SCENES: Readonly<Record<string, Scene>> = {
  "pulses: 60 at once each second, all levels 30": pulses((levels) => chainOf(levels, 30, {}), {}),
  "the same each 15 seconds": pulses((levels) => chainOf(levels, 30, {}), { periodMs: 15_000 }),
  "the same, spread over 30 ms": pulses((levels) => chainOf(levels, 30, {}), { spreadMs: 30 }),
  "pulses, the project has 20, the others 30": pulses((levels) => chainOf(levels, 30, { project: 20 }), {}),
  "pulses, the key has 20, the others 30": pulses((levels) => chainOf(levels, 30, { key: 20 }), {}),
  "pulses of 1 to 5 tokens": pulses((levels) => chainOf(levels, 60, {}), { amountMax: 5 }),
  "pulses on 6 keys of 10 below 30": pulses((levels) => familyOf(levels, 6, { key: 10, above: 30 }), { keys: KEYS }),
  "pulses of 200 where all levels have 100": pulses((levels) => chainOf(levels, 100, {}), { requests: 200 }),
  "pulses of 200 each 5 seconds where all levels have 100": pulses((levels) => chainOf(levels, 100, {}), {
    requests: 200,
    periodMs: 5_000,
  }),
  "pulses of 60 where all levels have 100": pulses((levels) => chainOf(levels, 100, {}), {}),
  "clients that come back when told, parents saturated": (processes, levels) => ({
    tree: familyOf(levels, 6, { key: 20, above: 40 }),
    load: comingBack({ processes, keys: KEYS, clients: 24, seconds: 20 }),
  }),
  "clients that come back when told, one key": (processes, levels) => ({
    tree: chainOf(levels, 30, {}),
    load: comingBack({ processes, keys: ["key"], clients: 24, seconds: 20 }),
  }),
  "prompts at random, load 0.5": (processes, levels) => promptScene(processes, levels, 0.5),
  "prompts at random, load 1": (processes, levels) => promptScene(processes, levels, 1),
  "prompts at random, load 1.5": (processes, levels) => promptScene(processes, levels, 1.5),
};

/** The project grants 20,000 tokens a second; prompts are of 800 on average. */
function promptScene(processes: number, levels: number, load: number): Pick<Contention, "tree" | "load"> {
  const above = 20_000;
  const options = { processes, keys: KEYS, perSecond: (load * above) / 800, meanTokens: 800, maxTokens: 8_000 };
  return { tree: familyOf(levels, 6, { key: 10_000, above }), load: prompts({ ...options, seconds: 20 }) };
}

export async function benchLevels(): Promise<{ title: string; rows: readonly object[] }[]> {
  const tables: { title: string; rows: readonly object[] }[] = [];
  for (const [scene, of] of Object.entries(SCENES)) {
    const rows: object[] = [];
    for (const levels of LEVELS)
      for (const processes of PROCESSES) rows.push(await rowOf(scene, of, processes, levels));
    tables.push({ title: `levels: ${scene}; ${WAY_MS} ms a way`, rows });
  }
  tables.push({ title: "levels: the same pulses, `atomic`", rows: await atomicRows() });
  tables.push({ title: "levels: 24 at once on a new chain of 10, 40 seeds", rows: await newChains() });
  tables.push({ title: "levels: a key that hammers at 100/s, its sibling at 5/s, project 20", rows: await siblings() });
  return tables;
}

async function rowOf(scene: string, of: Scene, processes: number, levels: number): Promise<object> {
  const outcome = await contend({ ...of(processes, levels), processes, atomic: false, exact: false, seed: 7 });
  return { scene, levels, processes, ...figuresOf(outcome) };
}

export function figuresOf({ records, granted, due, needless, writes, transactions }: Outcome) {
  return {
    "granted of due": rounded(granted / due),
    "needless refusals": rounded(needless / records.length),
    "writes an acquire": rounded((writes + transactions) / records.length),
    "trips when granted": tripsOf(records.filter((record) => record.granted)),
    "trips when refused": tripsOf(records.filter((record) => !record.granted)),
  };
}

/** How long they took, in trips. */
function tripsOf(records: readonly RequestRecord[]): number {
  let sumMs = 0;
  for (const { askedMs, doneMs } of records) sumMs += doneMs - askedMs;
  return records.length === 0 ? 0 : rounded(sumMs / records.length / (2 * WAY_MS));
}

async function atomicRows(): Promise<object[]> {
  const rows: object[] = [];
  for (const processes of PROCESSES) {
    const load = pulsesOf({ ...PULSE, processes });
    const outcome = await contend({ tree: chainOf(2, 30, {}), load, processes, atomic: true, exact: false, seed: 7 });
    rows.push({ levels: 2, processes, ...figuresOf(outcome) });
  }
  return rows;
}

async function newChains(): Promise<object[]> {
  const rows: object[] = [];
  for (const levels of LEVELS) {
    for (const processes of [2, 3, 6, 12]) {
      const grants: number[] = [];
      for (let seed = 1; seed <= 40; seed++) {
        const load = pulsesOf({ ...PULSE, processes, requests: 24, pulses: 1 });
        grants.push(
          (await contend({ tree: chainOf(levels, 10, {}), load, processes, atomic: false, exact: false, seed }))
            .granted,
        );
      }
      grants.sort((a, b) => a - b);
      rows.push({ levels, processes, "granted, worst": grants[0], "granted, median": grants[20] });
    }
  }
  return rows;
}

async function siblings(): Promise<object[]> {
  const rows: object[] = [];
  for (const processes of PROCESSES) {
    const tree = familyOf(2, 2, { key: 10, above: 20 });
    const load = hammering({ processes, hammerPerSecond: 100, siblingPerSecond: 5, seconds: 30 });
    const { records } = await contend({ tree, load, processes, atomic: false, exact: false, seed: 7 });
    const own = records.filter(({ entityId }) => entityId === "key-1");
    const refused = own.filter(({ granted }) => !granted).length;
    rows.push({ processes, "sibling's calls": own.length, "of them refused": rounded(refused / own.length) });
  }
  return rows;
}

function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}
