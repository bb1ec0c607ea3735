import diagnostics from "node:diagnostics_channel";
import { context, type Tracer } from "@opentelemetry/api";
import type { AcquireEndedEvent } from "../ports/events.ts";
import { LimiterMetrics } from "./metrics.ts";
import type { InstrumentSettings } from "./options.ts";

/** What `instrument` works with. */
interface InstrumentDeps {
  /** The names of the channels. */
  readonly channels: Readonly<Record<Exclude<keyof LimiterMetrics, "end">, string>>;
  /** Of the package. */
  readonly version: string;
  /** Ms since 1970, by the clock that the SDK goes by. */
  readonly nowMs: () => number;
}

/** Metrics and spans that are being made. */
export interface Instrumentation {
  /** Stops: nothing more is counted. Leases and waits that are open are no longer counted as open. */
  stop(): void;
}

const SCOPE = "zae-limiter";

export function startInstruments(settings: InstrumentSettings, deps: InstrumentDeps): Instrumentation {
  const metrics = new LimiterMetrics(settings.meterProvider.getMeter(SCOPE, deps.version), settings);
  const tracer = settings.tracerProvider?.getTracer(SCOPE, deps.version);
  const stops: (() => void)[] = [];
  const listen = (channel: string, listener: (event: never) => void): void => {
    const heard = (event: unknown): void => listener(event as never);
    diagnostics.subscribe(channel, heard);
    stops.push(() => diagnostics.unsubscribe(channel, heard));
  };
  for (const name of Object.keys(deps.channels) as (keyof InstrumentDeps["channels"])[]) {
    // DynamoDB is asked for it while somebody listens.
    if (name === "consumedCapacity" && !settings.consumedCapacity) continue;
    listen(deps.channels[name], (event) => metrics[name](event));
  }
  if (tracer !== undefined) {
    listen(deps.channels.acquireEnded, (event) => addSpan(tracer, event, settings, deps.nowMs()));
  }
  return {
    stop: () => {
      for (const stop of stops.splice(0)) stop();
      metrics.end();
    },
  };
}

/** A span of a request that has ended. It is published in the request, so what is active there is its parent. */
function addSpan(
  tracer: Tracer,
  { namespace, entityId, resource, result, durationMs, store, error, requestId }: AcquireEndedEvent,
  settings: InstrumentSettings,
  nowMs: number,
): void {
  const at = (name: string) => `zae_limiter.${name}`;
  const span = tracer.startSpan(
    "zae_limiter.acquire",
    {
      startTime: nowMs - durationMs,
      attributes: {
        ...{ [at("result")]: result, [at("resource")]: resource, [at("namespace")]: namespace, [at("store")]: store },
        ...(settings.entityId ? { [at("entity_id")]: entityId } : {}),
        ...(requestId === undefined ? {} : { [at("request_id")]: requestId }),
      },
    },
    context.active(),
  );
  // A refusal is what a limiter is for, and so is a resource that is switched off. An outage is a fault.
  if (result === "unavailable" && error instanceof Error) {
    span.setAttribute("error.type", error.name);
    span.setStatus({ code: STATUS_ERROR, message: error.message });
  }
  span.end(nowMs);
}

/** `SpanStatusCode.ERROR`, which an enum of the package would bring along as code. */
const STATUS_ERROR = 2;
