import { existsSync } from "node:fs";
import { Option } from "commander";
import { ExistsError, LimiterError } from "../../domain/names/errors.ts";
import { type LambdaName, lambdaCode } from "../../entry/lambda-code.ts";
import { deleteStack, functionVersions, requireWorkable, stackStatus } from "../../entry/stack.ts";
import { listStacks } from "../../infra/inspect-stack.ts";
import { template as make } from "../../infra/template.ts";
import { confirmed } from "../ask.ts";
import {
  type CommandFile,
  type CommandGroup,
  examples,
  type GlobalOptions,
  type ListOptions,
  listOptions,
} from "../command.ts";
import { type DeployOptions, deployOptions, inFlags, stackOptionsOf } from "../deploy-options.ts";
import { EXIT } from "../exit-code.ts";
import { writeWhole } from "../files.ts";
import { fieldsText, isJson, printChange, printList, printValue } from "../print.ts";
import {
  awsConfigOf,
  nameOption,
  type StackCommandOptions,
  stackNameIn,
  stackNameOf,
  watcherOf,
} from "../stack-options.ts";
import { besidesStacks } from "../stack-words.ts";
import { isShared } from "../stores.ts";

const status: CommandFile<StackCommandOptions> = {
  configure: (command) => {
    nameOption(command)
      .addHelpText("after", examples("zae-limiter status -n limits", "zae-limiter status -n limits --json"))
      .addHelpText("after", "\nExit codes: 1 the stack or its table is not ready; 3 AWS; 4 no such stack.\n");
  },
  run: async (context, options) => {
    const stack = await stackStatus(stackNameOf(options, context, "status"), awsConfigOf(options));
    const { name, stackStatus: state, ready, tableStatus, outputs, parameters, versions } = stack;
    const { client, schema, lambda } = versions;
    const value = {
      ...{ name, stackStatus: state, ready, tableStatus: tableStatus ?? null, outputs, parameters },
      versions: { client, schema: schema ?? null, lambda: lambda ?? null },
      tags: stack.tags,
    };
    await printValue(context, options, value, () =>
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
};

function section(fields: Readonly<Record<string, string>>): readonly string[] {
  return Object.keys(fields).length === 0 ? [] : ["\n", fieldsText(fields)];
}

const list: CommandFile<ListOptions> = {
  configure: (command) => {
    listOptions(command)
      .addHelpText("after", examples("zae-limiter list --region eu-west-1", "zae-limiter list --json"))
      .addHelpText("after", "\nLists stacks with the tag ManagedBy=zae-limiter, including those of the original.\n");
  },
  run: async (context, options) => {
    const all = await listStacks(awsConfigOf(options)).catch((error: unknown) => {
      if (!(error instanceof LimiterError)) throw error;
      throw new LimiterError(error.code, `${error.message} ${besidesStacks("list")}`, { cause: error });
    });
    return printList(context, options, {
      page: async ({ limit, cursor }) => {
        const from = cursor === undefined ? 0 : all.findIndex(({ name }) => name > cursor);
        const items = from === -1 ? [] : all.slice(from, from + limit);
        const isMore = from !== -1 && from + limit < all.length;
        return { items, ...(isMore ? { cursor: items.at(-1)?.name } : {}) };
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
};

function dayOf(atMs: number | undefined): string {
  return atMs === undefined ? "" : new Date(atMs).toISOString().slice(0, 10);
}

const check: CommandFile<StackCommandOptions> = {
  configure: (command) => {
    nameOption(command)
      .addHelpText("after", examples("zae-limiter check -n limits", "zae-limiter check -n limits --json"))
      .addHelpText(
        "after",
        "\nCompares the versions of this client, the table and the stack's functions. Opening a limiter never updates a function: " +
          "`zae-limiter update` does.\n\nExit codes: 1 this client cannot use the table; 3 AWS failed; 4 no such stack.\n",
      );
  },
  run: async (context, options) => {
    const aws = awsConfigOf(options);
    const { name, table, outputs, versions } = await stackStatus(stackNameOf(options, context, "check"), aws);
    const isTableShared = isShared(options, context.env);
    const problem = await requireWorkable(table, aws, isTableShared).catch((error: unknown) => {
      if (error instanceof LimiterError) return error.message;
      throw error;
    });
    const { AggregatorFunctionName: aggregator, ProvisionerFunctionName: provisioner } = outputs;
    const functions = await functionVersions(
      { ...(aggregator === undefined ? {} : { aggregator }), ...(provisioner === undefined ? {} : { provisioner }) },
      aws,
    );
    const names = Object.keys(functions);
    const older = names.filter((each) => functions[each] !== versions.client);
    const value = {
      ...{ name, ok: problem === undefined, upToDate: older.length === 0 },
      ...{ client: versions.client, schema: versions.schema ?? null, lambda: versions.lambda ?? null },
      functions: Object.fromEntries(names.map((each) => [each, functions[each] ?? null])),
      ...(problem === undefined ? {} : { problem }),
    };
    await printValue(context, options, value, () =>
      [
        fieldsText({ client: versions.client, schema: versions.schema ?? "none", lambda: versions.lambda ?? "none" }),
        "\n",
        problem ?? "This client can use the table.",
        "\n",
        older.length === 0
          ? ""
          : `${older.join(" and ")} ${older.length > 1 ? "differ" : "differs"} from this version; run \`zae-limiter update -n ${name}\`.\n`,
      ].join(""),
    );
    return problem === undefined ? EXIT.done : EXIT.refused;
  },
};

interface DeleteOptions extends StackCommandOptions {
  readonly deleteTable?: boolean;
}

const deleteCommand: CommandFile<DeleteOptions> = {
  configure: (command) => {
    nameOption(command)
      .option("--delete-table", "delete the table and the archive too, after a second confirmation")
      .addHelpText(
        "after",
        examples("zae-limiter delete -n limits", "zae-limiter delete -n limits --delete-table --dry-run"),
      )
      .addHelpText(
        "after",
        "\nThe table and the archive of audit events stay, unless --delete-table is given.\n" +
          "\nExit codes: 1 declined, protected against deletion, or not a zae-limiter stack; 3 AWS failed; 4 no such stack.\n",
      );
  },
  run: async (context, options) => {
    const name = stackNameOf(options, context, "delete");
    const { deleted, kept } = await deleteStack(
      { name, deleteTable: options.deleteTable === true, dryRun: options.dryRun === true },
      awsConfigOf(options),
      { ...watcherOf(context, options), confirm: (question) => confirmed(context, options, question) },
    );
    await printChange(context, options, { name, deleted: options.dryRun === true || deleted, kept }, () =>
      [
        `${options.dryRun === true ? "Would delete" : "Deleted"} the stack ${name}.\n`,
        ...kept.map((each) => `Kept: ${each}\n`),
      ].join(""),
    );
    return EXIT.done;
  },
};

export const template: CommandFile<DeployOptions> = {
  configure: (command) => {
    deployOptions(nameOption(command))
      .option("--code-bucket <bucket>", "the bucket with the functions' code: aggregator.zip, provisioner.zip")
      .option("--code-prefix <prefix>", "a prefix of these names, different for each version")
      .addHelpText(
        "after",
        examples("zae-limiter template -n limits", "zae-limiter template --no-iam --no-alarms --json"),
      )
      .addHelpText(
        "after",
        "\nCreates nothing and calls no service. Without a name, the template uses the name it is deployed under. The code of the " +
          "functions is not in it: write it with `lambda-export` and upload it to the bucket of --code-bucket. Otherwise `deploy` or `update` " +
          "uploads the code, and `init` sets up the table.\n",
      );
  },
  run: async (context, options) => {
    const name = stackNameIn(options, context);
    const made = await inFlags(() =>
      make({ ...stackOptionsOf(options, context.env), ...(name === undefined ? {} : { name }) }),
    );
    await context.output.write(`${JSON.stringify(made, undefined, isJson(options) ? 0 : 2)}\n`);
    return EXIT.done;
  },
};

interface ExportOptions extends GlobalOptions {
  readonly function: LambdaName;
  readonly output: string;
  readonly force?: boolean;
  readonly info?: boolean;
}

const lambdaExport: CommandFile<ExportOptions> = {
  configure: (command) => {
    command
      .addOption(
        new Option("--function <name>", "the function").choices(["aggregator", "provisioner"]).default("aggregator"),
      )
      .option("-o, --output <file>", "the zip file", "lambda.zip")
      .option("-f, --force", "overwrite the file")
      .option("--info", "show what it contains; write nothing")
      .addHelpText(
        "after",
        examples(
          "zae-limiter lambda-export --function aggregator --output aggregator.zip",
          "zae-limiter lambda-export --info",
        ),
      )
      .addHelpText(
        "after",
        "\nThe zip contains index.mjs, which exports handler, for Node 22 on Lambda. Its bytes are the same on every machine.\n" +
          "\nExit codes: 1 the file exists, without --force.\n",
      );
  },
  run: async (context, options) => {
    const { function: name, output: file, force, info } = options;
    const isWritten = info !== true && options.dryRun !== true;
    if (isWritten && force !== true && existsSync(file)) {
      throw new ExistsError(
        "file_exists",
        `The file ${file} exists already; give --force to overwrite it, or another --output.`,
      );
    }
    const { bytes, sha256 } = await lambdaCode(name);
    if (isWritten) await writeWhole(file, bytes);
    const value = {
      function: name,
      ...(info === true ? {} : { output: file }),
      bytes: bytes.length,
      sha256,
      handler: "index.handler",
    };
    await printChange(context, options, value, () =>
      info === true
        ? `${name}: ${bytes.length} bytes, SHA-256 ${sha256}, index.mjs with index.handler\n`
        : `Wrote the code of ${name} to ${file}: ${bytes.length} bytes, SHA-256 ${sha256}\n`,
    );
    return EXIT.done;
  },
};

export const STACK_COMMANDS: CommandGroup = {
  status: status,
  list: list,
  check: check,
  delete: deleteCommand,
  template: template,
  "lambda-export": lambdaExport,
};
