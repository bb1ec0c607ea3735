import { COMMIT_FUNCTIONS } from "./commit-function.ts";
import { createTable, RECORD_TABLES } from "./record-tables.ts";
import type { SchemaPart } from "./schema-part.ts";
import { SWEEP_FUNCTIONS } from "./sweep-function.ts";

/** Characters that may stand in any text of a caller, and that the server's JSON cannot read: NUL, and halves of surrogate pairs. */
const UNREADABLE = "\\\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})";

/**
 * A table for each kind of record (record-tables.ts), and:
 * - `stamp`: numbers for the versions of records; none is used twice, so that a record made anew is another one.
 * - `audit`: in the order of `id`. `event_id` is looked for when the answer to a commit was lost.
 * - the views `usage_hourly` and `audit_log`, for people with SQL. `usage_counted` is what both they and we read: the hours that have
 *   left their buckets and those that buckets still carry.
 */
const TABLES_1 = `
CREATE SEQUENCE @.stamp AS bigint;
${Object.values(RECORD_TABLES).map(createTable).join("\n")}
CREATE UNIQUE INDEX namespace_name ON @.namespace (name) WHERE status = 'active';
CREATE INDEX entity_parent ON @.entity (namespace, parent, id) WHERE parent IS NOT NULL;
CREATE INDEX entity_plan ON @.entity (namespace, plan, id) WHERE plan IS NOT NULL;
CREATE INDEX config_resource ON @.config (namespace, of, resource, owner) WHERE has_limits;
CREATE INDEX lease_due ON @.lease (namespace, due_at_ms, id) WHERE due_at_ms IS NOT NULL;
CREATE INDEX lease_forget ON @.lease (forget_at_ms) WHERE forget_at_ms IS NOT NULL;
CREATE INDEX lease_key_forget ON @.lease_key (forget_at_ms);
CREATE INDEX refusal_entity ON @.refusal (namespace, entity, hour_ms);

CREATE TABLE @.audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, namespace text COLLATE "C" NOT NULL, entity text COLLATE "C" NOT NULL,
  at_ms bigint NOT NULL, event_id text COLLATE "C" NOT NULL, body json NOT NULL
);
CREATE INDEX audit_namespace ON @.audit (namespace, id);
CREATE INDEX audit_entity ON @.audit (namespace, entity, id);
CREATE INDEX audit_event ON @.audit (namespace, event_id);
CREATE INDEX audit_at ON @.audit (at_ms);

CREATE VIEW @.usage_counted AS
  SELECT namespace, hour_ms, entity, resource, counter, milli FROM @.usage
  UNION ALL
  SELECT b.namespace, b.hour_ms, b.entity, b.resource, c.name COLLATE "C", c.milli::numeric
  FROM @.bucket b, LATERAL unnest(b.names, b.counted) AS c (name, milli) WHERE c.milli IS NOT NULL
  UNION ALL
  SELECT namespace, hour_ms, entity, resource, '#requests' COLLATE "C", requests::numeric FROM @.bucket WHERE requests <> 0;

CREATE VIEW @.usage_hourly AS
  SELECT u.namespace AS namespace_id, to_timestamp(u.hour_ms / 1000) AS hour, u.entity, u.resource, u.counter,
    CASE u.counter WHEN '#requests' THEN sum(u.milli) ELSE sum(u.milli) / 1000 END AS amount
  FROM @.usage_counted u GROUP BY u.namespace, u.hour_ms, u.entity, u.resource, u.counter;

CREATE VIEW @.audit_log AS
  SELECT a.id, a.namespace AS namespace_id, to_timestamp(a.at_ms / 1000.0) AS at, a.event_id, e.body->>'action' AS action, a.entity,
    e.body->>'resource' AS resource, e.body->>'principal' AS principal, e.body->'details' AS details
  FROM @.audit a, LATERAL (SELECT regexp_replace(a.body::text, '${UNREADABLE}', '\\\\ufffd', 'g')::json AS body) e;
`;

/** Everything that is no take: configuration, entities, namespaces, plans, manifests, leases, audit, refusals. */
export const RECORD_PARTS: SchemaPart = {
  tables: [TABLES_1],
  functions: [...COMMIT_FUNCTIONS, ...SWEEP_FUNCTIONS],
  readByTakes: ["namespace", "entity", "plan", "config", "limit_history", "lease", "lease_key", "refusal"],
};
