import { stackStatus } from "../../entry/stack.ts";
import { type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { fieldsText, printValue } from "../print.ts";
import { awsConfigOf, nameOption, type StackCommandOptions, stackNameOf } from "../stack-options.ts";

export const status: CommandFile<StackCommandOptions> = {
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
