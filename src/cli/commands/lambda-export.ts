import { existsSync } from "node:fs";
import { Option } from "commander";
import { ExistsError } from "../../domain/errors.ts";
import { type LambdaName, lambdaCode } from "../../entry/lambda-code.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { writeWhole } from "../files.ts";
import { printChange } from "../print.ts";

interface ExportOptions extends GlobalOptions {
  readonly function: LambdaName;
  readonly output: string;
  readonly force?: boolean;
  readonly info?: boolean;
}

export const lambdaExport: CommandFile<ExportOptions> = {
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
