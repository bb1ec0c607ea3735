import { DataPointType, MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { instrument } from "../../src/entry/otel.ts";

/** Stands in for the exporter of your program: it is read below, once. */
class Reader extends MetricReader {
  protected override async onForceFlush() {}
  protected override async onShutdown() {}
}

const reader = new Reader();
const meterProvider = new MeterProvider({ readers: [reader] });
const instruments = instrument({ meterProvider });

const limiter = await RateLimiter.open({ store: "memory" });
await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 2), Limit.perMinute("tpm", 1_000)]);
for (let i = 0; i < 3; i++) {
  const outcome = await limiter.tryAcquire({ entityId: "key-1", resource: "gpt-4", consume: { rpm: 1, tpm: 300 } });
  if (outcome.ok) await outcome.lease.settle({ tpm: 250 });
}

const { resourceMetrics } = await reader.collect();
for (const { descriptor, dataPoints, dataPointType } of resourceMetrics.scopeMetrics.flatMap(
  ({ metrics }) => metrics,
)) {
  if (dataPointType === DataPointType.HISTOGRAM) continue;
  for (const { attributes, value } of dataPoints) {
    const { namespace, resource, ...shown } = attributes;
    console.log(descriptor.name, JSON.stringify(shown), value);
  }
}

instruments.stop();
await meterProvider.shutdown();
await limiter.close();
