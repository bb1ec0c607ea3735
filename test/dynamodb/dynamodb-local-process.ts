import { JAVA_ENGINE_ENV, javaEngineCommand } from "../../src/local/engine-tools.ts";
import { startTied } from "../engines/tied-server.ts";

/** It does not run for long enough: the second compiler of Java took half of the time that it had of the processors, and gained less. */
const QUICKLY_COMPILED = "-XX:TieredStopAtLevel=1";

/** Starts DynamoDB Local, all in memory, at a port or at any that is free; its address. It ends with this process. */
export function startDynamodbLocal(folder: string, port?: number): Promise<string> {
  return startTied({
    name: "DynamoDB Local",
    command: (at) => {
      const [java, ...args] = javaEngineCommand({ folder, port: at, data: undefined });
      return [java, QUICKLY_COMPILED, ...args];
    },
    env: JAVA_ENGINE_ENV,
    port,
  });
}
