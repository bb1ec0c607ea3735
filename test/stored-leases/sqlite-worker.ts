import { writeSync } from "node:fs";
import { RateLimiter } from "../../src/entry/index.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import { HOLDS, taking } from "./kit.ts";

// A process that takes lease after lease, under keys, and settles every second one: FILE NAME. Waits for a message before it
// begins. Each answer that it got is a line on its standard output, written before the next call.

const [file = "", name = ""] = process.argv.slice(2);
const limiter = await RateLimiter.open({ store: `sqlite:${file}` });
const storedLeases = new StoredLeases(limiter, { ...HOLDS, onChange: () => {} });
process.send?.("ready");
await new Promise((resolve) => process.once("message", resolve));
for (let n = 1; ; n++) {
  const idempotencyKey = `${name}-${n}`;
  const { lease } = await storedLeases.acquire(taking({ tpm: 2 }, { idempotencyKey }));
  writeSync(1, `${idempotencyKey} ${lease.leaseId}\n`);
  if (n % 2 === 0) await storedLeases.settle(lease.leaseId as string, { consumed: { tpm: 1 } });
}
