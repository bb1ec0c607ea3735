import { SCHEMA_VERSION } from "../adapters/dynamodb/schema.ts";
import { LOG_RETENTION_DAYS, RANGES } from "./check-options.ts";
import type { Json } from "./parts.ts";
import type { FullStackOptions, StackOptions } from "./stack-options.ts";

/** A parameter of the template: a value that can be changed while the structure stays. */
interface Parameter {
  readonly value: (options: FullStackOptions) => string;
  /** The option that a deployed value stands for; none: it follows from others. */
  readonly option?: keyof FullStackOptions;
  readonly declaration: Json;
}

export const PARAMETERS: Readonly<Record<string, Parameter>> = {
  LambdaMemorySize: number("lambdaMemory", "Memory of the aggregator, in MB", RANGES.lambdaMemory),
  LambdaTimeout: number("lambdaTimeout", "Timeout of the aggregator, in seconds", RANGES.lambdaTimeout),
  LambdaDurationThreshold: {
    value: ({ lambdaTimeout, lambdaDurationThresholdPct }) => String(lambdaTimeout * 10 * lambdaDurationThresholdPct),
    declaration: {
      Type: "Number",
      MinValue: 1,
      MaxValue: 900_000,
      Description: "Duration of the aggregator that raises an alarm, in ms",
    },
  },
  LogRetentionDays: {
    value: ({ logRetentionDays }) => String(logRetentionDays),
    option: "logRetentionDays",
    declaration: { Type: "Number", AllowedValues: LOG_RETENTION_DAYS, Description: "How long logs are kept, in days" },
  },
  SnapshotRetentionDays: number("usageRetentionDays", "How long usage is kept, in days", RANGES.usageRetentionDays),
  AuditArchiveGlacierTransitionDays: number(
    "auditArchiveGlacierDays",
    "After how many days archived audit events move to Glacier",
    RANGES.auditArchiveGlacierDays,
  ),
  SchemaVersion: {
    value: () => SCHEMA_VERSION,
    declaration: {
      Type: "String",
      AllowedPattern: "^\\d+\\.\\d+\\.\\d+$",
      Description: "Schema version of the table",
    },
  },
};

/** The declarations of those parameters that something in the template refers to, with these options as defaults. */
export function declared(template: Json, options: FullStackOptions): Json {
  const text = JSON.stringify(template);
  return Object.fromEntries(
    Object.entries(PARAMETERS)
      .filter(([name]) => text.includes(`{"Ref":"${name}"}`))
      .map(([name, { value, declaration }]) => {
        const isNumber = declaration.Type === "Number";
        return [name, { ...declaration, Default: isNumber ? Number(value(options)) : value(options) }];
      }),
  );
}

/** What the values of a deployed stack say of its options. */
export function optionsIn(values: Readonly<Record<string, string>>): StackOptions {
  const own = Object.entries(PARAMETERS).flatMap(([name, { option }]) => {
    const value = values[name];
    return option === undefined || value === undefined ? [] : [[option, Number(value)] as const];
  });
  const { LambdaTimeout: timeoutS, LambdaDurationThreshold: thresholdMs } = values;
  const pct =
    timeoutS === undefined || thresholdMs === undefined
      ? {}
      : { lambdaDurationThresholdPct: Math.round(Number(thresholdMs) / (Number(timeoutS) * 10)) };
  return { ...Object.fromEntries(own), ...pct };
}

type NumberOption = "lambdaMemory" | "lambdaTimeout" | "usageRetentionDays" | "auditArchiveGlacierDays";

function number(option: NumberOption, description: string, [least, most]: readonly [number, number]): Parameter {
  return {
    value: (options) => String(options[option]),
    option,
    declaration: { Type: "Number", MinValue: least, MaxValue: most, Description: description },
  };
}
