import type { SchemaPart } from "./schema-part.ts";
import { RECORD_PARTS } from "./schema-records.ts";
import { TAKE_PARTS } from "./schema-takes.ts";

/** The version that this package makes and works with. */
export const SCHEMA_VERSION = 2;

/** Packages older than this one would misread the tables: since version 2 limits may say more than rates (domain/limits/beyond-rates.ts). */
export const LEAST_CLIENT = 2;

/** Takes first: tables of records may refer to what takes need. */
export const SCHEMA_PARTS: readonly SchemaPart[] = [TAKE_PARTS, RECORD_PARTS];
