import { DYNAMODB_LOCAL_VERSION } from "./pom.ts";

interface DockerEngine {
  readonly port: number;
  /** The folder of its tables; undefined: all in memory. */
  readonly data: string | undefined;
}

/** The port of DynamoDB Local within its container. */
const INNER_PORT = 8000;

/** The name of the container at a port: by it the engine is found again and ended. */
export function containerName(port: number): string {
  return `zae-limiter-local-${port}`;
}

/** The arguments of `docker` that run DynamoDB Local at a port of this machine alone. */
export function dockerRunArguments({ port, data }: DockerEngine): readonly string[] {
  // As root, so that it can write to a folder of this machine whoever owns it.
  const volume = data === undefined ? [] : ["--volume", `${data}:/data`, "--user", "root"];
  const tables = data === undefined ? ["-inMemory"] : ["-dbPath", "/data"];
  return [
    ...["run", "--detach", "--name", containerName(port), "--publish", `127.0.0.1:${port}:${INNER_PORT}`, ...volume],
    ...[`amazon/dynamodb-local:${DYNAMODB_LOCAL_VERSION}`, "-jar", "DynamoDBLocal.jar", ...tables, "-sharedDb"],
  ];
}
