import { type CommandFile, examples, type GlobalOptions, repeated } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import {
  definitionText,
  type ExplainedRow,
  explainText,
  reasonsOf,
  rowsOf,
  slotLines,
  sourceText,
} from "../explain-text.ts";
import { tokensText } from "../limit-print.ts";
import { onStore } from "../on-store.ts";
import { printValue } from "../print.ts";
import { shadowLines } from "../shadow-counts.ts";
import { tableOf } from "../table.ts";
import { leavePercentOf, tokensOf } from "../values.ts";

interface ExplainOptions extends GlobalOptions {
  readonly consume?: readonly string[];
  readonly leavePercent?: string;
  readonly exitCode?: boolean;
}

export const explain: CommandFile<ExplainOptions> = {
  configure: (command) => {
    command
      .argument("<entity>", "the entity")
      .argument("<resource>", "the resource")
      .option("-c, --consume <measure=n>", "how much the request takes; repeated or with commas", repeated)
      .option("--leave-percent <n>", "the request leaves this many percent of every limit, 0 to 99")
      .option("--exit-code", "exit with 1 unless the request would be granted")
      .addHelpText(
        "after",
        examples("zae-limiter explain key-1 gpt-4", "zae-limiter explain key-1 gpt-4 -c tpm=9000 --json"),
      )
      .addHelpText(
        "after",
        "\nExit codes: 1 with --exit-code, unless the request would be granted; 4 no limits apply.\n",
      );
  },
  run: (context, options, [entityId = "", resource = ""]) => {
    const consume = options.consume === undefined ? undefined : tokensOf(options.consume, "-c");
    const asked = { ...(consume === undefined ? {} : { consume }), ...leavePercentOf(options.leavePercent) };
    return onStore(context, options, async (limiter) => {
      const explanation = await limiter.explain({ entityId, resource, ...asked });
      const draw = tableOf<ExplainedRow>(context, options, [
        { title: "ENTITY", text: (row) => row.entityId },
        { title: "AVAILABLE", text: ({ explained }) => tokensText(explained.limit, explained.available), right: true },
        { title: "CAPACITY", text: ({ explained }) => tokensText(explained.limit, explained.capacity), right: true },
        {
          title: "LIMIT",
          text: ({ explained, isTotal }) => `${isTotal ? "*/" : ""}${definitionText(explained)}`,
          flexible: true,
        },
        { title: "FROM", text: ({ source }) => sourceText(source) },
      ]);
      const { levels } = explanation;
      const shadows = options.json ? "" : await shadowLines(limiter, levels, resource, Date.now());
      await printValue(context, options, explanation, () => {
        const rows = rowsOf(levels);
        return `${explainText(explanation, consume)}\n${rows.length === 0 ? "" : `\n${draw(rows)}`}${slotLines(levels)}${shadows}${reasonsOf(levels)}`;
      });
      return options.exitCode === true && explanation.outcome !== "granted" ? EXIT.refused : EXIT.done;
    });
  },
};
