import type { Swept } from "../../ports/store.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { isMissing, timeoutOf } from "../on-store.ts";
import { printValue } from "../print.ts";
import { chosenStore } from "../store-option.ts";
import type { StoreTarget } from "../stores.ts";
import { durationMs } from "../values.ts";

interface SweepOptions extends GlobalOptions {
  readonly usageKeep?: string;
  readonly auditKeep?: string;
}

/** Removes to its end what processes remove by the way, for whoever wants that at a time of their own. */
export const sweep: CommandFile<SweepOptions> = {
  configure: (command) => {
    command
      .option("--usage-keep <duration>", "how long usage and refusals are kept; default 400d")
      .option("--audit-keep <duration>", "how long audit events are kept; default 400d")
      .addHelpText(
        "after",
        examples("zae-limiter sweep --store postgres", "zae-limiter sweep --store postgres --audit-keep 3650d"),
      )
      .addHelpText(
        "after",
        "\nPostgreSQL only, in all namespaces. Removes buckets that are full again, and usage, refusals, audit events, leases\n" +
          "and idempotency keys that are too old. Processes that acquire do the same, a few rows at a time: sweep is for\n" +
          "cron. Give the durations that your programs keep usage and audit events for, if they are not the default.\n",
      );
  },
  run: async (context, options) => {
    const target = chosenStore(options, context);
    if (target.sweptBy !== undefined) {
      throw new UsageError(`sweep is for PostgreSQL, and the store is ${target.name}: ${target.sweptBy}`);
    }
    if (options.namespace !== undefined) {
      throw new UsageError("sweep goes through all namespaces; leave --namespace out.");
    }
    if (options.dryRun === true) {
      throw new UsageError("sweep cannot tell beforehand what it would remove; leave --dry-run out.");
    }
    const removed = await sweptOn(target, options);
    const { buckets, rows } = removed;
    await printValue(context, options, removed, () => `Removed ${buckets} idle buckets and ${rows} old rows.\n`);
    return EXIT.done;
  },
};

async function sweptOn(target: StoreTarget, options: SweepOptions): Promise<Swept> {
  const { usageKeep, auditKeep } = options;
  const timeoutMs = timeoutOf(options);
  const kept = {
    ...(usageKeep === undefined ? {} : { usage: { keepMs: durationMs(usageKeep, "--usage-keep") } }),
    ...(auditKeep === undefined ? {} : { auditKeepMs: durationMs(auditKeep, "--audit-keep") }),
  };
  const { openNamed } = await import("../../entry/rate-limiter.ts");
  const opening = { ...target.place, ...target.ofCommand, create: false, adminTimeoutMs: timeoutMs, ...kept };
  const store = await openNamed(opening).catch(async (error: unknown) => {
    throw isMissing(error) ? await target.missing(timeoutMs, error) : error;
  });
  try {
    return (await store.sweep?.()) ?? { buckets: 0, rows: 0 };
  } finally {
    await store.close();
  }
}
