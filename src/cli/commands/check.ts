import { LimiterError } from "../../domain/errors.ts";
import { functionVersions, requireWorkable, stackStatus } from "../../entry/stack.ts";
import { type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { fieldsText, printValue } from "../print.ts";
import { awsConfigOf, nameOption, type StackCommandOptions, stackNameOf } from "../stack-options.ts";
import { isShared } from "../stores.ts";

export const check: CommandFile<StackCommandOptions> = {
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
