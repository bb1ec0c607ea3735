import { metrics } from "@opentelemetry/api";
import { systemClock } from "../adapters/system/clock.ts";
import { CHANNELS } from "../adapters/system/events.ts";
import { type Instrumentation, startInstruments } from "../otel/instrument.ts";
import { type InstrumentOptions, settingsOf } from "../otel/options.ts";
import { packageVersion } from "./package-version.ts";

export type { Instrumentation } from "../otel/instrument.ts";
export type { InstrumentOptions } from "../otel/options.ts";

/**
 * Makes OpenTelemetry metrics, and spans if a tracer provider is given, of every limiter of this process. Call it once,
 * after the providers are there.
 *
 * ```ts
 * const instruments = instrument({ meterProvider });
 * // …
 * instruments.stop();
 * ```
 */
export function instrument(options: InstrumentOptions = {}): Instrumentation {
  const settings = settingsOf(options, metrics.getMeterProvider());
  const { acquired, charged, gaveBack, refused, acquireEnded, waitBegan, waitEnded } = CHANNELS;
  const { leaseOpened, leaseEnded, degraded, consumedCapacity } = CHANNELS;
  return startInstruments(settings, {
    channels: {
      ...{ acquired, charged, gaveBack, refused, acquireEnded, waitBegan, waitEnded },
      ...{ leaseOpened, leaseEnded, degraded, consumedCapacity },
    },
    version: packageVersion(),
    nowMs: () => systemClock.now(),
  });
}
