import { existsSync } from "node:fs";
import { NotFoundError } from "../../domain/errors.ts";
import { confirmed } from "../ask.ts";
import { type CommandContext, type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { openLimiter, timeoutOf } from "../on-store.ts";
import { printChange } from "../print.ts";
import { schemaOf } from "../schema-of.ts";
import { chosenStore, type StorePlace } from "../store-option.ts";

export const init: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .addHelpText("after", examples("zae-limiter init", "zae-limiter init --store sqlite:limits.db"))
      .addHelpText(
        "after",
        "\nA file of an older version is brought to the newest. On DynamoDB it makes the bare table, and asks before.\n",
      );
  },
  run: async (context, options) => {
    const place = chosenStore(options, context);
    timeoutOf(options);
    const before = place.kind === "sqlite" ? await schemaOf(place, options) : undefined;
    const created = place.kind === "sqlite" ? await makeFile(place, options) : await makeTable(place, context, options);
    const after = before === undefined || created ? before : await schemaOf(place, options);
    await printChange(context, options, { store: place.name, created }, () => {
      if (created) return `Made ${place.name}.\n`;
      if (after !== before) return `Brought ${place.name} from schema ${before} to ${after}.\n`;
      return `${place.name} is there already.\n`;
    });
    return EXIT.done;
  },
};

type SqlitePlace = Extract<StorePlace, { kind: "sqlite" }>;
type TablePlace = Extract<StorePlace, { kind: "dynamodb" }>;

/** Opening makes and migrates a file; whether there was one is known before. */
async function makeFile({ name, file }: SqlitePlace, { dryRun }: GlobalOptions): Promise<boolean> {
  const isThere = existsSync(file);
  if (dryRun === true && !isThere) return true;
  const { RateLimiter } = await import("../../entry/rate-limiter.ts");
  const limiter = await RateLimiter.open({ store: name, create: dryRun !== true, namespace: "default" });
  await limiter.close();
  return !isThere;
}

async function makeTable(place: TablePlace, context: CommandContext, options: GlobalOptions): Promise<boolean> {
  try {
    const limiter = await openLimiter(context, options, "default");
    await limiter.close();
    return false;
  } catch (error) {
    if (!(error instanceof NotFoundError) || error.code !== "store_not_found") throw error;
  }
  await confirmed(context, options, `Make the DynamoDB table ${place.table.stack}, which costs by use?`);
  if (options.dryRun === true) return true;
  const { createTable } = await import("../../entry/dynamodb.ts");
  const { sharedTable, ...table } = place.table;
  await createTable({ ...table, ...(sharedTable === true ? { projection: "ALL" } : {}) });
  return true;
}
