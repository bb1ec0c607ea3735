import { functionsOf, type SchemaPart } from "./schema-part.ts";
import { sqlText } from "./sql-texts.ts";

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

/** `marks`: what was told of the limits of a bucket (straight/row-codec.ts); only `mark_1` changes it. */
const TABLES_2 = `
ALTER TABLE @.bucket ADD COLUMN marks text;
`;

/**
 * A lane is written with every batch. Without an index of its time its row stays on its page, which has room for the next one; and an answer that
 * fits on a page is stored as it is, not compressed with each take.
 */
const TABLES_3 = `
DROP INDEX @.lane_at;
ALTER TABLE @.lane SET (fillfactor = 30, toast_tuple_target = 8160);
`;

/**
 * `change`: the names that a change touched, by the generation that it made. A generation without a row may have touched everything; so
 * may those that are older than the rows that are kept.
 */
const TABLES_4 = `
CREATE TABLE IF NOT EXISTS @.change (
  namespace text COLLATE "C" NOT NULL, generation bigint NOT NULL, touched text[] COLLATE "C" NOT NULL,
  PRIMARY KEY (namespace, generation)
);
`;

/** The arguments of the general take, in the order of `takeValues`. */
export const TAKE_TYPES = [
  ...["text", "text", "bigint", "boolean", "text", "integer", "bigint", "boolean"],
  ...["text[]", "text[]", "jsonb", "smallint[]", "bigint[]", "bigint[]", "boolean[]", "integer[]", "integer[]"],
  ...["text[]", "bigint[]", "boolean[]", "bigint[]", "integer[]", "bigint[]", "bigint[]", "bigint[]", "jsonb"],
  ...["jsonb", "text[]"],
];

const LEVELS_TYPES = [...Array(6).fill("bigint[]"), "bigint", "bigint[]", "integer", "integer", "boolean"];

/** The functions of takes, each in a file of its own in `sql/`; the take is `take_summed_2`, or `take_made_2` where buckets are new, and `take_2` for whatever those cannot do. */
const FUNCTIONS = [
  ["lock_of", "text", "inner"],
  ["stamp_after", "bigint", "inner"],
  ["levels_after_1", LEVELS_TYPES.join(", "), "inner"],
  ["take_summed_2", "text, text, bigint, text, text, text, text", "acquire"],
  ["take_made_2", "text, text, bigint, text, text, text, text, json, text", "acquire"],
  ["take_2", TAKE_TYPES.join(", "), "acquire"],
  ["forget_1", "text, text[], text[], bigint[], json", "acquire"],
  ["mark_1", "text, text, text, text, text", "acquire"],
  ["operate_1", "text, text, text, text, bigint, bigint, text, json, jsonb", "admin"],
] as const;

/** The statement that makes a function. The summed take is the one that makes rows, without that. */
export function functionText(name: (typeof FUNCTIONS)[number][0]): string {
  if (name !== "take_summed_2") return sqlText(name);
  return sqlText("take_made_2")
    .replace(/\/\* new \*\/.*?\/\* end \*\//gs, "")
    .replace("take_made_2", name);
}

export const TAKE_PARTS: SchemaPart = {
  tables: [TABLES_1, TABLES_2, TABLES_3, TABLES_4],
  functions: functionsOf(FUNCTIONS, functionText),
  readByTakes: ["generation", "change", "bucket"],
};
