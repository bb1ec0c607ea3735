import { existsSync } from "node:fs";
import { NotFoundError } from "../../domain/errors.ts";
import { confirmed } from "../ask.ts";
import { type CommandContext, type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { openLimiter, timeoutOf } from "../on-store.ts";
import { printChange } from "../print.ts";
import { schemaOf } from "../schema-of.ts";
import { chosenStore, type StoreTarget } from "../store-option.ts";

export const init: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .addHelpText("after", examples("zae-limiter init", "zae-limiter init --store sqlite:limits.db"))
      .addHelpText(
        "after",
        "\nA file of an older version is upgraded. On DynamoDB, init creates the table alone, or sets up one that CDK, " +
          "CloudFormation or Terraform created, after a confirmation.\n",
      );
  },
  run: async (context, options) => {
    const target = chosenStore(options, context);
    timeoutOf(options);
    const before = target.kind === "sqlite" ? await schemaOf(target, options) : undefined;
    const done = target.kind === "sqlite" ? await makeFile(target, options) : await makeTable(target, context, options);
    const created = done === "created";
    const after = before === undefined || created ? before : await schemaOf(target, options);
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

type SqliteTarget = Extract<StoreTarget, { kind: "sqlite" }>;
type DynamoTarget = Extract<StoreTarget, { kind: "dynamodb" }>;

/** `prepared`: the table was there, and empty. */
type Done = "created" | "prepared" | "present";

/** Opening makes and migrates a file; whether there was one is known before. */
async function makeFile({ name, file }: SqliteTarget, { dryRun }: GlobalOptions): Promise<Done> {
  const isThere = existsSync(file);
  if (dryRun === true && !isThere) return "created";
  const { RateLimiter } = await import("../../entry/rate-limiter.ts");
  const limiter = await RateLimiter.open({ store: name, create: dryRun !== true, namespace: "default" });
  await limiter.close();
  return isThere ? "present" : "created";
}

async function makeTable(place: DynamoTarget, context: CommandContext, options: GlobalOptions): Promise<Done> {
  const lacking = await lackingOf(context, options);
  if (lacking === "nothing") return "present";
  const { sharedTable, ...table } = place.table;
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
