import { systemIndexKeys, systemPk, type TableKey } from "./schema.ts";
import { REGISTRY } from "./schema-names.ts";

// Keys of what the aggregator keeps about itself, in the partition of the registry.

/** Of one stream: how far each shard was read, and by whom. */
export function streamPrefix(label: string): string {
  return `#STREAM#${label}#`;
}

export function streamShardKey(label: string, shardId: string): TableKey {
  return { pk: systemPk(REGISTRY), sk: `${streamPrefix(label)}${shardId}` };
}

/** Those who follow a stream. */
export function runnerPrefix(label: string): string {
  return `#RUNNER#${label}#`;
}

export function runnerKey(label: string, runner: string): TableKey {
  return { pk: systemPk(REGISTRY), sk: `${runnerPrefix(label)}${runner}` };
}

/** Where the sweep of all namespaces is. */
export function sweepKey(): TableKey {
  return { pk: systemPk(REGISTRY), sk: "#SWEEP" };
}

/** Whether a key is of an item that following the stream itself writes: its changes come back in the stream. */
export function isRunnerItem({ pk, sk }: TableKey): boolean {
  return pk === systemPk(REGISTRY) && (sk.startsWith("#STREAM#") || sk.startsWith("#RUNNER#"));
}

export function runnerIndexKeys(): Readonly<Record<string, string>> {
  return systemIndexKeys(REGISTRY);
}
