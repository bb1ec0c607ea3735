import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { leasesOf } from "../command-limiter.ts";
import { EXIT } from "../exit-code.ts";
import { leaseText, requireOpenLease } from "../lease-access.ts";
import { onStore } from "../on-store.ts";
import { printChange } from "../print.ts";

export const leaseRollback: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<lease>", "its id, from `lease list`")
      .addHelpText("after", examples("zae-limiter lease list", "zae-limiter lease rollback --help"))
      .addHelpText("after", "\nExit codes: 1 it ended in another way, 4 no such lease.\n");
  },
  run: (context, options, [id = ""]) =>
    onStore(context, options, async (limiter) => {
      const leases = await leasesOf(limiter);
      if (options.dryRun !== true) {
        const lease = await leases.rollback(id);
        await printChange(context, options, lease, () => leaseText(lease));
        return EXIT.done;
      }
      const before = await leases.get(id);
      requireOpenLease(before);
      const none = Object.fromEntries(Object.keys(before.consumed).map((name) => [name, 0]));
      const lease = { ...before, status: "rolledBack", consumed: none } as const;
      await printChange(context, options, lease, () => leaseText(lease));
      return EXIT.done;
    }),
};
