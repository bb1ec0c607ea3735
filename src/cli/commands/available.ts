import type { Availability } from "../../entry/index.ts";
import { type CommandFile, examples, type GlobalOptions, repeated } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { tokensText, waitText } from "../limit-print.ts";
import { onStore } from "../on-store.ts";
import { jsonOf } from "../printable.ts";
import { tableOf } from "../table.ts";
import { leavePercentOf, tokensOf } from "../values.ts";

interface AvailableOptions extends GlobalOptions {
  readonly consume?: readonly string[];
  readonly leavePercent?: string;
  readonly exitCode?: boolean;
}

export const available: CommandFile<AvailableOptions> = {
  configure: (command) => {
    command
      .argument("<entity>", "the entity")
      .argument("<resource>", "the resource")
      .option("-c, --consume <measure=n>", "show how long until this much fits; repeated or with commas", repeated)
      .option("--leave-percent <n>", "with -c: leaving this many percent of every limit, 0 to 99")
      .option("--exit-code", "exit with 1 unless the amounts of -c fit now")
      .addHelpText(
        "after",
        examples("zae-limiter available key-1 gpt-4", "zae-limiter available key-1 gpt-4 -c tpm=500 --json"),
      )
      .addHelpText("after", "\nExit codes: 1 with --exit-code, if the amounts do not fit; 4 no limits apply.\n");
  },
  run: (context, options, [entityId = "", resource = ""]) => {
    const consume = options.consume === undefined ? undefined : tokensOf(options.consume, "-c");
    const leaving = leavePercentOf(options.leavePercent);
    for (const [option, given] of [
      ["--exit-code", options.exitCode],
      ["--leave-percent", options.leavePercent],
    ] as const) {
      if (given !== undefined && consume === undefined) throw new UsageError(`${option} needs -c NAME=N; give both.`);
    }
    return onStore(context, options, async (limiter) => {
      const items = await limiter.available({ entityId, resource });
      const retryAfterMs =
        consume === undefined
          ? undefined
          : await limiter.timeUntilAvailable({ entityId, resource, consume, ...leaving });
      const { output } = context;
      if (options.ndjson === true) await output.write(items.map((item) => `${jsonOf(item)}\n`).join(""));
      else if (options.json === true) {
        await output.write(`${jsonOf({ items, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) })}\n`);
      } else {
        const draw = tableOf<Availability>(context, options, [
          { title: "ENTITY", text: (item) => item.entityId },
          {
            title: "LIMIT",
            text: (item) => (item.resource === resource ? item.limit : `${item.resource}/${item.limit}`),
          },
          { title: "COUNTS", text: ({ counts }) => counts },
          { title: "AVAILABLE", text: ({ limit, available }) => tokensText(limit, available), right: true },
          { title: "CAPACITY", text: ({ limit, capacity }) => tokensText(limit, capacity), right: true },
        ]);
        await output.write(draw(items));
        if (retryAfterMs !== undefined) await output.write(`\n${fitsText(retryAfterMs)}\n`);
      }
      return options.exitCode === true && retryAfterMs !== 0 ? EXIT.refused : EXIT.done;
    });
  },
};

function fitsText(retryAfterMs: number): string {
  if (retryAfterMs === 0) return "It fits now.";
  return retryAfterMs === Number.POSITIVE_INFINITY ? "It will never fit." : `It fits in ${waitText(retryAfterMs)}.`;
}
