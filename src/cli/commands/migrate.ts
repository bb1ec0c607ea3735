import { NotFoundError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { MigrationOptions, MigrationReport } from "../../entry/migrate.ts";
import { type CommandContext, command } from "../command.ts";
import { UsageError } from "../exit-code.ts";
import { confirmed, isJson, printChange } from "../print.ts";
import { requiredTable } from "../store-option.ts";

/** Brings a table of an earlier layout to ours. Run again after an interruption, it goes on. */
export const migrate = command({
  options: [
    ["--name <name>", "the same as --stack"],
    ["--backup <name>", "create an on-demand backup of this name first"],
    ["--abort", "undo the migration; possible until old items are deleted"],
    ["--take-over", "accept a table of the Python original; its clients are locked out afterwards"],
  ],
  examples: [
    "migrate --name limits --dry-run",
    "migrate --name limits --backup before-migration --yes",
    "migrate --name limits --abort --yes",
  ],
  notes: [
    "Stop all clients of the table first: no client can open it during the migration. If migrate is interrupted, run it again" +
      " to resume.\n\nExit codes: 1 too late to abort, or clients still write; 3 store failed; 4 no such table.",
  ],
  run: async (surroundings, { name, abort = false, takeOver = false, backup }) => {
    const context = onNamedStack(surroundings, name);
    const table = requiredTable(context, "migrate");
    const { stack } = table;
    const { yes = false, dryRun = false } = context.options;
    if (abort && (backup !== undefined || takeOver)) {
      throw new UsageError("--abort undoes a migration; give it without --backup and --take-over.");
    }
    const action = abort ? (dryRun ? "planAbort" : "abort") : dryRun ? "plan" : "migrate";
    const onProgress = progressOf(context);
    const work: MigrationOptions = { ...table, action, takeOver, backup, signal: context.interrupted, onProgress };
    const { migrate: run } = await import("../../entry/migrate.ts");
    const report = await onTable(stack, async () => {
      if (action === "migrate" && !yes) await ask(context, { ...work, action: "plan" }, run);
      else if (action === "abort") {
        await confirmed(context, `Undo the migration of the table ${stack}?`);
      }
      return run(work);
    });
    return printChange(context, report, () => textOf(report, stack, dryRun ? "planned" : "done"));
  },
});

type RunMigration = (options: MigrationOptions) => Promise<MigrationReport>;

/** Asks for confirmation with the plan, and with whether it can be undone. Asks nothing if there is nothing to do. */
async function ask(context: CommandContext, plan: MigrationOptions, run: RunMigration): Promise<void> {
  const { terminal, output } = context;
  const report = await run(plan);
  if (report.steps.length === 0) return;
  if (terminal.stdin && terminal.stderr) output.note(textOf(report, plan.stack, "planned"));
  await confirmed(
    context,
    "All its clients must be stopped" +
      `${report.wayBack === "backup" || report.wayBack === "pointInTime" ? "" : ", and there is no way back"}. ` +
      `Migrate the table ${plan.stack} from ${report.from} to ${report.to}?`,
  );
}

function onNamedStack(context: CommandContext, name: string | undefined): CommandContext {
  const { stack = name } = context.options;
  if (name !== undefined && name !== stack) throw new UsageError("--name and --stack are the same; give one.");
  return { ...context, options: given({ ...context.options, stack }) };
}

/** Notes a line after every thousand items: a migration may take hours. */
function progressOf(context: CommandContext): MigrationOptions["onProgress"] {
  if (context.options.quiet === true || isJson(context)) return () => {};
  return ({ phase, items }) => context.output.note(`${phase}: ${items} items\n`);
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
