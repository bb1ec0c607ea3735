import diagnostics from "node:diagnostics_channel";
import { context, type MeterProvider, type Tracer, type TracerProvider } from "@opentelemetry/api";
import { KnownNames, requireOption } from "../domain/names/known-names.ts";
import type { AcquireEndedEvent } from "../ports/events.ts";
import { LimiterMetrics } from "./metrics.ts";

/** Options of `instrument`. */
export interface InstrumentOptions {
  /** Where metrics go. Default: the provider that is registered with `@opentelemetry/api`. */
  readonly meterProvider?: MeterProvider;
  /** Where spans go, one for each request. Default: no spans are made. */
  readonly tracerProvider?: TracerProvider;
  /** Makes ids of entities attributes. Each entity is then a series of its own. Default: false. */
  readonly entityId?: boolean;
  /**
   * Asks DynamoDB what each call costs, for `aws.dynamodb.consumed_capacity`. The answers are then longer
   * and are read more slowly. Default: false.
   */
  readonly consumedCapacity?: boolean;
}

/** The options with every default in its place. */
interface InstrumentSettings {
  readonly meterProvider: MeterProvider;
  readonly tracerProvider: TracerProvider | undefined;
  readonly entityId: boolean;
  readonly consumedCapacity: boolean;
}

const OPTIONS = new KnownNames<InstrumentOptions>({
  meterProvider: true,
  tracerProvider: true,
  entityId: true,
  consumedCapacity: true,
});

/** Checks the options; `registered` is used if no provider of metrics is given. */
export function settingsOf(options: InstrumentOptions, registered: MeterProvider): InstrumentSettings {
  const checked = OPTIONS.check(options, "The options of instrument");
  const { meterProvider = registered, tracerProvider, entityId = false, consumedCapacity = false } = checked;
  requireProvider("meterProvider", meterProvider, "getMeter");
  if (tracerProvider !== undefined) requireProvider("tracerProvider", tracerProvider, "getTracer");
  requireOption("entityId", entityId, typeof entityId === "boolean", "true or false");
  requireOption("consumedCapacity", consumedCapacity, typeof consumedCapacity === "boolean", "true or false");
  return { meterProvider, tracerProvider, entityId, consumedCapacity };
}

function requireProvider(name: string, provider: unknown, method: string): void {
  const isProvider = typeof (provider as Record<string, unknown> | null)?.[method] === "function";
  requireOption(name, provider, isProvider, `a provider of OpenTelemetry, an object with ${method}()`);
}

/** The parts that the entry point hands in. */
interface InstrumentDeps {
  /** The names of the channels. */
  readonly channels: Readonly<Record<Exclude<keyof LimiterMetrics, "end">, string>>;
  /** The version of the package. */
  readonly version: string;
  /** Ms since 1970, by the clock that the SDK uses. */
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
    // DynamoDB is asked for its capacity while the channel has a listener.
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

/** Adds the span of a request that has ended. The event is published in the request, whose active span is its parent. */
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
  // Only an outage is an error: refusals and disabled resources are what a limiter is for.
  if (result === "unavailable" && error instanceof Error) {
    span.setAttribute("error.type", error.name);
    span.setStatus({ code: STATUS_ERROR, message: error.message });
  }
  span.end(nowMs);
}

/** The value of `SpanStatusCode.ERROR`: the enum would bring code of the package along. */
const STATUS_ERROR = 2;
