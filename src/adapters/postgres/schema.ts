import type { SchemaPart } from "./schema-part.ts";
import { RECORD_PARTS } from "./schema-records.ts";
import { TAKE_PARTS } from "./schema-takes.ts";

/** The version that this package makes and works with. */
export const SCHEMA_VERSION = 1;

/** Packages older than this one would misread the tables. */
export const LEAST_CLIENT = 1;

/** Takes first: tables of records may refer to what takes need. */
export const SCHEMA_PARTS: readonly SchemaPart[] = [TAKE_PARTS, RECORD_PARTS];
