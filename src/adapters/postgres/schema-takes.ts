import { TAKE_NAME } from "./batch-text.ts";
import { FORGET_FUNCTION, FORGET_NAME } from "./forget-function.ts";
import { MARK_FUNCTION, MARK_NAME } from "./mark-function.ts";
import { OPERATE_FUNCTION, OPERATE_NAME } from "./operate-function.ts";
import type { SchemaPart } from "./schema-part.ts";
import { TAKE_FUNCTION } from "./take-function.ts";

/**
 * - `generation`: one row a namespace; a namespace without one has generation 0. Whoever changes anything of a namespace holds
 *   `pg_advisory_xact_lock(@.lock_of(namespace))` and adds 1; takes hold the same lock shared.
 * - `bucket`: a row is a bucket (stored/bucket-record.ts). Arrays are by limit, in the order of `limits`; behind those stand slots that are
 *   held, by when they end (straight/row-form.ts), with -1 in `reset_after`. The condition of `bucket_hour` is always true, and only who
 *   asks for hours implies it: a plan that is made while the table is empty, where every index looks as good as the others, cannot look
 *   up buckets by walking through that one.
 * - `lane`: the last batch of each lane, and what was answered.
 * - `usage`: hours that have left their bucket. `milli` by counter; the counter `#requests` has the number of requests.
 * - `operation`: purchases and resets by their keys.
 */
const TABLES_1 = `
CREATE TABLE @.generation (namespace text COLLATE "C" PRIMARY KEY, value bigint NOT NULL);

CREATE TABLE @.bucket (
  namespace text COLLATE "C" NOT NULL, entity text COLLATE "C" NOT NULL, resource text COLLATE "C" NOT NULL,
  version bigint NOT NULL, signature text COLLATE "C" NOT NULL, limits text NOT NULL, names text[] NOT NULL,
  epoch_ms bigint NOT NULL, renew_at_ms bigint NOT NULL, valid_until_ms bigint, written_ms bigint,
  as_of_ms bigint NOT NULL, generation bigint, met_ms bigint NOT NULL,
  hour_ms bigint NOT NULL, requests bigint NOT NULL,
  capacity bigint[] NOT NULL, amount bigint[] NOT NULL, period bigint[] NOT NULL, soft boolean[] NOT NULL,
  reset_after bigint[] NOT NULL, tokens bigint[] NOT NULL, remainder bigint[] NOT NULL, counted bigint[] NOT NULL,
  window_start bigint[] NOT NULL, top_up bigint[] NOT NULL, resets bigint[] NOT NULL,
  PRIMARY KEY (namespace, entity, resource)
) WITH (fillfactor = 50);
CREATE INDEX bucket_resource ON @.bucket (namespace, resource, entity);
CREATE INDEX bucket_hour ON @.bucket (namespace, hour_ms, entity, resource) WHERE hour_ms IS NOT NULL;

CREATE TABLE @.lane (lane text COLLATE "C" PRIMARY KEY, seq bigint NOT NULL, answer text NOT NULL, at_ms bigint NOT NULL);
CREATE INDEX lane_at ON @.lane (at_ms);

CREATE TABLE @.usage (
  namespace text COLLATE "C" NOT NULL, hour_ms bigint NOT NULL, entity text COLLATE "C" NOT NULL,
  resource text COLLATE "C" NOT NULL, counter text COLLATE "C" NOT NULL, milli numeric NOT NULL,
  PRIMARY KEY (namespace, hour_ms, entity, resource, counter)
);
CREATE INDEX usage_entity ON @.usage (namespace, entity, resource, hour_ms);

CREATE TABLE @.operation (
  namespace text COLLATE "C" NOT NULL, entity text COLLATE "C" NOT NULL, resource text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL, at_ms bigint NOT NULL, amounts text NOT NULL,
  PRIMARY KEY (namespace, entity, resource, key)
);
CREATE INDEX operation_at ON @.operation (namespace, at_ms);
`;

/** `marks`: what was told of the limits of a bucket (straight/row-marks.ts); only `mark_1` changes it. */
const TABLES_2 = `
ALTER TABLE @.bucket ADD COLUMN marks text;
`;

/** The number of the lock of a namespace. With names in full and no settings of its own, it becomes part of the statement that calls it. */
const LOCK_OF = `
CREATE OR REPLACE FUNCTION @.lock_of(namespace text) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT
AS $$ SELECT pg_catalog.hashtextextended('zae-limiter/@schema/' OPERATOR(pg_catalog.||) namespace, 0) $$;
`;

/** The version that follows one: microseconds of the server's clock, and always more than before. Exact in JavaScript until 2255. */
const STAMP_AFTER = `
CREATE OR REPLACE FUNCTION @.stamp_after(version bigint) RETURNS bigint LANGUAGE sql VOLATILE STRICT SET search_path = pg_catalog, pg_temp
AS $$ SELECT greatest(version + 1, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint) $$;
`;

export const TAKE_PARTS: SchemaPart = {
  tables: [TABLES_1, TABLES_2],
  functions: [
    { name: "lock_of(text)", text: LOCK_OF, role: "inner" },
    { name: "stamp_after(bigint)", text: STAMP_AFTER, role: "inner" },
    { name: TAKE_NAME, text: TAKE_FUNCTION, role: "acquire" },
    { name: FORGET_NAME, text: FORGET_FUNCTION, role: "acquire" },
    { name: MARK_NAME, text: MARK_FUNCTION, role: "acquire" },
    { name: OPERATE_NAME, text: OPERATE_FUNCTION, role: "admin" },
  ],
  readByTakes: ["generation", "bucket"],
};
