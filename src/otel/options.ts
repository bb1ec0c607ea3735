import type { MeterProvider, TracerProvider } from "@opentelemetry/api";
import { ValidationError } from "../domain/names/errors.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";

/** Options of `instrument`. */
export interface InstrumentOptions {
  /** Where metrics go. Default: the provider that is registered with `@opentelemetry/api`. */
  readonly meterProvider?: MeterProvider;
  /** Where spans go, one for each request. Default: no spans are made. */
  readonly tracerProvider?: TracerProvider;
  /** Whether ids of entities are attributes. Each entity is then a series of its own. Default: false. */
  readonly entityId?: boolean;
  /**
   * Whether DynamoDB is asked what each call costs, for `aws.dynamodb.consumed_capacity`. The answers are then longer
   * and are read more slowly. Default: false.
   */
  readonly consumedCapacity?: boolean;
}

/** The same, every value given. */
export interface InstrumentSettings {
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

/** `registered` is used where no provider of metrics is given. */
export function settingsOf(options: InstrumentOptions, registered: MeterProvider): InstrumentSettings {
  const {
    meterProvider = registered,
    tracerProvider,
    entityId,
    consumedCapacity,
  } = OPTIONS.check(options, "The options of instrument");
  checkProvider("meterProvider", meterProvider, "getMeter");
  if (tracerProvider !== undefined) checkProvider("tracerProvider", tracerProvider, "getTracer");
  return {
    meterProvider,
    tracerProvider,
    entityId: flag("entityId", entityId),
    consumedCapacity: flag("consumedCapacity", consumedCapacity),
  };
}

function checkProvider(name: string, given: unknown, method: string): void {
  if (typeof (given as Record<string, unknown> | null)?.[method] === "function") return;
  throw new ValidationError(
    "option_invalid",
    `${name} is ${shown(given)}; give a provider of OpenTelemetry, an object with ${method}().`,
  );
}

function flag(name: string, given: unknown): boolean {
  if (given === undefined || typeof given === "boolean") return given ?? false;
  throw new ValidationError("option_invalid", `${name} is ${shown(given)}; give true or false.`);
}
