import { join } from "node:path";

interface JavaEngine {
  /** The folder with its jars. */
  readonly folder: string;
  readonly port: number;
  /** The folder of its tables; undefined: all in memory. */
  readonly data: string | undefined;
}

/** It says nothing to its makers about its use. */
export const JAVA_ENGINE_ENV = { DDB_LOCAL_TELEMETRY: "0" } as const;

/** The command with its arguments that runs DynamoDB Local at a port. All credentials see the same tables. */
export function javaEngineCommand({ folder, port, data }: JavaEngine): readonly [string, ...string[]] {
  const tables = data === undefined ? ["-inMemory"] : ["-dbPath", data];
  return [
    ...(["java", "-Xmx512m", "-XX:+UseSerialGC", `-Djava.library.path=${folder}`, "-cp", join(folder, "*")] as const),
    ...["software.amazon.dynamodb.services.local.main.ServerRunner", ...tables, "-sharedDb", "-port", String(port)],
  ];
}
