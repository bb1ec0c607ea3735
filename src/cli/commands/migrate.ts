import { NotFoundError } from "../../domain/names/errors.ts";
import type { MigrationOptions, MigrationReport } from "../../entry/migrate.ts";
import { confirmed } from "../ask.ts";
import { type CommandContext, type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { isJson, printChange } from "../print.ts";
import { requiredTable } from "../store-option.ts";

interface MigrateCommandOptions extends GlobalOptions {
  readonly name?: string;
  readonly backup?: string;
  readonly abort?: boolean;
  readonly takeOver?: boolean;
}

/** Brings a table of an earlier layout to ours; run again after an interruption, it goes on. */
export const migrate: CommandFile<MigrateCommandOptions> = {
  configure: (command) => {
    command
      .option("--name <name>", "the same as --stack")
      .option("--backup <name>", "create an on-demand backup of this name first")
      .option("--abort", "undo the migration; possible until old items are deleted")
      .option("--take-over", "accept a table of the Python original; its clients are locked out afterwards")
      .addHelpText(
        "after",
        examples(
          "zae-limiter migrate --name limits --dry-run",
          "zae-limiter migrate --name limits --backup before-migration --yes",
          "zae-limiter migrate --name limits --abort --yes",
        ),
      )
      .addHelpText(
        "after",
        "\nStop all clients of the table first: no client can open it during the migration. If migrate is interrupted, run it again" +
          " to resume.\n\nExit codes: 1 too late to abort, or clients still write; 3 store failed; 4 no such table.\n",
      );
  },
  run: async (context, given) => {
    const { options, stack } = named(given, context);
    const { abort = false, takeOver = false, backup, dryRun = false } = options;
    if (abort && (backup !== undefined || takeOver)) {
      throw new UsageError("--abort undoes a migration; give it without --backup and --take-over.");
    }
    const action = abort ? (dryRun ? "planAbort" : "abort") : dryRun ? "plan" : "migrate";
    const table = requiredTable(options, context, "migrate");
    const onProgress = progressOf(context, options);
    const work: MigrationOptions = { ...table, action, takeOver, backup, signal: context.interrupted, onProgress };
    const { migrate: run } = await import("../../entry/migrate.ts");
    const report = await onTable(stack, async () => {
      if (action === "migrate" && options.yes !== true) await ask(context, options, { ...work, action: "plan" }, run);
      else if (action === "abort") {
        await confirmed(context, options, `Undo the migration of the table ${stack}?`);
      }
      return run(work);
    });
    await printChange(context, options, report, () => textOf(report, stack, dryRun ? "planned" : "done"));
    return EXIT.done;
  },
};

type RunMigration = (options: MigrationOptions) => Promise<MigrationReport>;

/** Whoever is asked is told what would be done, and whether it can be taken back; where there is nothing to do, nobody is asked. */
async function ask(
  context: CommandContext,
  options: MigrateCommandOptions,
  plan: MigrationOptions,
  run: RunMigration,
): Promise<void> {
  const { terminal, output } = context;
  const report = await run(plan);
  if (report.steps.length === 0) return;
  if (terminal.stdin && terminal.stderr) output.note(textOf(report, plan.stack, "planned"));
  await confirmed(
    context,
    options,
    "All its clients must be stopped" +
      `${report.wayBack === "backup" || report.wayBack === "pointInTime" ? "" : ", and there is no way back"}. ` +
      `Migrate the table ${plan.stack} from ${report.from} to ${report.to}?`,
  );
}

function named(given: MigrateCommandOptions, context: CommandContext) {
  const { name, ...rest } = given;
  if (name !== undefined && rest.stack !== undefined && name !== rest.stack) {
    throw new UsageError("--name and --stack are the same; give one.");
  }
  const stack = name ?? rest.stack;
  const options = { ...rest, ...(stack === undefined ? {} : { stack }) };
  return { options, stack: requiredTable(options, context, "migrate").stack };
}

/** A line after every thousand items: a migration may take hours, and whoever watches its log wants to see it go on. */
function progressOf({ output }: CommandContext, options: GlobalOptions): MigrationOptions["onProgress"] {
  if (options.quiet === true || isJson(options)) return () => {};
  return ({ phase, items }) => output.note(`${phase}: ${items} items\n`);
}

async function onTable<Answer>(stack: string, work: () => Promise<Answer>): Promise<Answer> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof NotFoundError) || error.code !== "table_not_found") throw error;
    throw new NotFoundError(
      "store_not_found",
      `There is no table "${stack}" at this endpoint and in this region; correct the name, the region or the endpoint.`,
      { cause: error },
    );
  }
}

function textOf(report: MigrationReport, stack: string, when: "planned" | "done"): string {
  const { from, to, steps, removed } = report;
  if (removed !== undefined) {
    return `${stack} is at ${from} again; ${removed} items ${when === "done" ? "were" : "would be"} removed.\n`;
  }
  if (steps.length === 0) return `${stack} is at ${to} already; nothing to do.\n`;
  const lines = steps.map(({ version, title, items }) => `  ${version}  ${title}: ${items} items\n`);
  return `${stack}: ${from} -> ${to}\n${lines.join("")}${wayBackText(report, when)}`;
}

function wayBackText({ wayBack }: MigrationReport, when: "planned" | "done"): string {
  if (wayBack !== "none" && wayBack !== "unknown") return "";
  const recovery = wayBack === "none" ? "is off" : "is unknown";
  return when === "planned"
    ? `No backup will be made and point-in-time recovery ${recovery}: there would be no way back. Give --backup NAME.\n`
    : `No backup was made and point-in-time recovery ${recovery}: there is no way back.\n`;
}
