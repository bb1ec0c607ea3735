import { type CommandFile, examples, type GlobalOptions, repeated } from "../command.ts";
import { leasesOf } from "../command-limiter.ts";
import { EXIT } from "../exit-code.ts";
import { leaseText, requireOpenLease } from "../lease-access.ts";
import { onStore } from "../on-store.ts";
import { printChange } from "../print.ts";
import { tokensOf } from "../values.ts";

interface LeaseSettleOptions extends GlobalOptions {
  readonly consume?: readonly string[];
}

export const leaseSettle: CommandFile<LeaseSettleOptions> = {
  configure: (command) => {
    command
      .argument("<lease>", "its id, from `lease list`")
      .option(
        "-c, --consume <measure=n>",
        "the amount actually used; measures not named keep what is held; repeated",
        repeated,
      )
      .addHelpText("after", examples("zae-limiter lease list", "zae-limiter lease settle --help"))
      .addHelpText("after", "\nExit codes: 1 it ended in another way, 4 no such lease.\n");
  },
  run: (context, options, [id = ""]) => {
    const totals = options.consume === undefined ? {} : { consumed: tokensOf(options.consume, "-c") };
    return onStore(context, options, async (limiter) => {
      const leases = await leasesOf(limiter);
      if (options.dryRun !== true) {
        const lease = await leases.settle(id, totals);
        await printChange(context, options, lease, () => leaseText(lease));
        return EXIT.done;
      }
      const before = await leases.get(id);
      requireOpenLease(before);
      const lease = { ...before, status: "settled", consumed: { ...before.consumed, ...totals.consumed } } as const;
      await printChange(context, options, lease, () => leaseText(lease));
      return EXIT.done;
    });
  },
};
