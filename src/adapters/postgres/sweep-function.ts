import { FUNCTION_HEAD, type SchemaFunction } from "./schema-part.ts";

/** Rows of hours that are over, namespace by namespace along the keys. */
const hours = (table: string) => `
  IF p->>'usageUntilMs' IS NOT NULL THEN
    DELETE FROM @.${table} WHERE ctid = ANY (ARRAY(
      SELECT o.at FROM @.namespace n, LATERAL (
        SELECT t.ctid AS at FROM @.${table} t WHERE t.namespace = n.id AND t.hour_ms <= (p->>'usageUntilMs')::bigint
        LIMIT most FOR UPDATE SKIP LOCKED
      ) o LIMIT most));
    GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;
  END IF;`;

const older = (table: string, column: string, bound: string) => `
  DELETE FROM @.${table} WHERE ctid = ANY (ARRAY(
    SELECT t.ctid FROM @.${table} t WHERE t.${column} <= ${bound} LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;`;

/** What another process is deleting just now is left to it. */
const SWEEP = `
CREATE OR REPLACE FUNCTION @.sweep_1(p json) RETURNS text ${FUNCTION_HEAD} AS $sweep$
DECLARE
  most bigint := (p->>'limitMax')::bigint; made integer; deleted bigint := 0;
BEGIN
${hours("usage")}${hours("refusal")}
${older("audit", "at_ms", "(p->>'auditUntilMs')::bigint - 1")}
${older("lease", "forget_at_ms", "(p->>'nowMs')::bigint")}
${older("lease_key", "forget_at_ms", "(p->>'nowMs')::bigint")}
-- Lanes go by the time of the server, which wrote it.
${older("lane", "at_ms", "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 86400000")}
  DELETE FROM @.operation WHERE ctid = ANY (ARRAY(
    SELECT o.at FROM @.namespace n, LATERAL (
      SELECT t.ctid AS at FROM @.operation t WHERE t.namespace = n.id AND t.at_ms <= (p->>'operationsUntilMs')::bigint
      LIMIT most FOR UPDATE SKIP LOCKED
    ) o LIMIT most));
  GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;
  RETURN deleted;
END
$sweep$;
`;

export const SWEEP_FUNCTIONS: readonly SchemaFunction[] = [{ name: "sweep_1(json)", text: SWEEP, role: "acquire" }];
