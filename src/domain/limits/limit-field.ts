import type { CronCheck } from "./calendar.ts";
import type { ScheduleEntry } from "./schedule.ts";
import type { Decoded } from "./schedule-grammar.ts";

// What the tables say of one field of a limit (`limit-fields.ts`, `kinds/table.ts`). Each part stands in a table of its own: a program that only makes
// limits bundles the checks and nothing else.

/** What any limit may say besides its name and its numbers. */
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

/** What is known of a limit when a field that any limit may have is checked. */
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
  /** The same in configuration, where it is another. */
  readonly configured?: string;
  /** A flag is there or not, whatever its value. */
  readonly type: "string" | "number" | "flag";
  /** The attribute that holds it for all limits of an item that say nothing of their own. */
  readonly common?: string;
  /** What stands there; undefined where the limit has not this field. */
  encoded(fields: Fields): StoredValue | undefined;
  /** The field, of what stands there. */
  decoded(stored: StoredValue, of: { readonly zone: string; readonly attribute: string }): Decoded<Fields>;
  /** What should stand on an item that cannot be read. Default: a schedule. */
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
  /** Of an object: no other properties may be there. */
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
}

/** A field as documents have it. */
export interface FieldJson {
  /** As the service takes it and answers it, under its own name. */
  readonly service: JsonSchema;
  /** Its key in a manifest, and its schema there. Times are seconds in a manifest, and ms in a limit. */
  readonly manifest: { readonly key: string; readonly unit?: "tokens" | "seconds"; readonly schema: JsonSchema };
}
