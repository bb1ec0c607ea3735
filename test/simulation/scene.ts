import type { SeededRandom } from "../../src/testing/random.ts";
import type { Client, Surroundings } from "./client.ts";
import type { Operation } from "./operation.ts";

/** What an operation has at hand. */
export interface Scene {
  readonly client: Client;
  readonly operation: Operation;
  readonly random: SeededRandom;
  readonly around: Surroundings;
  readonly signal: AbortSignal | undefined;
}

export type Story = (scene: Scene) => Promise<void>;

/** Thrown by bodies on purpose. */
export class BodyFailed extends Error {}
