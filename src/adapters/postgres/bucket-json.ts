import type { StraightLevel, VersionedRow } from "../../ports/batch-store.ts";

/** A row of `@.bucket b` as one JSON value: numbers of the driver are texts, and arrays differ between drivers. Null: there is none. */
export const BUCKET_JSON = `CASE WHEN b.version IS NULL THEN NULL ELSE to_jsonb(b) - 'namespace' END`;

export interface BucketJson {
  readonly version: number;
  readonly signature: string;
  readonly limits: string;
  readonly names: readonly string[];
  readonly epoch_ms: number;
  readonly renew_at_ms: number;
  readonly valid_until_ms: number | null;
  readonly written_ms: number | null;
  readonly as_of_ms: number;
  readonly generation: number | null;
  readonly met_ms: number;
  readonly hour_ms: number;
  readonly requests: number;
  readonly capacity: readonly number[];
  readonly amount: readonly number[];
  readonly period: readonly number[];
  readonly soft: readonly boolean[];
  readonly reset_after: readonly number[];
  readonly tokens: readonly number[];
  readonly remainder: readonly number[];
  readonly counted: readonly (number | null)[];
  readonly window_start: readonly (number | null)[];
  readonly top_up: readonly number[];
  readonly resets: readonly number[];
  readonly marks: string | null;
}

export function rowOfJson(found: BucketJson): VersionedRow {
  return {
    version: found.version,
    signature: found.signature,
    limitsText: found.limits,
    epochMs: found.epoch_ms,
    renewAtMs: found.renew_at_ms,
    validUntilMs: found.valid_until_ms,
    writtenMs: found.written_ms,
    asOfMs: found.as_of_ms,
    generation: found.generation,
    metNumber: found.met_ms,
    hourMs: found.hour_ms,
    requests: found.requests,
    marks: found.marks,
    levels: found.names.map(
      (name, i): StraightLevel => ({
        name,
        capacityMilli: found.capacity[i] as number,
        refillAmountMilli: found.amount[i] as number,
        refillPeriodMs: found.period[i] as number,
        soft: found.soft[i] as boolean,
        windowMs: found.reset_after[i] as number,
        tokensMilli: found.tokens[i] as number,
        remainder: found.remainder[i] as number,
        countedMilli: found.counted[i] as number | null,
        windowStartMs: found.window_start[i] as number | null,
        topUpMilli: found.top_up[i] as number,
        resets: found.resets[i] as number,
      }),
    ),
  };
}
