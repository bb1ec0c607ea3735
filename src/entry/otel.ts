import { metrics } from "@opentelemetry/api";
import { systemClock } from "../adapters/system/clock.ts";
import { CHANNELS } from "../adapters/system/events.ts";
import { type Instrumentation, type InstrumentOptions, settingsOf, startInstruments } from "../otel/instrument.ts";
import { packageVersion } from "./package-version.ts";

export type { Instrumentation, InstrumentOptions } from "../otel/instrument.ts";

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
