import type { VerifiedDay } from "../../entry/aggregator.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { jsonOf } from "../printable.ts";
import { requiredTable } from "../store-option.ts";

interface AuditVerifyOptions extends GlobalOptions {
  readonly archive?: string;
  readonly s3Endpoint?: string;
}

/** Compares an archive, day by day, with what the table says was put there. */
export const auditVerify: CommandFile<AuditVerifyOptions> = {
  configure: (command) => {
    command
      .option("--archive <location>", "s3://BUCKET[/PREFIX]")
      .option("--s3-endpoint <url>", "URL of S3")
      .addHelpText("after", examples("zae-limiter audit verify --store dynamodb:limits --archive s3://my-archive"))
      .addHelpText("after", "\nExit codes: 0 nothing is missing, 1 something is missing or damaged.\n");
  },
  run: async (context, options) => {
    const { archive, s3Endpoint } = options;
    if (archive === undefined) throw new UsageError("No archive is named; give --archive s3://BUCKET[/PREFIX].");
    const table = requiredTable(options, context, "audit verify");
    const { verifyArchive } = await import("../../entry/aggregator.ts");
    const days: VerifiedDay[] = [];
    const { output } = context;
    for await (const day of verifyArchive({ ...table, archive, ...(s3Endpoint === undefined ? {} : { s3Endpoint }) })) {
      if (output.isClosed) return EXIT.done;
      if (options.ndjson === true) await output.write(`${jsonOf(day)}\n`);
      else if (options.json !== true) await output.write(`${sentence(day)}\n`);
      days.push(day);
    }
    const ok = days.every((day) => day.ok);
    if (options.json === true && options.ndjson !== true) await output.write(`${jsonOf({ ok, items: days })}\n`);
    return ok ? EXIT.done : EXIT.refused;
  },
};

function sentence({ day, ok, recorded, found, events, missing, damaged }: VerifiedDay): string {
  const what = `${day}  ${events} events`;
  if (ok) return `${what}, nothing is missing`;
  const lost = [...missing.map((key) => `${key} is gone`), ...damaged.map((key) => `${key} is damaged`)];
  return `${what}, ${found} of ${recorded} are there: ${lost.join("; ")}`;
}
