import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

// Two processes with express-rate-limit and a limit of 5 a minute. By its memory store a client would have 10; they count together.
// Run it: node examples/express-rate-limit-store/main.ts
// With a store that several machines share: node examples/express-rate-limit-store/main.ts postgres://localhost/app

const folder = await mkdtemp(join(tmpdir(), "zae-limiter-example-"));
const store = process.argv[2] ?? `sqlite:${join(folder, "limiter.db")}`;
const start = async (name: string) => {
  const child = fork(new URL("./server.ts", import.meta.url), [store]);
  const [address] = (await once(child, "message")) as [AddressInfo];
  return { name, child, url: `http://127.0.0.1:${address.port}/` };
};

const servers = [await start("first"), await start("second")];
for (let i = 0; i < 8; i++) {
  const { name, url } = servers[i % 2] as (typeof servers)[number];
  const answer = await fetch(url, { headers: { "x-api-key": "ada" } });
  const [, remaining] = /remaining=(\d+)/.exec(answer.headers.get("ratelimit") ?? "") ?? [];
  console.log(`request ${i + 1} to the ${name} process: ${answer.status}, remaining ${remaining}`);
}

for (const { child } of servers) {
  child.disconnect();
  await once(child, "exit");
}
await rm(folder, { recursive: true });
