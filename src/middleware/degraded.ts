import { RateLimiterUnavailable } from "../domain/names/errors.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";
import { reasonOf } from "../engine/limiter/event-publisher.ts";
import { type LimiterParts, partsIfLimiter } from "../engine/limiter/limiter-parts.ts";
import type { DegradedEvent, DegradedKind } from "../ports/events.ts";

/** The entity and the resource of an event. */
export interface About {
  readonly entityId: string;
  readonly resource: string;
}

/** Publishes an error on the channel `degraded`, because it cannot be thrown: the response is on its way. */
export function tellDegraded(
  limiter: Acquiring,
  { entityId, resource }: About,
  kind: DegradedKind,
  reason: string,
  cause: unknown,
): void {
  const parts = partsIfLimiter(limiter);
  const namespace = parts?.settings.namespace ?? "default";
  const event = { namespace, entityId, resource, kind, reason: `${reason}: ${reasonOf(cause)}`, cause };
  const channel = parts === undefined ? channelOfProcess() : parts.deps.events.degraded;
  channel?.publish(event);
}

/** Publishes that the end of a lease could not be stored. */
export function tellNotStored(limiter: Acquiring, about: About, error: unknown): void {
  const parts: LimiterParts | undefined = partsIfLimiter(limiter);
  // A limiter publishes an outage itself.
  if (parts !== undefined && error instanceof RateLimiterUnavailable) return;
  tellDegraded(limiter, about, "lease_not_stored", "the end of a lease could not be stored", error);
}

interface DiagnosticsChannels {
  channel(name: string): { publish(event: DegradedEvent): void };
}

/** The channel of this process, for a limiter that publishes nothing itself; undefined on a runtime without channels. */
function channelOfProcess(): ReturnType<DiagnosticsChannels["channel"]> | undefined {
  // No import: runtimes without the module would fail on its name.
  const { process } = globalThis as { readonly process?: { getBuiltinModule?(name: string): unknown } };
  const found = process?.getBuiltinModule?.("node:diagnostics_channel") as DiagnosticsChannels | undefined;
  return found?.channel("zae-limiter:degraded");
}
