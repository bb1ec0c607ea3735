import { AsyncLocalStorage } from "node:async_hooks";
import type { TestContext } from "node:test";
import { type Context, context, ROOT_CONTEXT } from "@opentelemetry/api";
import { DataPointType, MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";

class Reader extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

/** A counter or a level is its value; of a histogram, how many there were and their sum. */
type Reading = number | readonly [count: number, sum: number];

/** The readings of each instrument, by attributes in the order of their names: `direction=taken limit=rpm`. */
export type Readings = Readonly<Record<string, Readonly<Record<string, Reading>>>>;

export function openMetrics(t: TestContext) {
  const reader = new Reader();
  const meterProvider = new MeterProvider({ readers: [reader] });
  t.after(() => meterProvider.shutdown());
  const collect = async () => {
    const { resourceMetrics, errors } = await reader.collect();
    if (errors.length > 0) throw errors[0];
    return resourceMetrics.scopeMetrics;
  };
  const read = async (): Promise<Readings> => {
    const all: Record<string, Record<string, Reading>> = {};
    for (const { metrics } of await collect()) {
      for (const metric of metrics) {
        const series: Record<string, Reading> = {};
        for (const { attributes, value } of metric.dataPoints) {
          const shown = Object.entries(attributes)
            .map(([name, text]) => `${name}=${text}`)
            .sort()
            .join(" ");
          const isHistogram = metric.dataPointType === DataPointType.HISTOGRAM;
          const sums = value as { readonly count: number; readonly sum?: number };
          series[shown] = isHistogram ? [sums.count, sums.sum ?? 0] : (value as number);
        }
        all[metric.descriptor.name] = series;
      }
    }
    return all;
  };
  return { meterProvider, read, collect };
}

export function openTraces(t: TestContext) {
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  t.after(() => tracerProvider.shutdown());
  return { tracerProvider, spans: () => exporter.getFinishedSpans() };
}

/** What is active stays so through promises, as in every program that traces. */
export function keepContext(t: TestContext): void {
  const storage = new AsyncLocalStorage<Context>();
  context.setGlobalContextManager({
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (active, work, self, ...args) => storage.run(active, () => work.call(self as never, ...args)),
    bind: (_, target) => target,
    enable: () => context as never,
    disable: () => context as never,
  });
  t.after(() => context.disable());
}
