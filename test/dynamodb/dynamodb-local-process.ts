import { JAVA_ENGINE_ENV, javaEngineCommand } from "../../src/local/java-engine.ts";
import { startTied } from "../engines/tied-server.ts";

/** Starts DynamoDB Local, all in memory, at a port or at any that is free; its address. It ends with this process. */
export function startDynamodbLocal(folder: string, port?: number): Promise<string> {
  return startTied({
    name: "DynamoDB Local",
    command: (at) => javaEngineCommand({ folder, port: at, data: undefined }),
    env: JAVA_ENGINE_ENV,
    port,
  });
}
