import { fork, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { fetchedOriginal } from "../test/interop/environment.ts";
import { CONCURRENCY, CREDENTIALS, REGION, type Scene, type Stint, type Told } from "./dynamodb-ways.ts";

/** A process that acquires in one way. */
export interface Client {
  run(stint: Stint): Promise<Told>;
  end(): void;
}

export async function clientFor(scene: Scene): Promise<Client> {
  const child = fork(new URL("./dynamodb-client.ts", import.meta.url), [JSON.stringify(scene)]);
  child.once("exit", (code) => {
    if (code !== 0) throw new Error(`The client of ${JSON.stringify(scene)} ended with ${code}.`);
  });
  await once(child, "message");
  return {
    run: async (stint) => {
      child.send(stint);
      const [told] = (await once(child, "message")) as [Told];
      return told;
    },
    end: () => child.disconnect(),
  };
}

/** The original, on a table that both can read; says loudly why not, where it cannot be had. */
export async function originalFor(endpoint: string, table: string): Promise<Client | undefined> {
  let python: string;
  try {
    python = await fetchedOriginal();
  } catch (error) {
    process.stderr.write(`SKIPPED. The original is not measured: ${error instanceof Error ? error.message : error}\n`);
    return undefined;
  }
  const script = fileURLToPath(new URL("dynamodb-original.py", import.meta.url));
  const child = spawn(python, [script, table, endpoint, String(CONCURRENCY)], {
    stdio: ["pipe", "pipe", "inherit"],
    env: {
      ...process.env,
      AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
      AWS_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
      AWS_SESSION_TOKEN: CREDENTIALS.sessionToken,
      AWS_DEFAULT_REGION: REGION,
    },
  });
  const lines = createInterface(child.stdout);
  await once(lines, "line");
  return {
    run: async (stint) => {
      child.stdin.write(`${JSON.stringify(stint)}\n`);
      const [line] = (await once(lines, "line")) as [string];
      return JSON.parse(line) as Told;
    },
    end: () => child.stdin.end(),
  };
}
