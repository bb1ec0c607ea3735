import { existsSync } from "node:fs";
import { ExistsError, LimiterError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { type LambdaName, lambdaCode } from "../../entry/lambda-code.ts";
import { deleteStack, deployStack, functionVersions, requireWorkable, stackStatus } from "../../entry/stack.ts";
import { listStacks } from "../../infra/inspect-stack.ts";
import { template as make } from "../../infra/template.ts";
import { type CommandContext, type CommandGroup, type CommandRow, command, LIST_OPTIONS } from "../command.ts";
import { besidesStacks, EXIT } from "../exit-code.ts";
import { awsConfigOf } from "../on-store.ts";
import { writeWhole } from "../output.ts";
import { confirmed, fieldsText, isJson, printChange, printList, printValue } from "../print.ts";
import {
  changesText,
  DEPLOY_OPTIONS,
  type DeployOptions,
  inFlags,
  NAME_OPTION,
  stackNameIn,
  stackNameOf,
  stackOptionsOf,
  TEMPLATE_OPTIONS,
  watcherOf,
} from "../stack-options.ts";
import { isShared } from "../stores.ts";
import { paintOf } from "../table.ts";
import { pairsOf } from "../values.ts";

const status = command({
  options: [NAME_OPTION],
  examples: ["status -n limits", "status -n limits --json"],
  notes: ["Exit codes: 1 the stack or its table is not ready; 3 AWS; 4 no such stack."],
  run: async (context, options) => {
    const stack = await stackStatus(stackNameOf(context, options, "status"), awsConfigOf(context));
    const { name, stackStatus: state, ready, tableStatus, outputs, parameters, versions } = stack;
    const { client, schema, lambda } = versions;
    const value = {
      name,
      stackStatus: state,
      ready,
      tableStatus: tableStatus ?? null,
      outputs,
      parameters,
      versions: { client, schema: schema ?? null, lambda: lambda ?? null },
      tags: stack.tags,
    };
    await printValue(context, value, () =>
      [
        fieldsText({
          stack: name,
          status: state,
          table: `${stack.table}, ${tableStatus ?? "missing"}`,
          ready: ready ? "yes" : "no",
        }),
        "\n",
        fieldsText({ client, schema: schema ?? "none", lambda: lambda ?? "none" }),
        ...section(parameters),
        ...section(outputs),
      ].join(""),
    );
    return ready ? EXIT.done : EXIT.refused;
  },
});

function section(fields: Readonly<Record<string, string>>): readonly string[] {
  return Object.keys(fields).length === 0 ? [] : ["\n", fieldsText(fields)];
}

const list = command({
  options: LIST_OPTIONS,
  examples: ["list --region eu-west-1", "list --json"],
  notes: ["Lists stacks with the tag ManagedBy=zae-limiter, including those of the original."],
  run: async (context) => {
    const all = await listStacks(awsConfigOf(context)).catch((error: unknown) => {
      if (!(error instanceof LimiterError)) throw error;
      throw new LimiterError(error.code, `${error.message} ${besidesStacks("list")}`, { cause: error });
    });
    return printList(context, {
      page: async ({ limit, cursor }) => {
        const from = cursor === undefined ? 0 : all.findIndex(({ name }) => name > cursor);
        const items = from === -1 ? [] : all.slice(from, from + limit);
        const isMore = from !== -1 && from + limit < all.length;
        return { items, cursor: isMore ? items.at(-1)?.name : undefined };
      },
      columns: [
        { title: "NAME", text: ({ name }) => name },
        { title: "STATUS", text: ({ status }) => status },
        { title: "VERSION", text: ({ version }) => version ?? "" },
        { title: "SCHEMA", text: ({ schemaVersion }) => schemaVersion ?? "" },
        { title: "CREATED", text: ({ createdAtMs }) => dayOf(createdAtMs) },
      ],
      empty: `No stack in this region. ${besidesStacks("list")}`,
    });
  },
});

function dayOf(atMs: number | undefined): string {
  return atMs === undefined ? "" : new Date(atMs).toISOString().slice(0, 10);
}

const check = command({
  options: [NAME_OPTION],
  examples: ["check -n limits", "check -n limits --json"],
  notes: [
    "Compares the versions of this client, the table and the stack's functions. Opening a limiter never updates a function: " +
      "`zae-limiter update` does.\n\nExit codes: 1 this client cannot use the table; 3 AWS failed; 4 no such stack.",
  ],
  run: async (context, options) => {
    const aws = awsConfigOf(context);
    const { name, table, outputs, versions } = await stackStatus(stackNameOf(context, options, "check"), aws);
    const problem = await requireWorkable(table, aws, isShared(context)).catch((error: unknown) => {
      if (error instanceof LimiterError) return error.message;
      throw error;
    });
    const { AggregatorFunctionName: aggregator, ProvisionerFunctionName: provisioner } = outputs;
    const functions = await functionVersions(given({ aggregator, provisioner }), aws);
    const names = Object.keys(functions);
    const older = names.filter((each) => functions[each] !== versions.client);
    const { client, schema, lambda } = versions;
    const value = given({
      name,
      ok: problem === undefined,
      upToDate: older.length === 0,
      client,
      schema: schema ?? null,
      lambda: lambda ?? null,
      functions: Object.fromEntries(names.map((each) => [each, functions[each] ?? null])),
      problem,
    });
    await printValue(context, value, () => {
      const fields = fieldsText({ client, schema: schema ?? "none", lambda: lambda ?? "none" });
      const differ = `${older.join(" and ")} ${older.length > 1 ? "differ" : "differs"} from this version`;
      const remedy = older.length === 0 ? "" : `${differ}; run \`zae-limiter update -n ${name}\`.\n`;
      return `${fields}\n${problem ?? "This client can use the table."}\n${remedy}`;
    });
    return problem === undefined ? EXIT.done : EXIT.refused;
  },
});

const deleteCommand = command({
  options: [NAME_OPTION, ["--delete-table", "delete the table and the archive too, after a second confirmation"]],
  examples: ["delete -n limits", "delete -n limits --delete-table --dry-run"],
  notes: [
    "The table and the archive of audit events stay, unless --delete-table is given.\n" +
      "\nExit codes: 1 declined, protected against deletion, or not a zae-limiter stack; 3 AWS failed; 4 no such stack.",
  ],
  run: async (context, options) => {
    const name = stackNameOf(context, options, "delete");
    const { dryRun = false } = context.options;
    const { deleted, kept } = await deleteStack(
      { name, deleteTable: options.deleteTable === true, dryRun },
      awsConfigOf(context),
      { ...watcherOf(context), confirm: (question) => confirmed(context, question) },
    );
    const lines = [`${dryRun ? "Would delete" : "Deleted"} the stack ${name}.`, ...kept.map((each) => `Kept: ${each}`)];
    return printChange(context, { name, deleted: dryRun || deleted, kept }, () => `${lines.join("\n")}\n`);
  },
});

export const template: CommandRow = {
  options: TEMPLATE_OPTIONS,
  examples: ["template -n limits", "template --no-iam --no-alarms --json"],
  notes: [
    "Creates nothing and calls no service. Without a name, the template uses the name it is deployed under. The code of the " +
      "functions is not in it: write it with `lambda-export` and upload it to the bucket of --code-bucket. Otherwise `deploy` or `update` " +
      "uploads the code, and `init` sets up the table.",
  ],
  run: async (context, options: DeployOptions) => {
    const name = stackNameIn(context, options);
    const made = await inFlags(() => make(given({ ...stackOptionsOf(context, options), name })));
    await context.output.write(`${JSON.stringify(made, undefined, isJson(context) ? 0 : 2)}\n`);
    return EXIT.done;
  },
};

const lambdaExport = command({
  options: [
    ["--function <name>", "the function", { choices: ["aggregator", "provisioner"], default: "aggregator" }],
    ["-o, --output <file>", "the zip file", { default: "lambda.zip" }],
    ["-f, --force", "overwrite the file"],
    ["--info", "show what it contains; write nothing"],
  ],
  examples: ["lambda-export --function aggregator --output aggregator.zip", "lambda-export --info"],
  notes: [
    "The zip contains index.mjs, which exports handler, and what that imports, for Node 22 on Lambda. Its bytes are the same on every machine.\n" +
      "\nExit codes: 1 the file exists, without --force.",
  ],
  run: async (context, options) => {
    const { function: name, output: file, force = false, info = false } = options;
    const isWritten = !info && context.options.dryRun !== true;
    if (isWritten && !force && existsSync(file)) {
      throw new ExistsError(
        "file_exists",
        `The file ${file} exists already; give --force to overwrite it, or another --output.`,
      );
    }
    const { bytes, sha256 } = await lambdaCode(name as LambdaName);
    if (isWritten) await writeWhole(file, bytes);
    const output = info ? undefined : file;
    const value = given({ function: name, output, bytes: bytes.length, sha256, handler: "index.handler" });
    return printChange(context, value, () =>
      info
        ? `${name}: ${bytes.length} bytes, SHA-256 ${sha256}, index.mjs with index.handler\n`
        : `Wrote the code of ${name} to ${file}: ${bytes.length} bytes, SHA-256 ${sha256}\n`,
    );
  },
});

const CODES =
  "Exit codes: 1 refused (data loss, failed stack, not a zae-limiter stack) or declined; 3 AWS failed; 4 not found.";

const deploy: CommandRow = {
  options: DEPLOY_OPTIONS,
  examples: [
    "deploy -n limits",
    "deploy -n limits --lambda-memory 512 --dry-run",
    "deploy -n limits --alarm-sns-topic arn:aws:sns:eu-west-1:123456789012:pages --yes",
  ],
  notes: [
    "Creates the stack, or changes it: options that are not given keep their values. Changes are shown, old -> new, for confirmation. " +
      "Changes that remove or replace the table, a bucket or a policy are refused. Each --no-… switch has an --enable-… counterpart.",
    CODES,
  ],
  run: (context, options: DeployOptions) => deployNamed(context, options, false),
};

export const update: CommandRow = {
  options: DEPLOY_OPTIONS,
  examples: ["update -n limits", "update -n limits --log-retention-days 90 --yes"],
  notes: [
    "Like `deploy` on an existing stack: keeps its values, and installs this version's template and code.",
    CODES,
  ],
  run: (context, options: DeployOptions) => deployNamed(context, options, true),
};

export const STACK_COMMANDS: CommandGroup = {
  deploy,
  update,
  status,
  list,
  check,
  delete: deleteCommand,
  template,
  "lambda-export": lambdaExport,
};

async function deployNamed(context: CommandContext, options: DeployOptions, mustExist: boolean): Promise<number> {
  const name = stackNameOf(context, options, "deploy");
  const paint = paintOf(context);
  const { dryRun = false } = context.options;
  const confirm = async (changes: Parameters<typeof changesText>[0]) => {
    // The question needs them; JSON has them at the end.
    if (!isJson(context) || context.terminal.stderr) context.output.note(changesText(changes, paint));
    await confirmed(context, `Make these changes to the stack ${name}?`);
  };
  const { action, changes, functions } = await inFlags(() =>
    deployStack(
      {
        name,
        options: stackOptionsOf(context, options),
        tags: pairsOf(options.tag ?? [], "--tag"),
        mustExist,
        dryRun,
      },
      awsConfigOf(context),
      { ...watcherOf(context), confirm },
    ),
  );
  return printChange(context, { action, changes, functions }, () => {
    if (action === "none") return `The stack ${name} is up to date; nothing to change.\n`;
    if (dryRun) return changesText(changes, paint);
    const code = Object.values(functions).map((each) => `${each.name} has the code ${each.sha256}\n`);
    return `${action === "create" ? "Created" : "Changed"} the stack ${name}.\n${code.join("")}`;
  });
}
