import type { RecordKind } from "../../ports/record-store.ts";

interface Column {
  readonly name: string;
  readonly type: "text" | "bigint" | "boolean";
}

/** The table of a kind of records: a column for each part of the key, and for what they are found by. The rest is in `body`. */
export interface RecordTable {
  readonly table: string;
  /** False: the table of namespaces itself. */
  readonly isInNamespace: boolean;
  readonly key: readonly Column[];
  /** `field`: in `RecordPut.by`. */
  readonly by: readonly (Column & { readonly field: string; readonly isOptional: boolean })[];
}

const text = (name: string): Column => ({ name, type: "text" });
const bigint = (name: string): Column => ({ name, type: "bigint" });

const table = (name: string, key: readonly Column[], by: RecordTable["by"] = []): RecordTable => ({
  ...{ table: name, isInNamespace: true, key, by },
});

export const RECORD_TABLES: Readonly<Record<RecordKind, RecordTable>> = {
  namespace: {
    table: "namespace",
    isInNamespace: false,
    key: [text("id")],
    by: [
      { ...text("name"), field: "name", isOptional: false },
      { ...text("status"), field: "status", isOptional: false },
    ],
  },
  entity: table(
    "entity",
    [text("id")],
    [
      { ...text("parent"), field: "parentId", isOptional: true },
      { ...text("plan"), field: "planId", isOptional: true },
    ],
  ),
  plan: table("plan", [text("id")]),
  config: table(
    "config",
    [text("of"), text("owner"), text("resource")],
    [{ name: "has_limits", type: "boolean", field: "hasLimits", isOptional: false }],
  ),
  history: table("limit_history", [text("of"), text("owner"), text("resource")]),
  owner: table("owner", [text("owner")]),
  owned: table("owned", [text("piece")]),
  lease: table(
    "lease",
    [text("id")],
    [
      { ...text("entity"), field: "entityId", isOptional: false },
      { ...text("resource"), field: "resource", isOptional: false },
      { ...bigint("due_at_ms"), field: "dueAtMs", isOptional: true },
      { ...bigint("forget_at_ms"), field: "forgottenAtMs", isOptional: true },
    ],
  ),
  leaseKey: table(
    "lease_key",
    [text("key")],
    [{ ...bigint("forget_at_ms"), field: "forgottenAtMs", isOptional: false }],
  ),
  refusal: table("refusal", [bigint("hour_ms"), text("entity"), text("resource"), text("writer")]),
  refusalLog: table("refusal_log", [bigint("hour_ms"), text("entity"), text("writer")]),
  caller: table("caller_usage", [bigint("hour_ms"), text("entity"), text("resource"), text("writer")]),
};

/** The version of the schema since which a kind has its table; the others have had it from the first. */
export const TABLE_SINCE: Readonly<Partial<Record<RecordKind, number>>> = { refusalLog: 3, caller: 4 };

/** A process that only takes writes these beside its takes. */
export const KINDS_OF_TAKERS: readonly RecordKind[] = ["lease", "leaseKey", "refusal", "refusalLog", "caller"];

/** Tables that `someIn` empties; all with a column `namespace`. */
export const TABLES_IN_NAMESPACE: readonly string[] = [
  ...["bucket", "operation", "usage"],
  ...Object.values(RECORD_TABLES).flatMap(({ table: name, isInNamespace }) => (isInNamespace ? [name] : [])),
  "audit",
];

/** `CREATE TABLE` of a kind; `mayExist`: where it is there already, it stays. Bodies are `json`, not `jsonb`: names and metadata are any texts, also such as `jsonb` refuses. */
export function createTable({ table: name, isInNamespace, key, by }: RecordTable, mayExist: boolean): string {
  const columns = [
    ...(isInNamespace ? [`namespace text COLLATE "C" NOT NULL`] : []),
    ...key.map((column) => `${defined(column)} NOT NULL`),
    ...by.map((column) => `${defined(column)}${column.isOptional ? "" : " NOT NULL"}`),
    "version bigint NOT NULL",
    "body json NOT NULL",
    `PRIMARY KEY (${primaryKey({ isInNamespace, key })})`,
  ];
  return `CREATE TABLE ${mayExist ? "IF NOT EXISTS " : ""}@.${name} (${columns.join(", ")});`;
}

/** The columns of the primary key. */
export function primaryKey({ isInNamespace, key }: Pick<RecordTable, "isInNamespace" | "key">): string {
  return [...(isInNamespace ? ["namespace"] : []), ...key.map(({ name }) => name)].join(", ");
}

function defined({ name, type }: Column): string {
  return type === "text" ? `${name} text COLLATE "C"` : `${name} ${type}`;
}

/** Characters that may stand in any text of a caller, and that the server's JSON cannot read: NUL, and halves of surrogate pairs. */
const UNREADABLE = "\\\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})";

/** A body whose parts the server can read: of the parts that it cannot, another character stands in their place. */
export function readableJson(body: string): string {
  return `regexp_replace(${body}::text, '${UNREADABLE}', '\\\\ufffd', 'g')::json`;
}
