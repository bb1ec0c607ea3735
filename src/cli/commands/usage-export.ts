import { createWriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import type { UsageFormat, UsageWindow } from "../../entry/index.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { instantOf } from "../instant.ts";
import { openLimiter } from "../open-store.ts";

interface UsageExportOptions extends GlobalOptions {
  readonly entity?: string;
  /** The original's name for it. */
  readonly entityId?: string;
  readonly resource?: string;
  readonly window: string;
  readonly start?: string;
  readonly end?: string;
  readonly format?: string;
  readonly output?: string;
}

/** Writes usage as text for other programs, in constant memory. */
export const usageExport: CommandFile<UsageExportOptions> = {
  configure: (command) => {
    command
      .option("-e, --entity <id>", "of one entity")
      .addOption(command.createOption("--entity-id <id>").hideHelp())
      .option("-r, --resource <name>", "of one resource")
      .option("-w, --window <window>", "hourly, daily or monthly", "hourly")
      .option("--from, --start <instant>", "from the window that contains this instant on")
      .option("--to, --end <instant>", "windows that start before this instant")
      .option("--format <format>", "csv, ndjson or json; default csv")
      .option("-o, --output <file>", "write to a file instead")
      .addHelpText(
        "after",
        examples(
          "zae-limiter usage export -w monthly --from 2026-03-01 --to 2026-04-01 -o march.csv",
          "zae-limiter usage export --store dynamodb:limits -w daily --from 7d --format ndjson",
        ),
      );
  },
  run: async (context, options) => {
    const { output } = context;
    const nowMs = Date.now();
    const { entity: entityId = options.entityId, resource, window, start, end, output: file } = options;
    const format = options.format ?? (options.ndjson === true ? "ndjson" : options.json === true ? "json" : "csv");
    const request = {
      ...{ window: window as UsageWindow, format: format as UsageFormat },
      ...(entityId === undefined ? {} : { entityId }),
      ...(resource === undefined ? {} : { resource }),
      ...(start === undefined ? {} : { fromMs: instantOf(start, "--from", nowMs) }),
      ...(end === undefined ? {} : { toMs: instantOf(end, "--to", nowMs) }),
    };
    const limiter = await openLimiter(options, context);
    try {
      const pieces = limiter.exportUsage(request);
      if (file !== undefined) await writeWhole(file, pieces);
      else {
        for await (const piece of pieces) {
          if (output.isClosed) break;
          await output.write(piece);
        }
      }
      return EXIT.done;
    } finally {
      await limiter.close();
    }
  },
};

/** Appears under its name only when it is whole. */
async function writeWhole(file: string, pieces: AsyncIterable<string>): Promise<void> {
  const part = `${file}.part-${process.pid}`;
  try {
    await pipeline(pieces, createWriteStream(part));
    await rename(part, file);
  } finally {
    await rm(part, { force: true });
  }
}
