import type { GrantedRoles } from "../../adapters/postgres/schema.ts";
import { NotFoundError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { packageVersion } from "../../entry/package-version.ts";
import type { TargetTable } from "../../loadtest/target.ts";
import type { Check } from "../check.ts";
import { checksOf } from "../checks.ts";
import { type CommandContext, command } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { awsConfigOf, clientOf, onStore, openLimiter, timeoutOf } from "../on-store.ts";
import { confirmed, fieldsText, printChange, printValue } from "../print.ts";
import { chosenStore, serviceUrl } from "../store-option.ts";
import type { StoreTarget } from "../stores.ts";
import { paintOf } from "../table.ts";

export const init = command({
  options: [
    ["--grants", "PostgreSQL: print the GRANT statements of narrow roles; nothing is asked or changed"],
    ["--acquire-role <role>", "with --grants: the role that acquires; default zae_limiter_acquire"],
    ["--admin-role <role>", "with --grants: the role that also changes limits; default zae_limiter_admin"],
    ["--read-role <role>", "with --grants: the role that only reads; default zae_limiter_read"],
  ],
  examples: [
    "init",
    "init --store sqlite:limits.db",
    "init --grants --store postgres://owner@localhost/app --acquire-role web",
  ],
  notes: [
    "A file or a schema of an older version is upgraded. On DynamoDB, init creates the table alone, or sets up one that " +
      "CDK, CloudFormation or Terraform created, after a confirmation. With a role option, --grants prints the statements of " +
      "the roles named alone; pipe them into psql.",
  ],
  run: async (context, { grants, acquireRole: acquire, adminRole: admin, readRole: read }) => {
    const target = chosenStore(context);
    const roles = given({ acquire, admin, read });
    const [role] = Object.keys(roles);
    if (grants === true) return printGrants(context, target, role === undefined ? ROLES_DEFAULT : roles);
    if (role !== undefined) throw new UsageError(`--${role}-role goes with --grants; give both, or neither.`);
    const timeoutMs = timeoutOf(context);
    const before = target.table === undefined ? await target.schema(timeoutMs) : undefined;
    const done =
      target.table === undefined
        ? await makeByOpening(context, target, before !== undefined)
        : await makeTable(context, target.table);
    const created = done === "created";
    const after = before === undefined || created ? before : await target.schema(timeoutMs);
    const value = given({ store: target.name, created, prepared: done === "prepared" || undefined });
    return printChange(context, value, () => {
      if (created) return `Created ${target.name}.\n`;
      if (done === "prepared") return `Set up ${target.name}, which was empty.\n`;
      if (after !== before) return `Upgraded ${target.name} from schema ${before} to ${after}.\n`;
      return `${target.name} exists already.\n`;
    });
  },
});

/** `prepared`: the table was there, and empty. */
type Done = "created" | "prepared" | "present";

/** Opening makes and migrates a file or a schema. */
async function makeByOpening(context: CommandContext, target: StoreTarget, isThere: boolean): Promise<Done> {
  const done = isThere ? "present" : "created";
  const isDryRun = context.options.dryRun === true;
  if (isDryRun && !isThere) return done;
  const { RateLimiter } = await import("../../entry/rate-limiter.ts");
  const limiter = await RateLimiter.open({
    ...target.place,
    ...target.ofCommand,
    namespace: "default",
    create: !isDryRun,
    adminTimeoutMs: timeoutOf(context),
  });
  await limiter.close();
  return done;
}

/** The statements alone, for psql: no server is asked. */
async function printGrants(context: CommandContext, target: StoreTarget, roles: GrantedRoles): Promise<number> {
  if (target.schemaName === undefined) {
    throw new UsageError(`--grants is for PostgreSQL, and the store is ${target.name}; give --store postgres://….`);
  }
  const { grants, quoted } = await import("../../entry/postgres-admin.ts");
  const statements = grants(target.schemaName, roles);
  return printValue(context, { store: target.name, roles, statements }, () =>
    [
      `-- Rights on the schema ${target.schemaName}, for its owner to grant. After an upgrade of the schema, grant them again.`,
      "-- The roles must exist. Whoever may create roles can do so:",
      ...(Object.values(roles) as string[]).map((role) => `--   CREATE ROLE ${quoted(role)} LOGIN;`),
      ...statements,
      "",
    ].join("\n"),
  );
}

const ROLES_DEFAULT: GrantedRoles = {
  acquire: "zae_limiter_acquire",
  admin: "zae_limiter_admin",
  read: "zae_limiter_read",
};

async function makeTable(context: CommandContext, target: TargetTable): Promise<Done> {
  const missing = await missingStep(context);
  if (missing === "nothing") return "present";
  const { sharedTable, ...table } = target;
  if (missing === "setup") {
    await confirmed(context, `Set up the DynamoDB table ${table.stack}, which zae-limiter does not use yet?`);
    if (context.options.dryRun === true) return "prepared";
    const { setUpMadeTable } = await import("../../entry/dynamodb-admin.ts");
    await setUpMadeTable(table);
    return "prepared";
  }
  await confirmed(context, `Create the DynamoDB table ${table.stack}? AWS bills it by use.`);
  if (context.options.dryRun === true) return "created";
  const { createTable } = await import("../../entry/dynamodb.ts");
  await createTable(given({ ...table, projection: sharedTable === true ? ("ALL" as const) : undefined }));
  return "created";
}

/** Tells which step is missing: the table, or our setup records in it. */
async function missingStep(context: CommandContext): Promise<"nothing" | "setup" | "table"> {
  try {
    const limiter = await openLimiter(context, "default");
    await limiter.close();
    return "nothing";
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
    if (error.code === "store_not_found") return "table";
    if (error.code === "version_missing" || error.code === "namespace_not_found") return "setup";
    throw error;
  }
}

export const doctor = command({
  examples: ["doctor", "doctor --json"],
  notes: [
    "Permissions are tested by calls that change nothing. A mark of ! is advice: the store works as it is.\n\nExit codes: 1 a check failed.",
  ],
  run: async (context) => {
    const checks = await checksOf(context);
    const ok = checks.every((check) => check.ok === true);
    const paint = paintOf(context);
    const mark = (check: Check) =>
      check.ok === null ? paint("dim", "?") : check.ok ? wellMark(check) : paint("red", "✘");
    const wellMark = ({ remedy }: Check) => (remedy === undefined ? paint("green", "✔") : paint("yellow", "!"));
    await printValue(context, { ok, checks }, () => {
      const width = Math.max(...checks.map(({ name }) => name.length));
      const lines = checks.map((check) => {
        const remedy = check.remedy === undefined ? "" : `\n    ${check.remedy}`;
        return `${mark(check)} ${check.name.padEnd(width)}  ${check.detail}${remedy}\n`;
      });
      return `${serviceUrl(context) === undefined ? chosenStore(context).name : "The service"}\n${lines.join("")}`;
    });
    return ok ? EXIT.done : EXIT.refused;
  },
});

export const version = command({
  examples: ["version", "--version"],
  notes: ["Shows the store and its schema if one can be reached."],
  run: async (context) => {
    const own = { client: packageVersion(), node: process.versions.node };
    const value = given({ ...own, ...(await versionsThere(context)) });
    return printValue(context, value, () => fieldsText(value));
  },
});

/** The store or service and its versions. One that cannot be asked is left out. */
async function versionsThere(context: CommandContext): Promise<Readonly<Record<string, string | undefined>>> {
  const url = serviceUrl(context);
  if (url !== undefined) {
    const about = onStore(context, async (limiter) => clientOf(limiter)?.about());
    const service = await about.then((told) => told?.version).catch(() => undefined);
    return service === undefined ? {} : { store: url, service };
  }
  const target = chosenStore(context);
  const schema = await target.schema(timeoutOf(context)).catch(() => undefined);
  if (schema === undefined) return {};
  return { store: target.name, schema, lambda: await lambdaVersion(context, target).catch(() => undefined) };
}

/** The version of the package whose code the functions of a table's stack have. */
async function lambdaVersion(context: CommandContext, { table }: StoreTarget): Promise<string | undefined> {
  if (table === undefined) return undefined;
  const { versionsOf } = await import("../../entry/stack.ts");
  return (await versionsOf(table.stack, awsConfigOf(context))).lambda;
}
