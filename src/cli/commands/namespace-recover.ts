import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { recoverable } from "../known-namespace.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { namespaceText } from "../show-namespace.ts";

export const namespaceRecover: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<id>", "its id, from `namespace orphans`")
      .addHelpText("after", examples("zae-limiter namespace orphans", "zae-limiter namespace recover --help"))
      .addHelpText("after", "\nExit codes: 1 its name is in use again, 4 no deleted namespace has that id.\n");
  },
  run: (context, options, [id = ""]) =>
    onStore(context, options, async (limiter) => {
      const namespace =
        options.dryRun === true
          ? await recoverable(limiter, id)
          : await limiter.recoverNamespace(id, principalOf(context, options));
      await printChange(context, options, namespace, () => namespaceText(namespace));
      return EXIT.done;
    }),
};
