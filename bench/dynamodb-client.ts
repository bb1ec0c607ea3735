import { CONCURRENCY, callOf, type Scene } from "./dynamodb-ways.ts";

// One way of acquiring, in a process of its own. Told for how many milliseconds to go on, it tells what came of it.

export interface Told {
  readonly calls: number;
  /** Of this process's CPU, a call. */
  readonly microseconds: number;
}

const call = await callOf(JSON.parse(process.argv[2] ?? "") as Scene);
let calls = 0;
process.on("message", async (milliseconds: number) => {
  const first = calls;
  const untilMs = performance.now() + milliseconds;
  const caller = async (): Promise<void> => {
    while (performance.now() < untilMs) await call(calls++);
  };
  const before = process.cpuUsage();
  await Promise.all(Array.from({ length: CONCURRENCY }, caller));
  const { user, system } = process.cpuUsage(before);
  const told: Told = { calls: calls - first, microseconds: (user + system) / (calls - first) };
  process.send?.(told);
});
process.on("disconnect", () => process.exit());
process.send?.("ready");
