import { type CommandContext, type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { writeWhole } from "../files.ts";
import { onStore } from "../on-store.ts";
import { requireUninterrupted } from "../print.ts";
import { progressOf } from "../progress.ts";
import { type UsageOptions, usageOptions, usageRequest } from "../usage-options.ts";
import { choiceOf } from "../values.ts";

interface UsageExportOptions extends UsageOptions {
  readonly format?: string;
  readonly output?: string;
}

export const usageExport: CommandFile<UsageExportOptions> = {
  configure: (command) => {
    usageOptions(command)
      .option("--format <csv|ndjson|json>", "default csv")
      .option("-o, --output <file>", "default: stdout")
      .addHelpText(
        "after",
        examples(
          "zae-limiter usage export -w daily --from 30d -o usage.csv",
          "zae-limiter usage export --format ndjson",
        ),
      );
  },
  run: (context, options) => {
    const request = usageRequest(options, Date.now());
    const word = options.format ?? (options.ndjson === true ? "ndjson" : options.json === true ? "json" : "csv");
    const format = choiceOf(word, ["csv", "ndjson", "json"], "--format");
    return onStore(context, options, async (limiter) => {
      const pieces = limiter.exportUsage({ ...request, format });
      if (options.output === undefined) await toOutput(context, pieces);
      else await toFile(context, options, pieces, options.output);
      return EXIT.done;
    });
  },
};

async function toOutput(context: CommandContext, pieces: AsyncIterable<string>): Promise<void> {
  for await (const piece of pieces) {
    if (context.output.isClosed) return;
    requireUninterrupted(context);
    await context.output.write(piece);
  }
}

async function toFile(
  context: CommandContext,
  options: UsageExportOptions,
  pieces: AsyncIterable<string>,
  file: string,
): Promise<void> {
  const progress = progressOf(context, options);
  let lines = 0;
  const counted = (async function* () {
    for await (const piece of pieces) {
      requireUninterrupted(context);
      lines += piece.split("\n").length - 1;
      progress.tell(`${lines} lines written`);
      yield piece;
    }
  })();
  try {
    await writeWhole(file, counted);
  } finally {
    progress.end();
  }
  if (options.quiet !== true && options.json !== true && options.ndjson !== true) {
    context.output.note(`${lines} lines written to ${file}.\n`);
  }
}
