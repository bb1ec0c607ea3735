import type { GrantedRoles } from "../../adapters/postgres/rights.ts";
import { NotFoundError } from "../../domain/names/errors.ts";
import { confirmed } from "../ask.ts";
import { type CommandContext, type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { openLimiter, timeoutOf } from "../on-store.ts";
import { printChange, printValue } from "../print.ts";
import { chosenStore } from "../store-option.ts";
import type { StoreTarget, TableTarget } from "../stores.ts";

interface InitOptions extends GlobalOptions {
  readonly grants?: boolean;
  readonly acquireRole?: string;
  readonly adminRole?: string;
  readonly readRole?: string;
}

export const init: CommandFile<InitOptions> = {
  configure: (command) => {
    command
      .option("--grants", "PostgreSQL: print the GRANT statements of narrow roles; nothing is asked or changed")
      .option("--acquire-role <role>", "with --grants: the role that acquires; default zae_limiter_acquire")
      .option("--admin-role <role>", "with --grants: the role that also changes limits; default zae_limiter_admin")
      .option("--read-role <role>", "with --grants: the role that only reads; default zae_limiter_read")
      .addHelpText(
        "after",
        examples(
          "zae-limiter init",
          "zae-limiter init --store sqlite:limits.db",
          "zae-limiter init --grants --store postgres://owner@localhost/app --acquire-role web",
        ),
      )
      .addHelpText(
        "after",
        "\nA file or a schema of an older version is upgraded. On DynamoDB, init creates the table alone, or sets up one that " +
          "CDK, CloudFormation or Terraform created, after a confirmation. With a role option, --grants prints the statements of " +
          "the roles named alone; pipe them into psql.\n",
      );
  },
  run: async (context, options) => {
    const target = chosenStore(options, context);
    if (options.grants === true) return printGrants(context, options, target);
    refuseRoles(options);
    const timeoutMs = timeoutOf(options);
    const before = target.table === undefined ? await target.schema(timeoutMs) : undefined;
    const done =
      target.table === undefined
        ? await makeByOpening(target, options, before !== undefined)
        : await makeTable(target.table, context, options);
    const created = done === "created";
    const after = before === undefined || created ? before : await target.schema(timeoutMs);
    const value = { store: target.name, created, ...(done === "prepared" ? { prepared: true } : {}) };
    await printChange(context, options, value, () => {
      if (created) return `Created ${target.name}.\n`;
      if (done === "prepared") return `Set up ${target.name}, which was empty.\n`;
      if (after !== before) return `Upgraded ${target.name} from schema ${before} to ${after}.\n`;
      return `${target.name} exists already.\n`;
    });
    return EXIT.done;
  },
};

/** `prepared`: the table was there, and empty. */
type Done = "created" | "prepared" | "present";

/** Opening makes and migrates a file or a schema. */
async function makeByOpening(target: StoreTarget, options: GlobalOptions, isThere: boolean): Promise<Done> {
  const done = isThere ? "present" : "created";
  if (options.dryRun === true && !isThere) return done;
  const { RateLimiter } = await import("../../entry/rate-limiter.ts");
  const limiter = await RateLimiter.open({
    ...{ ...target.place, ...target.ofCommand, namespace: "default" },
    ...{ create: options.dryRun !== true, adminTimeoutMs: timeoutOf(options) },
  });
  await limiter.close();
  return done;
}

const ROLES = { acquireRole: "--acquire-role", adminRole: "--admin-role", readRole: "--read-role" } as const;

function refuseRoles(options: InitOptions): void {
  const given = (Object.keys(ROLES) as (keyof typeof ROLES)[]).find((name) => options[name] !== undefined);
  if (given !== undefined) throw new UsageError(`${ROLES[given]} goes with --grants; give both, or neither.`);
}

/** The statements alone, for psql: no server is asked. */
async function printGrants(context: CommandContext, options: InitOptions, target: StoreTarget): Promise<number> {
  if (target.schemaName === undefined) {
    throw new UsageError(`--grants is for PostgreSQL, and the store is ${target.name}; give --store postgres://….`);
  }
  const { acquireRole: acquire, adminRole: admin, readRole: read } = options;
  const given = Object.entries({ acquire, admin, read }).filter(([, role]) => role !== undefined);
  const roles = given.length === 0 ? ROLES_DEFAULT : (Object.fromEntries(given) as GrantedRoles);
  const { grantsFor, roleName } = await import("../../entry/postgres-admin.ts");
  const statements = grantsFor(target.schemaName, roles);
  await printValue(context, options, { store: target.name, roles, statements }, () =>
    [
      `-- Rights on the schema ${target.schemaName}, for its owner to grant. After an upgrade of the schema, grant them again.`,
      "-- The roles must exist. Whoever may create roles can do so:",
      ...(Object.values(roles) as string[]).map((role) => `--   CREATE ROLE ${roleName(role)} LOGIN;`),
      ...statements,
      "",
    ].join("\n"),
  );
  return EXIT.done;
}

const ROLES_DEFAULT: GrantedRoles = {
  acquire: "zae_limiter_acquire",
  admin: "zae_limiter_admin",
  read: "zae_limiter_read",
};

async function makeTable(target: TableTarget, context: CommandContext, options: GlobalOptions): Promise<Done> {
  const lacking = await lackingOf(context, options);
  if (lacking === "nothing") return "present";
  const { sharedTable, ...table } = target;
  if (lacking === "setup") {
    await confirmed(context, options, `Set up the DynamoDB table ${table.stack}, which zae-limiter does not use yet?`);
    if (options.dryRun === true) return "prepared";
    const { setUpMadeTable } = await import("../../entry/set-up-table.ts");
    await setUpMadeTable(table);
    return "prepared";
  }
  await confirmed(context, options, `Create the DynamoDB table ${table.stack}? AWS bills it by use.`);
  if (options.dryRun === true) return "created";
  const { createTable } = await import("../../entry/dynamodb.ts");
  await createTable({ ...table, ...(sharedTable === true ? { projection: "ALL" } : {}) });
  return "created";
}

/** What there is not: the table, or the records by which it is one of ours. */
async function lackingOf(context: CommandContext, options: GlobalOptions): Promise<"nothing" | "setup" | "table"> {
  try {
    const limiter = await openLimiter(context, options, "default");
    await limiter.close();
    return "nothing";
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
    if (error.code === "store_not_found") return "table";
    if (error.code === "version_missing" || error.code === "namespace_not_found") return "setup";
    throw error;
  }
}
