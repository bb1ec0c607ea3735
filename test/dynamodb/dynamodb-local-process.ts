import { join } from "node:path";
import { startTied } from "../tied-server.ts";

/** Starts DynamoDB Local, all in memory, at a port or at any that is free; its address. It ends with this process. */
export function startDynamodbLocal(folder: string, port?: number): Promise<string> {
  const java = ["java", "-Xmx512m", "-XX:+UseSerialGC", `-Djava.library.path=${folder}`, "-cp", join(folder, "*")];
  const runner = ["software.amazon.dynamodb.services.local.main.ServerRunner", "-inMemory", "-sharedDb"];
  return startTied({
    name: "DynamoDB Local",
    command: (at) => [...java, ...runner, "-port", String(at)],
    env: { DDB_LOCAL_TELEMETRY: "0" },
    port,
  });
}
