import type { CronCheck, ScheduleEntry } from "./schedule.ts";
import type { Decoded } from "./schedule-grammar.ts";

// The columns of the tables of fields (`limit-checks.ts`, `limit-stored.ts`, `limit-text.ts`, `limit-json.ts`, `kinds/table.ts`). Each stands in
// a table of its own: a program that only makes limits bundles the checks and nothing else.

/** Fields that any limit may have besides its name and its numbers. */
export interface CommonFields<Measure extends string = string> {
  /** The measure that it counts. Absent: the measure of its own name. */
  readonly counts?: Measure;
  /** It measures and never refuses: it may go into debt. */
  readonly soft?: true;
  /** It decides like a hard limit and never refuses: what would not have fitted is counted, and not taken. */
  readonly shadow?: true;
  /** Windows with another capacity or rate. The first window that matches counts. */
  readonly schedule?: readonly ScheduleEntry[];
  /** Percentages of the capacity, rising: when so much of it is used, a `ThresholdEvent` tells it. */
  readonly notifyAt?: readonly number[];
}

/** A limit as far as it is known when a field that any limit may have is checked. */
export interface CheckedLimit {
  readonly name: string;
  readonly capacity: number;
  readonly refillAmount: number;
  /** The most that it holds in any window. */
  readonly most: number;
  /** Nothing drips into it, and no window can make it drip. */
  readonly resets: boolean;
  readonly isSoft: boolean;
  readonly calendar: CronCheck;
}

/** The value of a field as a limit has it; undefined: the limit says nothing by it. Throws a `ValidationError` that names the limit, the field and its value. */
export type FieldCheck<Value> = (value: unknown, limit: CheckedLimit) => Value | undefined;

export type StoredValue = string | number | true;

/** A field as tables and files store it. */
export interface FieldStored<Fields, Attribute extends string> {
  readonly field: keyof Fields & string;
  /** The last part of the attribute's name on the item of a bucket: `b_<limit>_na`. */
  readonly attribute: Attribute;
  /** The name of the attribute in configuration, where it is another. */
  readonly configured?: string;
  /** A flag is there or not, whatever its value. */
  readonly type: "string" | "number" | "flag";
  /** The attribute that holds it for all limits of an item that say nothing of their own. */
  readonly common?: string;
  /** The value that is stored; undefined where the limit has not this field. */
  encoded(fields: Fields): StoredValue | undefined;
  /** The field that a stored value says. */
  decoded(stored: StoredValue, of: { readonly zone: string; readonly attribute: string }): Decoded<Fields>;
  /** The value that belongs on an item that cannot be read. Default: a schedule. */
  readonly wants?: string;
  /** Why the field of an item cannot be worked with. */
  problem?(fields: Fields, calendar: CronCheck): string | undefined;
  /** Whether the field is such as can be worked with, of a limit that was stored. Default: it is. */
  isSound?(fields: Fields, calendar: CronCheck): boolean;
}

/** A field as people write it in the text of a limit: `after=5h`, or a word alone. */
export interface FieldText<Fields> {
  readonly word: string;
  /** The word stands alone. */
  readonly isFlag?: true;
  /** Whether `tz=` is its zone. */
  readonly hasZone?: true;
  /** The field that a value says, or what is wrong with it. */
  read(value: string, zone: string): Fields | string;
  /** The value that says the field; undefined where it is absent. */
  written(fields: Fields): string | undefined;
}

/** A JSON Schema, with the keywords that are read. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
  readonly type?: "string" | "number" | "integer" | "boolean" | "array" | "object";
  readonly description?: string;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly items?: JsonSchema;
  readonly maxItems?: number;
  readonly anyOf?: readonly JsonSchema[];
  /** The properties of an object: no others may be there. */
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
}

/** A field as documents have it. */
export interface FieldJson {
  /** The field in the service, under its own name. */
  readonly service: JsonSchema;
  /** Its key in a manifest, and its schema there. Times are seconds in a manifest, and ms in a limit. */
  readonly manifest: { readonly key: string; readonly unit?: "tokens" | "seconds"; readonly schema: JsonSchema };
}

/** Options of every maker of limits. */
export interface KindOptions<Measure extends string = string> {
  /** The measure that it counts. Default: the limit's own name. */
  readonly counts?: Measure;
  /** Whether it only measures and never refuses. Default: `false`. */
  readonly soft?: boolean;
  /**
   * Whether it decides like a hard limit and never refuses: usage counts what it would have refused (`wouldRefuse`), and none of that is
   * taken. Not together with `soft`. Default: `false`.
   */
  readonly shadow?: boolean;
  /** Windows with another capacity or rate. The first window that matches counts. Default: none. */
  readonly schedule?: readonly ScheduleEntry[];
  /**
   * One to four rising whole percentages from 1 to 100. When so much of the capacity in force is used, a
   * `ThresholdEvent` tells it: once a period of a quota, and of a limit that refills each time that it is reached anew.
   * Default: none.
   */
  readonly notifyAt?: readonly number[];
}

/** Options of `Limit.perSecond`, `perMinute`, `perHour` and `perDay`. */
export interface RateOptions<Measure extends string = string> extends KindOptions<Measure> {
  /** The capacity: how much can be taken at once after a quiet time. Default: the rate. */
  readonly burst?: number;
  /**
   * Whether no stretch of one period ever has more than the rate: the limit then holds `burst`, from 1 to the rate less 1 and by default half
   * of the rate, and the rest drips in. For upstreams that count windows. Default: `false`.
   */
  readonly strictWindow?: boolean;
}

/** What `Limit.custom` takes. */
export interface CustomTerms<Measure extends string = string> extends KindOptions<Measure> {
  /** The most it holds, in whole tokens. */
  readonly capacity: number;
  /** Whole tokens that drip in over a period. */
  readonly refillAmount: number;
  /** The period, in ms: whole seconds. */
  readonly refillPeriodMs: number;
}

/** Options of `Limit.concurrent`. */
export interface ConcurrentOptions<Measure extends string = string> extends KindOptions<Measure> {
  /**
   * How long a slot is held, in ms: whole seconds from 1,000 to a day, unless it is given back or renewed before. Who dies holding
   * one has it for at most a quarter longer. Default: 60,000.
   */
  readonly holdMs?: number;
}
