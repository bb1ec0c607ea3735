import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { leasesOf } from "../command-limiter.ts";
import { EXIT } from "../exit-code.ts";
import { leaseText } from "../lease-access.ts";
import { onStore } from "../on-store.ts";
import { printValue } from "../print.ts";

export const leaseShow: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<lease>", "its id, from `lease list`")
      .addHelpText("after", examples("zae-limiter lease list", "zae-limiter lease show --help"))
      .addHelpText("after", "\nExit codes: 4 no such lease, or it ended over a day ago.\n");
  },
  run: (context, options, [id = ""]) =>
    onStore(context, options, async (limiter) => {
      const lease = await (await leasesOf(limiter)).get(id);
      await printValue(context, options, lease, () => leaseText(lease));
      return EXIT.done;
    }),
};
